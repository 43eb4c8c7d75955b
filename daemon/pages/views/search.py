"""Search: what the long-term memory has on a question, or all of it as a list; and all that is known of a crystal."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from daemon.api.operations.notes import supersede
from daemon.api.operations.search import memory_search
from daemon.api.tables.crystals import crystal, crystals
from daemon.explain.crystal import OtherValue
from daemon.pages.forms import Cursor, Day, begin_of
from daemon.pages.page import Act, Ask, Done, Page, Shown, Undo
from state.crystals.crystal import Kind, Origin
from state.stores.crystals.listing import Sort
from state.trust import Trust

FEW, MOST, _STEP = 10, 50, 15
_LISTED = 30
# So many of each list of a crystal are shown; all that the operation tells of are in the page's .json.
_OF_EACH = 12
_LISTS = ("occurrences", "parents", "children", "merged_from", "lines", "pointers")
# What the signals of a result are called for people, in the order of their weights.
SIGNALS: Mapping[str, tuple[str, str]] = {
    "cosine": ("meaning", "it says what was asked for"),
    "near": ("words", "the words of the question stand in or about it"),
    "beside": ("neighbours", "what stands beside it says what was asked for"),
    "session": ("session", "the words stand elsewhere in its session"),
    "speaker": ("speaker", "who was named said it"),
    "period": ("time", "it is of the time that was asked for"),
    "reply": ("reply", "an agent's reply is no answer to what a person said: it is taken off"),
}
_CHOICES = {"origin": list(Origin), "kind": list(Kind), "trust": list(Trust), "sort": list(Sort)}
Name = Annotated[str | None, Field(max_length=1_000)]


def _read(
    ask: Ask,
    query: Annotated[str, Field(max_length=2_000)] = "",
    limit: Annotated[int, Field(ge=1, le=MOST)] = FEW,
    origin: Origin | None = None,
    kind: Kind | None = None,
    trust: Trust | None = None,
    session: Name = None,
    speaker: Name = None,
    since: Day | None = None,
    until: Day | None = None,
    as_of: Day | None = None,
    archived: bool = False,
    sort: Sort = Sort.CREATED_AT,
    cursor: Cursor = "",
) -> Shown:
    """Search, or without a question list the crystals. A day is one of UTC."""
    among: dict[str, Any] = {"origin": origin, "kind": kind, "trust": trust, "session": session, "speaker": speaker}
    among |= {"since": begin_of(since), "until": begin_of(until)}
    filtered = archived or any(one is not None for one in (*among.values(), as_of))
    beside: dict[str, object] = {"signals": SIGNALS, "choices": _CHOICES, "filtered": filtered, "reply": None}
    if not query.strip():
        listed = ask(crystals, **among, sort=sort, limit=_LISTED, cursor=cursor)
        return Shown({"crystals": listed}, {**beside, "listed": listed})
    known = begin_of(as_of + timedelta(days=1)) if as_of else None
    reply = ask(memory_search, query, limit, **among, as_of=known, archived=archived, explain=True, look=True)
    more = min(MOST, limit + _STEP) if limit <= len(reply.hits) < MOST else None
    return Shown({"memory_search": reply}, {**beside, "reply": reply, "more": more})


def _read_crystal(ask: Ask, id: Annotated[str, Field(min_length=8, max_length=32, pattern="^[0-9a-f]+$")]) -> Shown:
    one = ask(crystal, id=id)
    lists = {name: getattr(one, name) for name in _LISTS}
    standing = {other.crystal.id for other in (*one.superseded_by, *one.supersedes) if other.undone_at is None}
    undone = {
        other.crystal.id: other.crystal
        for other in (*one.superseded_by, *one.supersedes)
        if other.crystal.id not in standing
    }
    beside = {
        "one": one,
        "shown": {name: rows[:_OF_EACH] for name, rows in lists.items()},
        "hidden": {name: len(rows[_OF_EACH:]) + one.more.get(name, 0) for name, rows in lists.items()},
        "values": (
            ("Superseded by", _holding(one.superseded_by)),
            ("Supersedes", _holding(one.supersedes)),
        ),
        "undone": list(undone.values())[:_OF_EACH],
    }
    return Shown({"crystal": one}, beside)


def _holding(values: Sequence[OtherValue]) -> list[OtherValue]:
    """Return those that the owner did not take back."""
    return [one for one in values if one.undone_at is None][:_OF_EACH]


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


PAGE = Page("search", "Search", _read)
CRYSTAL = Page("crystal", "Crystal", _read_crystal, acts=(Act(_supersede, "supersede"),), under="search")
