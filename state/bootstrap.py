"""What an agent reads at session start: MEMORY.md within its budget, then the notes that no dream has folded in."""

from collections.abc import Sequence
from dataclasses import dataclass

from state.injection import defang
from state.scratch import Note

# Context window of the reading model, in tokens, and the characters that MEMORY.md may have for it.
BUDGETS = ((200_000, 8_000), (128_000, 6_000), (64_000, 4_000))
LEAST_BUDGET = 3_200
TRUNCATED = "[Full working memory available via memory_search]"
NOTES_HEADING = "## Unsynthesized Notes (pending dream consolidation)"
# The notes have half as much room as MEMORY.md, beside it.
NOTES_SHARE = 0.5
NOTE_CHARACTERS = 600
# The heading of the notes, the line about those left out, and the blank lines.
_AROUND_NOTES = len(NOTES_HEADING) + 60


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The two parts and what they leave out. `truncated`: MEMORY.md was longer than its budget."""

    memory: str
    notes: tuple[str, ...]
    left_out: int
    truncated: bool

    @property
    def text(self) -> str:
        """Both parts as Markdown."""
        parts = [self.memory.rstrip("\n")] if self.memory.strip() else []
        if self.notes:
            rows = [NOTES_HEADING, "", *self.notes]
            if self.left_out:
                rows.append(f"- [{self.left_out} older notes: use memory_search]")
            parts.append("\n".join(rows))
        return "\n\n".join(parts) + "\n" if parts else ""


def budget_for(context_window: int) -> int:
    """Characters that MEMORY.md may have for a model with a context of so many tokens."""
    return next((characters for window, characters in BUDGETS if context_window >= window), LEAST_BUDGET)


def bootstrap(memory: str, notes: Sequence[Note], context_window: int, most: int | None = None) -> Bootstrap:
    """What fits: MEMORY.md cut at a line, and the pending notes, newest first, each on one line.

    `most`: of characters altogether, where whoever carries the text cuts it off; the notes make room.
    """
    budget = budget_for(context_window)
    shown, truncated = _cut(memory, budget if most is None else min(budget, most))
    room = int(budget * NOTES_SHARE)
    if most is not None:
        room = min(room, most - len(shown) - _AROUND_NOTES)
    rows: list[str] = []
    # Of one second, what was appended later is newer: the sort is stable.
    newest_first = sorted(notes, key=lambda note: note.at)[::-1]
    for note in newest_first:
        row = _row(note)
        if len(row) + 1 > room:
            break
        room -= len(row) + 1
        rows.append(row)
    return Bootstrap(shown, tuple(rows), len(notes) - len(rows), truncated)


def _cut(memory: str, budget: int) -> tuple[str, bool]:
    if len(memory) <= budget:
        return memory, False
    room = budget - len(TRUNCATED) - 3  # the blank row and the last line end
    at = memory.rfind("\n", 0, room + 1)
    return memory[: at if at > 0 else room].rstrip("\n") + f"\n\n{TRUNCATED}\n", True


def _row(note: Note) -> str:
    # A note is data: on one line it can forge neither a heading nor a second note.
    auto = "[AUTO] " if note.auto else ""
    stamp = note.at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"- [{stamp}] (importance: {note.importance:g}) {auto}{defang(note.text, NOTE_CHARACTERS)}"
