"""Notes: what arrives in the inbox and in scratch.md becomes rows of state.db, with a crystal each."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from sqlite3 import Connection

from daemon.config.settings import Config
from daemon.ingest.feelings import feel
from daemon.ingest.named import named
from daemon.workspace.notices import Notices
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
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.hormones import Feelings, Questions
from state.stores.crystals.neighbours import heard_before
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import transaction
from state.stores.history.inbox import Entry
from state.stores.history.notes import SOURCE, Notes, Pending, Piece
from state.trust import Trust

# So many notes are read for one transaction; and of a long log in one call.
BATCH = 250
MOST_AT_ONCE = 1_000


def note_crystal(connection: Connection, config: Config, note: Note, now: datetime, key: int = 0) -> Crystal:
    """Return the crystal of a note, without its secrets; `key` is the note's row, which it names as its source."""
    text = config.redaction.of(note.text)
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
        heard="" if note.auto else heard_before(connection, note.at),
    )


def pending_crystals(crystals: Crystals, notes: Sequence[Pending]) -> list[tuple[int, Crystal]]:
    """Return the rows of pending notes with their crystals, each with the time and the importance of its note."""
    stored = crystals.by_keys({one.crystal for one in notes})
    return [
        (one.key, replace(stored[one.crystal], created_at=one.note.at, importance=one.note.importance))
        for one in notes
        if one.crystal in stored
    ]


def absorb_notes(
    store: Store, now: datetime, most: int | None = MOST_AT_ONCE, stop: Callable[[], bool] = lambda: False
) -> int:
    """Make a row, and a crystal, of every note that arrived, the oldest first; return how many crystals were new.

    Of a long log about `most` notes are read (None: all), as far as `stop()` lets it; the next call goes on. Their
    words raise hormones, and a hormone that rises above .7 writes its own note. All of that is one transaction for
    each batch, and so is how far each file was read.
    """
    new = read = 0
    _wipe(store.notes, store.notices)  # what was cut off
    while (most is None or read < most) and not stop() and (pieces := store.notes.unread(utc_now(), BATCH)):
        new += _absorbed(store, pieces, now)
        read += sum(len(piece.notes) for piece in pieces)
        _wipe(store.notes, store.notices)
    store.memory.show_notes()  # a dream could not, if a note came as it ended
    return new


def learn_notes(
    crystals: Crystals, notes: Notes, config: Config, pieces: Sequence[Piece], now: datetime
) -> list[tuple[Note, Crystal]]:
    """Write the rows of these notes with their crystals, and how far their files were read. In a transaction.

    Return the notes that are not forgotten, each with its crystal.
    """
    tombstones, spared = crystals.forgotten.tombstones(), list[tuple[Entry, Crystal]]()
    for key, one in enumerate((one for piece in pieces for one in piece.notes), notes.next_key()):
        crystal = note_crystal(crystals.connection, config, one.note, now, key)
        if crystal.text and (left := tombstones.spared(crystal)) is not None:
            spared.append((one, left))
    # Read in here: another thread may have learnt the same.
    learnt = list(zip((one for one, _ in spared), crystals.known(left for _, left in spared), strict=True))
    crystals.upsert(crystal for _, crystal in learnt)
    keys = crystals.keys(crystal.id for _, crystal in learnt)
    notes.take(pieces, {one.digest: keys[crystal.id] for one, crystal in learnt})
    return [(one.note, crystal) for one, crystal in learnt]


def _absorbed(store: Store, pieces: Sequence[Piece], now: datetime) -> int:
    """Learn these notes without what is forgotten, and what they say; return how many crystals were new."""
    with transaction(store.connection):
        store.memory.check()
        forgotten, newest = store.crystals.forgotten, store.crystals.newest()
        pieces = [piece.without(forgotten.tombstones().anywhere) for piece in pieces]
        learnt = learn_notes(store.crystals, store.notes, store.config, pieces, now)
        if withheld := sum(not one.is_filed for piece in pieces for one in piece.notes):
            store.notes.plan_wipe()
            forgotten.count(withheld)
        _supersede(store, learnt)
        keys = store.crystals.keys(crystal.id for _, crystal in learnt)
        new = {crystal.id: (note, crystal) for note, crystal in learnt if keys[crystal.id] > newest}
        for note, crystal in new.values():
            for question in questions_in(crystal.text):
                Questions(store.connection).raise_(question, Cause.QUESTION, now)
            if not note.auto:
                feel(store, feelings_in(crystal.text), crystal.text, note.at, now)
    return len(new)


def _supersede(store: Store, notes: Sequence[tuple[Note, Crystal]]) -> None:
    """Record what these notes name: a search tells it at once, though MEMORY.md has the older line until a dream.

    Of lines that are their owner's, or pinned, nothing is recorded: the owner decides what becomes of them.
    """
    naming = [(note, crystal) for note, crystal in notes if note.replaces]
    lines = {line.id: line for line in store.lineage.current_lines()} if naming else {}
    supersessions = Supersessions(store.crystals)
    for note, crystal in naming:
        for meant in named(store, list(lines.values()), note.replaces, crystal.id):
            line = lines.get(meant)
            if line is None:
                older = [*store.crystals.keys([meant]).values()]
            else:
                is_owners = line.pinned or line.trust.rank > crystal.trust.rank
                older = [] if is_owners else supersessions.said_by(line)
            supersessions.record(
                Supersession(old, new, note.at, crystal.trust, SupersededBy.NOTE)
                for old in older
                for new in store.crystals.keys([crystal.id]).values()
            )


def _wipe(notes: Notes, notices: Notices) -> None:
    """Take what is forgotten out of the files of notes; a notice says so when they cannot be written."""
    try:
        notes.wipe()
    except StorageError as error:
        notices.add(f"a note that holds what is forgotten is not learnt, but still stands there: {error}")
