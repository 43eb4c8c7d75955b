"""Hormones: the levels now and over the last hours, what they fall back to, and what raised them."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

from daemon.api.operations.operation import Request
from daemon.api.tables.signals import HormoneCurve, HormonesRequest, hormones
from daemon.pages.page import Ask, Page, Replies

HOURS = (6, 24, 72, 168)
_NAMES = ("dopamine", "cortisol", "oxytocin")


class HormonesQuery(Request):
    """How far back."""

    hours: Literal["6", "24", "72", "168"] = "24"


def _read(ask: Ask, query: HormonesQuery) -> Replies:
    return {"hormones": ask(hormones, HormonesRequest(hours=int(query.hours)))}


def _view(replies: Replies, query: HormonesQuery, now: datetime) -> Mapping[str, object]:
    told: HormoneCurve = replies["hormones"]
    return {
        "hours": HOURS,
        "begin": now - timedelta(hours=int(query.hours)),
        "levels": [
            (name, getattr(told.now, name), getattr(told.baselines, name), [getattr(at, name) for at in told.curve])
            for name in _NAMES
        ],
    }


PAGE = Page("hormones", "Hormones", _read, HormonesQuery, view=_view, live=True)
