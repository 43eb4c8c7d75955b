"""Progress: what each node of a dream did, in a few figures, written into the ledger, where others follow it."""

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
LOOK_SECONDS = 0.25
"""How often whoever follows a dream looks for its steps."""


@dataclass(frozen=True, slots=True)
class Step:
    """A finished node; `figures` says what it did."""

    node: str
    figures: str


class StepRecord:
    """Records the steps of `dream` in the ledger, each with the seconds since the last one, and reports them.

    Steps are held back while state.db is full or busy: none fails a dream.
    """

    def __init__(
        self, ledger: "Ledger", dream: str, tell: Callable[[Step], None], now: Callable[[], datetime]
    ) -> None:
        self.dream = dream
        self._ledger = ledger
        self._tell = tell
        self._now = now
        self._last = time.monotonic()
        self._node, self._written = "", 0  # the last step's node, and how many of its steps are in the ledger
        self._waiting: list[Finished] = []

    def __call__(self, step: Step) -> None:
        """Record and report a finished step."""
        from state.stores.history.ledger import Finished  # late: a caller that only formats steps needs no database

        if step.node != self._node:
            self._write()
            self._node, self._written = step.node, 0
        ended = time.monotonic()
        figures = step.figures.encode("utf-8", "replace").decode()  # the name of a file may be no text
        self._waiting.append(Finished(step.node, self._now(), ended - self._last, figures))
        self._last = ended
        if len(self._waiting) > self._written:  # so thousands of transcripts are a dozen rows
            self._write()
        self._tell(step)

    def _write(self) -> None:
        rows = [_joined(list(alike)) for _, alike in groupby(self._waiting, lambda step: step.node)]
        if rows and self._ledger.add_steps(self.dream, rows):
            self._written += len(self._waiting)
            self._waiting.clear()


def follow(ledger: "Ledger", since: datetime, on_step: Callable[[Step], None], has_ended: Callable[[], bool]) -> None:
    """Report the steps that the ledger got since this moment and gets until `has_ended`, which waits for a moment."""
    is_over = False
    while not is_over:
        is_over = has_ended()
        for step in ledger.steps_after(since):
            since = step.at
            on_step(Step(step.node, step.figures))


def _joined(steps: "list[Finished]") -> "Finished":
    """Join steps of one node into one row."""
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
    return Step("evict", f"{counted(len(gone), 'line')} put away, {len(dream.after):,} characters")
