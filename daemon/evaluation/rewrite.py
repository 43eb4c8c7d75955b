"""Rewrite: memory as many agents keep it: one text, written anew each time from itself and what is new.

There is nothing beside the text: what the next one leaves out is gone. A model writes it where one is asked; the
stand-in without a model keeps the most important entries that fit, of equal ones the newest, in the order of their
days.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphs.ports import Model, Request
from state.document.markdown import without_marker
from state.scratch import Note
from state.text.words import normalise

_SYSTEM = """\
You keep the memory of an AI agent: one Markdown list. You get the list as it is and the new notes of the day. Write
the whole list anew from both: what is current and worth keeping, one fact a line, each line beginning with "- ".
Your answer is the new list and nothing else, and has at most {budget} characters; what you leave out is forgotten."""

Rewriter = Callable[[Sequence[Note], Sequence[Note]], list[Note]]
"""The new entries, of the old ones and the day's notes."""


def most_important(budget: int) -> Rewriter:
    """The stand-in for a model, with a text of so many characters."""

    def rewrite(old: Sequence[Note], new: Sequence[Note]) -> list[Note]:
        entries = {normalise(note.text): note for note in (*old, *new)}
        kept, room = [], budget
        for note in sorted(entries.values(), key=lambda note: (note.importance, note.at), reverse=True):
            if len(_row(note)) <= room:
                room -= len(_row(note))
                kept.append(note)
        return sorted(kept, key=lambda note: note.at)

    return rewrite


@dataclass(frozen=True, slots=True)
class ModelRewriter:
    """A model that writes the text anew, cut where it is longer than it may be.

    `model` gives one for a rewriting by its name: the ceilings of a dream bind each of them.
    """

    model: Callable[[str], Model | None]
    budget: int

    def __call__(self, old: Sequence[Note], new: Sequence[Note]) -> list[Note]:
        """One call. Raises ModelError and CeilingError."""
        request = Request(
            _SYSTEM.format(budget=self.budget), f"The list:\n{text_of(old)}\n\nNew notes:\n{text_of(new)}"
        )
        model = self.model(f"rewrite {new[-1].at:%Y-%m-%d}")
        answer = model.ask(request).text if model is not None else ""
        rows = [without_marker(row.strip()) for row in answer.splitlines() if row.strip()]
        kept, room = [], self.budget
        for row in rows:
            note = Note(row, new[-1].at)
            room -= len(_row(note))
            if room < 0:
                break
            kept.append(note)
        return kept


def text_of(notes: Sequence[Note]) -> str:
    """The entries as a list in Markdown."""
    return "".join(map(_row, notes))


def _row(note: Note) -> str:
    return f"- {note.text}\n"
