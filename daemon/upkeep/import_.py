"""Import: makes a workspace of an archive: built beside its folder, checked, and renamed to it."""

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from daemon.config.paths import data_folder
from daemon.upkeep.export import require_record
from daemon.workspace.adoption import open_workspace
from daemon.workspace.stores import folders
from state.errors import DreamdError, StorageError, UsageError
from state.stores.backup.database import rebuilt
from state.stores.backup.manifest import DATABASE, MAX_RECORD_BYTES, Member, is_private, place, version_of
from state.stores.backup.reading import Archive, open_archive, refused
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import open_database
from state.stores.disk.disk import Disk, is_same_file
from state.stores.disk.places import new_id
from state.stores.disk.syscalls import System, storage_errors
from state.stores.disk.workspace import Workspace, contained
from state.stores.history.inbox import NoteInbox
from state.stores.history.lineage import Lineage
from state.stores.history.memory import Memory
from state.stores.history.notes import Notes
from state.stores.repair.former_records import take_in_records
from state.stores.repair.moving_out import expect

_ASIDE = ".dreamd-import-"
_INCOMING = "incoming.db"
# state.db is there three times for a moment: as it came, made anew, and with its full-text indexes.
_COPIES = 3
_SPARE_BYTES = 1024**2


@dataclass(frozen=True, slots=True)
class Imported:
    """A workspace that came out of an archive.

    `at` is when that was made; `missing` versions had no record; of `foreign` transcripts, outside the workspace, it
    is not known any more how far they were read.
    """

    workspace: str
    at: datetime
    version: int
    crystals: int
    missing: tuple[int, ...]
    foreign: int = 0


def import_archive(file: Path, folder: Path, system: System | None = None, *, moves_out: bool = True) -> Imported:
    """Make the folder, which is new or empty, the workspace that was exported into this file.

    Its state moves out into the user's data folder, or stays in this one, as a fleet has it.

    Raises UsageError for a folder that holds something, ArchiveError for a file that is not what `dreamd export`
    writes, StorageError when the disk fails; the folder is then as it was.
    """
    root, mode = _place_for(folder)
    with open_archive(file) as archive:
        _require_space(archive, root.parent)
        with _aside(root.parent, system or System()) as (aside, disk):
            workspace = contained(aside)
            foreign = _unpack(archive, workspace, disk)
            imported = replace(_checked(archive, workspace, root), foreign=foreign)
            _sync(workspace, disk, mode)
            with _expected(aside, root) if moves_out else nullcontext():
                _publish(disk, aside, root)
    if moves_out:
        open_workspace(root)
    return imported


@contextmanager
def _expected(aside: Path, root: Path) -> Iterator[None]:
    """Write down that the state of the folder moves out when it is in its place; not where it does not get there."""
    place = expect(aside, new_id(), root, os.environ)
    try:
        yield
    except BaseException:
        if not place.is_folder(root):  # else it was renamed before the disk failed, and is whole
            shutil.rmtree(data_folder(os.environ) / place.id, ignore_errors=True)
        raise


def _place_for(folder: Path) -> tuple[Path, int]:
    """The folder of the new workspace, free of links, and its mode. Raises UsageError."""
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
        _require_empty(root)
        if root.is_mount():
            raise UsageError(f"{root} is where a disk is mounted", "name a new folder in it")
        return root, stat.S_IMODE(root.stat().st_mode)


def _require_empty(root: Path) -> None:
    with os.scandir(root) as entries:
        if next(entries, None) is not None:
            raise UsageError(
                f"{root} is not empty, and nothing is overwritten", "name a new folder for the workspace"
            )


