"""Progress: what each node of a dream did, in a few numbers for a person."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Step:
    """A node has finished; `figures` say what it did."""

    node: str
    figures: str


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
