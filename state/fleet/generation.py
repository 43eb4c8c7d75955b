"""Manifest: what a generation of a workspace is made of, chunk by chunk."""

from dataclasses import dataclass
from datetime import datetime

FORMAT = 1
CHUNK_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a file: so many bytes at an offset of a pack, with their SHA-256."""

    pack: str
    offset: int
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of the workspace, as its chunks in their order.

    `digest` is the SHA-256 of its chunks' digests: of files that are cut alike it tells which are the same.
    """

    name: str
    size: int
    mtime_ns: int
    digest: str
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Pack:
    """An object that holds chunks; it is written once."""

    key: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation of a workspace, whole: its files, and the packs that their chunks lie in.

    `number` and `fence`: which generation it was to be, and of which owner.
    """

    format: int
    number: int
    fence: int
    at: datetime
    files: tuple[StoredFile, ...]
    packs: tuple[Pack, ...]
