"""Export: writes a workspace into one archive while no dream runs, and verifies the archive before it is used.

The order of reading. The lock is held, so nobody dreams: no version is made, no segment taken or retired. state.db is
read first, as of one moment, and the log after it: what agents append and the daemon absorbs meanwhile is then in the
log, where it is pending, and never in state.db alone. MEMORY.md is whole at every moment.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from daemon.workspace.stores import Store
from state.dream import decode_record
from state.errors import StorageError
from state.stores.backup.manifest import MAX_RECORD_BYTES, TEMPORARY, remove_unmoved, unmoved_name, version_of
from state.stores.backup.reading import open_archive
from state.stores.backup.writing import ArchiveWriter, take_database, take_files, take_log
from state.stores.disk.syscalls import storage_errors


@dataclass(frozen=True, slots=True)
class Exported:
    """An archive and its path. `sha256` is the whole file's."""

    path: str
    at: datetime
    bytes: int
    sha256: str
    files: int
    version: int
    crystals: int


def export(store: Store, now: datetime, process: int = 0) -> Exported:
    """Write an archive of the workspace, which the caller holds alone, into its state folder.

    This process (0: this one) is to move it away: when the process has ended, the archive is deleted. Raises what the
    disk and the stores fail with; nothing is left then.
    """
    store.memory.recover()  # what an earlier dream had decided and failed to finish
    remove_unmoved(store.workspace, store.disk)
    with _temporary(store.workspace.state / unmoved_name(process or os.getpid())) as path:
        _write(store, path, now)
        store.check()  # a workspace that was taken over meanwhile was read at two moments
        with open_archive(path) as archive:
            for _, blocks in archive.contents():
                for _ in blocks:
                    pass
            files = len(archive.manifest.members)
        if (unfinished := store.ledger.unfinished()) is not None:
            store.notice(
                f"dream {unfinished.id} is under way; what was thought is not in the archive, it begins anew"
            )
        with storage_errors(path), path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        version, crystals = store.lineage.last_version(), store.crystals.count()
        return Exported(str(path), now, path.stat().st_size, digest, files, version, crystals)


def _write(store: Store, path: Path, now: datetime) -> None:
    workspace, system = store.workspace, store.disk.system
    with storage_errors(path):
        fd = system.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        with os.fdopen(fd, "w+b") as file, ArchiveWriter(file) as writer:
            beside = path.with_name(f"{path.name.removesuffix(TEMPORARY)}.db{TEMPORARY}")
            schema = take_database(writer, workspace, beside)
            take_files(writer, workspace, store.disk)
            take_log(writer, workspace, store.disk)
            writer.close(_version(), schema, now)
            file.flush()
            system.fsync(fd)


def require_record(name: str, content: bytes, dream: str) -> None:
    """Return if this is the record of its version, made by this dream. Raises StorageError."""
    if len(content) > MAX_RECORD_BYTES:
        raise StorageError(f"{name} is longer than any record", "run 'dreamd doctor'")
    record = decode_record(content, name)
    if (record.number, record.id) != (version_of(name), dream):
        raise StorageError(f"{name} is version {record.number} of dream {record.id}", "run 'dreamd doctor'")


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """A new file's path, which is removed again when anything goes wrong."""
    try:
        yield path
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dreamd")
    except PackageNotFoundError:
        return ""
