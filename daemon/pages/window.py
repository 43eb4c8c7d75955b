"""PageWindow: the pages as routes of the port: logging in, the files of `static/`, pages, acts, the events.

A page's stream of events tells that something changed, and nothing else: what changed, the browser asks for, so that
no word of a memory can be read as a line of the stream. Its ids say what the browser has seen, so that one that
listens again misses nothing. Four times a second it looks at a short text in the daemon's memory; no file is read.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from functools import cache
from hashlib import sha256
from hmac import compare_digest
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit
from weakref import WeakSet

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from daemon.api.operations.dreams import dream_status, dreams
from daemon.api.operations.request import Request as Fields
from daemon.api.shapes import on_clock
from daemon.http.access_policy import LOGIN_PATH, STATIC_PATH
from daemon.http.calls import fields_of
from daemon.http.errors import HttpError
from daemon.http.logins import MOST_SESSIONS, Logins, Session, cookie
from daemon.http.middleware import SESSION, USER
from daemon.http.window import Handler
from daemon.journal.summary import ended, is_owners
from daemon.pages.page import CSRF, UNDOES, Ask, Done, Page, Start, Undo, carry_out, form_of, request_of
from daemon.pages.templates import rendered
from daemon.pages.today import FRAME
from daemon.pages.views import FIRST, NAVIGATION, PAGES
from daemon.workspace.status import Verdict, verdict
from daemon.workspace.stores import utc_now
from state.codec import encode
from state.dream import Reason
from state.errors import DreamdError, NotFoundError, OverloadedError, UnknownWorkspaceError
from state.zone import local

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Scope

    from daemon.api.daemon import DaemonApi, DaemonStatus, WorkspaceInfo
    from daemon.api.workers import Workers
    from daemon.workspace.status import Status

# What a page may do: load our own files, ask and send forms to us. No script or style stands in a page.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_A_YEAR = "private, max-age=31536000, immutable"
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
MOST_WORKSPACES = 50
MOST_STREAMS = 64
_MOST_FIELDS = 2_000
_LOOK_SECONDS = 0.25
_MOST_UNDOS = 20
_FEW_RUNS = 5
_LATELY_SECONDS = 120.0
# The versions that a person saw on the first page at last, and before the present visit, which a look so late ends.
_SEEN, _VISIT = "dreamd_seen", "dreamd_visit"
_A_YEAR_SECONDS, _VISIT_SECONDS = 31_536_000, 1_800
# A line that says nothing, so that both sides notice when the other one has gone.
_SIGN_SECONDS = 15.0
_EVENT_ID = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Place:
    """Which workspace a page is of (empty: none), its address, and what its forms show that they are ours.

    `pulse` is the id of the last event before it was made: of what comes after that, it is told. `machines`: there is
    a fleet to be seen. `fragment`: a part is wanted, for a page that is there, `beside` it. `zone` is the owner's.
    """

    workspace: str = ""
    address: str = ""
    csrf: str = ""
    pulse: str = ""
    machines: bool = False
    fragment: bool = False
    zone: tzinfo = UTC
    beside: bool = False

    @property
    def root(self) -> str:
        """Return what the addresses of the workspace's pages begin with."""
        return f"/w/{self.workspace}/"


class Deed(NamedTuple):
    """What a person did and can take back: when, the digest of the form that was sent, and how."""

    at: datetime
    form: bytes
    undo: Undo


