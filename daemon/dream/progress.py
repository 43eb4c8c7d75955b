"""Progress: what each node of a dream did, in a few numbers for a person, told at once and kept in the ledger."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from state.stores.history.steps import Finished, Steps

# LangGraph's own entry: set when a resumed dream takes over what a node had finished before the interruption.
_METADATA = "__metadata__"
_KINDS = {
    "N": "notes",
    "C": "crystals",
    "G": "questions",
    "S": "skills",
    "E": "economics",
    "T": "old lines",
    "W": "in open sessions",
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

    def __init__(self, kept: "Steps", tell: Callable[[Step], None], now: Callable[[], datetime]) -> None:
        self._kept = kept
        self._tell = tell
        self._now = now
        self._last = time.monotonic()
        self._dream = ""
        self._waiting: list[Finished] = []

    def __call__(self, step: Step) -> None:
        """Keep and tell a finished step."""
        from state.stores.history.steps import Finished  # late: who only says what a step is needs no database

        ended = time.monotonic()
        self._waiting.append(Finished(step.node, self._now(), ended - self._last, step.figures))
        self._last = ended
        if self._dream:
            self._keep()
        self._tell(step)

    def begin(self, dream: str) -> None:
        """The dream has begun, or goes on: keep what waits, the same done several times in a row as one step."""
        self._dream = dream
        self._waiting = [_joined(list(alike)) for _, alike in groupby(self._waiting, lambda step: step.node)]
        self._keep()

    def _keep(self) -> None:
        if self._kept.add(self._dream, self._waiting):
            self._waiting.clear()


def _joined(steps: "list[Finished]") -> "Finished":
    """One for these steps of the same node: a line for each of thousands of transcripts is no help."""
    more = f" and {len(steps) - _SHOWN} more" if len(steps) > _SHOWN else ""
    figures = "; ".join(step.figures for step in steps[:_SHOWN]) + more
    return replace(steps[-1], seconds=sum(step.seconds for step in steps), figures=figures)


def report_nodes(update: dict[str, Any], values: dict[str, Any], mode: str, on_step: Callable[[Step], None]) -> None:
    """Merge what the nodes returned into `values` and report each; the last commits, proposes or does nothing."""
    for node, step in update.items():
        if node == _METADATA:
            continue
        values |= step or {}
        if node != "commit" or mode == "auto":
            on_step(Step(node, _FIGURES[node](values)))
        elif mode == "propose":
            on_step(Step("propose", "it waits for 'dreamd review'"))


def _gathered(values: dict[str, Any]) -> str:
    kinds = [piece["id"][0] for piece in json.loads(values["snapshot"])["evidence"]]
    return ", ".join(f"{kinds.count(kind)} {name}" for kind, name in _KINDS.items() if kind in kinds) or "nothing new"


def _reflected(values: dict[str, Any]) -> str:
    return f"{len(json.loads(values['insights']))} insights"


def _synthesized(values: dict[str, Any]) -> str:
    draft = json.loads(values["draft"])
    return f"{len(draft['operations'])} operations by {draft['author']}"


def _guarded(values: dict[str, Any]) -> str:
    verdict = json.loads(values["verdict"])
    figures = f"{len(verdict['operations'])} pass, {len(verdict['refused'])} refused"
    return f"{figures}; again: {values['feedback'][0]}" if values["outcome"] == "again" else figures


def _evicted(values: dict[str, Any]) -> str:
    if values["outcome"] == "refused":
        return f"refused: {values['feedback'][0]}"
    record = json.loads(values["record"])
    gone = sum(death["fate"] == "evicted" and death["section"] != "Crystal Pointers" for death in record["deaths"])
    return f"{gone} lines to pointers, {len(record['after']):,} characters"


def _committed(values: dict[str, Any]) -> str:
    return f"version {json.loads(values['record'])['number']}"


_FIGURES: dict[str, Callable[[dict[str, Any]], str]] = {
    "gather": _gathered,
    "reflect": _reflected,
    "synthesize": _synthesized,
    "guard": _guarded,
    "evict": _evicted,
    "commit": _committed,
}
