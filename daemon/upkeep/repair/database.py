"""Database repair: the last sound copy takes the place of a damaged state.db; what is newer comes from the files."""

import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from daemon.upkeep.repair.jobs import Job, RepairContext
from state.crystals.crystal import Crystal, Origin
from state.crystals.salience import salience
from state.errors import DocumentError
from state.scratch import Note
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import open_database, open_unmigrated, transaction
from state.stores.database.copies import (
    clear_damaged,
    copied_at,
    copies_of,
    found_damaged,
    is_readable,
    write_copy,
)
from state.stores.erasing.files import empty_folder
from state.stores.history.inbox import NoteInbox, digest_of
from state.stores.history.lineage import Lineage
from state.stores.history.memory import Memory
from state.stores.history.notes import Notes
from state.stores.repair.check import damage_of
from state.trust import Trust

_SIDES = ("", "-wal", "-journal", "-shm")
_LOST = "lost: sessions, the ledger and what else stood in state.db alone"


def database(context: RepairContext) -> Iterator[Job]:
    """Find damage to state.db and its copies, and versions that it lacks; a link in its place is left alone."""
    path = context.workspace.database
    if path.is_symlink():
        return
    copies, sound = copies_of(path), list[Path]()
    inbox = NoteInbox(context.workspace, context.disk)  # of these files, a database knew what is consumed
    wrong = damage_of(path, expected=bool(copies or inbox.displaced() or inbox.rotated()))
    for copy in copies:  # every row of them is read when one of them is to be restored
        if not is_readable(copy) or (wrong and damage_of(copy, expected=True)):
            yield Job("copies", f"{copy} is damaged", "it is kept aside", partial(context.put_aside, copy))
        else:
            sound.append(copy)
    if wrong:
        action = "it is built anew of the notes and MEMORY.md"
        if sound:
            action = f"the copy of {copied_at(sound[0]):%Y-%m-%d %H:%M} UTC takes its place"
        job = partial(_restore, context, next(iter(sound), None))
        yield Job("state.db", f"state.db: {'; '.join(wrong)}", action, job)
        if not context.rebuilt:  # only looked at
            return
    if found_damaged(path):
        what, action = "state.db was damaged when it was to be copied", "it is sound now, and will be copied"
        yield Job("copies", what, action, partial(clear_damaged, path, context.disk))
    context.last = last_version(path)


def last_version(path: Path) -> int:
    """Return the number of the last committed version; 0 when it cannot be read."""
    with suppress(sqlite3.Error), open_unmigrated(path, "rw") as connection:
        return int(connection.execute("SELECT coalesce(max(number), 0) FROM versions").fetchone()[0])
    return 0


def _restore(context: RepairContext, copy: Path | None) -> tuple[str, ...]:
    """Write the new database beside the old one, put the old files aside, and rename the new one into place."""
    path, disk = context.workspace.database, context.disk
    new = path.with_name(f".{path.name}.new")
    for side in _SIDES:
        disk.remove(new.with_name(new.name + side))
    if copy is not None:
        write_copy(copy, new)
    _fill(context, new)
    disk.sync(new)
    context.check()
    for side in _SIDES:
        if os.path.lexists(old := path.with_name(path.name + side)):
            context.put_aside(old)
    if context.workspace.index.is_dir() and not context.workspace.index.is_symlink():
        empty_folder(disk, context.workspace.index)  # the vector index is of the old state.db
    disk.rename(new, path)
    context.rebuilt = context.emptied = True
    if copy is None:
        return (f"{_LOST}; transcripts that sources.transcripts does not name are to be ingested again",)
    return (f"{_LOST} since {copied_at(copy):%Y-%m-%d %H:%M} UTC",)


def _fill(context: RepairContext, path: Path) -> None:
    """Write what a database lacks of MEMORY.md as it stands, and of the notes.

    The inbox has every note since the copy. Those that scratch.md does not show any more were taken in since.
    """
    workspace, disk = context.workspace, context.disk
    with closing(open_database(path)) as connection:
        crystals, lineage = Crystals(connection), Lineage(connection)
        notes = Notes(NoteInbox(workspace, disk), connection)
        memory = Memory(workspace, disk, crystals, lineage, notes, context.check)
        with suppress(DocumentError):  # one that is no text is mended when the database stands
            memory.adopt()
        _take_notes(context, crystals, notes)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _take_notes(context: RepairContext, crystals: Crystals, notes: Notes) -> None:
    """Make rows of the notes that came since: those of scratch.md are pending, the others of the inbox were taken in.

    Without a scratch.md, or where nothing tells that dreamd wrote it, all of them are pending: better read twice than
    never.
    """
    inbox, version = notes.inbox, Lineage(crystals.connection).last_version()
    # One that an append began, after its folder was deleted, shows no note of before.
    found = inbox.shown()
    shown = found if inbox.displaced() else None
    with transaction(crystals.connection):
        again = notes.revive(digest_of(one) for one in found or () if one.stamped)  # by a restore since the copy
        crystals.undream([one.id for one in crystals.by_keys(again).values()])
        _take(context, crystals, notes, [inbox.workspace.scratch])
        pending = {one.key for one in notes.pending()}
        _take(context, crystals, notes, filter(inbox.is_inbox, inbox.files()))
        if shown is not None:
            ids = crystals.ids_of(_crystal(context, one).digest for one in shown if not one.stamped)
            by_hand = crystals.keys(ids.values()).values()
            digests = {digest_of(one) for one in shown if one.stamped}
            gone = [
                one
                for one in notes.pending()
                if one.key not in pending or (digest_of(one.note) not in digests and one.crystal not in by_hand)
            ]
            notes.consume([one.key for one in gone], version)
            taken = crystals.by_keys({one.crystal for one in gone})
            crystals.mark_dreamt([one.id for one in taken.values()], version)
        _take(context, crystals, notes, inbox.displaced().values())


def _take(context: RepairContext, crystals: Crystals, notes: Notes, files: Iterable[Path]) -> None:
    """Make rows of what these files have."""
    pieces = notes.unread(context.now, sys.maxsize, files)
    tombstones, made = crystals.forgotten.tombstones(), dict[str, Crystal]()
    for one in (one for piece in pieces for one in piece.notes):
        crystal = _crystal(context, one.note)
        if crystal.text and (left := tombstones.spared(crystal)) is not None:
            made[one.digest] = left
    made = dict(zip(made, crystals.known(made.values()), strict=True))
    crystals.upsert(made.values())
    keys = crystals.keys(crystal.id for crystal in made.values())
    notes.take(pieces, {digest: keys[crystal.id] for digest, crystal in made.items()})


def _crystal(context: RepairContext, note: Note) -> Crystal:
    text = context.config.secrets.redaction.of(note.text)
    return Crystal(text, Origin.SCRATCH, note.at, salience(text, Trust.AGENT).kind, note.importance, Trust.AGENT)
