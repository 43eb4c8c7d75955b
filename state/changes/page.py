"""Page: MEMORY.md while it is being changed: its text, its lines, and the changes so far."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from state.changes.change import Change, CurrentLine
from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin
from state.document.document import Document, Edit, render, stamped
from state.document.editing import edited
from state.document.merge import working
from state.document.operations import Why
from state.secrets.policy import Redaction
from state.text.words import normalise


class Page:
    """The text and lines of MEMORY.md, kept consistent: a change applies to both or to neither."""

    def __init__(self, text: str, lines: Iterable[CurrentLine], next_line: int) -> None:
        self.document: Document = working(text)
        self._as_read = self.document
        self.lines = {line.id: line for line in lines}
        self.changes: list[Change] = []
        self._next = next_line

    def find(self, text: str) -> CurrentLine | None:
        """Return the line with this text, in any section."""
        key = normalise(text)
        return next((line for line in self.lines.values() if line.key == key), None)

    def stands(self, line: CurrentLine) -> CurrentLine | None:
        """Return the current line with this line's text, preferring the same id, then the same section.

        A restored line has another id. Text above the title is no line yet.
        """
        key = line.key
        same = [one for one in self.lines.values() if one.key == key and not one.above]
        ranked = sorted(same, key=lambda one: (one.id != line.id, one.section is not line.section))
        return ranked[0] if ranked else None

    def change(self, change: Change) -> Change | None:
        """Apply a change, leaving out new lines that their sections already have; give the others their ids.

        Return None, and change nothing, if one of its lines has left or nothing would change.
        """
        gone = {line.id for line in change.gone}
        if not gone <= self.lines.keys():
            return None
        named = change if change.why is Why.PINNED else self._named(change, gone)
        if not (named.gone or named.come):
            return None
        document, left_out = _applied(self.document, named)
        if left_out:
            return None
        self.document = document
        self.lines = {name: line for name, line in self.lines.items() if name not in gone}
        self.lines |= {line.id: line for line in named.come}
        self.changes.append(named)
        return named

    def replay(
        self, changes: Iterable[Change], is_unwanted: Callable[[str], bool]
    ) -> tuple[dict[str, str], tuple[Change, ...]]:
        """Apply another page's changes whose lines are the same here.

        A line that stands in any section is not written again. Return the new id of each new line (empty if it was
        not written), and the changes that did not apply.
        """
        ids, gave_way = dict[str, str](), list[Change]()
        for one in changes:
            gone = [self._as_there(line, ids) for line in one.gone]
            here = tuple(line for line in gone if line is not None)
            leaving = {line.id for line in here}
            stay = (line for name, line in self.lines.items() if name not in leaving and not line.above)
            others = {line.key for line in stay}
            come = tuple(line for line in one.come if line.key not in others)
            # Old text that a line repeats leaves only if that line is here.
            is_repeated = one.why is Why.MERGED and not one.come
            is_said = not is_repeated or all(line.key in others for line in here)
            done = None
            if len(here) == len(gone) and is_said and not any(is_unwanted(line.text) for line in come):
                done = self.change(replace(one, gone=here, come=come))
            named = {line.text: line.id for line in done.come} if done else {}
            if one.why is not Why.PINNED:
                ids |= {line.id: named.get(line.text, "") for line in one.come}
            if done is None and (gone or come):
                gave_way.append(one)
        return ids, tuple(gave_way)

    def _as_there(self, line: CurrentLine, ids: Mapping[str, str]) -> CurrentLine | None:
        """Return this page's version of another page's line; None if it was changed, moved, pinned or removed."""
        named = self.lines.get(ids.get(line.id, line.id))
        old = (one for one in self.lines.values() if one.above and one.text == line.text)
        here = next(old, None) if line.above else named
        if here is None or (here.place, here.text, here.pinned) != (line.place, line.text, line.pinned):
            return None
        return replace(here, crystal=line.crystal)

    def take_back(self, lines: Iterable[CurrentLine]) -> None:
        """Undo the changes of this page that only removed one of these lines, so that they stand where they stood."""
        back = {(line,) for line in lines}
        self.lines |= {line.id: line for (line,) in back}
        self.apply_anew([one for one in self.changes if one.come or one.gone not in back])

    def apply_anew(self, changes: Iterable[Change]) -> None:
        """Apply these changes to the text as it was read, in place of those so far, which made the same lines."""
        self.changes, self.document = list(changes), self._as_read
        for change in self.changes:
            self.document, _ = _applied(self.document, change)

    def text(self, at: datetime, mood: str) -> str:
        """Return the text of MEMORY.md with this stamp."""
        return render(stamped(self.document, at, mood))

    def _named(self, change: Change, gone: set[str]) -> Change:
        """Return the change with ids for its new lines, and for old text above the title, which has none yet."""
        standing = {(line.place, line.key) for name, line in self.lines.items() if name not in gone}
        come = list[CurrentLine]()
        for line in change.come:
            key = (line.place, line.key)
            if key not in standing:
                standing.add(key)
                come.append(replace(line, id=self._new_id(), said_at=None))
        left = tuple(replace(line, id=self._new_id()) if line.above else line for line in change.gone)
        return replace(change, gone=left, come=tuple(come))

    def _new_id(self) -> str:
        self._next += 1
        return f"L{self._next - 1}"


def _applied(document: Document, change: Change) -> tuple[Document, tuple[Edit, ...]]:
    document, left_out = edited(document, change.edits)
    if any(line.above for line in change.gone):  # with the last line there, the rule and the comment go too
        document, _ = edited(document, [Edit(None)])
    return document, left_out


def kept_crystal(line: CurrentLine, redaction: Redaction, valence: float = 0.0) -> Crystal:
    """Return the crystal that keeps the text of a line that leaves."""
    return Crystal(
        text=redaction.of(line.text),
        origin=Origin.LINE,
        created_at=line.said_at or line.born_at,
        kind=Kind.GENERAL,
        importance=line.importance,
        trust=line.trust,
        context="" if line.above else line.section.value,
        lifecycle=Lifecycle.CONSOLIDATED,
        valence=valence,
    )


def owners_words(line: CurrentLine, redaction: Redaction, at: datetime) -> Crystal:
    """Return the crystal of a line that its owner wrote in place of another; a search shows it in that place."""
    return replace(kept_crystal(line, redaction), origin=Origin.SEED, created_at=at, context="")
