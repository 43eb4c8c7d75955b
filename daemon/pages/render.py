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
    from daemon.workspace.status import Status

MOST_WORKSPACES = 50


@dataclass(frozen=True, slots=True)
class Place:
    """Which workspace a page is of (empty: none), its address, and what its forms show that they are ours.

    `pulse` is the id of the last event before it was made: of what comes after that, it is told. `machines`: there is
    a fleet to be seen. `fragment`: a part is wanted, for a page that is there.
    """

    workspace: str = ""
    address: str = ""
    csrf: str = ""
    pulse: str = ""
    machines: bool = False
    fragment: bool = False

    @property
    def root(self) -> str:
        """What the addresses of the workspace's pages begin with."""
        return f"/w/{self.workspace}/"


def html(name: str, title: str, place: Place, now: datetime | None = None, **values: object) -> str:
    """Render the template of this name, within the frame or as a part."""
    frame = {"page": None, "status": None, "done": None, "notices": (), "place": place, "now": now, "title": title}
    every = {**frame, "static": static_address(), "navigation": NAVIGATION, **values}
    return rendered(f"{name}.html", every, fragment=place.fragment)


def page_html(page: Page, query: Request, ask: Ask, place: Place, done: Done | None = None) -> str:
    """Render the page for this query; `done`: after this act, with what it said."""
    shown = page.read(ask, **query.given)
    values = {
        **shown.replies,
        **shown.beside,
        **(done.replies if done else {}),
        "page": page,
        "query": query,
        "status": None if place.fragment and done is None else ask(dream_status),
        "done": done,
        "notices": tuple(dict.fromkeys(ask.access.notices)),
    }
    return html(page.template or page.name, page.title, place, ask.now, **values)


def workspaces_html(status: "DaemonStatus", place: Place, now: datetime, start: int) -> str:
    """Render the workspaces from this place on in one table, those with a problem or something to review first."""
    by_root = {one.workspace: one for one in status.workspaces}
    rows = sorted(
        ((info, by_root.get(info.root)) for info in status.daemon.workspaces), key=lambda row: _wants_nobody(*row)
    )
    shown, end = rows[start : start + MOST_WORKSPACES], start + MOST_WORKSPACES
    more = len(rows[end:])
    return html("fleet", "Workspaces", place, now, daemon=status.daemon, rows=shown, more=more, next_start=end)


def _wants_nobody(info: "WorkspaceInfo", status: "Status | None") -> bool:
    if info.problem is not None or status is None:
        return info.problem is None
    return not (status.problems or status.changes.waiting)


def as_json(replies: Mapping[str, Any]) -> str:
    """Return the replies by name, as the operations' own addresses give them."""
    return "{" + ", ".join(f"{json.dumps(name)}: {encode(reply)}" for name, reply in replies.items()) + "}"
