"""Places: which folder or repository each of this user's memories belongs to, and whether the daemon keeps it.

$XDG_DATA_HOME/dreamd/<id>/place   the registry: kind, device, inode, kept or left, path, the folder of the project
<folder>/.dreamd                   a workspace in a folder: the id of its state
<repository>/dreamd                in git's common folder, mostly `.git`: the id of the repository's memory,
                                   and of those of other users and containers that share the repository

An id in a folder is only a name: it counts if the registry has it, and has this place for it.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from state.errors import StorageError
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import STATE_FOLDER, Workspace

PLACE = "place"
REPOSITORY_MARK = "dreamd"
"""The file in git's common folder that names the repository's memory."""
_MOST_IDS, _LONGEST_MARK = 16, 1_000
_MOST_OF_NAME, _RANDOM_BYTES = 35, 6
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,34}-[0-9a-f]{12}")
_ROW = re.compile(
    rb"(folder|repository) ([0-9]{1,20}) ([0-9]{1,20}) (kept|left)\n(/[^\0]*)\0\n(/[^\0]*)\0\n", re.DOTALL
)


class Kind(StrEnum):
    """Where the memory's files are: in the project's folder, or, for a git repository, all beside its state."""

    FOLDER = "folder"
    REPOSITORY = "repository"


class Place(NamedTuple):
    """What a memory belongs to: a folder, or the common folder of a git repository, with its path and identity.

    `project` is the folder in which people work: of a repository its main checkout. `kept`: whether the daemon looks
    after it, as it does unless its owner says no.
    """

    id: str
    kind: Kind
    path: Path
    device: int
    inode: int
    project: Path
    kept: bool = True

    @classmethod
    def of(cls, number: str, path: Path, kind: Kind = Kind.FOLDER, project: Path | None = None) -> "Place":
        """Return the place of the folder as it is now."""
        status = path.stat()
        return cls(number, kind, path, status.st_dev, status.st_ino, project or path)

    def now_at(self, path: Path, project: Path | None = None) -> "Place":
        """Return the place with the path and identity that its folder has now."""
        return self.of(self.id, path, self.kind, project)._replace(kept=self.kept)

    def is_folder(self, folder: Path) -> bool:
        """Return whether this is the same folder, whatever its path."""
        with suppress(OSError):
            status = folder.stat()
            return (status.st_dev, status.st_ino) == (self.device, self.inode)
        return False

    def is_named_there(self) -> bool:
        """Return whether the folder at this path still names this memory."""
        return self.id in ([id_in(self.path)] if self.kind is Kind.FOLDER else ids_of_repository(self.path))

    def workspace(self, data: Path) -> Workspace:
        """Return the workspace of this place."""
        state = data / self.id
        return Workspace(self.path if self.kind is Kind.FOLDER else state, state)


def new_id(name: str) -> str:
    """Return a random id for the memory of a folder of this name: readable, and a file name everywhere."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_MOST_OF_NAME].strip("-")
    return f"{slug or 'workspace'}-{os.urandom(_RANDOM_BYTES).hex()}"


def is_id(name: str) -> bool:
    """Return whether this may be the id of a memory."""
    return _ID.fullmatch(name) is not None


def read_place(data: Path, number: str) -> Place | None:
    """Return the place of this id; None if it has no state. Raise StorageError if the row is lost or damaged."""
    path = data / number / PLACE
    content = Disk(data).read_optional(path)
    if content is None and not path.parent.is_dir():
        return None
    row = _ROW.fullmatch(content or b"")
    if row is None:
        what = f"{path} is {'damaged' if content else 'lost'}, so it is not known which folder is meant"
        raise StorageError(what, "'dreamd init --resume DIR' of that folder writes it again")
    folder, project = (Path(os.fsdecode(row[group])) for group in (5, 6))
    return Place(number, Kind(row[1].decode()), folder, int(row[2]), int(row[3]), project, row[4] == b"kept")


def all_ids(data: Path) -> Iterator[str]:
    """Yield the id of every memory, in order."""
    with suppress(FileNotFoundError, NotADirectoryError):
        yield from filter(is_id, sorted(os.listdir(data)))  # noqa: PTH208 - asked for hundreds of them


def all_places(data: Path) -> Iterator[Place]:
    """Yield every place, skipping damaged rows."""
    for name in all_ids(data):
        with suppress(StorageError):
            if (place := read_place(data, name)) is not None:
                yield place


def kept_roots(data: Path) -> list[Path]:
    """Return the root of every workspace that the daemon keeps; its folder may be gone."""
    return [place.workspace(data).root for place in all_places(data) if place.kept]


def keep_place(data: Path, number: str, *, kept: bool) -> None:
    """Record whether the daemon keeps the memory of this id, if it has one. Raise StorageError."""
    place = read_place(data, number)
    if place is not None and place.kept != kept:
        write_place(data, place._replace(kept=kept))


def write_place(data: Path, place: Place) -> None:
    """Write the row, replacing the previous one."""
    paths = (os.fsencode(place.path), os.fsencode(place.project))
    row = b"%b %d %d %b\n%b\0\n%b\0\n" % (
        place.kind.encode(), place.device, place.inode, b"kept" if place.kept else b"left", *paths,
    )  # fmt: skip
    Disk(data).write_atomic(data / place.id / PLACE, row)


def project_of(workspace: Workspace) -> Path:
    """Return the folder in which people work who have this memory; its own folder if that is not known."""
    if workspace.root != workspace.state:
        return workspace.root
    with suppress(StorageError):
        if (place := read_place(workspace.state.parent, workspace.state.name)) is not None:
            return place.project
    return workspace.root


def id_in(folder: Path) -> str | None:
    """Return the id in a folder's .dreamd file; None if there is none or it is anything else."""
    ids = _ids_at(folder / STATE_FOLDER)
    return ids[0] if len(ids) == 1 else None


def ids_of_repository(common: Path) -> tuple[str, ...]:
    """Return the ids in the common folder of a git repository, the last one first; none if it is anything else."""
    return _ids_at(common / REPOSITORY_MARK)


def write_mark(place: Place, data: Path) -> None:
    """Write the id into the folder or repository of this place, unless it is there already.

    In a repository the ids that are not in this user's `data` stay: each user and container has one of its own.
    """
    if place.is_named_there():
        return
    mark, ids = place.path / STATE_FOLDER, [place.id]
    if place.kind is Kind.REPOSITORY:
        mark = place.path / REPOSITORY_MARK
        ids += (one for one in ids_of_repository(place.path) if not (data / one).exists())
    if mark.is_symlink():  # whoever packed the folder chose where it leads
        with storage_errors(mark):
            mark.unlink()
    Disk(place.path).write_atomic(mark, "".join(f"{one}\n" for one in ids[:_MOST_IDS]).encode(), 0o644)


def _ids_at(path: Path) -> tuple[str, ...]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ()
    try:
        content = os.read(fd, _LONGEST_MARK) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return ()
    finally:
        os.close(fd)
    rows = content.decode("ascii", "replace").removesuffix("\n").split("\n")
    return tuple(rows) if all(map(is_id, rows)) else ()
