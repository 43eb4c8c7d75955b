"""Ranges: the intersection of ranges of items."""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from state.sessions.policies.policy import Range

_Bound = TypeVar("_Bound", int, float, datetime)


def meet(*ranges: Range) -> Range | None:
    """What is in every one of these; None when nothing can be. Steps begin at 0."""
    states = {only.state for only in ranges if only.state is not None}
    importance_from = _highest(only.importance_from for only in ranges)
    importance_below = _lowest(only.importance_below for only in ranges)
    created_from = _highest(only.created_from for only in ranges)
    created_before = _lowest(only.created_before for only in ranges)
    step_from = _highest(only.step_from for only in ranges)
    step_before = _lowest(only.step_before for only in ranges)
    empty = (
        len(states) > 1
        or _empty(importance_from, importance_below)
        or _empty(created_from, created_before)
        or _empty(max(0, step_from or 0), step_before)
    )
    state = next(iter(states), None)
    met = Range(state, importance_from, importance_below, created_from, created_before, step_from, step_before)
    return None if empty else met


def _empty(first: _Bound | None, end: _Bound | None) -> bool:
    return first is not None and end is not None and first >= end


def _highest(bounds: Iterable[_Bound | None]) -> _Bound | None:
    return max((bound for bound in bounds if bound is not None), default=None)


def _lowest(bounds: Iterable[_Bound | None]) -> _Bound | None:
    return min((bound for bound in bounds if bound is not None), default=None)
