"""Graph state: what travels along the edges of the dream graph.

LangGraph copies the whole state at every step and checks nothing: so values travel as JSON text, and every node
returns a `Step`, whose keys mypy checks.
"""

from typing import TypedDict


class Dreaming(TypedDict, total=False):
    """The state of a running dream. Texts hold encoded values of `state.dream`."""

    dream: str
    reason: str
    now: str
    snapshot: str
    insights: str
    draft: str | None
    verdict: str
    attempt: int
    fallback: bool
    feedback: list[str]
    usage: str
    record: str | None
    refusals: list[str]
    outcome: str


class Step(Dreaming, total=False):
    """The keys that one node changes."""
