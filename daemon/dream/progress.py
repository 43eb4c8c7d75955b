"""Progress: what each node of a dream did, in a few numbers for a person, told at once and kept in the ledger."""

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
    """A node has finished; `figures` say what it did."""

    node: str
    figures: str


class StepRecord:
    """The steps of one dream, each kept with the seconds since the one before it, then told to whoever listens.

    They wait until the dream has begun (`begin`), and longer where state.db is full or busy: no step fails a dream.
    """

    def __init__(self, kept: "Ledger", tell: Callable[[Step], None], now: Callable[[], datetime]) -> None:
        self._kept = kept
        self._tell = tell
        self._now = now
        self._last = time.monotonic()
        self._dream = ""
        self._waiting: list[Finished] = []

    def __call__(self, step: Step) -> None:
        """Keep and tell a finished step."""
        from state.stores.history.ledger import Finished  # late: who only says what a step is needs no database

        ended = time.monotonic()
        self._waiting.append(Finished(step.node, self._now(), ended - self._last, step.figures))
        self._last = ended
        if self._dream:
            self._keep()
        self._tell(step)

    def begin(self, dream: str) -> None:
        """Keep what waits, now that the dream has begun or goes on; the same several times in a row is one step."""
        self._dream = dream
        self._waiting = [_joined(list(alike)) for _, alike in groupby(self._waiting, lambda step: step.node)]
        self._keep()

    def _keep(self) -> None:
        if self._kept.add_steps(self._dream, self._waiting):
            self._waiting.clear()


def _joined(steps: "list[Finished]") -> "Finished":
    """Return one step for these of the same node: a line for each of thousands of transcripts is no help."""
    more = f" and {len(steps) - _SHOWN} more" if len(steps) > _SHOWN else ""
    figures = "; ".join(step.figures for step in steps[:_SHOWN]) + more
    return replace(steps[-1], seconds=sum(step.seconds for step in steps), figures=figures)


def gathered(snapshot: "Snapshot") -> Step:
    """Say what a dream reads."""
    kinds = [piece.id[0] for piece in snapshot.evidence]
    figures = ", ".join(counted(kinds.count(kind), name) for kind, name in _KINDS.items() if kind in kinds)
    return Step("gather", figures or "nothing new")


def answered(node: str, sheet: "Sheet") -> Step:
    """Say what became of an answer."""
    applied, waits = (sum(map(which, sheet.told)) for which in (lambda one: one.applied, lambda one: one.waits))
    mend = sum(one.mend for one in sheet.told) + len(sheet.unread)
    waiting = f", {waits} for the owner to decide" if waits else ""
    return Step(node, f"{counted(applied, 'operation')} applied, {mend} refused{waiting}")


def evicted(dream: "Dream") -> Step:
    """Say how the file came to fit."""
    gone = [line for line, why in dream.left if why is Why.EVICTED and line.section is not SectionName.POINTERS]
    return Step("evict", f"{counted(len(gone), 'line')} to pointers, {len(dream.after):,} characters")
