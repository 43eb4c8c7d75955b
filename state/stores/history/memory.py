"""Memory: the versions of MEMORY.md in state.db, and the file, which follows them.

A commit is one transaction: the version with its text and lines, the input it consumes, and the text wanted in the
file. `reconcile` then brings the file there, after every commit and at every opening, so it is also the recovery.

    document: rendered  the last known text of the file   swap  the number of the file's next swap:
              wanted    the text that it is to have             .MEMORY.md.<swap>.displaced has the replaced text
              edits     how the one becomes the other

What a person saved, even in the instant of the swap, first becomes a version of theirs; then our edits are applied to
their text. The swap's number says whether it was done: files beside MEMORY.md with other numbers are settled.
"""

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from state.changes.change import CurrentLine, numbered
from state.changes.owner import IMPORTANCE, is_unwanted, lines_in, owners_text, restored_text
from state.changes.page import Page
from state.codec import decode
from state.document.document import parse
from state.document.merge import difference, is_conflicted, merged, working
from state.dream import (
    EDIT,
    HUMAN,
    MERGED,
    REPAIRED,
    RESTORE,
    REVIEW,
    UNDO,
    Dream,
    with_ids,
    with_lines,
    with_wrong_wordings,
    without_changes,
)
from state.errors import ConflictError, DocumentError, FencedError, NotFoundError, StorageError
from state.reading import READING
from state.scratch import Note
from state.secrets.policy import DEFAULT, Redaction
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.hormones import Questions
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import transaction
from state.stores.database.meta import Meta
from state.stores.database.moments import from_text
from state.stores.database.table import unpacked
from state.stores.database.tables import Document
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.history.lineage import Lineage
from state.stores.history.notes import Notes
from state.stores.history.proposals import Proposals
from state.stores.history.wordings import with_wordings
from state.trust import Trust

_SWAPS = 8
_ASIDE = re.compile(r"\.MEMORY\.md\.(?:[0-9]+\.)?displaced")
# In `meta`: how many notes the last dream left for the next one, as far as it counted.
NOTES_LEFT = "notes_left"
SESSION_ENDED = "session_ended"
"""In `meta`: when the session ended for which a dream is due."""
_REPAIRED_IMPORTANCE = 0.7
# A value of `consumed` that has scratch.md rewritten however many notes are pending.
_EVERY_NOTE = 1 << 40
_HISTORY = "'dreamd history' lists them"


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What a person's save led to: problems that look like accidents, and the number of lines it unforgot."""

    problems: tuple[str, ...] = ()
    unforgotten: int = 0


