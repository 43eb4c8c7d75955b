"""Export: writes a workspace to one archive while no dream runs, and verifies the archive."""

import hashlib
import os
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version

from daemon.ingest.notes import absorb_notes
from daemon.workspace.stores import Store
from state.stores.backup.archive import write_archive
from state.stores.backup.reading import open_archive
from state.stores.disk.disk import TEMPORARY
from state.stores.disk.syscalls import storage_errors


@dataclass(frozen=True, slots=True)
class Exported:
    """An archive and its path. `sha256` is that of the whole file; `files` counts the text files in it."""

    path: str
    at: datetime
    bytes: int
    sha256: str
    files: int
    version: int
    crystals: int


def export(store: Store, now: datetime) -> Exported:
    """Write an archive of the workspace, to which the caller has exclusive access, into its state folder.

    The caller moves it away; like any temporary file it is deleted after an hour. Errors of the disk and the stores
    are raised, and leave no file behind.
    """
    store.memory.recover()  # finish a commit that was cut off
    absorb_notes(store, now, most=None)
    path = store.workspace.state / f".export-{os.urandom(4).hex()}.db{TEMPORARY}"
    try:
        files = write_archive(store.workspace, store.memory.disk, path, version("dreamd"), now)
        store.memory.disk.sync(path)
        store.memory.check()  # a workspace taken over meanwhile would be exported as of two moments
        with open_archive(path):
            pass
        if (unfinished := store.ledger.unfinished()) is not None:
            store.notices.add(
                f"dream {unfinished.id} is under way; what was thought is not in the archive, it begins anew"
            )
        with storage_errors(path), path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        last, crystals = store.lineage.last_version(), store.crystals.count()
        return Exported(str(path), now, path.stat().st_size, digest, files, last, crystals)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