@dataclass(frozen=True, slots=True)
class PageWindow:
    """The window of one daemon; `logins` are the browsers that may look in.

    `machines` gives the status of the fleet that the daemon's configuration names; None without one.
    """

    logins: Logins
    machines: Callable[[], object] | None = None

    def pages(self, api: "DaemonApi", workers: "Workers") -> tuple[Handler, list[Route]]:
        """Return the first page, which has every workspace, and the routes of all others."""
        handlers = _Handlers(api, workers, self)
        return handlers.home, [
            Route(f"{LOGIN_PATH}{{code}}", handlers.login),
            Route("/logout", handlers.logout, methods=["POST"]),
            Route(f"{STATIC_PATH}{{version}}/{{name}}", handlers.static),
            Route("/fleet.json", handlers.home),
            Route("/machines", handlers.fleet),
            Route("/machines.json", handlers.fleet),
            Route("/events", handlers.events),
            Route("/w/{workspace}/events", handlers.events),
            Route("/w/{workspace}/{page}", handlers.page),
            Route("/w/{workspace}/{page}/{action}", handlers.act, methods=["POST"]),
        ]

    def refused(self, error: HttpError, scope: "Scope") -> "ASGIApp":
        """Return a page for people, a line above the page that is there, or JSON for programs."""
        request = Request(scope)
        if _wants_json(request) or "text/html" not in request.headers.get("accept", ""):
            return error.response()
        if error.status == 401:
            return _html(_login_page(), 401, error.headers)
        # The way to the other pages, where there are any.
        inside = re.match(r"/w/([A-Za-z0-9._-]{1,100})/", request.url.path)
        workspace = inside[1] if inside and error.code != UnknownWorkspaceError.code else ""
        place = Place(workspace, csrf=_csrf(request), fragment=_is_fragment(request))
        above = {"HX-Retarget": "#said", "HX-Reswap": "innerHTML"} if place.fragment else {}
        return _html(_rendered("error", "Error", place, error=error), error.status, {**error.headers, **above})


