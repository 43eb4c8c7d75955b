"""Notes: pending lines of the scratch log become crystals, each file read on from its mark."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import BinaryIO

from daemon.ingest.feelings import feel
from daemon.ingest.named import named
from daemon.workspace.redaction import redacted
from daemon.workspace.stores import Store, utc_now
from state.crystals.crystal import Crystal, Origin, Source
from state.crystals.salience import salience
from state.crystals.supersession import Cause as SupersededBy
from state.crystals.supersession import Supersession
from state.errors import NotFoundError, StorageError
from state.scratch import Note
from state.signals.curiosity import Cause, questions_in
from state.signals.event_lexicon import feelings_in
from state.signals.hormones import valence
from state.stores.crystals.neighbours import heard_before
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import transaction
from state.stores.database.meta import Meta
from state.stores.disk.syscalls import storage_errors
from state.stores.history.log_file import bytes_before, end_of_lines, is_whole, open_log, placed_notes
from state.stores.history.segments import QUIET_SECONDS, PendingFile
from state.trust import Trust

# So many notes are read for one transaction; and of a long log in one call.
BATCH = 250
MOST_AT_ONCE = 1_000
# In `meta`: how far each file of notes has been read, by its inode, which it keeps when it becomes a segment.
_READ = "notes_read"
# So much before the place up to which a file was read must be as it was.
_COMPARED_BYTES = 1 << 16
Marks = dict[str, list[int | str]]


def note_crystal(store: Store, note: Note, file: str, now: datetime) -> Crystal:
    """The crystal of a note, without its secrets; without a file it names no source."""
    text = redacted(store, note.text)
    digest = hashlib.sha256(note.text.encode("utf-8", "surrogatepass")).hexdigest()
    return Crystal(
        text=text,
        origin=Origin.SCRATCH,
        created_at=note.at,
        kind=salience(text, Trust.AGENT).kind,
        importance=note.importance,
        trust=Trust.AGENT,
        source=Source(file, note.first_line, note.last_line, digest) if file else None,
        valence=valence(store.feelings.levels(now)),
        heard="" if note.auto else heard_before(store.crystals.connection, note.at),
    )


def absorb_notes(
    store: Store, now: datetime, most: int | None = MOST_AT_ONCE, stop: Callable[[], bool] = lambda: False
) -> int:
    """Make a crystal of every pending note that has none yet, the oldest first; returns how many were new.

    Of a long log about `most` notes are read (None: all), as far as `stop()` lets it; the next call goes on. Their
    words raise hormones, and a hormone that rises above .7 writes its own note. All of that is one transaction for
    each batch, and so is how far each file was read: a file that has not changed is not opened again.
    """
    new = read = 0
    while (most is None or read < most) and not stop() and (unread := _unread(store)) is not None:
        new += _absorbed(store, *unread, now)
        read += len(unread[0])
        if len(unread[0]) < BATCH:
            break
    return new


def _absorbed(store: Store, notes: Sequence[Note], marks: Marks, now: datetime) -> int:
    """Write the crystals of these notes, and how far their files were read; returns how many were new."""
    made = [(note, note_crystal(store, note, "", now)) for note in notes]
    connection = store.crystals.connection
    with transaction(connection):
        tombstones = store.crystals.forgotten.tombstones()
        learnt = [(note, left) for note, crystal in made if (left := tombstones.spared(crystal)) is not None]
        crystals = {crystal.id: (note, crystal) for note, crystal in learnt}
        # Read in here: another thread may have absorbed the same.
        for known in store.crystals.get(crystals):
            del crystals[known.id]
        store.crystals.upsert([crystal for _, crystal in crystals.values()])
        _supersede(store, learnt)
        for note, crystal in crystals.values():
            for question in questions_in(crystal.text):
                store.questions.raise_(question, Cause.QUESTION, now)
            if not note.auto:
                feel(store, feelings_in(crystal.text), crystal.text, note.at, now)
        Meta(connection).put(_READ, json.dumps(marks))
    return len(crystals)


def _supersede(store: Store, notes: Sequence[tuple[Note, Crystal]]) -> None:
    """Record what these notes name, as far as no line says it: a dream replaces the lines."""
    naming = [(note, crystal) for note, crystal in notes if note.replaces]
    lines = store.lineage.current_lines() if naming else ()
    for note, crystal in naming:
        older = store.crystals.keys(named(store, lines, note.replaces, crystal.id))
        newer = store.crystals.keys([crystal.id])
        Supersessions(store.crystals).record(
            Supersession(old, new, note.at, crystal.trust, SupersededBy.NOTE)
            for old in older.values()
            for new in newer.values()
        )


def _unread(store: Store) -> tuple[list[Note], Marks] | None:
    """A batch of the notes that were written since the last call, and how far each file is read now.

    None: nothing has changed. A mark holds the size and time of a file that was read to its end, where its last note
    begins (it may grow), and the digest of what stands right before that: a file that was changed there is read again
    from its beginning. What is forgotten is taken out of a file before it is read.
    """
    before: Marks = json.loads(Meta(store.crystals.connection).get(_READ) or "{}")
    blanked = set[str]()
    while True:
        notes: list[Note] = []
        marks: Marks = {}
        files = store.segments.pending_files()
        for file in files:
            name, state = str(file.status.st_ino), [file.status.st_size, file.status.st_mtime_ns]
            if name in before and before[name][:2] == state:
                marks[name] = before[name]
                continue
            if len(notes) >= BATCH:
                marks |= {name: before[name]} if name in before else {}
                continue
            read = _read_on(store, file, before.get(name), BATCH - len(notes))
            if read is None or not _is_same_file(file):
                break  # it was taken while it was looked at, and is another file now
            new, marks[name] = read
            if name not in blanked and holds_forgotten(store, new):
                blanked.add(name)
                blank(store, file)
                break
            notes += new
        else:
            return None if marks == before else (notes, marks)


def holds_forgotten(store: Store, notes: Iterable[Note]) -> bool:
    """Whether any of these notes holds what is forgotten."""
    tombstones = store.crystals.forgotten.tombstones().anywhere
    return bool(tombstones) and any(tombstones.found(text) for note in notes for text in note.texts)


def blank(store: Store, file: PendingFile) -> None:
    """Overwrite what is forgotten in a file of notes, in place; a notice says so when it cannot be written."""
    forgotten = store.crystals.forgotten
    try:
        forgotten.count(store.segments.blank(file, forgotten.tombstones().anywhere.found))
    except StorageError as error:
        store.notice(f"a note that holds what is forgotten is not learnt, but still stands there: {error}")


def forget_notes(store: Store) -> None:
    """Overwrite what is forgotten in the files of pending notes, in place."""
    if store.crystals.forgotten.tombstones().anywhere:
        for file in store.segments.pending_files():
            blank(store, file)


def _is_same_file(file: PendingFile) -> bool:
    with suppress(NotFoundError), storage_errors(file.path):
        return os.path.samestat(file.path.stat(), file.status)
    return False


def _read_on(
    store: Store, file: PendingFile, mark: list[int | str] | None, most: int
) -> tuple[list[Note], list[int | str]] | None:
    """The next notes of a file, from its last known one on, without a last line that is being written.

    None: the file is not there any more.
    """
    status = file.status
    changed = datetime.fromtimestamp(status.st_mtime, UTC)
    with suppress(NotFoundError), open_log(store.disk, file.path) as (log, _):
        end = status.st_size
        if not is_whole(log, end) and abs((utc_now() - changed).total_seconds()) < QUIET_SECONDS:
            end = end_of_lines(log, end)  # half a note is no memory
        whole = end == status.st_size
        start = file.start
        if mark is not None and mark[3] == _digest(log, int(mark[2])):
            start = max(start, int(mark[2]))
        notes: list[Note] = []
        last = start
        for placed in placed_notes(log, file.path, (start, end), changed):
            if len(notes) > most:  # one more than wanted: the last known one is read again
                whole = False
                break
            notes.append(placed.note)
            last = placed.start
        return notes, [status.st_size if whole else -1, status.st_mtime_ns, last, _digest(log, last)]
    return None


def _digest(log: BinaryIO, end: int) -> str:
    return hashlib.sha256(bytes_before(log, end, _COMPARED_BYTES)).hexdigest()
