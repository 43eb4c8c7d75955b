"""Import: builds a workspace from an archive beside its folder, checks it, and renames it into place."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from daemon.config.paths import data_folder, make_private_folder
from daemon.workspace.adoption import LOCK, repository_of, workspace_at
from daemon.workspace.stores import folders, utc_now
from state.errors import StorageError, UsageError
from state.stores.backup import reading
from state.stores.backup.archive import ArchiveError
from state.stores.crystals.crystals import Crystals
from state.stores.database.opening import open_database
from state.stores.disk.disk import Disk
from state.stores.disk.places import Kind, Place, id_in, new_id, write_mark, write_place
from state.stores.disk.syscalls import System, storage_errors
from state.stores.disk.workspace import Workspace, contained
from state.stores.disk.worktree import Checkout
from state.stores.history.lineage import Lineage

_ASIDE, _LEFTOVER_AGE = ".dreamd-import-", timedelta(days=1)
# Unpacked size relative to the archive: rows in a new state.db, their full-text indexes, and files.
_TIMES = 3
_SPARE_BYTES = 1024**2


@dataclass(frozen=True, slots=True)
class Imported:
    """A workspace that was imported from an archive.

    `at`: when the archive was made; `missing`: how many versions had no text; `foreign`: transcripts outside the
    workspace, for which the reading position is unknown.
    """

    workspace: str
    at: datetime
    version: int
    crystals: int
    missing: tuple[int, ...]
    foreign: int = 0


def import_archive(file: Path, folder: Path, system: System | None = None, *, moves_out: bool = True) -> Imported:
    """Make the folder, which is new or empty, or the repository that it is in, what was exported to this file.

    State goes to the user's data folder, or stays in this folder (`moves_out` false), as a fleet keeps it.

    Raise UsageError for a folder that is not empty or that has a memory, ArchiveError for a file that `dreamd export`
    did not write, and StorageError if the disk fails. After an error the folder is as it was.
    """
    if file.exists() and not file.is_file():
        raise UsageError(f"{file} is no regular file", "name an archive that 'dreamd export' wrote")
    checkout = repository_of(folder) if moves_out and folder.is_dir() else None
    if checkout is not None:
        return _import_for(checkout, file, system or System())
    root, mode = _place_for(folder)
    _require_space(file, root.parent)
    with _aside(root.parent, system or System()) as (aside, disk):
        workspace = _with_state(aside, root) if moves_out else contained(aside)
        try:
            imported = _built(file, workspace, disk, root)
            _sync(workspace, workspace.disk(disk.system), mode)
            with storage_errors(root):  # replaces at most an empty folder; fails if another import was faster
                disk.system.rename(aside, root)
            disk.fsync_folder(root.parent)
        except BaseException:
            if moves_out and id_in(root) != workspace.state.name:  # else it was renamed, and is complete
                shutil.rmtree(workspace.state, ignore_errors=True)
            raise
    return imported


def _import_for(checkout: Checkout, file: Path, system: System) -> Imported:
    """Make what was exported the memory of a repository that has none."""
    data = data_folder(os.environ)
    make_private_folder(data)
    _require_no_memory(checkout)
    _require_space(file, data)
    with _aside(data, system) as (aside, disk):
        number = new_id(checkout.main.name)
        place = Place.of(number, checkout.common, Kind.REPOSITORY, checkout.main)
        workspace = Workspace(aside, aside)
        imported = _built(file, workspace, disk, data / number)
        _sync(workspace, workspace.disk(system), 0o700)
        with disk.locked(data / LOCK, b""):
            _require_no_memory(checkout)  # a note may have made one meanwhile
            disk.system.rename(aside, data / number)
            write_place(data, place)
            write_mark(place, data)
    return imported


def _require_no_memory(checkout: Checkout) -> None:
    if workspace_at(checkout.top) is not None:
        what = f"{checkout.main} has a memory already, and nothing is overwritten"
        raise UsageError(what, "import into a new folder")


def _with_state(aside: Path, root: Path) -> Workspace:
    """Return a new workspace whose files are built in the folder `aside`, which will become `root`."""
    data, number = data_folder(os.environ), new_id(root.name)
    make_private_folder(data)
    make_private_folder(data / number)
    place = Place.of(number, aside)._replace(path=root, project=root)
    write_place(data, place)
    write_mark(place._replace(path=aside), data)
    return Workspace(aside, data / number)


def _built(file: Path, workspace: Workspace, disk: Disk, root: Path) -> Imported:
    """Unpack the archive into the folders of a workspace that is being built, and will be at `root`."""
    for folder in (workspace.state, *folders(workspace)):
        with storage_errors(folder), suppress(FileExistsError):
            disk.system.mkdir(folder, 0o700)
    try:
        unpacked = reading.unpack(file, workspace, disk.system)
    except ArchiveError as error:
        raise ArchiveError(f"{file}: {error.what}", error.advice) from error
    with storage_errors(workspace.database):
        workspace.database.chmod(0o600)
    with closing(open_database(workspace.database)) as connection:
        lineage = Lineage(connection)
        versions = lineage.versions_after(0)
        missing = tuple(number for number in versions if not lineage.text(number))
        last, crystals = lineage.last_version(), Crystals(connection).count()
        return Imported(str(root), unpacked.at, last, crystals, missing, unpacked.foreign)


def _place_for(folder: Path) -> tuple[Path, int]:
    """Return the real path of the new workspace's folder, and its mode. Raise UsageError if it is unsuitable."""
    root = Path(os.path.realpath(folder))
    with storage_errors(root):
        if not root.exists():
            if not root.parent.is_dir():
                raise UsageError(f"{root.parent} is no folder", "make it first")
            mask = os.umask(0)
            os.umask(mask)
            return root, 0o777 & ~mask
        if not root.is_dir():
            raise UsageError(f"{root} is a file", "name a new folder for the workspace")
        if next(root.iterdir(), None) is not None:
            raise UsageError(
                f"{root} is not empty, and nothing is overwritten", "name a new folder for the workspace"
            )
        if root.is_mount():
            raise UsageError(f"{root} is where a disk is mounted", "name a new folder in it")
        return root, stat.S_IMODE(root.stat().st_mode)