class _Handlers:
    """The handlers of the pages."""

    def __init__(self, api: "DaemonApi", workers: "Workers", window: PageWindow) -> None:
        self._api, self._workers = api, workers
        self._logins, self._machines = window.logins, window.machines
        # Those that are sent, and those that were let in and never are.
        self._streams: WeakSet[Response] = WeakSet()
        # What an act said, by session and workspace, for the page to which its browser is sent; and what can be taken
        # back, the last one at the end.
        self._said: dict[tuple[str, str], Done] = {}
        self._deeds: dict[tuple[str, str], tuple[Deed, ...]] = {}

    async def login(self, request: Request) -> Response:
        """Log this browser in by its link, and go where the link leads."""
        if request.method == "HEAD":  # whoever shows what a link is about does not use it up
            return _html("")
        code, user = str(request.path_params["code"]), request.scope[USER]
        opened = await self._workers.run(lambda: self._logins.redeem(code, user))
        if opened is None:
            return _html(_login_page(used=True), 410)
        if (before := request.scope.get(SESSION)) is not None:
            await self._workers.run(lambda: self._logins.end(before))
        return _html("", 303, {"Location": opened[1], "Set-Cookie": cookie(opened[0])})

    async def logout(self, request: Request) -> Response:
        """Log this browser out."""
        session, _ = await _form(request)
        await self._workers.run(lambda: self._logins.end(session))
        return _html(_login_page(), headers={"Set-Cookie": cookie("")})

    async def static(self, request: Request) -> Response:
        """Answer with a file of `static/`, which never changes under its address."""
        name = str(request.path_params["name"])
        if (found := static_files().get(name)) is None:
            raise NotFoundError("there is no such file")
        kind = _KINDS[name[name.rindex(".") :]]
        return Response(found, media_type=kind, headers={"Cache-Control": _A_YEAR})

    async def home(self, request: Request) -> Response:
        """Answer with every workspace in one table."""
        place, start = self._place(request), request_of(form_of(_from), _query(request)).given["start"]
        status = await self._workers.run(self._api.status)
        return _json({"status": status}) if _wants_json(request) else _html(_workspaces(status, place, start))

    async def fleet(self, request: Request) -> Response:
        """Answer how the fleet of many machines stands, as `dreamd fleet status` says."""
        if self._machines is None:
            raise NotFoundError("there is no such page", "set fleet.database to see a fleet")
        place, status = self._place(request), await self._workers.run(self._machines)
        if _wants_json(request):
            return _json({"fleet": status})
        return _html(
            _rendered("machines", "Fleet", place, local(utc_now(), place.zone), fleet=on_clock(status, place.zone))
        )

    async def page(self, request: Request) -> Response:
        """Answer with a page of a workspace, a part of it, or its replies as JSON."""
        name, page = _named_page(request)
        query, place = request_of(page.query, _query(request)), self._place(request, name)
        session, wants_json, looked = request.scope.get(SESSION), _wants_json(request), _looked(request)
        done = self._last_done((session.digest, name)) if session and not (place.fragment or wants_json) else None

        def made() -> Response:
            with self._api.open(name, lambda _: None) as access:
                if wants_json:
                    ask = Ask(access, utc_now())
                    page.read(ask, **query.given)
                    return _json(ask.replies)
                ask = Ask(access, local(utc_now(), place.zone), place.zone, looked)
                response = _html(_page(page, query, ask, place, done))
                if page.name == FIRST and session and not place.fragment:
                    seen: int = ask.replies["dream_status"].version  # type: ignore[attr-defined]
                    before = seen if looked is None else looked
                    for cookie, version, age in ((_SEEN, seen, _A_YEAR_SECONDS), (_VISIT, before, _VISIT_SECONDS)):
                        response.set_cookie(
                            cookie, str(version), age, path=place.root, httponly=True, samesite="strict"
                        )
                return response

        return await self._workers.run(made, name)

    async def act(self, request: Request) -> Response:
        """Do what a form asks for, and show the page as it is then."""
        name, page = _named_page(request)
        act = page.act(str(request.path_params["action"]))
        if act is None:
            raise NotFoundError("there is no such act on this page")
        session, fields = await _form(request)
        place, whose = replace(self._place(request, name), pulse=""), (session.digest, name)

        def made() -> tuple[Done, str, str]:
            form, sent = request_of(act.form, fields), sha256(repr((page.name, act.name, fields)).encode()).digest()
            with self._api.open(name, lambda _: None) as access:
                ask = Ask(access, local(utc_now(), place.zone), place.zone, undo=self._last_undo(whose))
                try:
                    done = carry_out(ask, page.name, act, form, session)
                except DreamdError:
                    if sent not in (one.form for one in self._deeds.get(whose, ())):
                        raise
                    done = Done("It was done already.")
                if not act.reads:
                    done = self._with_undo(whose, done, sent, ask.now, undoes=(UNDOES, "true") in fields)
                return done, *_page_after(request, page, Ask(access, ask.now, place.zone), place, done)

        done, text, address = await self._workers.run(made, name, long=act.long)
        # Without a script the browser is sent to the page, unless what came of it is to be seen only now.
        if place.fragment or done.replies:
            return _html(text)
        self._said = dict([*self._said.items(), (whose, done)][-MOST_SESSIONS:])
        return _html("", 303, {"Location": address})

    def _with_undo(self, whose: tuple[str, str], done: Done, form: bytes, now: datetime, *, undoes: bool) -> Done:
        """Remember what takes this act back. After one that took another back, offer both: it again, and the next.

        What changed nothing, because it was pressed twice, is taken back as the first time.
        """
        before = self._deeds.get(whose, ())
        if undoes:
            done = replace(done, again=done.undo, undo=before[-2].undo if len(before) > 1 else None)
            before = before[:-1]
        else:
            if done.undo is None:
                done = replace(done, undo=next((one.undo for one in before if one.form == form), None))
            before = tuple(one for one in before if one.undo != done.undo)
            if done.undo is not None:
                before = (*before, Deed(now, form, done.undo))[-_MOST_UNDOS:]
        self._deeds = dict([*self._deeds.items(), (whose, before)][-MOST_SESSIONS:])
        return done

    def _last_done(self, whose: tuple[str, str]) -> Done:
        """Return what the act said that sent the browser here, else what takes back the last one."""
        return self._said.pop(whose, None) or Done("", undo=self._last_undo(whose))

    def _last_undo(self, whose: tuple[str, str]) -> Undo | None:
        """Return what takes back the last act of this visit."""
        deeds = self._deeds.get(whose)
        return deeds[-1].undo if deeds and (utc_now() - deeds[-1].at).total_seconds() < _VISIT_SECONDS else None

    def _place(self, request: Request, workspace: str = "") -> Place:
        address = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        pulse, machines = self._pulse(workspace), self._machines is not None
        beside, zone = "beside" in request.headers.get("hx-target", ""), self._api.config.zone
        return Place(
            workspace, address, _csrf(request), pulse, machines, _is_fragment(request), zone=zone, beside=beside
        )

    async def events(self, request: Request) -> Response:
        """Tell the browser when something changed, as long as it listens and is logged in."""
        if request.method == "HEAD":
            return _html("")
        if len(self._streams) >= MOST_STREAMS:
            raise OverloadedError(f"{MOST_STREAMS} pages are listening already", "close some of them")
        # The browser's own id, once it has heard something; before that the page's.
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        workspace = str(request.path_params.get("workspace", ""))
        now = self._pulse(workspace)
        events = self._events(workspace, seen if _EVENT_ID.fullmatch(seen) else now, request.scope.get(SESSION))
        response = StreamingResponse(events, media_type="text/event-stream")
        self._streams.add(response)
        return response

    async def _events(self, workspace: str, before: str, session: Session | None) -> AsyncIterator[bytes]:
        """Give an event for each change, until the session, the workspace or the daemon ends."""
        yield b"retry: 1000\nid: %b\n\n" % before.encode()
        quiet, stopping = 0.0, self._workers.stopping
        while not stopping.is_set() and (session is None or self._logins.holds(session)):
            try:
                now = self._pulse(workspace)
            except UnknownWorkspaceError:
                return  # it is kept no more
            if now != before:
                before, quiet = now, 0.0
                yield b"event: changed\nid: %b\ndata: 1\n\n" % now.encode()
            elif quiet >= _SIGN_SECONDS:
                quiet = 0.0
                yield b": here\n\n"
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await stopping.wait()
            except TimeoutError:
                quiet += _LOOK_SECONDS

    def _pulse(self, workspace: str) -> str:
        """Return the id of the last event. Raise UnknownWorkspaceError."""
        return sha256(self._api.pulse(workspace).encode()).hexdigest()[:16]


