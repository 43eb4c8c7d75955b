"""Gaps: what was asked and is not answered yet."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import Field

from daemon.api.tables.signals import GapsRequest, gaps
from daemon.pages.page import Ask, Page, Replies
from state.signals.curiosity import Cause

# Why a question is open, for people.
_CAUSES: Mapping[Cause, str] = {
    Cause.MISS: "a search found nothing good",
    Cause.QUESTION: "a note asks it",
    Cause.EXPLICIT: "it was raised as a question",
}


class GapsQuery(GapsRequest):
    """As the operation is asked."""

    limit: int = Field(default=20, ge=1, le=20)


def _read(ask: Ask, query: GapsQuery) -> Replies:
    return {"gaps": ask(gaps, query)}


def _view(_: Replies, query: GapsQuery, __: datetime) -> Mapping[str, object]:
    ordered = query.model_dump(mode="json", exclude_defaults=True, include={"sort", "order"})
    return {"causes": _CAUSES, "ordered": ordered}


PAGE = Page("gaps", "Gaps", _read, GapsQuery, view=_view, live=True)
