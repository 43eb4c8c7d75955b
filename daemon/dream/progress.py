"""Progress: what each node of a dream did, in a few figures, reported at once and kept in the ledger."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING

from state.document.operations import Why
from state.document.sections import SectionName
from state.text.words import counted

if TYPE_CHECKING:
    from graphs.sheet import Sheet
    from state.dream import Dream, Snapshot
    from state.stores.history.ledger import Finished, Ledger

_KINDS = {
    "N": "note",
    "C": "crystal",
    "G": "question",
    "S": "skill",
    "E": "economics line",
    "T": "old line",
    "W": "open item",
}
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Step:
    """A finished node; `figures` says what it did."""

    node: str
    figures: str


class StepRecord:
    """Records the steps of one dream in the ledger, each with the seconds since the last one, and reports them.

    Steps are held back until the dream has begun (`begin`), and while state.db is full or busy: none fails a dream.
    """

    def __init__(self, kept: "Ledger", tell: Callable[[Step], None], now: Callable[[], datetime]) -> None:
        self._kept = kept
        self._tell = tell
        self._now = now
        self._last = time.monotonic()
        self._dream = ""
        self._waiting: list[Finished] = []

    def __call__(self, step: Step) -> None:
        """Record and report a finished step."""
        from state.stores.history.ledger import Finished  # late: a caller that only formats steps needs no database

        ended = time.monotonic()
        self._waiting.append(Finished(step.node, self._now(), ended - self._last, step.figures))
        self._last = ended
        if self._dream:
            self._keep()
        self._tell(step)

    def begin(self, dream: str) -> None:
        """Record the steps held back until the dream began or resumed; join consecutive steps of one node."""
        self._dream = dream
        self._waiting = [_joined(list(alike)) for _, alike in groupby(self._waiting, lambda step: step.node)]
        self._keep()

    def _keep(self) -> None:
        if self._kept.add_steps(self._dream, self._waiting):
            self._waiting.clear()


def _joined(steps: "list[Finished]") -> "Finished":
    """Join steps of one node: one line for each of thousands of transcripts would help nobody."""
    more = f" and {len(steps) - _SHOWN} more" if len(steps) > _SHOWN else ""
    figures = "; ".join(step.figures for step in steps[:_SHOWN]) + more
    return replace(steps[-1], seconds=sum(step.seconds for step in steps), figures=figures)


def gathered(snapshot: "Snapshot") -> Step:
    """Return the step that says what a dream reads."""
    kinds = [piece.id[0] for piece in snapshot.evidence]
    figures = ", ".join(counted(kinds.count(kind), name) for kind, name in _KINDS.items() if kind in kinds)
    return Step("gather", figures or "nothing new")


def answered(node: str, sheet: "Sheet") -> Step:
    """Return the step that says what became of an answer's operations."""
    applied, asks = (sum(map(which, sheet.told)) for which in (lambda one: one.applied, lambda one: one.asks))
    mend = sum(one.mend for one in sheet.told) + len(sheet.unread)
    waiting = f", {asks} for the owner to decide" if asks else ""
    return Step(node, f"{counted(applied, 'operation')} applied, {mend} refused{waiting}")


def evicted(dream: "Dream") -> Step:
    """Return the step that says how MEMORY.md was made to fit its budget."""
    gone = [line for line, why in dream.left if why is Why.EVICTED and line.section is not SectionName.POINTERS]
    return Step("evict", f"{counted(len(gone), 'line')} to pointers, {len(dream.after):,} characters")
