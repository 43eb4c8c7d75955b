"""Notes: rows of state.db, each made once of an entry in the inbox or in scratch.md, and consumed by one version.

    inbox.md, scratch.md --unread, take--> notes --consume--> consumed_in = 12
                                             │
                                             └--render--> scratch.md: what is pending, and nothing else

A row has no text of its own: that is its crystal's. A mark says how far a file was read, by the file's content, so
that it holds for a copy, and for a file that has another name now. What stands in two files is recognised by the
digest of its entry.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from state.errors import BusyError, NotFoundError, StorageError
from state.scratch import Bite, Note, PendingCount, render_note
from state.secrets.policy import Redaction
from state.stores.database.meta import Meta
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import HEAD, NoteInbox, modified, number_of, read_before
from state.stores.history.log_file import (
    Mark,
    Piece,
    Unread,
    bytes_before,
    digest_of,
    end_of_lines,
    entry_near_end,
    is_held_open,
    is_whole,
    open_log,
    overwrite,
    placed_notes,
)

# Whoever only looks at files, before there is a database, does not load SQLite.
if TYPE_CHECKING:
    import sqlite3

    from state.dream import Remark


Answer = TypeVar("Answer")
QUIET_SECONDS = 1.0
# Beyond so many, pending notes are not counted; and of the newest ones, so many bytes are read.
MOST_COUNTED = 1_000
NEWEST_BYTES = 256 * 1024
SOURCE = "notes"
"""The file of a note's crystal, as its source names it; the line is the note's row."""
# More of them are written into scratch.md anew only when as many were consumed.
_MOST_RENDERED = 2_000
_RENDERED_WITHIN = 1.0  # seconds
# In `meta`: rows were made of what stands in another file than scratch.md, or that began anew.
_HIDDEN = "hidden_notes"
# In `meta`: of which files, by their inodes, how many bytes hold what is forgotten, perhaps, and are overwritten.
_WIPED = "wiped_notes"
# So much before the place up to which a file was read must be as it was.
_COMPARED_BYTES = 1 << 16
_KEPT_ASIDE = timedelta(hours=1)
_ROWS = """SELECT n.key, n.at, n.importance, n.auto, n.replaces, n.crystal, c.text
    FROM notes n JOIN crystals c ON c.key = n.crystal"""
_KEYS = "SELECT value FROM json_each(?)"


@dataclass(frozen=True, slots=True)
class Pending:
    """A note that no version has consumed: its row, its crystal's row, and what it says."""

    key: int
    crystal: int
    note: Note


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest pending notes, the oldest of them first; `more`: there are older ones, which were not read."""

    notes: tuple[Note, ...]
    more: bool


class Notes:
    """The notes of one workspace: their rows, if there is a database, and what stands in files beside them."""

    def __init__(self, inbox: NoteInbox, connection: "sqlite3.Connection | None") -> None:
        self.inbox = inbox
        self._disk = inbox.disk
        self._connection = connection
        self._read: dict[Path, int] = {}  # how many bytes of a former scratch.md are in rows

    @property
    def _db(self) -> "sqlite3.Connection":
        if self._connection is None:
            raise ValueError("there is no database to write to")
        return self._connection

    # What is pending. None of this takes a lock.

    def pending(self, bite: Bite | None = None) -> list[Pending]:
        """Return the rows that no version has consumed, oldest first; at most `bite`, but at least one."""
        holds = bite.counter() if bite else lambda _: True
        found = list[Pending]()
        for one in self._rows():
            if not holds(one.note):
                break
            found.append(one)
        return found

    def each_pending(self) -> Iterator[Note]:
        """Yield every note that no version has consumed, with those in no row yet; read as far as is asked for."""
        yield from (one.note for one in self._rows())
        yield from self.each_unread()

    def count(self, most: int = MOST_COUNTED) -> PendingCount:
        """Count what is pending, up to `most` notes."""
        from state.stores.database.connection import from_text

        query = f"""SELECT count(*), coalesce(sum(length(text)), 0), coalesce(sum(length(CAST(text AS BLOB))), 0),
            min(at) FROM ({_ROWS} WHERE consumed_in IS NULL ORDER BY n.key LIMIT ?)"""
        row = self._connection.execute(query, (most + 1,)).fetchone() if self._connection else (0, 0, 0, None)
        notes, characters, size, oldest = int(row[0]), int(row[1]), int(row[2]), row[3] and from_text(row[3])
        for note in self.each_unread():
            if notes >= most:
                notes += 1
                break
            notes, characters = notes + 1, characters + len(note.text)
            size += len(note.text.encode("utf-8", "surrogatepass"))
            oldest = note.at if oldest is None else min(oldest, note.at)
        return PendingCount(min(notes, most), characters, size, oldest, more=notes > most)

    def newest(self, most_bytes: int = NEWEST_BYTES) -> Newest:
        """Return the newest pending notes, by where they stand, of about so many bytes."""
        found, more = self._newest_unread(most_bytes)
        most_bytes -= sum(len(note.text) for note in found)
        older = list[Note]()
        for one in self._rows("DESC"):
            if most_bytes <= 0:
                more = True
                break
            most_bytes -= len(one.note.text)
            older.append(one.note)
        return Newest((*reversed(older), *found), more)

    def _rows(self, order: str = "ASC", wanted: str = "consumed_in IS NULL") -> Iterator[Pending]:
        if self._connection is not None:
            from state.stores.database.connection import from_text

            for row in self._connection.execute(f"{_ROWS} WHERE {wanted} ORDER BY n.key {order}"):
                note = Note(row[6], from_text(row[1]), row[2], bool(row[3]), row[4])
                yield Pending(row[0], row[5], note)

    def each_unread(self) -> Iterator[Note]:
        """Yield every note that is in no row yet."""
        seen = set[str]()
        for path in self._files():
            for one, _ in self._read_on(path, None, seen):
                yield one.note

    def _newest_unread(self, most_bytes: int) -> tuple[list[Note], bool]:
        """Return the newest notes that are in no row yet, of so many bytes of each file, and whether others are."""
        found, more, seen = list[Note](), False, set[str]()
        for path in self._files():
            with suppress(NotFoundError), open_log(self._disk, path) as (file, status):
                mark = self._mark_of(path, file, status.st_size)
                begin = entry_near_end(file, mark.end, status.st_size, most_bytes)
                if begin == mark.end:
                    found += [one.note for one, _ in self._read_on(path, None, seen)]
                    continue
                more = True
                placed = placed_notes(file, path, (begin, status.st_size), modified(status))
                notes = [one.note for one in placed]
                known = self._known([digest_of(note) for note in notes]) | seen
                found += [note for note in notes if digest_of(note) not in known and not self._is_said(note, 0)]
                seen |= {digest_of(note) for note in notes}
        return found, more

    # From files into rows.

    def unread(self, now: datetime, most: int, files: Iterable[Path] | None = None) -> tuple[Piece, ...]:
        """Return what stands in the files (None: in all) and in no row yet, at most `most` notes, oldest first.

        A last line without its newline counts only when the file has been quiet for a second.
        """
        pieces, seen, left = list[Piece](), set[str](), most
        for path in self._files() if files is None else files:
            if left <= 0:
                break
            if (piece := self._piece(path, now, left, seen)) is not None:
                pieces.append(piece)
                left -= len(piece.notes)
        return tuple(pieces)

    def _files(self) -> Iterator[Path]:
        """Yield the files to be read: of the former scratch.md those that have grown since they were."""
        for path in self.inbox.files():
            with suppress(FileNotFoundError):
                if not number_of(path) or path.stat().st_size > self._read.get(path, read_before(path)):
                    yield path

    def _piece(self, path: Path, now: datetime, most: int, seen: set[str]) -> Piece | None:
        with suppress(NotFoundError), open_log(self._disk, path) as (file, status):
            before = self._mark_of(path, file, status.st_size)
            upto = _end(file, status, now)
            notes, known = list[Unread](), list[str]()
            start, last, end = before.start, "", upto
            for one, place in self._read_on(path, upto, seen, known, before):
                if len(notes) == most:
                    seen.discard(one.digest)
                    end = place[2]
                    break
                notes.append(one)
                start, last = place[0], one.digest
            if end <= before.end:
                self._read[path] = before.end
                return None
            mark = Mark(end, _digest(bytes_before(file, end, _COMPARED_BYTES), path), start, before.note)
            return Piece(path, tuple(notes), tuple(known), last, before, mark)
        return None

    def _read_on(
        self,
        path: Path,
        upto: int | None,
        seen: set[str],
        known: list[str] | None = None,
        mark: Mark | None = None,
    ) -> Iterator[tuple[Unread, tuple[int, int, int]]]:
        """Yield a file's notes that are in no row yet, each with its first byte, the one after, and the one before.

        `seen` are the digests of those that another file had, to which these are added.
        """
        with suppress(NotFoundError), open_log(self._disk, path) as (file, status):
            mark = mark or self._mark_of(path, file, status.st_size)
            end = status.st_size if upto is None else upto
            behind = mark.end
            for placed in placed_notes(file, path, (mark.start, end), modified(status)):
                if placed.end <= mark.end:
                    continue  # the last one that was read, which has not grown
                digest, grows = digest_of(placed.note), mark.note if placed.start < mark.end else 0
                if digest in seen or self._known([digest]) or self._is_said(placed.note, grows):
                    if known is not None:
                        known.append(digest)
                else:
                    seen.add(digest)
                    yield Unread(placed.note, digest, grows), (placed.start, placed.end, behind)
                behind = placed.end

    def has(self, note: Note) -> bool:
        """Return whether this note is a row, pending or consumed, or stands in a file."""
        digest = digest_of(note)
        return bool(self._known([digest])) or any(digest_of(one) == digest for one in self.each_unread())

    def next_key(self) -> int:
        """Return the row that the next new note will have."""
        return int(self._db.execute("SELECT coalesce(max(key), 0) + 1 FROM notes").fetchone()[0])

    def take(self, pieces: Sequence[Piece], crystals: Mapping[str, int]) -> None:
        """Make rows of what was read, and mark how far: `crystals` are the rows of their crystals, by the digests.

        A note without one was forgotten. In the caller's transaction, in which the keys are as `next_key` has them.
        """
        key, scratch = self.next_key(), self.inbox.workspace.scratch
        is_hidden = any(piece.notes for piece in pieces if piece.path != scratch)
        # A scratch.md that begins anew took the place of one that had these.
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
            self._put_mark(replace(piece.mark, note=note), piece.before)

    def _insert(self, key: int, new: Unread, crystal: int, *, is_filed: bool) -> None:
        from state.stores.database.connection import to_text

        note = new.note
        if new.grows:
            # Its stamp may have grown too. Of the same crystal, only its end of line came.
            grown = self._db.execute(
                "UPDATE notes SET at = ?1, importance = ?2, auto = ?3, replaces = ?4, digest = ?5, crystal = ?6"
                " WHERE key = ?7 AND (consumed_in IS NULL OR crystal = ?6) RETURNING key",
                (to_text(note.at), note.importance, note.auto, note.replaces, new.digest, crystal, new.grows),
            ).fetchone()
            if grown is not None:
                return
        # A file that was changed by hand is read again from its beginning: what has no stamp is known by its text.
        # What is not filed came from the scratch.md that there is, and may still stand there when it is consumed.
        query = "SELECT 1 FROM notes WHERE crystal = ? AND (consumed_in IS NULL OR NOT filed)"
        if not note.stamped and self._db.execute(query, (crystal,)).fetchone():
            return
        self._db.execute(
            "INSERT OR IGNORE INTO notes (key, at, importance, auto, replaces, digest, crystal, filed)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (key, to_text(note.at), note.importance, note.auto, note.replaces, new.digest, crystal, is_filed),
        )

    # What versions consume.

    def consume(self, keys: Iterable[int], version: int) -> None:
        """Note that this version has taken in these notes. In the transaction of the version."""
        query = f"UPDATE notes SET consumed_in = ? WHERE consumed_in IS NULL AND key IN ({_KEYS})"
        self._db.execute(query, (version, json.dumps(list(keys))))

    def remark(self, remarks: "Iterable[Remark]") -> None:
        """Make notes pending, or consumed, as a restore says. In the transaction of the version."""
        self._db.executemany(
            "UPDATE notes SET consumed_in = ? WHERE key = ?", [(one.after, one.note) for one in remarks]
        )

    def say_again(self, note: Note, redaction: Redaction) -> None:
        """Have this note pending, also if it is one that a version has consumed."""
        stored = replace(note, text=redaction.of(note.text))
        query = "UPDATE notes SET consumed_in = NULL WHERE digest = ? RETURNING key"
        if self._db.execute(query, (digest_of(stored),)).fetchone() is None:
            self.inbox.append(note, redaction)

    def revive(self, digests: Iterable[str]) -> set[int]:
        """Have these notes pending, and return the rows of the crystals of those that were consumed."""
        query = f"""UPDATE notes SET consumed_in = NULL
            WHERE consumed_in IS NOT NULL AND digest IN ({_KEYS}) RETURNING crystal"""
        return {int(row[0]) for row in self._db.execute(query, (json.dumps(list(digests)),)).fetchall()}

    def consumed_after(self, version: int) -> dict[int, int]:
        """Return the notes that later versions than this one have consumed, and which."""
        rows = self._db.execute("SELECT key, consumed_in FROM notes WHERE consumed_in > ? ORDER BY key", (version,))
        return {int(row[0]): int(row[1]) for row in rows}

    def consumed_in(self, keys: Iterable[int]) -> dict[int, int | None]:
        """Return which version consumed each of these notes (None: it is pending), without those that are gone."""
        rows = self._db.execute(
            f"SELECT key, consumed_in FROM notes WHERE key IN ({_KEYS})", (json.dumps(list(keys)),)
        )
        return {int(row[0]): row[1] for row in rows}

    # From rows into files.

    def render(self, consumed: int) -> bool:
        """Write scratch.md anew, with what is pending alone, and return whether there is nothing left to do.

        `consumed`: how many notes were since it was done. It waits while there is something that was not read yet,
        and, of very many notes, until as many were consumed. May be cut off anywhere and repeated.
        """
        scratch = self.inbox.workspace.scratch
        self._disk.make_folder(scratch.parent)
        with suppress(BusyError), self._disk.locked(scratch, HEAD, _RENDERED_WITHIN):
            return self._rendered(scratch, consumed)
        return False  # another thread does the same, or a process that was stopped in the middle of it

    def _rendered(self, scratch: Path, consumed: int) -> bool:
        from state.stores.database.connection import transaction

        pieces = (self._piece(path, datetime.now(UTC), 1, set()) for path in self._files())
        if any(piece.notes for piece in pieces if piece):
            return False
        waiting = int(self._db.execute("SELECT count(*) FROM notes WHERE consumed_in IS NULL").fetchone()[0])
        if waiting > max(_MOST_RENDERED, consumed):
            return False
        rows = list(self._rows())
        self.inbox.file(one.note for one in self._known_as_filed())
        entries = [render_note(one.note).encode() for one in rows]
        content = HEAD + b"".join(entries)
        start = len(content) - len(entries[-1]) if entries else len(content)
        mark = Mark(len(content), _digest(content), start, rows[-1].key if rows else 0)
        number, before = self.inbox.next_number(), self._mark(scratch)
        with transaction(self._db):  # known before anybody can find it
            self._db.execute("UPDATE notes SET filed = 1 WHERE NOT filed")
            self._put_mark(mark)
            for one in (before, mark):  # the new text, if the swap is cut off
                if one.digest:
                    self._put_mark(replace(one, digest=f"{one.digest}.{number}"))
        self.inbox.show_anew(content, before.end, number)
        with transaction(self._db):  # what is appended from now on may be what stood there before, and is new
            if before.digest != mark.digest:
                self._db.execute("DELETE FROM marks WHERE end = ? AND digest = ?", (before.end, before.digest))
            Meta(self._db).remove(_HIDDEN)
        return True

    def _known_as_filed(self) -> list[Pending]:
        """Return the rows that no inbox has yet, each known by what will stand there: a secret is left out of it."""
        from state.stores.database.connection import transaction

        rows = list(self._rows("ASC", "NOT filed"))
        known = dict(self._db.execute("SELECT key, digest FROM notes WHERE NOT filed").fetchall())
        if others := [(new, one.key) for one in rows if (new := digest_of(one.note)) != known[one.key]]:
            with transaction(self._db):
                self._db.executemany("UPDATE OR IGNORE notes SET digest = ? WHERE key = ?", others)
        return rows

    def are_hidden(self) -> bool:
        """Return whether notes are pending that scratch.md does not show, or may not."""
        scratch = self.inbox.workspace.scratch
        is_gone = not os.path.lexists(scratch) or not scratch.lstat().st_size
        return (is_gone or Meta(self._db).get(_HIDDEN) is not None) and next(self._rows(), None) is not None

    def sweep(self, now: datetime) -> int:
        """Delete what was scratch.md an hour ago and more, once it is read and nobody can write into it; how many.

        The last one stays: it tells a repair that scratch.md was written from state.db.
        """
        swept = 0
        for path in [*self.inbox.displaced().values()][:-1]:
            with suppress(NotFoundError, FileNotFoundError):
                is_old = path.stat().st_ctime < (now - _KEPT_ASIDE).timestamp()
                if is_old and self.is_read(path) and not is_held_open(path):
                    self._disk.remove(path)
                    swept += 1
        return swept

    def is_read(self, path: Path) -> bool:
        """Return whether all that stands in this file is in rows."""
        return self.read_upto(path) >= path.stat().st_size

    def read_upto(self, path: Path) -> int:
        """Return how many bytes of this file were read."""
        return self._mark(path).end

    def rotate(self, copy: int) -> None:
        """Begin a new inbox if all of this one is in rows: the copy of this number will have it."""
        path = self.inbox.workspace.inbox
        if path.exists() and copy not in self.inbox.rotated():
            with self._disk.locked(path, b""):  # nobody is in the middle of an append
                if self.is_read(path):
                    self._disk.rename(path, path.with_name(f"inbox.{copy:06d}.md"))

    def drop_covered(self, oldest: int) -> None:
        """Delete the inboxes that every kept copy of state.db has; the oldest of these has this number."""
        for copy, path in self.inbox.rotated().items():
            if copy <= oldest and self.is_read(path):
                self._disk.remove(path)

    # What is forgotten.

    def plan_wipe(self) -> None:
        """Write down that what was read of all files is to be overwritten. In the transaction that forgets it."""
        places, filed = list[tuple[int, int]](), list[str]()
        for path in self.inbox.files():
            with suppress(NotFoundError), open_log(self._disk, path) as (file, status):
                read = self._mark_of(path, file, status.st_size).end
                places.append((status.st_ino, read))
                if self.inbox.is_inbox(path):
                    filed += [digest_of(one.note) for one in placed_notes(file, path, (0, read), modified(status))]
        self._db.execute(f"UPDATE notes SET filed = 0 WHERE digest IN ({_KEYS})", (json.dumps(filed),))
        Meta(self._db).put(_WIPED, json.dumps(places))

    def wipe(self) -> bool:
        """Overwrite what is planned to be, and return whether anything was; the inbox gets what is left of its notes.

        Cut off, it is done again.
        """
        from state.stores.database.connection import transaction

        if (planned := Meta(self._db).get(_WIPED)) is None:
            return False
        places, marks = dict[int, int](json.loads(planned)), list[Mark]()
        self.inbox.file(one.note for one in self._known_as_filed())
        for path in self.inbox.files():
            with storage_errors(path):
                inode = path.stat().st_ino
            if blank := overwrite(self._disk, path, inode, places.get(inode, 0)):
                marks.append(Mark(len(blank), _digest(blank, path), len(blank)))
        with transaction(self._db):
            self._db.execute("UPDATE notes SET filed = 1 WHERE NOT filed")
            for mark in marks:
                self._put_mark(mark)
            self.forget_marks()
            Meta(self._db).remove(_WIPED)
            Meta(self._db).put(_HIDDEN, "1")
        return True

    # Marks.

    def forget_marks(self) -> None:
        """Drop the marks of what stands in no file any more. In a transaction of the caller's, or one of its own."""
        from state.stores.database.connection import transaction

        used = list[Mark]()
        for path in self.inbox.files():
            with suppress(NotFoundError), open_log(self._disk, path) as (file, status):
                used.append(self._mark_of(path, file, status.st_size))
        with transaction(self._db):
            self._db.execute("DELETE FROM marks")
            for mark in used:
                self._put_mark(mark)

    def _put_mark(self, mark: Mark, before: Mark | None = None) -> None:
        if before is not None and before.end:
            self._db.execute("DELETE FROM marks WHERE end = ? AND digest = ?", (before.end, before.digest))
        if mark.end:
            self._db.execute(
                "INSERT OR REPLACE INTO marks (end, digest, start, note) VALUES (?, ?, ?, ?)",
                (mark.end, mark.digest, mark.start, mark.note),
            )

    def _mark(self, path: Path) -> Mark:
        with open_log(self._disk, path) as (file, status):
            return self._mark_of(path, file, status.st_size)

    def _mark_of(self, path: Path, file: BinaryIO, size: int) -> Mark:
        if self._connection is not None:
            rows = self._connection.execute(
                "SELECT * FROM marks WHERE end <= ? ORDER BY end DESC", (size,)
            ).fetchall()
            for row in rows:
                if _digest(bytes_before(file, row["end"], _COMPARED_BYTES), path) == row["digest"]:
                    return Mark(row["end"], row["digest"], row["start"], row["note"])
        read = min(read_before(path), size)
        return Mark(read, "", read)

    def _is_said(self, note: Note, grows: int) -> bool:
        """Return whether a note without a stamp is in a row by its text: its file's time is another one by now.

        What is not filed came from the scratch.md that there is, and may still stand there when it is consumed. Of
        the row `grows` only the end of its line has come.
        """
        if note.stamped or self._connection is None:
            return False
        from state.crystals.crystal import Origin, crystal_digest  # a session start seldom gets here

        query = """SELECT 1 FROM notes n JOIN crystals c ON c.key = n.crystal
            WHERE c.digest = ? AND (n.consumed_in IS NULL OR NOT n.filed OR n.key = ?)"""
        found = self._connection.execute(query, (crystal_digest(Origin.SCRATCH, note.text), grows))
        return found.fetchone() is not None

    def _known(self, digests: Sequence[str]) -> set[str]:
        if self._connection is None:
            return set()
        query = f"SELECT digest FROM notes WHERE digest IN ({_KEYS})"
        return {row[0] for row in self._connection.execute(query, (json.dumps(digests),))}


