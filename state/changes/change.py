"""Change: lines that leave MEMORY.md and the lines that replace them, as values."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from state.document.document import Edit
from state.document.operations import Why
from state.document.sections import SectionName
from state.text.words import normalise
from state.trust import Trust


@dataclass(frozen=True, slots=True)
class CurrentLine:
    """A line of MEMORY.md with its id from the ledger. It is immutable: a reworded line is a new line.

    `said_at` is when the latest text behind it was said; None if unknown. `above`: it stands above the title, from
    before the first dream. `crystal` is the id of the crystal with its wording; for a pointer, of the one
    that it leads to. `until` is the last day on which the line holds (ISO 8601; empty: no end).
    """

    id: str
    section: SectionName
    text: str
    importance: float
    trust: Trust
    born_at: datetime
    pinned: bool = False
    said_at: datetime | None = None
    above: bool = False
    crystal: str = ""
    until: str = ""

    @property
    def place(self) -> SectionName | None:
        """Return the section in which edits find the line; None above the title."""
        return None if self.above else self.section

    @property
    def key(self) -> str:
        """Return the normalised text, which is equal for equal lines."""
        return normalise(self.text)

    def is_past(self, today: str) -> bool:
        """Return whether the last day on which the line holds is over."""
        return bool(self.until) and self.until < today


STAYS_ITSELF = frozenset((Why.MOVED, Why.WEIGHED))
"""Changes whose new line is the old one elsewhere, or of another importance or last day."""
REWORDS = STAYS_ITSELF | {Why.REVISED, Why.MERGED}
"""Changes whose new lines say, perhaps in other words or elsewhere, what the old ones said or replace it."""

# Counted lines and pointers keep the order in which they are added.
_IN_THEIR_ORDER = {SectionName.NICHE, SectionName.SKILLS, SectionName.POINTERS}


@dataclass(frozen=True, slots=True)
class Change:
    """Lines that leave MEMORY.md and the lines that replace them: every version is a list of these.

    `evidence` are the ids of the crystals behind the new lines. `above` is the text of the line above which a new
    one goes ("": at the end of its section; None: at its top). Pinning changes a line into itself.
    """

    why: Why
    gone: tuple[CurrentLine, ...] = ()
    come: tuple[CurrentLine, ...] = ()
    evidence: tuple[str, ...] = ()
    above: str | None = None

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Return the edits that carry the change out."""
        if self.why is Why.PINNED:
            return tuple(Edit(line.section, (line.text,), pinned=line.pinned) for line in self.come)
        gone, edits = list(self.gone), list[Edit]()
        for line in self.come:
            here = tuple(old.text for old in gone if old.place is line.place)
            gone = [old for old in gone if old.place is not line.place]
            is_first = not here and line.section not in _IN_THEIR_ORDER and self.above != ""
            edits.append(Edit(line.place, here, line.text, first=is_first, above="" if here else self.above or ""))
            if line.pinned:  # one that comes back had its pin
                edits.append(Edit(line.place, (line.text,), pinned=True))
        return (*edits, *(Edit(old.place, (old.text,), None) for old in gone))

    @property
    def inverse(self) -> "Change":
        """Return the inverse of this change."""
        why = Why.PINNED if self.why is Why.PINNED else Why.UNDONE
        return Change(why, self.come, self.gone)


def numbered(changes: Iterable[Change], first: int) -> tuple[Change, ...]:
    """Give the new lines ids, counting up from `first`."""
    named = list[Change]()
    for one in changes:
        named.append(replace(one, come=tuple(replace(line, id=f"L{first + at}") for at, line in enumerate(one.come))))
        first += len(one.come)
    return tuple(named)
