"""The journal: a commit is a redo log with history.

1. The dream's record is put into place in history/ under the next number: decided.
2. Its crystals are written (ids are content hashes).
3. MEMORY.md is swapped with the new version; the text before is compared with what was read, and merged if a human
   changed it, even in the instant before the swap.
4. Scratch segments are retired (by a restore: what it takes back is pending again, or is no longer).
5. Lineage and the row of the version are written in one transaction: done.

A crash before 1 changes nothing; after it, `recover` repeats 2 to 5, each of which may be repeated.

Whenever MEMORY.md holds what this commit wrote, or what a human has made of that since, the record names the text
that was written: it is the base of the next merge. So a save that is merged before the swap goes into the record
first; one that a swap took out is merged into a second record beside it, `NNNNNN.merging`, which becomes the record
once MEMORY.md has its text.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from state.document.document import parse, render
from state.document.editing import edited
from state.document.markdown import is_stamp
from state.document.merge import difference, is_conflicted, merged
from state.dream import FOUND, RESTORE, Dream, decode_record, encode_record
from state.errors import DocumentError, FencedError, NotFoundError, StorageError
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import transaction
from state.stores.database.meta import Meta
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace
from state.stores.history.changes import Changes
from state.stores.history.lineage import Lineage
from state.stores.history.segments import Segments
from state.text.words import normalise

_SWAPS = 8
# In `meta`: how many notes the last dream left for the next one, as far as it counted them.
NOTES_LEFT = "notes_left"
# In `meta`: the dream for which MEMORY.md was swapped last. What stands there since is made of its text.
_SWAPPED = "swapped"
HELD = "held"
"""In `meta`: the last version that MEMORY.md had when a conflict came into it. Nothing is written there meanwhile."""


class Journal:
    """The committed dreams of one workspace. `check` raises when this process no longer owns it."""

    def __init__(
        self,
        workspace: Workspace,
        disk: Disk,
        crystals: Crystals,
        lineage: Lineage,
        segments: Segments,
        check: Callable[[], None],
    ) -> None:
        self._workspace = workspace
        self._disk = disk
        self._crystals = crystals
        self._lineage = lineage
        self._segments = segments
        self._check = check
        self.alone: AbstractContextManager[object] = nullcontext()
        """Held while files change that belong together; who copies them as they are at one moment holds it too."""

    def commit(self, dream: Dream) -> Dream:
        """Commit a dream, and return it as committed: `merged` is set when a human changed MEMORY.md meanwhile.

        Committing a dream that is committed already returns it as it was. Raises FencedError when another process
        has decided a version of this number; that one is finished first, if it was not.
        """
        with self.alone:
            return self._commit(dream)

    def _commit(self, dream: Dream) -> Dream:
        self._check()
        try:
            self._disk.write_new(self._path(dream.number), encode_record(dream).encode())
        except FileExistsError:
            current = self.record(dream.number)
            if current.id != dream.id:
                self.recover()
                raise FencedError(
                    f"version {dream.number} was committed by another process while this dream ran",
                    "nothing was consumed, run 'dreamd dream' again",
                ) from None
            dream = current
        try:
            return self._finish(dream)
        except (StorageError, NotFoundError):
            self._check()  # a new owner that clears up behind this one explains it better
            raise

    def consume(self, dream: Dream) -> Dream:
        """Take in the input of a dream that changes nothing and makes no version; return it with the last number.

        A kill in between leaves notes pending that are consumed again: twice rather than never.
        """
        with self.alone:
            last = self._lineage.last_version()
            with transaction(self._crystals.connection) as connection:
                self._check()
                self._crystals.upsert(dream.crystals)
                self._crystals.mark_dreamt(dream.dreamt, last, dream.newest)
                Meta(connection).put(NOTES_LEFT, str(dream.waiting))
            for mark in dream.segments:
                self._segments.retire(mark.number, mark.consumed)
        return replace(dream, number=last, after=dream.before)

    def decided(self, dream: str) -> bool:
        """Whether the dream of this id has its record: then it is committed or will be, whatever it failed with."""
        path = self._path(self._lineage.last_version() + 1)
        content = self._disk.read_optional(path)
        unfinished = content is not None and decode_record(content, str(path)).id == dream
        return unfinished or self._lineage.version_of(dream) is not None

    def recover(self) -> int:
        """Finish the commits that were decided before a crash; returns how many."""
        number, finished = self._lineage.last_version() + 1, 0
        with self.alone:
            while (content := self._disk.read_optional(self._path(number))) is not None:
                self._finish(self._decided(number, content))
                number, finished = number + 1, finished + 1
        return finished

    def _decided(self, number: int, content: bytes) -> Dream:
        path = self._path(number)
        try:
            dream = decode_record(content, str(path))
            if dream.number != number:
                raise StorageError(f"{path}: it says that it is version {dream.number}")  # noqa: TRY301 - advised below
            return dream  # noqa: TRY300 - see above
        except StorageError as error:
            advice = "put it back from a backup"
            if self._disk.read_optional(self._path(number + 1)) is None:
                advice += ", or move it away: what it had consumed is pending then"
            raise StorageError(f"{path}: a commit that is to be finished, and it cannot be read", advice) from error

    def record(self, number: int) -> Dream:
        """The record of a version. Raises NotFoundError."""
        return record_of(self._workspace, number)

    def has(self, number: int) -> bool:
        """Whether there is a record of this version."""
        return self._path(number).is_file()

    def text(self, number: int) -> str:
        """MEMORY.md as it was committed in this version."""
        return self.record(number).text

    def _finish(self, dream: Dream) -> Dream:
        if dream.number <= self._lineage.last_version():
            return dream
        self._check()
        self._crystals.upsert(dream.crystals)
        dream = self._write_document(dream)
        for mark in dream.segments:
            if dream.cause != RESTORE:
                self._segments.retire(mark.number, mark.consumed)
            elif mark.start < mark.consumed:
                self._segments.revive(mark.number, mark.start)
            else:
                self._segments.retire(mark.number, mark.start)
        with transaction(self._crystals.connection) as connection:
            # In here, where nobody else writes: an owner that was stopped until now must not repeat an old version.
            self._check()
            self._crystals.upsert(dream.crystals)
            if dream.cause == RESTORE:
                self._crystals.undream(dream.dreamt)
                self._crystals.mark_dreamt(dream.redreamt, dream.number)
            else:
                self._crystals.mark_dreamt(dream.dreamt, dream.number, dream.newest)
            Meta(connection).put(NOTES_LEFT, str(dream.waiting))
            self._lineage.record(dream)
            Supersessions(self._crystals).learn(dream)
            Changes(connection).record(dream)
        return dream

    def _write_document(self, dream: Dream) -> Dream:
        """Swap MEMORY.md for the new version until the displaced text is what that version was made from.

        Nothing is written over the markers of a conflict, and nothing by a version that only keeps what was found.
        """
        path = self._workspace.document
        if dream.cause == FOUND:
            return dream
        displaced = self._disk.displaced(path)  # by a swap that a crash interrupted
        swapped = Meta(self._crystals.connection).get(_SWAPPED) == dream.id
        if displaced is not None:
            swapped = swapped or displaced != dream.text.encode()
            self._take_in(dream, decode_document(displaced, path.with_name(f".{path.name}.displaced")))
        for _ in range(_SWAPS):
            current = self._disk.read_optional(path)
            merging, found = self._merging(dream), decode_document(current or b"", path)
            is_torn = is_conflicted(found) and not is_conflicted(dream.text)
            new = _joined(dream, merging, "" if is_torn else found, swapped=swapped)
            if merging is None and new != dream:
                self._write_record(new)
                dream = new
            target = new.text.encode()
            self._disk.settle(path)
            if is_torn:
                self._hold()
                target = current or b""
            self._check()
            displaced = current if current == target else self._disk.exchange(path, target, mode=0o644)
            if displaced in {None, current}:
                with transaction(self._crystals.connection) as connection:
                    self._check()
                    Meta(connection).put(_SWAPPED, dream.id)
                self._disk.settle(path)
                if merging is not None:
                    self._write_record(new)
                    self._disk.remove(self._merging_path(dream))
                return new
            self._put_back_if_fenced(displaced)
            self._take_in(dream, decode_document(displaced, path))  # saved between reading and swapping
            swapped = True
        raise DocumentError(
            f"{path} changed {_SWAPS} times while it was written", "stop what writes it and dream again"
        )

    def _take_in(self, dream: Dream, taken_out: str) -> None:
        """Keep a save that a swap took out, merged, so that neither a crash nor a later save loses it.

        One with the markers of a conflict is put back: it is for a person to resolve.
        """
        if is_conflicted(taken_out) and not is_conflicted(dream.text):
            self._disk.write_atomic(self._workspace.document, taken_out.encode())
            return
        merging = self._merging(dream)
        new = _joined(dream, merging, taken_out)
        if new != (merging or dream):
            self._disk.write_atomic(self._merging_path(dream), encode_record(new).encode())

    def _hold(self) -> None:
        """Note from which version a person will resolve the conflict in MEMORY.md, unless it is noted."""
        meta = Meta(self._crystals.connection)
        if meta.get(HELD) is None:
            meta.put(HELD, str(self._lineage.standing()[0]))

    def _put_back_if_fenced(self, displaced: bytes) -> None:
        """Undo the swap if this process was stopped before it and lost the workspace meanwhile."""
        try:
            self._check()
        except FencedError:
            path = self._workspace.document
            self._disk.settle(path)
            self._disk.exchange(path, displaced)
            self._disk.settle(path)
            raise

    def _merging(self, dream: Dream) -> Dream | None:
        path = self._merging_path(dream)
        content = self._disk.read_optional(path)
        return decode_record(content, str(path)) if content is not None else None

    def _write_record(self, dream: Dream) -> None:
        self._disk.write_atomic(self._path(dream.number), encode_record(dream).encode())

    def _path(self, number: int) -> Path:
        return _record_path(self._workspace, number)

    def _merging_path(self, dream: Dream) -> Path:
        return self._workspace.history / f"{dream.number:06d}.merging"


def record_of(workspace: Workspace, number: int) -> Dream:
    """The record of a version. Raises NotFoundError."""
    path = _record_path(workspace, number)
    content = Disk(workspace.root).read_optional(path)
    if content is None:
        raise NotFoundError(f"there is no version {number}", "'dreamd history' lists them")
    return decode_record(content, str(path))


def _record_path(workspace: Workspace, number: int) -> Path:
    return workspace.history / f"{number:06d}.json"


def _joined(dream: Dream, merging: Dream | None, human: str, *, swapped: bool = False) -> Dream:
    """The dream as it is to be committed over what a human left in MEMORY.md.

    `merging` holds saves that were taken out before. `swapped`: the text was read after MEMORY.md had the dream's. An
    empty file is an accident, not a wish.
    """
    wanted = merging or dream
    if not human.strip() or human == wanted.text:
        return wanted
    if not _made_from(dream, human, swapped=swapped):
        if human == dream.before:
            return replace(dream, merged=None)
        text, _ = merged(dream.before, human, dream.edits, dream.at, dream.mood)
        return _as_merged(dream, text)
    if merging is None:
        return replace(dream, merged=human)
    document, _ = edited(parse(merging.text), difference(dream.text, human))
    return replace(merging, merged=render(document))


def _made_from(dream: Dream, human: str, *, swapped: bool) -> bool:
    """Return whether this text is what the commit wrote, or is derived from it.

    The stamp tells, also of an old text that an editor saves late. Without one it is the text that stood there.
    """
    new, old = (next(filter(is_stamp, text.splitlines()), None) for text in (dream.text, dream.before))
    if human == dream.text or (new is not None and new in human and new not in dream.before):
        return True
    return swapped and human != dream.before and (old is None or old not in human)


def _as_merged(dream: Dream, text: str) -> Dream:
    """The dream with this merged text, without the lines whose edits gave way to a human's.

    They never stood in the file, so nobody has deleted them; a line that they were to replace is left to the next
    dream to find.
    """
    current = {block.key for _, block in parse(text).lines()}
    planned = {block.key for _, block in parse(dream.after).lines()}
    missing = {birth.id for birth in dream.births if normalise(birth.text) in planned - current}
    return replace(
        dream,
        merged=text,
        births=tuple(birth for birth in dream.births if birth.id not in missing),
        deaths=tuple(death for death in dream.deaths if death.successor not in missing),
    )


def decode_document(content: bytes, path: Path) -> str:
    """The bytes of a MEMORY.md as text. Raises DocumentError for what is none."""
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
