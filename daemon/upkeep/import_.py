"""Import: builds a workspace from an archive beside its folder, checks it, and renames it into place."""

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from daemon.config.paths import data_folder
from daemon.workspace.adoption import open_workspace
from daemon.workspace.stores import folders
from state.errors import StorageError, UsageError
from state.stores.backup import former_archive, reading
from state.stores.backup.archive import ArchiveError
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import open_database
from state.stores.disk.disk import Disk, is_same_file
from state.stores.disk.places import new_id
from state.stores.disk.syscalls import System, storage_errors
from state.stores.disk.workspace import contained
from state.stores.history.lineage import Lineage
from state.stores.repair.moving_out import expect

_ASIDE = ".dreamd-import-"
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
    """Make the folder, which is new or empty, the workspace that was exported to this file.

    State is moved to the user's data folder, or stays in this folder (`moves_out` false), as a fleet keeps it.

    Raise UsageError for a folder that is not empty, ArchiveError for a file that `dreamd export` did not write, and
    StorageError if the disk fails. After an error the folder is as it was.
    """
    root, mode = _place_for(folder)
    if file.exists() and not file.is_file():
        raise UsageError(f"{file} is no regular file", "name an archive that 'dreamd export' wrote")
    is_former = former_archive.is_former(file)
    _require_space(file, root.parent)
    with _aside(root.parent, system or System()) as (aside, disk):
        try:
            imported = _built(file, aside, disk, root, is_former=is_former)
        except ArchiveError as error:
            raise ArchiveError(f"{file}: {error.what}", error.advice) from error
        _sync(aside, disk, mode)
        with _expected(aside, root) if moves_out else nullcontext():
            with storage_errors(root):  # replaces at most an empty folder; fails if another import was faster
                disk.system.rename(aside, root)
            disk.fsync_folder(root.parent)
    if moves_out:
        open_workspace(root)
    return imported


def _built(file: Path, aside: Path, disk: Disk, root: Path, *, is_former: bool) -> Imported:
    """Unpack the archive to the folder `aside`, which will become `root`."""
    workspace = contained(aside)
    for folder in (workspace.state, *folders(workspace)):
        with storage_errors(folder):
            disk.system.mkdir(folder, 0o700)
    unpack = former_archive.unpack if is_former else reading.unpack
    unpacked = unpack(file, workspace, disk.system)
    with storage_errors(workspace.database):
        workspace.database.chmod(0o600)
    with closing(open_database(workspace.database)) as connection:
        lineage = Lineage(connection)
        versions = lineage.versions_after(0)
        missing = tuple(number for number in versions if not lineage.text(number))
        last, crystals = lineage.last_version(), Crystals(connection).count()
        return Imported(str(root), unpacked.at, last, crystals, missing, unpacked.foreign)


@contextmanager
def _expected(aside: Path, root: Path) -> Iterator[None]:
    """Record that the state is to move out once the folder is in place; undo the record if that never happens."""
    place = expect(aside, new_id(), root, os.environ)
    try:
        yield
    except BaseException:
        if not place.is_folder(root):  # else it was renamed before the disk failed, and is complete
            shutil.rmtree(data_folder(os.environ) / place.id, ignore_errors=True)
        raise


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
    """Raise StorageError unless there is room to unpack the file; a compressed one may need even more."""
    with storage_errors(parent):
        disk = os.statvfs(parent)
    free, wanted = disk.f_bavail * disk.f_frsize, _TIMES * file.stat().st_size + _SPARE_BYTES
    if wanted > free:
        raise StorageError(
            f"{file} needs {wanted:,} bytes in {parent}, and {free:,} are free", "free some space and try again"
        )


@contextmanager
def _aside(parent: Path, system: System) -> Iterator[tuple[Path, Disk]]:
    """Create a folder beside the future workspace; remove it again unless it was renamed.

    A lock shows that an import is using it. Folders of killed imports have none, and are deleted first.
    """
    _remove_leftovers(parent)
    while True:
        aside = parent / f"{_ASIDE}{os.getpid()}-{os.urandom(4).hex()}"
        try:
            with storage_errors(parent):
                system.mkdir(aside, 0o700)
            with _locked(aside) as is_locked:
                if is_locked:  # else another import deleted it as a leftover before it was locked
                    yield aside, Disk(parent, system)
                    return
        finally:
            shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Lock the folder; yield whether that worked and the folder still exists."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield is_same_file(folder, fd)
    finally:
        os.close(fd)


def _remove_leftovers(parent: Path) -> None:
    with suppress(OSError):
        for path in parent.glob(f"{_ASIDE}*"):
            with _locked(path) as is_locked:
                if is_locked:
                    shutil.rmtree(path, ignore_errors=True)


def _sync(aside: Path, disk: Disk, mode: int) -> None:
    """Sync state.db and every folder, contents before their folder."""
    workspace = contained(aside)
    disk.sync(workspace.database)
    for folder in (*reversed(folders(workspace)), workspace.state):
        disk.fsync_folder(folder)
    with storage_errors(aside):
        aside.chmod(mode)
    disk.fsync_folder(aside)
