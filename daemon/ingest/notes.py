"""Notes: turns what arrives in the inbox and in scratch.md into rows of state.db, each with a crystal."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from sqlite3 import Connection

from daemon.config.settings import Config
from daemon.ingest.feelings import feel
from daemon.ingest.named import named
from daemon.workspace.notices import Notices
from daemon.workspace.redaction import redacted
from daemon.workspace.stores import Store, utc_now
from state.crystals.crystal import Crystal, Origin, Source
from state.crystals.salience import salience
from state.crystals.supersession import Cause as SupersededBy
from state.crystals.supersession import Supersession
from state.errors import StorageError
from state.scratch import Note
from state.signals.curiosity import Cause, questions_in
from state.signals.felt import feelings_in
from state.signals.hormones import valence
from state.stores.crystals.crystals import Crystals, Stored
from state.stores.crystals.hormones import Feelings
from state.stores.crystals.neighbours import heard_before
from state.stores.database.connection import transaction
from state.stores.history.inbox import Entry, Pending, Piece
from state.stores.history.notes import SOURCE, Notes
from state.trust import Trust

# Notes per transaction, and notes of a long log per call.
BATCH = 250
MOST_AT_ONCE = 1_000


def note_crystal(connection: Connection, config: Config, note: Note, now: datetime, key: int = 0) -> Crystal:
    """Return the crystal of a note, without secrets; its source is the note's row, `key` (0: none)."""
    text = redacted(config.redaction, note.text)
    digest = hashlib.sha256(note.text.encode("utf-8", "surrogatepass")).hexdigest()
    return Crystal(
        text=text,
        origin=Origin.SCRATCH,
        created_at=note.at,
        kind=salience(text, Trust.AGENT).kind,
        importance=note.importance,
        trust=Trust.AGENT,
        source=Source(SOURCE, key, key, digest) if key else None,
        valence=valence(Feelings(connection, config.baselines).levels(now)),
        heard="" if note.auto else heard_before(connection, note.at, text),
    )


def strangers_crystal(connection: Connection, config: Config, note: Note, now: datetime, _: int = 0) -> Crystal:
    """Return the crystal of a note that came with the folder, or by git: search has it, and it is never pending."""
    crystal = note_crystal(connection, config, note, now)
    worth = salience(crystal.text, Trust.WEB)
    return replace(crystal, trust=Trust.WEB, heard="", kind=worth.kind, importance=worth.importance)


def pending_crystals(crystals: Crystals, notes: Sequence[Pending]) -> list[tuple[int, Crystal]]:
    """Return (row, crystal) of pending notes; each crystal has the time and importance of its note.

    A note is often taken in before the turns that led to it, so what its agent had heard is looked up again.
    """
    stored = crystals.by_keys({one.crystal for one in notes})
    found = list[tuple[int, Crystal]]()
    for key, crystal, note in ((one.key, stored[one.crystal], one.note) for one in notes if one.crystal in stored):
        is_settled = crystal.heard or note.auto or crystal.trust is not Trust.AGENT
        heard = crystal.heard if is_settled else heard_before(crystals.connection, note.at, crystal.text)
        found.append((key, replace(crystal, created_at=note.at, importance=note.importance, heard=heard)))
    return found


def absorb_notes(
    store: Store, now: datetime, most: int | None = MOST_AT_ONCE, stop: Callable[[], bool] = lambda: False
) -> int:
    """Store every new note as a row and a crystal, oldest first; return how many crystals were new.

    Of a long log about `most` notes are read (None: all), until `stop()` is true; the next call continues. The words
    of notes raise hormones, and a hormone that rises above .7 writes a note of its own. Each batch is one
    transaction, which includes how far each file was read.
    """
    new = read = 0
    _wipe(store.notes, store.notices)  # what an interrupted call has left
    while (most is None or read < most) and not stop() and (pieces := store.notes.unread(utc_now(), BATCH)):
        new += _absorbed(store, pieces, now)
        for name in {piece.path.name for piece in pieces if piece.is_strangers and piece.notes}:
            store.notices.add(
                f"git tracks memory/{name}, so new notes in it are taken in as a stranger's: search has them, and no"
                f" dream; 'git rm --cached memory/{name}' makes it yours, and 'dreamd note' is yours anyway"
            )
        read += sum(len(piece.notes) for piece in pieces)
        _wipe(store.notes, store.notices)
    store.memory.show_notes()  # a dream cannot if a note arrives as it ends
    return new


def learn_notes(
    crystals: Crystals, notes: Notes, config: Config, pieces: Sequence[Piece], now: datetime
) -> list[tuple[Note, Stored]]:
    """Store these notes with their crystals, and how far their files were read; needs an open transaction.

    Return the notes that are neither forgotten nor a stranger's, each with its crystal.
    """
    every = ((one, piece.is_strangers) for piece in pieces for one in piece.notes)
    made = list[tuple[Entry, Crystal]]()
    for key, (one, is_strangers) in enumerate(every, notes.next_key()):
        make = strangers_crystal if is_strangers else note_crystal
        made.append((one, make(crystals.connection, config, one.note, now, key)))
    made = [(one, crystal) for one, crystal in made if crystal.text]
    stored = zip((one for one, _ in made), crystals.learn(crystal for _, crystal in made), strict=True)
    learnt = [(one, at) for one, at in stored if at.key and at.crystal.trust is Trust.AGENT]
    notes.take(pieces, {one.digest: at.key for one, at in learnt})
    return [(one.note, at) for one, at in learnt]


def _absorbed(store: Store, pieces: Sequence[Piece], now: datetime) -> int:
    """Store these notes without forgotten texts, and their effects; return how many crystals were new."""
    with transaction(store.connection):
        store.memory.check()
        forgotten = store.crystals.forgotten
        pieces = [piece.without(forgotten.tombstones().anywhere) for piece in pieces]
        learnt = learn_notes(store.crystals, store.notes, store.config, pieces, now)
        if withheld := sum(not one.is_filed for piece in pieces for one in piece.notes):
            store.notes.plan_wipe()
            forgotten.count(withheld)
        _supersede(store, learnt)
        new = [(note, at.crystal.text) for note, at in learnt if at.is_new]
        for note, text in new:
            for question in questions_in(text):
                store.questions.raise_(question, Cause.QUESTION, now)
            if not note.auto:
                feel(store, feelings_in(text), text, note.at, now)
    return len(new)


def _supersede(store: Store, notes: Sequence[tuple[Note, Stored]]) -> None:
    """Record what these notes supersede, so that a search shows it before a dream replaces the line in MEMORY.md.

    Nothing is recorded for lines that are pinned or the owner's: the owner decides about those.
    """
    naming = [(note, at) for note, at in notes if note.replaces]
    lines = {line.id: line for line in store.lineage.current_lines()} if naming else {}
    for note, (crystal, new, _) in naming:
        for meant in named(store, list(lines.values()), note.replaces, crystal.id):
            line = lines.get(meant)
            if line is None:
                older = [*store.crystals.keys([meant]).values()]
            else:
                is_owners = line.pinned or line.trust.rank > crystal.trust.rank
                older = [] if is_owners else store.supersessions.said_by(line)
            store.supersessions.record(
                Supersession(old, new, note.at, crystal.trust, SupersededBy.NOTE) for old in older
            )


def _wipe(notes: Notes, notices: Notices) -> None:
    """Erase forgotten texts from the files of notes; add a notice if they cannot be written."""
    try:
        notes.wipe()
    except StorageError as error:
        notices.add(f"a note that holds what is forgotten is not learnt, but still stands there: {error}")
