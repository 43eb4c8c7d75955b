"""Places: the folders of this user's workspaces. Their state folders are the registry, with one row in each.

<folder>/.dreamd                     the workspace's id, 32 hexadecimal digits
$XDG_DATA_HOME/dreamd/<id>/place     device, inode and path of that folder
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from state.errors import StorageError
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import STATE_FOLDER, Workspace

PLACE = "place"
_ID = re.compile(r"[0-9a-f]{32}")
_ROW = re.compile(rb"([0-9]{1,20}) ([0-9]{1,20}) (here|incoming)\n(/.*)\n", re.DOTALL)


class Place(NamedTuple):
    """A workspace's folder: path and identity; `incoming` says that its state is inside it and is being moved out."""

    id: str
    path: Path
    device: int
    inode: int
    incoming: bool = False

    @classmethod
    def of(cls, number: str, root: Path, *, incoming: bool = False) -> "Place":
        """Return the place of the folder as it is now."""
        status = root.stat()
        return cls(number, root, status.st_dev, status.st_ino, incoming)

    def is_folder(self, folder: Path) -> bool:
        """Return whether this is the same folder, whatever its path."""
        with suppress(OSError):
            status = folder.stat()
            return (status.st_dev, status.st_ino) == (self.device, self.inode)
        return False


def new_id() -> str:
    """Return a random id for a new workspace."""
    return os.urandom(16).hex()


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
    return Place(number, Path(os.fsdecode(row[4])), int(row[1]), int(row[2]), incoming=row[3] == b"incoming")


def all_places(data: Path) -> Iterator[Place]:
    """Yield every place, skipping damaged rows."""
    with suppress(FileNotFoundError, NotADirectoryError):
        for name in sorted(os.listdir(data)):  # noqa: PTH208 - asked for hundreds of them
            if _ID.fullmatch(name):
                with suppress(StorageError):
                    if (place := read_place(data, name)) is not None:
                        yield place


def write_place(data: Path, place: Place) -> None:
    """Write the row, replacing the previous one."""
    kind = b"incoming" if place.incoming else b"here"
    row = b"%d %d %b\n%b\n" % (place.device, place.inode, kind, os.fsencode(place.path))
    Disk(data).write_atomic(data / place.id / PLACE, row)


def id_in(folder: Path) -> str | None:
    """Return the id in a folder's .dreamd file; None if there is none or it is anything else."""
    try:
        fd = os.open(folder / STATE_FOLDER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        content = os.read(fd, 64) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return None
    finally:
        os.close(fd)
    said = content.decode("ascii", "replace").removesuffix("\n")
    return said if _ID.fullmatch(said) else None


def write_id(workspace: Workspace) -> None:
    """Write the workspace's id into its folder, unless it is there already."""
    if id_in(workspace.root) != workspace.state.name:
        Disk(workspace.root).write_atomic(workspace.root / STATE_FOLDER, f"{workspace.state.name}\n".encode(), 0o644)
