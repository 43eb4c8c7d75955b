"""Database repair: a damaged state.db is rebuilt from its readable rows, the history, the notes and MEMORY.md."""

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from daemon.ingest.formats.turn import Watermark
from daemon.upkeep.repair.history import is_under_way
from daemon.upkeep.repair.jobs import Job, RepairContext
from state.codec import encode
from state.crystals.crystal import Crystal, Origin
from state.crystals.salience import salience
from state.document.document import SectionName, parse
from state.errors import DreamdError, StorageError
from state.scratch import decode as scratch_text
from state.scratch import parse_notes
from state.stores.database.connection import open_unmigrated
from state.stores.disk.syscalls import storage_errors
from state.stores.history.segments import Segments
from state.stores.repair.check import damage_of, log_of
from state.stores.repair.pages import read_pages
from state.stores.repair.rebuild import Rebuilt, build, swap
from state.stores.repair.refill import READ_FROM, Known
from state.trust import Trust

_ROOM = 32 * 1024**2
_SIDES = ("", "-wal", "-shm", "-journal")


def database(context: RepairContext) -> Iterator[Job]:
    """Find damage to state.db, and the last version; a link in its place is left alone."""
    path = context.workspace.database
    if path.is_symlink():
        context.last = max(context.records, default=0)
        return
    wrong = damage_of(path, expected=bool(context.records or context.unreadable))
    if not wrong and path.is_file() and path.stat().st_size:
        wrong = _behind(context)
    if wrong:
        action = "it is built anew of its rows that can be read, of history/, of the notes and of MEMORY.md"
        yield Job("state.db", f"state.db: {'; '.join(wrong)}", action, partial(_rebuild, context))
    if not (wrong and not context.rebuilt):
        context.last = last_version(path)
    else:  # only looked at
        context.last = max(context.records, default=0)


def last_version(path: Path) -> int:
    """The number of the last committed version; 0 when it cannot be read."""
    with suppress(sqlite3.Error), open_unmigrated(path, "rw") as connection:
        return int(connection.execute("SELECT coalesce(max(number), 0) FROM versions").fetchone()[0])
    return 0


def _behind(context: RepairContext) -> list[str]:
    """Describe the versions that the journal has and state.db lacks, but for the next, which may be in progress."""
    with open_unmigrated(context.workspace.database, "rw") as connection:
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'versions'").fetchone():
            return []
        known = {int(row[0]) for row in connection.execute("SELECT number FROM versions")}
    lacking = sorted(set(context.records) - known - {max(known, default=0) + 1})
    return [f"it lacks version {', '.join(map(str, lacking[:5]))}, which history/ has"] if lacking else []


def _rebuild(context: RepairContext) -> tuple[str, ...]:
    path = context.workspace.database
    _require_room(context)
    pages = read_pages(path, log_of(path))
    new, rebuilt = build(pages, path, partial(_known, context), context.now)
    context.disk.sync(new)
    context.check()
    for side in _SIDES:
        old = path.with_name(path.name + side)
        if os.path.lexists(old) and side != "-shm":
            context.aside.keep(old)
    swap(context.disk, path, pages, new)
    context.rebuilt = True
    context.reread = not rebuilt.torn.isdisjoint(READ_FROM)
    return tuple(_summary(rebuilt))


def _require_room(context: RepairContext) -> None:
    path = context.workspace.database
    sizes = [side.stat().st_size for side in (path, log_of(path)) if side.is_file()]
    # The new file, and the old one with its log put into it.
    wanted = sum(sizes) * (2 if len(sizes) > 1 else 1) + _ROOM
    free = shutil.disk_usage(context.workspace.state).free
    if free < wanted:
        raise StorageError(
            f"{path}: to build it anew takes {wanted / 1024**2:,.0f} MiB and {free / 1024**2:,.0f} MiB are free",
            "free some space and run 'dreamd doctor --repair' again, nothing was changed",
        )


def _summary(rebuilt: Rebuilt) -> Iterator[str]:
    """Describe what is in the new database, and what is lost."""
    came = ", ".join(f"{count:,} from {origin}" for origin, count in rebuilt.came.items())
    yield f"{rebuilt.salvaged:,} rows were read; {rebuilt.crystals:,} crystals" + (f" ({came})" if came else "")
    if rebuilt.damaged:
        yield f"{rebuilt.damaged:,} crystals are damaged themselves: what is left of their texts is kept"
    if rebuilt.lost:
        yield f"lost: {rebuilt.lost:,} crystals, of which only the ids can be read"
    for table, count in sorted(rebuilt.broken.items()):
        if table != "crystals":
            yield f"could not be read: {count:,} rows of {table}"
    if {"items", "sessions"} & rebuilt.torn:
        yield "working memory of sessions stands in state.db alone: what its damaged pages held is lost"


def _known(context: RepairContext, connection: sqlite3.Connection) -> Known:
    versions = {int(row[0]) for row in connection.execute("SELECT number FROM versions")}
    records = dict(context.records)
    newest = max(records, default=0)
    before = max({*versions, *records} - {newest}, default=0)
    is_last = newest == before + 1 and not any(number > newest for number in context.unreadable)
    if is_last and newest not in versions and is_under_way(context, newest):
        del records[newest]  # it is finished as the workspace is opened
    numbers = versions | set(records)
    consumed, pending = _notes(context)
    for number, crystals in context.pieces.items():
        (consumed if number <= max(numbers, default=0) else pending).extend(crystals)
    return Known(
        records=[records[number] for number in sorted(records)],
        every=set(records) == set(range(1, max(numbers, default=0) + 1)),
        consumed=consumed,
        pending=pending,
        lines=_readable_lines(context),
        unread=encode(Watermark()),
    )


def _readable_lines(context: RepairContext) -> list[tuple[SectionName, str]]:
    """The readable lines of MEMORY.md."""
    try:
        text = (context.disk.read_optional(context.workspace.document) or b"").decode()
    except (DreamdError, UnicodeDecodeError):
        return []
    return [(section, block.text) for section, block in parse(text).lines() if "\0" not in block.text]


def _notes(context: RepairContext) -> tuple[list[Crystal], list[Crystal]]:
    """The notes that dreams have consumed, as far as their segments are kept, and those that none has."""
    workspace = context.workspace
    pending = {str(file.path): file.start for file in Segments(workspace, context.disk).pending_files()}
    consumed, waiting = list[Crystal](), list[Crystal]()
    found = [path for folder in (workspace.segments, workspace.retired) for path in sorted(folder.glob("*.md"))]
    for path in (*found, workspace.scratch):
        if path.is_symlink() or not path.is_file():
            continue
        content = context.disk.read_bytes(path)
        start = pending.get(str(path), len(content))
        if not context.unreadable or path.parent == workspace.retired:
            consumed += _crystals(context, content[:start], path)
        else:  # what a version that cannot be read had taken is taken in once more rather than never
            waiting += _crystals(context, content[:start], path)
        waiting += _crystals(context, content[start:], path)
    return consumed, waiting


def _crystals(context: RepairContext, content: bytes, path: Path) -> Sequence[Crystal]:
    with storage_errors(path):
        changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    redaction = context.config.secrets.redaction
    texts = [(redaction.of(note.text), note) for note in parse_notes(scratch_text(content), changed)]
    return [
        Crystal(text, Origin.SCRATCH, note.at, salience(text, Trust.AGENT).kind, note.importance, Trust.AGENT)
        for text, note in texts
        if text.strip()
    ]
