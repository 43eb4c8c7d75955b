"""Search: results and crystals, and one crystal."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from daemon.api.operations.crystals import crystal, crystals, supersede
from daemon.api.operations.search import memory_search
from daemon.pages.page import Act, Ask, Cursor, Day, Done, Page, Undo, start_of_day
from daemon.pages.today import Beside
from state.crystals.crystal import Kind, Origin
from state.stores.crystals.listing import Sort
from state.trust import Trust

_FEW, _MOST, _STEP = 10, 50, 15
_LISTED = 30
# What the signals of a result are called for people, in the order of their weights.
_SIGNALS: Mapping[str, tuple[str, str]] = {
    "cosine": ("meaning", "it says what was asked for"),
    "near": ("words", "the words of the question stand in or about it"),
    "beside": ("neighbours", "what stands beside it says what was asked for"),
    "session": ("session", "the words stand elsewhere in its session"),
    "speaker": ("speaker", "who was named said it"),
    "period": ("time", "it is of the time that was asked for"),
    "instruction": ("instruction", "it tells an agent what to do whenever something is asked"),
    "reply": ("reply", "an agent's reply is no answer to what a person said: it is taken off"),
}
_CHOICES = {"origin": list(Origin), "kind": list(Kind), "trust": list(Trust), "sort": list(Sort)}
Named = Annotated[str | None, Field(max_length=1_000)]


def _search(
    ask: Ask,
    query: Annotated[str, Field(max_length=2_000)] = "",
    limit: Annotated[int, Field(ge=1, le=_MOST)] = _FEW,
    origin: Origin | None = None,
    kind: Kind | None = None,
    trust: Trust | None = None,
    session: Named = None,
    speaker: Named = None,
    since: Day | None = None,
    until: Day | None = None,
    as_of: Day | None = None,
    all: bool = False,
    archived: bool = False,
    sort: Sort = Sort.CREATED_AT,
    cursor: Cursor = "",
) -> Beside:
    """Search, or without a question list the crystals."""
    among: dict[str, Any] = {"origin": origin, "kind": kind, "trust": trust, "session": session, "speaker": speaker}
    among |= {"since": start_of_day(since), "until": start_of_day(until)}
    filtered = archived or any(one is not None for one in (*among.values(), as_of))
    beside: dict[str, object] = {"signals": _SIGNALS, "choices": _CHOICES, "filtered": filtered, "reply": None}
    if not query.strip():
        return beside | {"listed": ask(crystals, **among, sort=sort, limit=_LISTED, cursor=cursor)}
    known = start_of_day(as_of + timedelta(days=1)) if as_of else None
    reply = ask(
        memory_search, query, limit, **among, as_of=known, all=all, archived=archived, explain=True, look=True
    )
    more = min(_MOST, limit + _STEP) if limit <= len(reply.hits) < _MOST else None
    return beside | {"reply": reply, "more": more}


def _crystal(ask: Ask, id: Annotated[str, Field(min_length=8, max_length=32, pattern="^[0-9a-f]+$")]) -> Beside:
    found = ask(crystal, id=id)
    others = (*found.superseded_by, *found.supersedes)
    holding = {other.crystal.id for other in others if other.undone_at is None}
    undone = {other.crystal.id: other.crystal for other in others if other.crystal.id not in holding}
    return {
        "found": found,
        "one": found.crystal,
        "values": [  # without those that the owner took back
            (title, [other for other in each if other.undone_at is None])
            for title, each in (("Superseded by", found.superseded_by), ("Supersedes", found.supersedes))
        ],
        "undone": list(undone.values()),
    }


Which = Annotated[str, Field(min_length=1, max_length=10_000)]


def _supersede(ask: Ask, older: Which, newer: Which, undo: Literal["true", "false"] = "false") -> Done:
    """Say which of two crystals holds now; with `undo` that both do."""
    done = ask(supersede, older, newer, undo == "true")
    pair, names = {"older": older, "newer": newer}, f"{older[:12]} and {newer[:12]}"
    if undo == "true":
        return Done("Both hold.", f"both hold: {names}", undo=Undo("supersede", pair), query={"id": older})
    back = {"older": newer, "newer": older} if done.turned else {**pair, "undo": "true"}
    said = f"{newer[:12]} holds now, {older[:12]} does not. The next dream sees to the lines that rest on it."
    about = f"superseded: {older[:12]} by {newer[:12]}"
    return Done(said, about, undo=Undo("supersede", back), query={"id": older})


SEARCH = Page("search", "Search", _search)
CRYSTAL = Page("crystal", "Crystal", _crystal, acts=(Act(_supersede, "supersede"),), under="search")
