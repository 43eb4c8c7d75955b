"""Search: what the long-term memory has on a question, and why each result stands where it does."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from pydantic import Field

from daemon.api.operations.request import Request
from daemon.api.operations.search import SearchHit, memory_search
from daemon.pages.forms import Day, begin_of
from daemon.pages.page import Ask, Page, Replies
from state.crystals.crystal import Kind, Origin
from state.trust import Trust

# A result has some 4 KB with what was said around it.
FEW, MOST = 10, 50
# So many beside the best one are shown on the next page.
_STEP = 15


# What the signals of a result are called for people, in the order of their weights.
_SIGNALS: Mapping[str, tuple[str, str]] = {
    "cosine": ("meaning", "it says what was asked for"),
    "near": ("words", "the words of the question stand in or about it"),
    "beside": ("neighbours", "what stands beside it says what was asked for"),
    "session": ("session", "the words stand elsewhere in its session"),
    "speaker": ("speaker", "who was named said it"),
    "period": ("time", "it is of the time that was asked for"),
    "reply": ("reply", "an agent's reply is no answer to what a person said: it is taken off"),
}


class SearchQuery(Request):
    """What is asked, and among which crystals. A day is one of UTC."""

    query: str = Field(default="", max_length=2_000)
    limit: int = Field(default=FEW, ge=1, le=MOST)
    origin: Origin | None = None
    kind: Kind | None = None
    trust: Trust | None = None
    session: str | None = Field(default=None, max_length=1_000)
    speaker: str | None = Field(default=None, max_length=1_000)
    since: Day | None = None
    until: Day | None = None
    as_of: Day | None = None
    archived: bool = False


def _read(ask: Ask, query: SearchQuery) -> Replies:
    if not query.query.strip():
        return {}
    reply = ask(
        memory_search,
        query=query.query,
        limit=query.limit,
        origin=query.origin,
        kind=query.kind,
        trust=query.trust,
        session=query.session,
        speaker=query.speaker,
        since=begin_of(query.since),
        until=begin_of(query.until),
        as_of=begin_of(query.as_of + timedelta(days=1)) if query.as_of else None,
        archived=query.archived,
        explain=True,
        look=True,
    )
    return {"memory_search": reply}


def _view(replies: Replies, query: SearchQuery, _: datetime) -> Mapping[str, object]:
    reply = replies.get("memory_search")
    hits: tuple[SearchHit, ...] = reply.hits if reply else ()
    fields = query.model_dump(mode="json", exclude_defaults=True)
    return {
        "reply": reply,
        "signals": _SIGNALS,
        "bars": [_bar(hit) for hit in hits],
        "filtered": bool(fields.keys() - {"query", "limit"}),
        "more": {**fields, "limit": min(MOST, query.limit + _STEP)} if query.limit <= len(hits) < MOST else None,
        "choices": {"origin": list(Origin), "kind": list(Kind), "trust": list(Trust)},
    }


def _bar(hit: SearchHit) -> list[tuple[str, float]]:
    shares = hit.signals.shares if hit.signals else ()
    return [(f"{_SIGNALS[one.name][0]} {one.share:.2f}", one.share) for one in shares]


PAGE = Page("search", "Search", _read, SearchQuery, _view)