# ------------------------------------------------------------------------------------------------ what is asked


def _from(_: object, start: Start = 0) -> None:
    """Take the place in the list of workspaces from which on they are shown."""


def _named_page(request: Request) -> tuple[str, Page]:
    """Return the workspace and the page. Raise NotFoundError."""
    found = PAGES.get(str(request.path_params["page"]).removesuffix(".json"))
    if found is None:
        raise NotFoundError("there is no such page", f"the first one is {FIRST}")
    return str(request.path_params["workspace"]), found


def _query(request: Request) -> list[tuple[str, str]]:
    return fields_of(request.scope["query_string"], _MOST_FIELDS)


def _wants_json(request: Request) -> bool:
    return request.url.path.endswith(".json")


def _is_fragment(request: Request) -> bool:
    return request.headers.get("hx-request") == "true"


def _looked(request: Request) -> int | None:
    """Return the version after which all is new to this person; None if they never looked."""
    seen = request.cookies.get(_VISIT) or request.cookies.get(_SEEN, "")
    return int(seen) if re.fullmatch("[0-9]{1,9}", seen) else None


def _csrf(request: Request) -> str:
    session = request.scope.get(SESSION)
    return session.csrf if session is not None else ""


async def _form(request: Request) -> tuple[Session, list[tuple[str, str]]]:
    """Return the browser's session, and the fields of a form that is of one of its pages.

    Raise HttpError: the port's token alone does nothing on a page, nor does a form of another session.
    """
    fields, session = fields_of(await request.body(), _MOST_FIELDS), request.scope.get(SESSION)
    if session is None:
        message = "a page's forms are for a browser that is logged in; programs ask /v1"
        raise HttpError(403, "FORBIDDEN", message)
    shown = [value for name, value in fields if name == CSRF]
    if len(shown) != 1 or not compare_digest(shown[0].encode(), session.csrf.encode()):
        message = "this form is not of a page of this session; load the page again"
        raise HttpError(403, "FORBIDDEN", message)
    return session, fields


# ------------------------------------------------------------------------------------------------ what is shown


def _rendered(name: str, title: str, place: Place, now: datetime | None = None, **values: object) -> str:
    """Render the template of this name, within the frame or as a part."""
    frame = {
        "page": None,
        "status": None,
        "done": None,
        "ended": "",
        "notices": (),
        "place": place,
        "now": now,
        "title": title,
    }
    every = {**frame, "static": static_address(), "navigation": NAVIGATION, **values}
    return rendered(f"{name}.html", every, fragment=place.fragment)


def _page(page: Page, query: Fields, ask: Ask, place: Place, done: Done | None) -> str:
    """Render the page for this query; `done`: after this act, with what it said."""
    beside = page.read(ask, **query.given)
    has_frame = page is FRAME or not place.fragment or done is not None
    values = {
        **ask.replies,
        **beside,
        **(done.replies if done else {}),
        "page": page,
        "query": query,
        "status": (ask.replies.get(dream_status.name) or ask(dream_status)) if has_frame else None,
        "ended": _ended_lately(ask) if has_frame else "",
        "done": done,
        "notices": tuple(dict.fromkeys(ask.access.notices)),
    }
    return _rendered(page.template or page.name, page.title, place, ask.now, **values)


