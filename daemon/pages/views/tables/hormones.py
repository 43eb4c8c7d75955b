"""Hormones: the levels now and over the last hours, what they fall back to, and what raised them."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

from daemon.api.operations.request import Request
from daemon.api.tables.signals import HormoneCurve, hormones
from daemon.pages.page import Ask, Page, Replies

_HOURS = (6, 24, 72, 168)
# So many events are shown; all that the operation tells of stand at the page's .json.
_MOST = 60
_NAMES = ("dopamine", "cortisol", "oxytocin")


class HormonesQuery(Request):
    """How far back."""

    hours: Literal["6", "24", "72", "168"] = "24"


def _read(ask: Ask, query: HormonesQuery) -> Replies:
    return {"hormones": ask(hormones, hours=int(query.hours))}


def _view(replies: Replies, query: HormonesQuery, now: datetime) -> Mapping[str, object]:
    told: HormoneCurve = replies["hormones"]
    return {
        "hours": _HOURS,
        "events": told.events[:_MOST],
        "more": told.more + len(told.events[_MOST:]),
        "begin": now - timedelta(hours=int(query.hours)),
        "levels": [
            (name, getattr(told.now, name), getattr(told.baselines, name), [getattr(at, name) for at in told.curve])
            for name in _NAMES
        ],
    }


PAGE = Page("hormones", "Hormones", _read, HormonesQuery, view=_view, live=True)
