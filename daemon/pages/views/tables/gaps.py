"""Gaps: what was asked and is not answered yet."""

from collections.abc import Mapping
from datetime import datetime

from daemon.api.operations.request import Request
from daemon.api.tables.signals import gaps
from daemon.pages.page import Ask, Page, Replies
from state.signals.curiosity import Cause

# Why a question is open, for people.
_CAUSES: Mapping[Cause, str] = {
    Cause.MISS: "a search found nothing good",
    Cause.QUESTION: "a note asks it",
    Cause.EXPLICIT: "it was raised as a question",
}


# So many rows fit onto a page.
_MOST = 20


def _read(ask: Ask, query: Request) -> Replies:
    return {"gaps": ask(gaps, **{**query.given, "limit": min(_MOST, query.given["limit"])})}


def _view(_: Replies, query: Request, __: datetime) -> Mapping[str, object]:
    ordered = query.model_dump(mode="json", exclude_defaults=True, include={"sort", "order"})
    return {"causes": _CAUSES, "ordered": ordered}


PAGE = Page("gaps", "Gaps", _read, gaps.request, view=_view, live=True)