def look(workspace: Workspace, ask: Callable[[Notes], Answer], mode: str = "ro") -> Answer:
    """Return what somebody asks of a workspace's notes; from files alone where the database cannot be read.

    It takes no lock.
    """
    if os.path.lexists(workspace.database):
        import sqlite3

        with suppress(sqlite3.Error, StorageError), notes_of(workspace, mode) as notes:
            return ask(notes)
    return ask(Notes(NoteInbox(workspace), None))


@contextmanager
def notes_of(workspace: Workspace, mode: str = "ro") -> Iterator[Notes]:
    """Open the notes of a workspace for reading, without its lock. Raises StorageError, sqlite3.Error.

    With the mode "rw" the files beside a database that nobody else has open go afterwards.
    """
    inbox = NoteInbox(workspace)
    if not os.path.lexists(workspace.database):
        yield Notes(inbox, None)
        return
    from state.stores.database.connection import open_unmigrated

    with open_unmigrated(workspace.database, mode) as connection:
        is_known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'notes'").fetchone()
        yield Notes(inbox, connection if is_known else None)


def shown_in(inbox: NoteInbox) -> tuple[Note, ...] | None:
    """Return the notes that stand in scratch.md; None without one."""
    with suppress(NotFoundError), open_log(inbox.disk, inbox.workspace.scratch) as (file, status):
        placed = placed_notes(file, inbox.workspace.scratch, (0, status.st_size), modified(status))
        return tuple(one.note for one in placed)
    return None


def _end(file: BinaryIO, status: os.stat_result, now: datetime) -> int:
    """Return how far a log may be read: not to a last line that is being written."""
    quiet = abs(now.timestamp() - status.st_mtime) >= QUIET_SECONDS
    return status.st_size if quiet or is_whole(file, status.st_size) else end_of_lines(file, status.st_size)


def _digest(content: bytes, path: Path | None = None) -> str:
    """Return the digest of the end of what was read of a file; of a former scratch.md, with its number."""
    digest = hashlib.sha256(content[-_COMPARED_BYTES:]).hexdigest()
    return f"{digest}.{number}" if path and (number := number_of(path)) else digest