class Memory:
    """The committed versions of one workspace. `check` raises when this process no longer owns it."""

    def __init__(
        self,
        workspace: Workspace,
        disk: Disk,
        crystals: Crystals,
        lineage: Lineage,
        notes: Notes,
        check: Callable[[], None],
        redaction: Redaction = DEFAULT,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self._path = workspace.document
        self._now = now
        self.disk = disk
        self._crystals = crystals
        self._lineage = lineage
        self._notes = notes
        self.check = check
        self._redaction = redaction
        self._connection = crystals.connection
        self.alone: AbstractContextManager[object] = nullcontext()
        """Held while state.db and the file change together; a backup of both holds it too."""
        self.is_checkout: Callable[[], bool] = lambda: False
        """Returns whether the file has the text of an earlier version, which is no person's edit."""
        self.is_forgetting: Callable[[], bool] = lambda: False
        """Returns whether a forgetting is unfinished."""

    # Versions.

    def version(self, number: int) -> Dream:
        """Return a version with its text and the text before it. Raise NotFoundError."""
        row = self._connection.execute(
            "SELECT at, cause, dream, reason, text, record FROM versions WHERE number = ? AND number > 0", (number,)
        ).fetchone()
        text = unpacked(row["text"]) if row else ""
        if not text:
            raise NotFoundError(f"there is no version {number}", _HISTORY)
        before = self._lineage.text(number - 1)
        if not row["record"]:
            now = datetime.fromtimestamp(0, UTC)
            blocks = parse(before).lines()
            lines = [CurrentLine("", name, one.text, IMPORTANCE, Trust.OWNER, now) for name, one in blocks]
            changes = owners_text(lines, text, now).changes  # without a record, only the texts are known
            at, said = from_text(row["at"]), (row["cause"], row["reason"])
            return Dream(number, row["dream"], at, *said, before, text, "", changes)
        return replace(decode(Dream, unpacked(row["record"]), f"version {number}"), before=before, after=text)

    def readable_version(self, number: int) -> Dream | None:
        """Return a version; None if there is none, or if its record cannot be read, which 'dreamd doctor' reports."""
        with suppress(NotFoundError, StorageError):
            return self.version(number)
        return None

    def text(self, number: int) -> str:
        """Return MEMORY.md as of this version; version 0 is from before dreamd. Raise NotFoundError."""
        if not (text := self._lineage.text(number)) and number:
            raise NotFoundError(f"there is no version {number}", _HISTORY)
        return text

    # The commit.

    def commit(self, dream: Dream) -> Dream:
        """Commit a dream, and return the result: `joined` is set if a person changed MEMORY.md meanwhile.

        What they saved is a version of theirs, before this one or after it. Committing a dream that is a version
        already changes nothing. Raise FencedError if another version was made since this dream read, and
        ConflictError as `_joined` does.
        """
        with self.alone:
            self.reconcile()
            with transaction(self._connection):
                self.check()
                number = self._lineage.version_of(dream.id)
                if number is None:
                    dream = self._insert(dream)
                    number = dream.number
            try:
                self.reconcile()
            except (StorageError, NotFoundError):
                self.check()  # if a new owner caused this by cleaning up, its FencedError explains it better
                raise
        text, done = self._document().wanted, self.version(number)
        return replace(done, after=text, joined=dream.joined or text != done.after, crystals=dream.crystals)

    def _insert(self, dream: Dream) -> Dream:
        """Write a dream to every table, in a transaction."""
        if self._lineage.is_overtaken(dream.number):
            raise FencedError(
                f"version {dream.number} was committed by another process while this dream ran",
                "nothing was consumed, run 'dreamd dream' again",
            )
        standing = self._lineage.standing()[0]
        if standing < dream.number and (standing or not self._lineage.has(0)):
            self._keep_by_owner(dream.before)
        named = (*dream.came, *(line for line, _ in dream.left if line.above))
        if self._lineage.text(self._lineage.standing()[0]) != dream.before or self._lineage.knows(named):
            dream = self._joined(dream)
        new, row = self._record(replace(dream, number=self._lineage.last_version() + 1)), self._document()
        if row.rendered == row.wanted:
            rendered, edits = dream.before, new.edits
        else:  # the file still lacks changes of earlier versions
            rendered, edits = row.rendered, difference(row.rendered, new.after)
        every = new.remarks or new.corrected or new.uncorrected
        consumed = _EVERY_NOTE if every else row.consumed + len(new.taken)
        wanted = replace(row, rendered=rendered, wanted=new.after, edits=edits)
        self._put_document(replace(wanted, version=new.number, consumed=consumed))
        return new

    def _joined(self, dream: Dream) -> Dream:
        """Merge what the owner saved since the dream read into the dream: their changes win.

        Input whose changes are dropped is pending again. Raise ConflictError if an owner's own change would be
        dropped, and for a restore, which brings back more than lines.
        """
        text = self._lineage.text(self._lineage.standing()[0])
        document, lines = working(text), self._lineage.current_lines()
        beside = {(one.text, one.pinned) for part in document.parts if part.name is None for one in part.lines}
        old = [line for line, _ in dream.left if line.above and (line.text, line.pinned) in beside]
        above = (replace(line, id=f"T{number}") for number, line in enumerate(old))
        page = Page(text, (*lines_in(document, lines), *above), self._lineage.next_line())
        is_owners = dream.cause in (RESTORE, REVIEW, UNDO, EDIT)
        deleted, by_hand = () if is_owners else self._lineage.tombstones(), self._lineage.handwritten()
        own = [line.text for line in lines if line.id in by_hand]
        ids, gave_way = page.replay(dream.changes, lambda text: is_unwanted(text, deleted, own))
        if is_owners and (gave_way or dream.cause == RESTORE):
            raise ConflictError("MEMORY.md was saved meanwhile, and its lines are not what they were", "try it again")
        left = without_changes(dream, gave_way, "its owner changed MEMORY.md there meanwhile")
        again = set(dream.dreamt) - set(left.dreamt)
        first, notes = min(self._crystals.keys(again).values(), default=0), self._notes.of_crystals(again)
        taken = tuple(row for row in dream.taken if row not in notes)
        left = replace(left, taken=taken, notes=len(taken), waiting=dream.waiting + len(dream.taken) - len(taken))
        if first:  # it is news again, too
            left = replace(left, newest=min(dream.newest, first - 1))
        made = replace(left, before=text, after=page.text(dream.at, dream.mood), changes=tuple(page.changes))
        return replace(with_lines(made, ids), joined=True)

    def _record(self, dream: Dream) -> Dream:
        """Write a version with all its effects on the memory, in a transaction.

        Return it with the crystals of the lines that left.
        """
        new = self._learnt(with_wordings(dream, self._crystals, self._lineage, self._redaction))
        new = with_wrong_wordings(new)
        if new.cause == RESTORE:
            self._crystals.undream(new.dreamt)
            self._crystals.mark_dreamt(new.redreamt, new.number)
            self._notes.remark(new.remarks)
        else:
            self._notes.consume(new.taken, new.number)
            self._notes.show(new.shown, new.dreamt)
            self._crystals.mark_dreamt(new.dreamt, new.number, new.newest)
        if new.cause not in (HUMAN, MERGED, REPAIRED):
            Meta(self._connection).put(NOTES_LEFT, str(new.waiting))
        if new.cause == "dream":
            Meta(self._connection).put(READING, new.reading.encoded())
        self._lineage.record(new)
        Supersessions(self._crystals).learn(new)
        self._correct(new)
        proposals = Proposals(self._connection)
        proposals.answer(new.answers)
        proposals.add(new.id, new.proposed, new.at)
        return new

    def _correct(self, dream: Dream) -> None:
        """Carry out beside the lines what is called wrong, or what is taken back of it, in a transaction."""
        questions = Questions(self._connection)
        for one in dream.corrected:
            self._notes.consume(one.taken, dream.number)
            for crystal in self._crystals.get(one.noted):
                note = Note(crystal.text, crystal.created_at, crystal.importance)
                self._notes.add(note, self._crystals.keys([crystal.id])[crystal.id])
            questions.close(one.questions)
        for one in dream.uncorrected:
            self._notes.consume(self._notes.of_crystals(one.noted), dream.number)
            self._notes.reopen(one.taken)
            questions.reopen(one.questions)

    # A person's edits.

    def take_in(self) -> "TakenIn":
        """Make a version of what a person saved in MEMORY.md."""
        with self.alone:
            self.reconcile()
            row, found = self._document(), self._found()
            is_theirs = row.rendered == row.wanted and found.strip() and not is_conflicted(found)
            if not is_theirs or self.is_checkout():
                return TakenIn()
            with transaction(self._connection):
                self.check()
                taken = self._keep_by_owner(found)
                if found != row.wanted:
                    self._put_document(replace(self._document(), rendered=found, wanted=found, edits=()))
            return taken

    def _keep_by_owner(self, text: str, seen: str | None = None, cause: str = HUMAN) -> "TakenIn":
        """Record a text as its owner's version, in a transaction, unless it is the current text.

        Before the first dream it is version 0. Forgotten text that its owner writes may be learnt again.
        """
        standing = self._lineage.standing()[0]
        now, before = self._now(), self._lineage.text(standing)
        if text == before and (standing or self._lineage.has(0)):
            return TakenIn()
        lines, unwanted = self._lineage.current_lines(), self._lineage.tombstones()
        said = owners_text(lines, text, now, seen=seen, unwanted=unwanted)
        number = self._lineage.last_version() + 1 if standing else 0
        changes = numbered(said.changes, self._lineage.next_line())
        left = Dream(number, "", now, cause, "", before, text, "", changes, problems=said.problems)
        unforgotten = self._unforget(before, text)
        self._record(replace(left, tombstones=said.deleted, lifted_tombstones=said.lifted))
        return TakenIn(said.problems, unforgotten)

    def _unforget(self, before: str, text: str) -> int:
        """Unforget what the owner wrote, inside or outside the sections; return how many lines held forgotten text.

        While a forgetting is unfinished, nothing is unforgotten: the line may be one that is still to be erased.
        """
        forgotten = self._crystals.forgotten
        if not forgotten.tombstones() or self.is_forgetting():
            return 0
        known = {block.key for part in parse(before).parts for block in part.lines}
        written = [block for part in parse(text).parts for block in part.lines if block.key not in known]
        return sum(forgotten.unblock(block.text) for block in written)

    def _learnt(self, dream: Dream) -> Dream:
        """Store the crystals of a dream; return it with the ids that they have in the store."""
        stored = zip(dream.crystals, self._crystals.learn(dream.crystals), strict=True)
        return with_ids(dream, {made.id: one.crystal.id for made, one in stored if made.id != one.crystal.id})

    def consume(self, dream: Dream) -> Dream:
        """Consume the input of a dream that changes nothing and makes no version; return it with the last number."""
        with self.alone:
            last = self._lineage.last_version()
            with transaction(self._connection):
                self.check()
                dream = self._learnt(dream)
                self._crystals.mark_dreamt(dream.dreamt, last, dream.newest)
                self._notes.consume(dream.taken, last)
                self._notes.show(dream.shown, dream.dreamt)
                Meta(self._connection).put(NOTES_LEFT, str(dream.waiting))
                row = self._document()
                self._put_document(replace(row, consumed=row.consumed + len(dream.taken)))
            self.reconcile()
        return replace(dream, number=last, after=dream.before)

    def adopt(self) -> bool:
        """Make the current file a version that is nobody's edit, after state.db was restored from an older copy.

        Who wrote its new lines, and why the others left, is unknown.
        """
        if not (found := self._found()).strip():
            return False
        with transaction(self._connection):
            if is_new := found != self._lineage.text(self._lineage.standing()[0]):
                lines, now = self._lineage.current_lines(), self._now()
                changes = restored_text(lines, found, now, _repaired)
                changes = numbered(changes, self._lineage.next_line())
                number = self._lineage.last_version() + 1
                # The crystals of its new lines may be lost with the database; a search finds them by new ones.
                self._record(Dream(number, "", now, REPAIRED, "", "", found, "", changes))
            self._put_document(replace(self._document(), rendered=found, wanted=found, edits=()))
        return is_new

    # The file.

    def recover(self) -> bool:
        """Finish a commit that was cut off; return whether anything was left to do."""
        with self.alone:
            return self.reconcile()

    def reconcile(self) -> bool:
        """Bring the file to the text that state.db wants; return whether it differed. It may be cut off and repeated.

        Raise DocumentError if the file to be written is not text, or keeps changing.
        """
        done, swaps = False, 0
        while True:
            row = self._document()
            if (past := self._aside(row.swap - 1)).exists():
                self.disk.remove(past)  # settled, because its number is past
            aside = self.disk.read_optional(self._aside(row.swap))
            found = self.disk.read_optional(self._path)
            if aside is not None and aside != row.wanted.encode() and aside != found:
                self._settle(row, decode_document(aside, self._aside(row.swap)))
                continue
            if aside is not None:  # the swap was not done
                self.disk.remove(self._aside(row.swap))
            is_blank = found is None or not found.strip()
            if found == row.wanted.encode() or (is_blank and not row.wanted):
                if row.rendered != row.wanted:
                    self._update(replace(row, rendered=row.wanted, edits=()))
                break
            is_saved = not is_blank and found != row.rendered.encode()
            # The next commit takes in a person's edit; a conflict, or an earlier version, is resolved there first.
            is_left = row.rendered == row.wanted or _has_new_conflict(found, row)
            if not is_blank and (is_left or (is_saved and self.is_checkout())):
                break
            done = True
            if found is not None and is_saved:
                theirs = decode_document(found, self._path)
                with transaction(self._connection):
                    self.check()
                    self._put_document(replace(row, rendered=theirs, wanted=self._merged(row, theirs)))
                continue
            if swaps == _SWAPS:
                raise DocumentError(
                    f"{self._path} changed {_SWAPS} times while it was written", "stop what writes it and dream again"
                )
            swaps += 1
            self.check()
            taken = self.disk.exchange(self._path, row.wanted.encode(), mode=0o644, aside=self._aside(row.swap))
            self._put_back_if_fenced(row, taken)
        self._show_notes()
        return done

    def put_back(self) -> None:
        """Record that the memory is in the file again, after an earlier version was there."""
        if (row := self._document()).rendered != row.wanted:
            self._update(replace(row, rendered=row.wanted, edits=()))

    def _settle(self, row: Document, taken: str) -> None:
        """Keep what a swap displaced, if a person had saved it in the instant before."""
        new = row.wanted
        if _has_new_conflict(taken.encode(), row):  # put it back for a person to resolve
            self.disk.write_atomic(self._path, taken.encode())
            self._update(replace(row, swap=row.swap + 1))
            self.disk.remove(self._aside(row.swap))
            return
        with transaction(self._connection):
            self.check()
            if taken.strip() and taken != row.rendered:
                new = self._merged(row, taken)
            edits = difference(row.wanted, new)
            self._put_document(replace(row, rendered=row.wanted, wanted=new, edits=edits, swap=row.swap + 1))
        self.disk.remove(self._aside(row.swap))

    def _merged(self, row: Document, theirs: str) -> str:
        """Record a person's text, and that text with our edits, as versions; return the latter. In a transaction.

        Lines of ours that gave way were never in the file, so nobody has deleted them.
        """
        version = self.version(row.version) if row.version and self._lineage.text(row.version) else None
        at, mood = (version.at, version.mood) if version else (self._now(), "")
        new, _ = merged(row.rendered, theirs, row.edits, at, mood)
        if not difference(theirs, new):  # our edits are in it already; a new stamp alone is not worth writing
            new = theirs
        if new != theirs:
            self._lineage.save(self._lineage.last_version() + 1, HUMAN, theirs, self._now())
        self._keep_by_owner(new, row.rendered, HUMAN if new == theirs else MERGED)
        if version is not None:  # take back the effects of changes none of whose lines are in the text
            standing = {block.key for _, block in parse(new).lines()}
            stay = (any(line.key in standing for line in one.come) for one in version.changes)
            kept = tuple(one for one, stays in zip(version.changes, stay, strict=True) if stays or not one.come)
            if kept != version.changes:
                Supersessions(self._crystals).amend(replace(version, changes=kept))
        return new

    def _put_back_if_fenced(self, row: Document, taken: bytes | None) -> None:
        """Undo the swap if this process was stopped before it and lost the workspace meanwhile."""
        try:
            self.check()
        except FencedError:
            self.disk.remove(self._aside(row.swap))
            if taken is not None:
                self.disk.exchange(self._path, taken, aside=self._aside(row.swap))
                self.disk.remove(self._aside(row.swap))
            raise

    def show_notes(self, *, anew: bool = False) -> None:
        """Rewrite scratch.md if it shows consumed notes, or always with `anew`."""
        with self.alone:
            if anew:
                self._update(replace(self._document(), consumed=_EVERY_NOTE))
            self._show_notes()

    def _show_notes(self) -> None:
        row = self._document()
        if row.consumed or self._notes.are_hidden():
            self.check()
            if self._notes.render(row.consumed) and row.consumed:
                self._update(replace(self._document(), consumed=0))

    def _found(self) -> str:
        return decode_document(self.disk.read_optional(self._path) or b"", self._path)

    def _aside(self, swap: int) -> Path:
        target = self.disk.target(self._path)
        return target.with_name(f".{target.name}.{swap}.displaced")

    def _document(self) -> Document:
        (row,) = Document.table.read(Document, self._connection) or (None,)
        if row is None:
            last = self._lineage.standing()[0]
            text = self._lineage.text(last)
            return Document(rendered=text, wanted=text, edits=(), swap=1, version=last)
        return row

    def _update(self, row: Document) -> None:
        with transaction(self._connection):
            self.check()
            self._put_document(row)

    def _put_document(self, row: Document) -> None:
        Document.table.add(self._connection, row, "INSERT OR REPLACE")


def displaced_files(workspace: Workspace) -> list[Path]:
    """Return the files that swaps of MEMORY.md displaced, left by commits that were cut off while writing it."""
    with storage_errors(workspace.root):
        names = sorted(os.listdir(workspace.root))  # noqa: PTH208 - names are enough
    return [workspace.root / name for name in names if _ASIDE.fullmatch(name)]


def _repaired(line: CurrentLine) -> tuple[CurrentLine, tuple[str, ...]]:
    return replace(line, trust=Trust.AGENT, importance=_REPAIRED_IMPORTANCE), ()


def _has_new_conflict(found: bytes | None, row: Document) -> bool:
    """Return whether the file has git's conflict markers that are not wanted there."""
    return is_conflicted((found or b"").decode(errors="replace")) and not is_conflicted(row.wanted)


def decode_document(content: bytes, path: Path) -> str:
    """Decode the bytes of a MEMORY.md. Raise DocumentError if they are not UTF-8 text."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{path}: byte {error.start} is not UTF-8, so it is no MEMORY.md",
            "move it away, or save it as UTF-8 text, and run 'dreamd dream' (or 'dreamd restore' for a version)",
        ) from error
    if "\0" in text:
        raise DocumentError(f"{path} holds NUL bytes, so it is no MEMORY.md", "move it away and run 'dreamd dream'")
    return text