def _ended_lately(ask: Ask) -> str:
    """Say how the last dream ended, for two minutes: who asked for it is told wherever they are."""
    every = Ask(ask.access, ask.now, ask.zone)(dreams, limit=_FEW_RUNS).dreams
    runs = [one for one in every if not is_owners(one)]
    ended_at = runs[0].run.ended_at if runs else None
    if ended_at is None or (ask.now - ended_at).total_seconds() > _LATELY_SECONDS:
        return ""
    if runs[0].run.outcome == "skipped" and runs[0].run.reason != Reason.MANUAL:
        return ""
    before = next((one.run.ended_at for one in runs[1:] if one.run.outcome == "committed"), None)
    return ended(runs[0], before)


def _page_after(request: Request, page: Page, ask: Ask, place: Place, done: Done) -> tuple[str, str]:
    """Return the page where the browser is, after the act, and its address; if it has replies to show, the act's own.

    The first page stands for one that showed what went with the act.
    """
    seen = _where(request, place)
    if seen is None or (done.replies and seen[0] is not page):
        seen = (page, ())
    try:
        return _page_at(*seen, ask, place, done)
    except DreamdError:
        return _page_at(PAGES[FIRST], (), ask, place, done)


def _page_at(page: Page, fields: Sequence[tuple[str, str]], ask: Ask, place: Place, done: Done) -> tuple[str, str]:
    query = request_of(page.query, fields)
    address = place.root + page.name + (f"?{urlencode(fields)}" if fields else "")
    return _page(page, query, ask, replace(place, address=address), done), address


def _where(request: Request, place: Place) -> tuple[Page, Sequence[tuple[str, str]]] | None:
    """Return the page of this workspace that the browser shows, with the fields of its address."""
    try:
        url = urlsplit(request.headers.get("hx-current-url") or request.headers.get("referer", ""))
        root, _, name = url.path.rpartition("/")
        page = PAGES.get(name) if f"{root}/" == place.root else None
        return (page, fields_of(url.query.encode("ascii"), _MOST_FIELDS)) if page else None
    except (ValueError, DreamdError):  # it is no address
        return None


def _workspaces(status: "DaemonStatus", place: Place, start: int) -> str:
    """Render the workspaces from this place on in one table, those with a problem or something to review first."""
    by_root = {one.workspace: one for one in status.workspaces}
    rows = sorted(
        ((info, by_root.get(info.root)) for info in status.daemon.workspaces), key=lambda row: _wants_nobody(*row)
    )
    end = start + MOST_WORKSPACES
    shown = {"daemon": status.daemon, "rows": rows[start:end], "more": len(rows[end:]), "next_start": end}
    return _rendered("fleet", "Workspaces", place, local(utc_now(), place.zone), **on_clock(shown, place.zone))


def _wants_nobody(info: "WorkspaceInfo", status: "Status | None") -> bool:
    return info.problem is None and (status is None or verdict(status) in (Verdict.WELL, Verdict.DREAMING))


def _login_page(*, used: bool = False) -> str:
    """Render the page for a browser that is not logged in; `used`: it came with a link that works no more."""
    return _rendered("login", "Log in", Place(), used=used)


def _html(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return HTMLResponse(text, status, {**_HEADERS, **(headers or {})})


def _json(replies: Mapping[str, Any]) -> Response:
    """Answer with the replies by name, as the operations' own addresses give them."""
    text = ", ".join(f"{json.dumps(name)}: {encode(reply)}" for name, reply in replies.items())
    return Response(f"{{{text}}}", media_type="application/json")


@cache
def static_files() -> Mapping[str, bytes]:
    """Return the scripts, the style and the drawings that pages load, by name."""
    every = files("daemon.pages").joinpath("static").iterdir()
    return {one.name: one.read_bytes() for one in every if one.name.endswith(tuple(_KINDS))}


@cache
def static_address() -> str:
    """Return where they are: a new place whenever one of them has changed, so that a browser keeps none too long."""
    whole = sha256(b"".join(content for _, content in sorted(static_files().items())))
    return f"{STATIC_PATH}{whole.hexdigest()[:12]}/"
