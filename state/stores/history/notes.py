"""Notes: rows of state.db, each made once from an entry in the inbox or scratch.md, and consumed by one version.

    inbox.md, scratch.md --unread, take--> notes --consume--> consumed_in = 12
                                             │
                                             └--render--> scratch.md: exactly the pending notes

A row has no text of its own: its crystal has it. A mark says how far a file was read. It identifies the file by its
content, so that it also holds for a copy or a renamed file. An entry in two files is recognised by its digest.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from state.errors import BusyError, NotFoundError, StorageError
from state.scratch import Note, render_note
from state.secrets.policy import DEFAULT
from state.stores.database.meta import Meta
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import (
    HEAD,
    Entry,
    Log,
    Mark,
    Newest,
    NoteInbox,
    Pending,
    Piece,
    digest_before,
    digest_of,
    displaced_at,
    has_grown,
    open_log,
)

# Callers that only look at files, before there is a database, do not load SQLite.
if TYPE_CHECKING:
    import sqlite3

    from state.dream import Remark, Shown
    from state.pending import Bite, PendingCount


Answer = TypeVar("Answer")
# Pending notes are counted up to this number; of the newest ones, about this many bytes are read.
MOST_COUNTED = 1_000
NEWEST_BYTES = 256 * 1024
SOURCE = "notes"
"""The file name in the source of a note's crystal; the line number in that source is the note's row."""
# With more pending notes than this, scratch.md is rewritten only once at least as many were consumed.
_MOST_RENDERED = 2_000
_RENDERED_WITHIN = 1.0  # seconds
# In `meta`: set when notes came from another file than scratch.md, or scratch.md began anew with notes pending.
_HIDDEN = "hidden_notes"
# In `meta`: [inode, bytes] of files whose first bytes may hold a forgotten text and must be overwritten.
_WIPED = "wiped_notes"
_KEPT_ASIDE = timedelta(hours=1)
_ROWS = """SELECT n.key, n.at, n.importance, n.auto, n.replaces, n.crystal, c.text
    FROM notes n JOIN crystals c ON c.key = n.crystal"""
_KEYS = "SELECT value FROM json_each(?)"
# Drops the marks of former scratch.md files, except those with these numbers.
_DROP_NUMBERED = f"""DELETE FROM marks WHERE instr(digest, '.') > 0
    AND substr(digest, instr(digest, '.') + 1) NOT IN ({_KEYS})"""


class Notes:
    """The notes of one workspace: their rows, if there is a database, and the files that hold notes not read yet.

    A note that was appended to scratch.md by hand is read without its secrets, which `redacted` removes.
    """

    def __init__(
        self, inbox: NoteInbox, connection: "sqlite3.Connection | None", redacted: Callable[[str], str] = DEFAULT.of
    ) -> None:
        self.inbox = inbox
        self._redacted = redacted
        self._disk = inbox.disk
        self._connection = connection

    @property
    def _db(self) -> "sqlite3.Connection":
        if self._connection is None:
            raise ValueError("there is no database to write to")
        return self._connection

    # Pending notes. Nothing here takes a lock.

    def pending(self, bite: "Bite | None" = None) -> list[Pending]:
        """Return the unconsumed rows, oldest first: all, or as many as `bite` allows, but at least one."""
        return bite.of(self._rows(), lambda one: one.note) if bite else list(self._rows())

    def each_pending(self) -> Iterator[Note]:
        """Yield every unconsumed note lazily, including those that are not rows yet."""
        with self._snapshot():
            yield from (one.note for one in self._rows())
            yield from self.each_unread()

    def each_unread(self) -> Iterator[Note]:
        """Yield every note of the owner or an agent that is not a row yet."""
        seen = set[str]()
        for log, mark in self._own_logs():
            yield from (one.note for one, is_new in self._read_on(log, mark, log.size, seen) if is_new)

    def count(self, most: int = MOST_COUNTED) -> "PendingCount":
        """Count the pending notes, up to `most`."""
        from state.pending import PendingCount  # imported late: a session start does not count

        found = list(islice(self.each_pending(), most + 1))
        counted = found[:most]
        characters = sum(len(note.text) for note in counted)
        size = sum(len(note.text.encode("utf-8", "surrogatepass")) for note in counted)
        oldest = min((note.at for note in counted), default=None)
        return PendingCount(len(counted), characters, size, oldest, more=len(found) > most)

    def newest(self, most_bytes: int = NEWEST_BYTES) -> Newest:
        """Return about this many bytes of the newest pending notes, by their place in rows and files."""
        found, older, more, seen = list[Note](), list[Note](), False, set[str]()
        with self._snapshot():
            for log, mark in self._own_logs():
                begin = log.bullet_near_end(mark.end, most_bytes)
                more = more or begin > mark.end
                after = Mark(begin, start=begin) if begin > mark.end else mark
                found += [one.note for one, is_new in self._read_on(log, after, log.size, seen) if is_new]
            most_bytes -= sum(len(note.text) for note in found)
            for one in self._rows("DESC"):
                if most_bytes <= 0:
                    more = True
                    break
                most_bytes -= len(one.note.text)
                older.append(one.note)
        return Newest((*reversed(older), *found), more)

    def has(self, note: Note) -> bool:
        """Return whether this note is a row, pending or consumed, or is in a file."""
        digest = digest_of(note)
        return self._is_row(digest) or any(digest_of(one) == digest for one in self.each_unread())

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Read rows and files as of one moment, so that a note taken in meanwhile is found, and found once."""
        if self._connection is None or self._connection.in_transaction:
            yield
            return
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("COMMIT")

    def _rows(self, order: str = "ASC", wanted: str = "consumed_in IS NULL") -> Iterator[Pending]:
        if self._connection is not None:
            from state.stores.database.moments import from_text

            for row in self._connection.execute(f"{_ROWS} WHERE {wanted} ORDER BY n.key {order}"):
                note = Note(row[6], from_text(row[1]), row[2], bool(row[3]), row[4])
                yield Pending(row[0], row[5], note)

    def _is_row(self, digest: str) -> bool:
        query = "SELECT 1 FROM notes WHERE digest = ?"
        return self._connection is not None and self._connection.execute(query, (digest,)).fetchone() is not None

    # From files to rows.

    def unread(self, now: datetime, most: int, files: Iterable[Path] | None = None) -> tuple[Piece, ...]:
        """Return at most `most` notes in these files (None: all files) that are not rows yet, oldest first.

        A last line without a newline is read only if the file was quiet for a second.
        """
        pieces, seen, left = list[Piece](), set[str](), most
        for log, mark, is_strangers in self._logs_by_author(files):
            if left <= 0:
                break
            if (piece := self._piece(log, mark, now, left, seen)) is not None:
                pieces.append(piece._replace(is_strangers=is_strangers))
                left -= len(piece.notes)
        return tuple(pieces)

    def _own_logs(self) -> Iterator[tuple[Log, Mark]]:
        return ((log, mark) for log, mark, is_strangers in self._logs_by_author() if not is_strangers)

    def _logs_by_author(self, files: Iterable[Path] | None = None) -> Iterator[tuple[Log, Mark, bool]]:
        """Yield what `_logs` does, and whether new notes in the file are a stranger's: those of git, which come last.

        A former scratch.md is git's if scratch.md is: git may have written it in the instant before it was rewritten.
        While git is changing files, those of the workspace are left out.
        """
        from state.stores.disk.tracking import Tracking, tracking  # imported late: few session starts get here

        of_git, scratch = list[Path](), self.inbox.workspace.scratch
        for log, mark in self._logs(files):
            is_old = log.size <= mark.end or self.inbox.is_inbox(log.path)  # an index may take a tenth of a second
            tracked = Tracking.NO if is_old else tracking(log.path, scratch)
            if tracked is Tracking.NO:
                yield log, mark, False
            elif tracked is Tracking.YES:
                of_git.append(log.path)
        yield from ((log, mark, True) for log, mark in self._logs(of_git))

    def _logs(self, files: Iterable[Path] | None = None) -> Iterator[tuple[Log, Mark]]:
        """Open each file in turn with its mark; former scratch.md files only if they have grown since."""
        for path in self.inbox.files() if files is None else files:
            with suppress(NotFoundError):
                if files is not None or has_grown(path):
                    with open_log(self._disk, path) as log:
                        yield log, self._mark_of(log)

    def _piece(self, log: Log, before: Mark, now: datetime, most: int, seen: set[str]) -> Piece | None:
        notes, known = list[Entry](), list[str]()
        mark, last, end = before, "", log.whole(now)
        for one, is_new in self._read_on(log, before, end, seen):
            if is_new and len(notes) == most:
                break
            if is_new:
                notes.append(one)
            else:
                known.append(one.digest)
            # A known entry is another entry's row, which must not grow with this one.
            mark, last = Mark(one.end, "", one.start, one.grows), one.digest if is_new else ""
        else:
            mark = mark._replace(end=end)
        if mark.end <= before.end:
            return None
        mark = mark._replace(digest=log.digest(mark.end))
        return Piece(log.path, tuple(notes), tuple(known), last, before, mark)

    def _read_on(self, log: Log, mark: Mark, end: int, seen: set[str]) -> Iterator[tuple[Entry, bool]]:
        """Yield a file's notes after its mark, and whether each is new, that is in no row yet.

        `seen` holds the digests read from other files; those of this file are added.
        """
        for entry in log.entries(mark.start, end):
            if entry.end <= mark.end:
                continue  # the last entry read before, which has not grown
            entry = self._without_secrets(entry)  # noqa: PLW2901 - nothing else of it is read
            one = entry._replace(grows=mark.note) if entry.start < mark.end else entry
            yield one, not (one.digest in seen or self._is_row(one.digest) or self._is_row_by_text(one))
            seen.add(one.digest)

    def _without_secrets(self, entry: Entry) -> Entry:
        """Return the entry as it is stored: its digest is that of the note in the inbox and the next scratch.md."""
        text, replaces = map(self._redacted, (entry.note.text, entry.note.replaces))
        if (text, replaces) == (entry.note.text, entry.note.replaces):
            return entry
        note = entry.note._replace(text=text, replaces=replaces)
        return entry._replace(note=note, digest=digest_of(note))

    def _is_row_by_text(self, one: Entry) -> bool:
        """Return whether an unstamped note is a row by its text, because its file's time has changed meanwhile.

        An unfiled row came from the current scratch.md and may still be there when it is consumed. If the row being
        extended has the same text, only its line's newline was added.
        """
        if one.note.stamped or self._connection is None:
            return False
        query = """SELECT 1 FROM notes n JOIN crystals c ON c.key = n.crystal
            WHERE c.digest = ? AND (n.consumed_in IS NULL OR NOT n.filed OR n.key = ?)"""
        from state.crystals.crystal import Origin, crystal_digest  # imported late: session starts seldom get here

        found = self._connection.execute(query, (crystal_digest(Origin.SCRATCH, one.note.text), one.grows))
        return found.fetchone() is not None

    def next_key(self) -> int:
        """Return the row that the next new note will get."""
        return int(self._db.execute("SELECT coalesce(max(key), 0) + 1 FROM notes").fetchone()[0])

    def take(self, pieces: Sequence[Piece], crystals: Mapping[str, int]) -> None:
        """Make rows of what was read and move the marks. `crystals` maps digests to the rows of the notes' crystals.

        A note without a crystal was forgotten, or is a stranger's. Keys follow `next_key`, so call both in one
        transaction.
        """
        key, scratch = self.next_key(), self.inbox.workspace.scratch
        is_hidden = any(piece.notes for piece in pieces if piece.path != scratch)
        # A scratch.md that is read from its beginning has replaced one that showed the pending notes.
        is_begun = any(piece.path == scratch and not piece.before.end for piece in pieces)
        if is_hidden or (is_begun and next(self._rows(), None) is not None):
            Meta(self._db).put(_HIDDEN, "1")
        for piece in pieces:
            is_filed = self.inbox.is_inbox(piece.path)
            for one in piece.notes:
                if (crystal := crystals.get(one.digest)) is not None:
                    self._insert(key, one, crystal, is_filed=is_filed and one.is_filed)
                key += 1
            if is_filed:
                self._db.executemany("UPDATE notes SET filed = 1 WHERE digest = ?", [(one,) for one in piece.known])
            last = self._db.execute("SELECT key FROM notes WHERE digest = ?", (piece.last,)).fetchone()
            note = piece.mark.note if not piece.last else int(last[0]) if last else 0
            self._drop_mark(piece.before)
            self._put_marks(piece.mark._replace(note=note))

    def _insert(self, key: int, new: Entry, crystal: int, *, is_filed: bool) -> None:
        from state.stores.database.moments import to_text

        note = new.note
        said = (to_text(note.at), note.importance, note.auto, note.replaces, new.digest, crystal)
        if new.grows:
            # Its stamp may have grown too. With the same crystal, only the end of its line was added.
            grown = self._db.execute(
                "UPDATE notes SET at = ?1, importance = ?2, auto = ?3, replaces = ?4, digest = ?5, crystal = ?6"
                " WHERE key = ?7 AND (consumed_in IS NULL OR crystal = ?6) RETURNING key",
                (*said, new.grows),
            ).fetchone()
            if grown is not None:
                return
        self._db.execute(
            "INSERT OR IGNORE INTO notes (at, importance, auto, replaces, digest, crystal, key, filed)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*said, key, is_filed),
        )

    # Consumption by versions.

    def consume(self, keys: Iterable[int], version: int) -> None:
        """Mark these notes as consumed by this version, in the version's transaction."""
        query = f"UPDATE notes SET consumed_in = ? WHERE consumed_in IS NULL AND key IN ({_KEYS})"
        self._db.execute(query, (version, json.dumps(list(keys))))

    def remark(self, remarks: "Iterable[Remark]") -> None:
        """Make notes pending or consumed as a restore requires, in the version's transaction.

        The next dream shows every input from its beginning: a restore takes back what was made of it.
        """
        query = "UPDATE notes SET consumed_in = ? WHERE key = ?"
        self._db.executemany(query, [(one.after, one.note) for one in remarks])
        self._db.execute("DELETE FROM shown_inputs")

    def shown(self) -> dict[str, tuple[int, int]]:
        """Return by crystal how many characters of a long input dreams have shown, and of how many."""
        rows = self._db.execute("SELECT crystal, characters, length FROM shown_inputs")
        return {crystal: (characters, length) for crystal, characters, length in rows}

    def show(self, parts: "Iterable[Shown]", consumed: Iterable[str]) -> None:
        """Record how much of these inputs was shown, in the version's transaction; drop those that are consumed."""
        rows = [(one.crystal, one.characters, one.length) for one in parts]
        self._db.executemany("INSERT OR REPLACE INTO shown_inputs VALUES (?, ?, ?)", rows)
        self._db.execute(f"DELETE FROM shown_inputs WHERE crystal IN ({_KEYS})", (json.dumps(list(consumed)),))

    def add(self, note: Note, crystal: int) -> None:
        """Make this note pending, even if a version has consumed it. Its crystal is in this row. In a transaction."""
        from state.stores.database.moments import to_text

        self._db.execute(
            "INSERT INTO notes (key, at, importance, auto, replaces, digest, crystal, filed)"
            " VALUES (?, ?, ?, 0, '', ?, ?, 0) ON CONFLICT (digest) DO UPDATE SET consumed_in = NULL",
            (self.next_key(), to_text(note.at), note.importance, digest_of(note), crystal),
        )

    def reopen(self, keys: Iterable[int]) -> None:
        """Make these notes pending, in the version's transaction."""
        self._db.execute(f"UPDATE notes SET consumed_in = NULL WHERE key IN ({_KEYS})", (json.dumps(list(keys)),))

    def revive(self, digests: Iterable[str]) -> set[int]:
        """Make these notes pending; return the crystals' rows of those that had been consumed."""
        query = f"""UPDATE notes SET consumed_in = NULL
            WHERE consumed_in IS NOT NULL AND digest IN ({_KEYS}) RETURNING crystal"""
        return {int(row[0]) for row in self._db.execute(query, (json.dumps(list(digests)),)).fetchall()}

    def consumed_after(self, version: int) -> dict[int, int]:
        """Map the notes consumed by versions after this one to these versions."""
        query = "SELECT key, consumed_in FROM notes WHERE consumed_in > ? ORDER BY key"
        return {int(row[0]): int(row[1]) for row in self._db.execute(query, (version,))}

    def consumed_in(self, keys: Iterable[int]) -> dict[int, int | None]:
        """Map each of these notes to the version that consumed it (None: pending); missing notes are left out."""
        query = f"SELECT key, consumed_in FROM notes WHERE key IN ({_KEYS})"
        return {int(row[0]): row[1] for row in self._db.execute(query, (json.dumps(list(keys)),))}

    def of_crystals(self, ids: Iterable[str]) -> set[int]:
        """Return the rows of the notes whose text these crystals hold."""
        query = f"SELECT n.key FROM notes n JOIN crystals c ON c.key = n.crystal WHERE c.id IN ({_KEYS})"
        return {int(row[0]) for row in self._db.execute(query, (json.dumps(list(ids)),))}

    # From rows to files.

    def render(self, consumed: int) -> bool:
        """Rewrite scratch.md with the pending notes only; return whether nothing is left to do.

        `consumed` counts the notes consumed since the last time. Nothing is written while a file has unread notes, or
        while both 2,000 and `consumed` are less than the pending notes. It may be interrupted and repeated.
        """
        scratch = self.inbox.workspace.scratch
        self._disk.make_folder(scratch.parent)
        with suppress(BusyError), self._disk.locked(scratch, HEAD, _RENDERED_WITHIN):
            if any(piece.notes for piece in self.unread(datetime.now(UTC), 1)):
                return False
            waiting = int(self._db.execute("SELECT count(*) FROM notes WHERE consumed_in IS NULL").fetchone()[0])
            if waiting <= max(_MOST_RENDERED, consumed):
                self._show(scratch)
                return True
        return False  # another thread is rewriting it, or a process that was stopped while doing so

    def _show(self, scratch: Path) -> None:
        """Replace scratch.md by the pending notes; the old file is kept beside it to receive late writes."""
        from state.stores.database.connection import transaction

        rows = list(self._rows())
        self.inbox.file(one.note for one in self._known_as_filed())
        entries = [render_note(one.note).encode() for one in rows]
        content = HEAD + b"".join(entries)
        start = len(content) - len(entries[-1]) if entries else len(content)
        mark = Mark(len(content), digest_before(content), start, rows[-1].key if rows else 0)
        with open_log(self._disk, scratch) as log:
            before = self._mark_of(log)
        number = max(self.inbox.displaced(), default=0) + 1
        aside = self._disk.target(scratch).with_name(f".scratch.md.{number}.{before.end}.displaced")
        # Marked before anybody can find the files. If the swap is cut off, the numbered file holds the new text.
        numbered = [one._replace(digest=f"{one.digest}.{number}") for one in (before, mark) if one.digest]
        with transaction(self._db):
            self._db.execute("UPDATE notes SET filed = 1 WHERE NOT filed")
            self._put_marks(mark, *numbered)
        with storage_errors(scratch):
            times = scratch.stat()
            self._disk.exchange(scratch, content, aside=aside)
            os.utime(scratch, ns=(times.st_atime_ns, times.st_mtime_ns))  # rewriting must not look like a new note
        with transaction(self._db):  # the file may grow to the old bytes again, which are new then
            if before.digest != mark.digest:
                self._drop_mark(before)
            self._db.execute(_DROP_NUMBERED, (json.dumps([*map(str, self.inbox.displaced())]),))
            Meta(self._db).remove(_HIDDEN)

    def _known_as_filed(self) -> list[Pending]:
        """Return the rows in no inbox yet, each known by the digest of what the inbox will hold: without secrets."""
        from state.stores.database.connection import transaction

        rows = list(self._rows("ASC", "NOT filed"))
        known = dict(self._db.execute("SELECT key, digest FROM notes WHERE NOT filed").fetchall())
        if others := [(new, one.key) for one in rows if (new := digest_of(one.note)) != known[one.key]]:
            with transaction(self._db):
                self._db.executemany("UPDATE OR IGNORE notes SET digest = ? WHERE key = ?", others)
        return rows

    def are_hidden(self) -> bool:
        """Return whether there may be pending notes that scratch.md does not show."""
        scratch = self.inbox.workspace.scratch
        is_gone = not os.path.lexists(scratch) or not scratch.lstat().st_size
        return (is_gone or Meta(self._db).get(_HIDDEN) is not None) and next(self._rows(), None) is not None

    # Obsolete files.

    def sweep(self, now: datetime) -> int:
        """Delete former scratch.md files after an hour, once read and no longer open; return how many.

        The last one stays, because it tells a repair that scratch.md was written from state.db.
        """
        from state.stores.disk.processes import is_held_open  # late: its imports would delay session starts

        swept = 0
        for path in [*self.inbox.displaced().values()][:-1]:
            with suppress(NotFoundError, FileNotFoundError):
                is_old = path.stat().st_ctime < (now - _KEPT_ASIDE).timestamp()
                if is_old and self.is_read(path) and not is_held_open(path):
                    self._disk.remove(path)
                    swept += 1
        return swept

    def is_read(self, path: Path) -> bool:
        """Return whether everything in this file is in rows."""
        with open_log(self._disk, path) as log:
            return self._mark_of(log).end >= log.size

    def rotate(self, copy: int) -> None:
        """Begin a new inbox if all of this one is in rows; the copy with this number will include them."""
        path = self.inbox.workspace.inbox
        if path.exists() and copy not in self.inbox.rotated():
            with self._disk.locked(path, b""):  # no append is under way
                if self.is_read(path):
                    self._disk.rename(path, path.with_name(f"inbox.{copy:06d}.md"))

    def drop_covered(self, oldest: int) -> None:
        """Delete the inboxes that every kept copy of state.db includes; `oldest` is the oldest copy's number."""
        for copy, path in self.inbox.rotated().items():
            if copy <= oldest and self.is_read(path):
                self._disk.remove(path)

    # Forgetting.

    def plan_wipe(self) -> None:
        """Plan to overwrite what was read of all files, in the transaction that forgets something."""
        places, filed = list[tuple[int, int]](), list[str]()
        for log, mark in self._logs(self.inbox.files()):
            places.append((log.inode, mark.end))
            if self.inbox.is_inbox(log.path):
                filed += [one.digest for one in log.entries(0, mark.end)]
        self._db.execute(f"UPDATE notes SET filed = 0 WHERE digest IN ({_KEYS})", (json.dumps(filed),))
        Meta(self._db).put(_WIPED, json.dumps(places))

    def wipe(self) -> bool:
        """Overwrite what was planned; return whether anything was. The inbox gets what is left of its notes.

        If interrupted, it is done again.
        """
        from state.stores.database.connection import transaction

        if (planned := Meta(self._db).get(_WIPED)) is None:
            return False
        places, marks = dict[int, int](json.loads(planned)), list[Mark]()
        self.inbox.file(one.note for one in self._known_as_filed())
        for path in self.inbox.files():
            if blank := self._disk.blank(path, places):
                marks.append(Mark(len(blank), digest_before(blank, displaced_at(path)[0]), len(blank)))
        with transaction(self._db):
            self._db.execute("UPDATE notes SET filed = 1 WHERE NOT filed")
            self._put_marks(*marks)
            self.forget_marks()
            Meta(self._db).remove(_WIPED)
            Meta(self._db).put(_HIDDEN, "1")
        return True

    # Marks.

    def forget_marks(self) -> None:
        """Drop marks that match no file any more, within the caller's transaction or one of its own."""
        from state.stores.database.connection import transaction

        used = [mark for _, mark in self._logs(self.inbox.files())]
        with transaction(self._db):
            self._db.execute("DELETE FROM marks")
            self._put_marks(*used)

    def _put_marks(self, *marks: Mark) -> None:
        query = "INSERT OR REPLACE INTO marks (end, digest, start, note) VALUES (?, ?, ?, ?)"
        self._db.executemany(query, [(one.end, one.digest, one.start, one.note) for one in marks if one.end])

    def _drop_mark(self, mark: Mark) -> None:
        self._db.execute("DELETE FROM marks WHERE end = ? AND digest = ?", (mark.end, mark.digest))

    def _mark_of(self, log: Log) -> Mark:
        if (connection := self._connection) is not None:
            ends = "SELECT DISTINCT end FROM marks WHERE end <= ? ORDER BY end DESC"
            marked = "SELECT end, digest, start, note FROM marks WHERE end = ? AND digest = ?"
            for (end,) in connection.execute(ends, (log.size,)).fetchall():
                if row := connection.execute(marked, (end, log.digest(end))).fetchone():
                    return Mark(*row)
        read = min(displaced_at(log.path)[1], log.size)
        return Mark(read, "", read)


def look(workspace: Workspace, ask: Callable[[Notes], Answer], redacted: Callable[[str], str] = str) -> Answer:
    """Return the answer of `ask` to a workspace's notes; from files alone if the database cannot be read.

    It takes no lock. Whoever only counts need not redact.
    """
    if os.path.lexists(workspace.database):
        import sqlite3

        with suppress(sqlite3.Error, StorageError), notes_of(workspace, redacted) as notes:
            return ask(notes)
    return ask(Notes(NoteInbox(workspace), None, redacted))


@contextmanager
def notes_of(workspace: Workspace, redacted: Callable[[str], str] = str) -> Iterator[Notes]:
    """Open the notes of a workspace for reading, without its lock. Raise StorageError or sqlite3.Error."""
    inbox = NoteInbox(workspace)
    if not os.path.lexists(workspace.database):
        yield Notes(inbox, None, redacted)
        return
    from state.stores.database.connection import open_unmigrated

    with open_unmigrated(workspace.database) as connection:
        is_known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'notes'").fetchone()
        yield Notes(inbox, connection if is_known else None, redacted)
