"""Rebuild: writes a new state.db beside a damaged one, and puts it in its place.

    rows that can be read ─> what is known elsewhere ─> checked ─> synced ─> one rename

The damaged files get a second name first, in a folder for what is kept aside. A log (-wal) must be gone before
another file has the database's name, or SQLite would write its pages into that; so what it holds is put into the
database before, by another rename. Until the last rename the old database stands, with all that was in it.
"""

import errno
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from state.errors import StorageError
from state.stores.crystals import full_text
from state.stores.database.connection import make_schema, open_database, transaction
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import NO_SUCH_CALL, storage_errors
from state.stores.repair.check import faults, likeliest_version, log_of
from state.stores.repair.pages import Pages
from state.stores.repair.refill import Known, fill, settle
from state.stores.repair.rows import Salvage, catalogue, pour

_NEW = ".state.db.new"
_SIDES = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What is in the new database: rows that were salvaged, crystals in all, and how many of them `came` from where.

    `lost` are crystals that are known by their ids alone, `broken` rows by table that could not be read. `torn` are
    the tables that were damaged, `damaged` the crystals of which only a part is left.
    """

    salvaged: int
    crystals: int
    came: dict[str, int]
    damaged: int
    lost: int
    broken: dict[str, int]
    torn: frozenset[str]


def build(
    pages: Pages, database: Path, known: Callable[[sqlite3.Connection], Known], now: datetime
) -> tuple[Path, Rebuilt]:
    """Write the new database beside the old one, check and close it; returns its path, and what is in it.

    `known` is called when the salvaged rows are in it. Raises StorageError when the new database is not sound.
    """
    new = database.with_name(_NEW)
    for side in ("", *_SIDES):
        with storage_errors(new):
            new.with_name(_NEW + side).unlink(missing_ok=True)
    things, _ = catalogue(pages)
    version = likeliest_version({thing.name: thing.statement for thing in things.values()}, pages.schema())
    found = _poured(pages, new, version)
    with closing(open_database(new)) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # synced once, as a whole
        connection.execute("PRAGMA foreign_keys = OFF")
        with transaction(connection):
            came = fill(connection, found, known(connection), now)
            settle(connection, found)
        _require_sound(connection)
        ids = {row[0] for row in connection.execute("SELECT id FROM crystals")}
        entries = found.ids.get("crystals", {})
        rebuilt = Rebuilt(
            salvaged=sum(found.kept.values()),
            crystals=len(ids),
            damaged=came.pop("damaged", 0),
            came=came,
            lost=_lost(connection, entries) if "crystals" in found.torn else 0,
            broken=dict(found.unread),
            torn=frozenset(found.torn),
        )
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return new, rebuilt


def _poured(pages: Pages, new: Path, version: int) -> Salvage:
    with storage_errors(new):
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(sqlite3.connect(new, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("PRAGMA synchronous = OFF")
        make_schema(connection, version)
        with transaction(connection):
            return pour(pages, connection)


def _lost(connection: sqlite3.Connection, entries: dict[str, int]) -> int:
    """How many crystals are lost but for their ids: neither they nor a part of them is in their row."""
    rows = connection.execute("SELECT id, key FROM crystals").fetchall()
    ids, keys = {row[0] for row in rows}, {row[1] for row in rows}
    return sum(id_ not in ids and key not in keys for id_, key in entries.items())


def _require_sound(connection: sqlite3.Connection) -> None:
    wrong = list(faults(connection))
    if full_text.is_torn(connection):
        wrong.append("its word index is torn")
    if wrong:
        raise StorageError(
            f"the new state.db would not be sound ({wrong[0]})", "nothing was changed, please report this defect"
        )


def swap(disk: Disk, database: Path, pages: Pages, new: Path) -> None:
    """Put the new database in place of the old one; a crash leaves one of them, whole.

    The caller has given the old files second names. The files beside the database are removed.
    """
    log = log_of(database)
    if os.path.lexists(log):
        if pages.images:
            disk.write_atomic(database, b"".join(pages.image()))
        disk.remove(log)
    for side in _SIDES[1:]:
        disk.remove(database.with_name(database.name + side))
    disk.rename(new, database)


def name_again(disk: Disk, path: Path, second: Path) -> None:
    """Give the file a second name, or a copy where the file system knows no second names. The first one stays."""
    with storage_errors(path):
        try:
            disk.system.link(path, second)
        except OSError as error:
            if error.errno not in (*NO_SUCH_CALL, errno.EXDEV):
                raise
            disk.write_new(second, path.read_bytes())
        second.chmod(0o600)
    disk.fsync_folder(second.parent)
