"""Render: a page, a part of it, an error as HTML; the replies that it is made of as JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from daemon.api.operations.dreams import dream_status
from daemon.api.operations.request import Request
from daemon.pages.page import Ask, Done, Page
from daemon.pages.static_files import static_address
from daemon.pages.templates import rendered
from daemon.pages.views.table import NAVIGATION
from state.codec import encode

if TYPE_CHECKING:
    from daemon.api.daemon import DaemonStatus, WorkspaceInfo
    from daemon.http.errors import ErrorResponse
    from daemon.workspace.status import Status

MOST_WORKSPACES = 50


@dataclass(frozen=True, slots=True)
class Place:
    """Which workspace a page is of (empty: none), its address, and what its forms show that they are ours.

    `pulse` is the id of the last event before it was made: of what comes after that, it is told. `machines`: there is
    a fleet to be seen.
    """

    workspace: str = ""
    address: str = ""
    csrf: str = ""
    pulse: str = ""
    machines: bool = False

    @property
    def root(self) -> str:
        """What the addresses of the workspace's pages begin with."""
        return f"/w/{self.workspace}/"


def page_html(
    page: Page, query: Request, ask: Ask, place: Place, done: Done | None = None, *, fragment: bool = False
) -> str:
    """Render the page for this query; `done`: after this act. `fragment`: its part alone, with what the act said."""
    shown = page.read(ask, **query.given)
    values = {
        **_frame(place, page.title, ask.now),
        **shown.replies,
        **shown.beside,
        **(done.replies if done else {}),
        "page": page,
        "query": query,
        "status": None if fragment and done is None else ask(dream_status),
        "done": done,
        "notices": tuple(dict.fromkeys(ask.access.notices)),
    }
    return rendered(page.template or f"{page.name}.html", values, fragment=fragment)


def fleet_page(status: "DaemonStatus", place: Place, now: datetime, start: int, *, fragment: bool) -> str:
    """Render the workspaces from this place on in one table, those with a problem or something to review first."""
    by_root = {one.workspace: one for one in status.workspaces}
    rows = sorted(
        ((info, by_root.get(info.root)) for info in status.daemon.workspaces), key=lambda row: _wants_nobody(*row)
    )
    shown = rows[start : start + MOST_WORKSPACES]
    values = {
        "daemon": status.daemon,
        "rows": shown,
        "more": max(0, len(rows) - start - len(shown)),
        "next_start": start + len(shown),
    }
    return rendered("fleet.html", {**_frame(place, "Workspaces", now), **values}, fragment=fragment)


def _wants_nobody(info: "WorkspaceInfo", status: "Status | None") -> bool:
    if info.problem is not None or status is None:
        return info.problem is None
    return not (status.problems or status.proposals or status.changes.waiting)


def machines_page(status: object, place: Place, now: datetime, *, fragment: bool) -> str:
    """Render how a fleet of many machines stands: its status, as `dreamd fleet status --json` has it."""
    return rendered("machines.html", {**_frame(place, "Fleet", now), "fleet": status}, fragment=fragment)


def login_page(*, used: bool = False) -> str:
    """Render the page for a browser that is not logged in; `used`: it came with a link that works no more."""
    return rendered("login.html", {**_frame(Place(), "Log in"), "used": used})


def error_page(error: "ErrorResponse", place: Place | None = None, *, fragment: bool = False) -> str:
    """Render what went wrong and what to do, within the workspace's frame or as a part of a page that is there."""
    return rendered("error.html", {**_frame(place or Place(), "Error"), "error": error}, fragment=fragment)


def _frame(place: Place, title: str, now: datetime | None = None) -> dict[str, Any]:
    nothing = dict.fromkeys(("page", "status", "done"))
    frame = {"place": place, "now": now, "title": title, "static": static_address(), "navigation": NAVIGATION}
    return {**nothing, **frame, "notices": ()}


def as_json(replies: Mapping[str, Any]) -> str:
    """Return the replies by name, as the operations' own addresses give them."""
    return "{" + ", ".join(f"{json.dumps(name)}: {encode(reply)}" for name, reply in replies.items()) + "}"
