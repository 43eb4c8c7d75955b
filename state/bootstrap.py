"""Bootstrap: what an agent reads at session start, MEMORY.md within its budget and the pending notes."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from state.scratch import Note
from state.secrets.policy import DEFAULT, Redaction
from state.trust import Trust

# Context window of the reading model, in tokens, and the characters that MEMORY.md may have for it.
BUDGETS = ((200_000, 8_000), (128_000, 6_000), (64_000, 4_000))
LEAST_BUDGET = 3_200
TRUNCATED = "[Full working memory available via memory_search]"
NOTES_HEADING = "## Unsynthesized Notes (pending dream consolidation)"
# The notes have half as much room as MEMORY.md, beside it.
NOTES_SHARE = 0.5
NOTE_CHARACTERS = 600
# Of MEMORY.md, so many times its budget: what is redacted may become shorter.
_LOOKED_AT = 4
# A hundred fit; some may be forgotten.
_NOTES_LOOKED_AT = 1_000
# The heading of the notes, the line about those left out, and the blank lines.
_AROUND_NOTES = len(NOTES_HEADING) + 60


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The two parts and what they leave out. `truncated`: MEMORY.md was longer than its budget.

    `more`: there are more than `left_out` older notes, which were not read.
    """

    memory: str
    notes: tuple[str, ...]
    left_out: int
    truncated: bool
    more: bool = False

    @property
    def text(self) -> str:
        """Both parts as Markdown."""
        parts = [self.memory.rstrip("\n")] if self.memory.strip() else []
        if self.notes:
            rows = [NOTES_HEADING, "", *self.notes]
            if self.left_out or self.more:
                number = f"more than {self.left_out}" if self.more else str(self.left_out)
                rows.append(f"- [{number} older notes: use memory_search]")
            parts.append("\n".join(rows))
        return "\n\n".join(parts) + "\n" if parts else ""


def budget_for(context_window: int) -> int:
    """Characters that MEMORY.md may have for a model with a context of so many tokens."""
    return next((characters for window, characters in BUDGETS if context_window >= window), LEAST_BUDGET)


def bootstrap(
    memory: str,
    notes: Iterable[Note],
    context_window: int,
    most: int | None = None,
    redaction: Redaction = DEFAULT,
    shown_of: Callable[[str], str] = str,
    *,
    more: bool = False,
) -> Bootstrap:
    """What fits: MEMORY.md cut at a line, and the pending notes, newest first, each on one line; without secrets.

    `most`: of characters altogether, where whoever carries the text cuts it off; the notes make room. A model reads
    it, and what no dream has seen, or the owner wrote by hand, nobody has redacted. `shown_of` says what may be shown
    of a note besides; of one that says "" nothing is. `more`: there are older notes than these.
    """
    budget = budget_for(context_window)
    # No more than may be shown is looked through: a log of a million notes, or a file of megabytes, takes no longer.
    looked_at = memory[: _LOOKED_AT * budget]
    shown, truncated = _cut(redaction.of(looked_at), budget if most is None else min(budget, most))
    truncated |= len(looked_at) < len(memory)
    room = int(budget * NOTES_SHARE)
    if most is not None:
        room = min(room, most - len(shown) - _AROUND_NOTES)
    rows: list[str] = []
    count = withheld = 0

    def numbered() -> Iterator[tuple[datetime, int, Note]]:
        nonlocal count
        for count, note in enumerate(notes, 1):
            yield note.at, count, note

    # Of one second, what was appended later is newer. Of a log of a million notes no more are kept than may be shown.
    newest_first = heapq.nlargest(_NOTES_LOOKED_AT, numbered(), key=lambda one: one[:2])
    for _, _, note in newest_first:
        text = shown_of(redaction.of(note.text))
        if not text:
            withheld += 1
            continue
        row = _row(replace(note, text=text))
        if len(row) + 1 > room:
            break
        room -= len(row) + 1
        rows.append(row)
    return Bootstrap(shown, tuple(rows), count - withheld - len(rows), truncated, more)


def _cut(memory: str, budget: int) -> tuple[str, bool]:
    if len(memory) <= budget:
        return memory, False
    room = budget - len(TRUNCATED) - 3  # the blank row and the last line end
    at = memory.rfind("\n", 0, room + 1)
    return memory[: at if at > 0 else room].rstrip("\n") + f"\n\n{TRUNCATED}\n", True


def _row(note: Note) -> str:
    # A note is data: on one line it can forge neither a heading nor a second note; an order stands as a quotation.
    auto = "[AUTO] " if note.auto else ""
    stamp = note.at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"- [{stamp}] (importance: {note.importance:g}) {auto}{_shown(note.text)}"


def _shown(text: str) -> str:
    """A pending note as a dream would write it: the agent's, quoted when it reads as an order."""
    # Without pending notes a session start does not wait for these.
    from state.injection.defang import attributed, defang

    return attributed(defang(text, NOTE_CHARACTERS), Trust.AGENT)