def _require_space(file: Path, parent: Path) -> None:
    """Raise StorageError if there is no room for what is in the file, or no such file."""
    with storage_errors(file):
        wanted = _TIMES * file.stat().st_size + _SPARE_BYTES
    with storage_errors(parent):
        disk = os.statvfs(parent)
    free = disk.f_bavail * disk.f_frsize
    if wanted > free:
        raise StorageError(
            f"{file} needs {wanted:,} bytes in {parent}, and {free:,} are free", "free some space and try again"
        )


@contextmanager
def _aside(parent: Path, system: System) -> Iterator[tuple[Path, Disk]]:
    """Create a folder beside the future workspace; remove it again unless it was renamed.

    What killed imports left is deleted when it is a day old: no import takes so long.
    """
    with suppress(OSError):
        for left in parent.glob(f"{_ASIDE}*"):
            if left.lstat().st_mtime < (utc_now() - _LEFTOVER_AGE).timestamp():
                shutil.rmtree(left, ignore_errors=True)
    aside = parent / f"{_ASIDE}{os.getpid()}-{os.urandom(4).hex()}"
    try:
        with storage_errors(parent):
            system.mkdir(aside, 0o700)
        yield aside, Disk(parent, system)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _sync(workspace: Workspace, disk: Disk, mode: int) -> None:
    """Sync state.db and every folder, contents before their folder."""
    disk.sync(workspace.database)
    for folder in (*reversed(folders(workspace)), workspace.state):
        disk.fsync_folder(folder)
    with storage_errors(workspace.root):
        workspace.root.chmod(mode)
    disk.fsync_folder(workspace.root)
