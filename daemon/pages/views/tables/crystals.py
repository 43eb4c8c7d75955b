"""Crystals: the long-term memory as a table that is filtered and sorted; and which of two holds now."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field

from daemon.api.operations.notes import supersede
from daemon.api.operations.request import Request
from daemon.api.tables.crystals import crystals
from daemon.api.tables.cursor import MAX_CHARACTERS
from daemon.pages.forms import Day, begin_of
from daemon.pages.page import Action, Ask, Done, Page, Replies, Undo
from state.crystals.crystal import Kind, Lifecycle, Origin
from state.stores.crystals.listing import Sort
from state.trust import Trust

# A row has some 1 KB.
_MOST = 40


class CrystalsQuery(Request):
    """Which crystals, in which order, and which part of them. A day is one of UTC."""

    text: str = Field(default="", max_length=200)
    origin: Origin | None = None
    kind: Kind | None = None
    trust: Trust | None = None
    lifecycle: Lifecycle | None = None
    superseded: Literal["yes", "no", "any"] = "any"
    session: str | None = Field(default=None, max_length=1_000)
    speaker: str | None = Field(default=None, max_length=1_000)
    since: Day | None = None
    until: Day | None = None
    sort: Sort = Sort.CREATED_AT
    order: Literal["descending", "ascending"] = "descending"
    cursor: str = Field(default="", max_length=MAX_CHARACTERS)


def _read(ask: Ask, query: CrystalsQuery) -> Replies:
    asked = query.model_dump(exclude={"since", "until"})
    since, until = begin_of(query.since), begin_of(query.until)
    return {"crystals": ask(crystals, **asked, since=since, until=until, limit=_MOST)}


def _view(_: Replies, query: CrystalsQuery, __: datetime) -> Mapping[str, object]:
    order = {"sort", "order", "cursor"}
    fields = query.model_dump(mode="json", exclude_defaults=True)
    return {
        "ordered": {name: value for name, value in fields.items() if name in order - {"cursor"}},
        "filtered": bool(fields.keys() - order),
        "narrowed": bool(fields.keys() - order - {"text"}),
        "choices": {"origin": list(Origin), "kind": list(Kind), "trust": list(Trust), "lifecycle": list(Lifecycle)},
    }


class Pair(Request):
    """Which of two crystals holds; `undo`: both do."""

    older: str = Field(min_length=1, max_length=10_000)
    newer: str = Field(min_length=1, max_length=10_000)
    undo: bool = False


def _supersede(ask: Ask, form: Pair) -> Done:
    done = ask(supersede, form.older, form.newer, form.undo)
    about = f"{form.older[:12]} and {form.newer[:12]}"
    if form.undo:
        again = {"older": form.older, "newer": form.newer}
        return Done("Both hold.", f"both hold: {about}", undo=Undo("crystals", "supersede", again))
    back = {"older": form.newer, "newer": form.older} if done.turned else {**form.model_dump(), "undo": "true"}
    older, newer = form.older[:12], form.newer[:12]
    said = f"{newer} holds now, {older} does not. The next dream sees to the lines that rest on it."
    return Done(said, f"superseded: {older} by {newer}", undo=Undo("crystals", "supersede", back))


PAGE = Page(
    "crystals",
    "Crystals",
    _read,
    CrystalsQuery,
    view=_view,
    actions=(Action("supersede", Pair, _supersede),),
)