def _require_space(archive: Archive, parent: Path) -> None:
    with storage_errors(parent):
        disk = os.statvfs(parent)
    free = disk.f_bavail * disk.f_frsize
    once = sum(-(-member.size // disk.f_frsize) * disk.f_frsize for member in archive.manifest.members)
    again = sum((_COPIES - 1) * member.size for member in archive.manifest.members if member.name == DATABASE)
    wanted = once + again + _SPARE_BYTES
    if wanted > free:
        raise StorageError(
            f"{archive.path} needs {wanted:,} bytes in {parent}, and {free:,} are free",
            "free some space and try again",
        )


@contextmanager
def _aside(parent: Path, system: System) -> Iterator[tuple[Path, Disk]]:
    """A new folder beside the workspace that is to be, removed again unless it was renamed.

    Its lock shows that an import uses it: the folder of a killed import has none, and is deleted now.
    """
    _remove_leftovers(parent)
    while True:
        aside = parent / f"{_ASIDE}{os.getpid()}-{os.urandom(4).hex()}"
        try:
            with storage_errors(parent):
                system.mkdir(aside, 0o700)
            with _locked(aside) as is_locked:
                if is_locked:  # else another one took it for a leftover before it was locked
                    yield aside, Disk(parent, system)
                    return
        finally:
            shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Lock the folder; whether that was possible, and the folder still exists."""
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


def _unpack(archive: Archive, workspace: Workspace, disk: Disk) -> int:
    """Write every member, and a new state.db; returns how many foreign transcripts were left out."""
    older = [workspace.history] if any(version_of(member.name) for member in archive.manifest.members) else []
    for folder in (workspace.state, *older, *folders(workspace)):
        with storage_errors(folder):
            disk.system.mkdir(folder, 0o700)
    incoming = workspace.state / _INCOMING
    for member, blocks in archive.contents():
        path = incoming if member.name == DATABASE else place(workspace, member.name)
        assert path is not None
        _write(member, blocks, path, disk.system)
    foreign = rebuilt(incoming, workspace.database, archive.manifest.schema)
    with storage_errors(incoming):
        disk.system.unlink(incoming)
        workspace.database.chmod(0o600)
    return foreign


def _write(member: Member, blocks: Iterator[bytes], path: Path, system: System) -> None:
    with storage_errors(path):
        fd = system.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            for block in blocks:
                written = 0
                while written < len(block):
                    written += system.write(fd, block[written:])
            os.fchmod(fd, 0o600 if is_private(member.name) else 0o644)
            os.utime(fd, ns=(member.mtime_ns, member.mtime_ns))
            system.fsync(fd)
        finally:
            os.close(fd)


def _checked(archive: Archive, workspace: Workspace, root: Path) -> Imported:
    """Check that state.db and the records of an older archive agree, take these in, and describe the import."""
    with closing(open_database(workspace.database)) as connection:
        lineage, crystals = Lineage(connection), Crystals(connection)
        dreams = {version.number: version.dream for version in lineage.versions(lineage.last_version())}
        _require_records(archive, workspace, dreams)
        disk = workspace.disk()
        memory = Memory(
            workspace, disk, crystals, lineage, Notes(NoteInbox(workspace, disk), connection), lambda: None
        )
        take_in_records(workspace, disk, crystals, memory)
        return Imported(
            workspace=str(root),
            at=archive.manifest.at,
            version=max(dreams, default=0),
            crystals=crystals.count(),
            missing=tuple(number for number in sorted(dreams) if not memory.has(number)),
        )


def _require_records(archive: Archive, workspace: Workspace, dreams: Mapping[int, str]) -> None:
    """Return if every record in the archive is of a version that state.db knows, and of its dream."""
    for member in archive.manifest.members:
        number = version_of(member.name)
        if number is None:
            continue
        # A record that state.db does not know would be committed by the next owner.
        if number not in dreams:
            raise refused(archive.path, f"{member.name} is of a version that state.db does not know")
        try:
            if member.size > MAX_RECORD_BYTES:
                raise StorageError(f"{member.name} is longer than any record")
            require_record(member.name, (workspace.state / member.name).read_bytes(), dreams[number])
        except DreamdError as error:
            raise refused(archive.path, error.what) from error


def _sync(workspace: Workspace, disk: Disk, mode: int) -> None:
    """Sync state.db and every folder, each after what is in it."""
    disk.sync(workspace.database)
    for folder in (*reversed(folders(workspace)), workspace.state):
        disk.fsync_folder(folder)
    with storage_errors(workspace.root):
        workspace.root.chmod(mode)
    disk.fsync_folder(workspace.root)


def _publish(disk: Disk, aside: Path, root: Path) -> None:
    """Rename the folder to its place, where at most an empty folder is."""
    try:
        with storage_errors(root):
            disk.system.rename(aside, root)
    except StorageError:
        if root.is_dir():
            _require_empty(root)  # somebody was faster
        raise
    disk.fsync_folder(root.parent)
