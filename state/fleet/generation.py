"""Generation: what a committed state of a workspace is made of."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of the workspace; `digest` is that of its blocks' digests."""

    name: str
    size: int
    mtime_ns: int
    digest: str


@dataclass(frozen=True, slots=True)
class Part:
    """An object that holds blocks of files; it is written once."""

    key: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation of a workspace: its files, and the objects that hold their blocks, the oldest first.

    A block in a later object takes the place of the same one in an earlier. The last object is the generation's own,
    by whose key the registry names it. `number`: which generation it was to be.
    `tenant` and `workspace`: the names, with which a lost registry is made anew.
    """

    tenant: str
    workspace: str
    number: int
    at: datetime
    files: tuple[StoredFile, ...]
    parts: tuple[Part, ...]

    @property
    def key(self) -> str:
        """The key of its own object."""
        return self.parts[-1].key

    @property
    def bytes(self) -> int:
        """How much its files hold."""
        return sum(file.size for file in self.files)
