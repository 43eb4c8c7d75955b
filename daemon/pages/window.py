"""PageWindow: the pages as routes of the port: logging in, the files of `static/`, pages, acts, the events."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from hmac import compare_digest
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from daemon.http.access_policy import LOGIN_PATH, STATIC_PATH
from daemon.http.errors import ErrorResponse, RefusedError, error_response
from daemon.http.logins import MOST_SESSIONS, Logins, Session, cookie
from daemon.http.middleware import SESSION, USER
from daemon.pages.acts import carry_out
from daemon.pages.events import Streams
from daemon.pages.forms import CSRF, Start, fields_of, form_of, request_of
from daemon.pages.generic import page_of
from daemon.pages.page import Ask, Done, Page
from daemon.pages.render import Place, as_json, html, page_html, workspaces_html
from daemon.pages.static_files import static_files
from daemon.pages.templates import query as encoded
from daemon.pages.views.table import FIRST, PAGES
from daemon.workspace.stores import utc_now
from state.errors import DreamdError, NotFoundError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Scope

    from daemon.api.daemon import DaemonApi
    from daemon.api.workers import Workers

Handler = Callable[["Request"], Awaitable["Response"]]
Machines = Callable[[], object]

# What a page may do: load our own files, ask and send forms to us. No script or style stands in a page.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_A_YEAR = "private, max-age=31536000, immutable"


def _from(_: object, start: Start = 0) -> None:
    """Take the place in the list of workspaces from which on they are shown."""


@dataclass(frozen=True, slots=True)
class PageWindow:
    """The window of one daemon; `logins` are the browsers that may look in.

    `machines` gives the status of the fleet that the daemon's configuration names; None without one.
    """

    logins: Logins
    machines: Machines | None = None

    def pages(self, api: "DaemonApi", workers: "Workers") -> "tuple[Handler, list[Route]]":
        """Return the first page, which has every workspace, and the routes of all others."""
        from starlette.routing import Route

        handlers = _Handlers(api, workers, self)
        home, fleet = _shown(handlers.home), _shown(handlers.fleet)
        return home, [
            Route(f"{LOGIN_PATH}{{code}}", handlers.login),
            Route("/logout", _shown(handlers.logout), methods=["POST"]),
            Route(f"{STATIC_PATH}{{version}}/{{name}}", handlers.static),
            Route("/fleet.json", home),
            Route("/machines", fleet),
            Route("/machines.json", fleet),
            Route("/events", handlers.events),
            Route("/w/{workspace}/events", handlers.events),
            Route("/w/{workspace}/{page}", _shown(handlers.page)),
            Route("/w/{workspace}/{page}/{action}", _shown(handlers.act), methods=["POST"]),
        ]

    def refused(self, error: ErrorResponse, scope: "Scope") -> "ASGIApp":
        """Return a page for people, JSON for programs."""
        if b"text/html" not in dict(scope["headers"]).get(b"accept", b""):
            return error.response()
        page = _login_page() if error.status == 401 else html("error", "Error", Place(), error=error)
        return _html(page, error.status, error.headers)


class _Handlers:
    """The handlers of the pages."""

    def __init__(self, api: "DaemonApi", workers: "Workers", window: PageWindow) -> None:
        self._api, self._workers = api, workers
        self._logins, self._machines = window.logins, window.machines
        self._streams = Streams(api, workers)
        # What an act said, by session and workspace, for the page to which its browser is sent.
        self._said: dict[tuple[str, str], Done] = {}

    async def login(self, request: "Request") -> "Response":
        """Log this browser in by its link, and go where the link leads."""
        if request.method == "HEAD":  # whoever shows what a link is about does not use it up
            return _html("")
        code, user = str(request.path_params["code"]), request.scope[USER]
        opened = await self._workers.run(lambda: self._logins.redeem(code, user))
        if opened is None:
            return _html(_login_page(used=True), 410)
        if (before := request.scope.get(SESSION)) is not None:
            await self._workers.run(lambda: self._logins.end(before))
        return _html("", 303, {"Location": opened.destination, "Set-Cookie": cookie(opened.id)})

    async def logout(self, request: "Request") -> "Response":
        """Log this browser out."""
        session, _ = await _form(request)
        await self._workers.run(lambda: self._logins.end(session))
        return _html(_login_page(), headers={"Set-Cookie": cookie("")})

    async def static(self, request: "Request") -> "Response":
        """Answer with a file of `static/`, which never changes under its address."""
        from starlette.responses import Response

        found = static_files().get(str(request.path_params["name"]))
        if found is None:
            raise NotFoundError("there is no such file")
        return Response(found.content, media_type=found.kind, headers={"Cache-Control": _A_YEAR})

    async def events(self, request: "Request") -> "Response":
        """Tell the browser when something changed, as long as it listens and is logged in."""
        if request.method == "HEAD":
            return _html("")
        session: Session | None = request.scope.get(SESSION)
        # The browser's own id, once it has heard something; before that the page's.
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        workspace = str(request.path_params.get("workspace", ""))
        return self._streams.response(workspace, seen, lambda: session is None or self._logins.holds(session))

    async def home(self, request: "Request") -> "Response":
        """Answer with every workspace in one table."""
        place, start = self._place(request), request_of(form_of(_from), _query(request)).given["start"]
        status = await self._workers.run(self._api.status)
        if _wants_json(request):
            return _json(as_json({"status": status}))
        return _html(workspaces_html(status, place, utc_now(), start))

    async def fleet(self, request: "Request") -> "Response":
        """Answer how the fleet of many machines stands, as `dreamd fleet status` says."""
        if self._machines is None:
            raise NotFoundError("there is no such page", "set fleet.database to see a fleet")
        place, status = self._place(request), await self._workers.run(self._machines)
        if _wants_json(request):
            return _json(as_json({"fleet": status}))
        return _html(html("machines", "Fleet", place, utc_now(), fleet=status))

    async def page(self, request: "Request") -> "Response":
        """Answer with a page of a workspace, a part of it, or its replies as JSON."""
        name, page = _named_page(request)
        query, place = request_of(page.query, _query(request)), self._place(request, name)
        session, wants_json = request.scope.get(SESSION), _wants_json(request)
        done = None
        if session and not (place.fragment or wants_json):
            done = self._said.pop((session.digest, name), None)

        def made() -> str:
            with self._api.open(name, lambda _: None) as access:
                ask = Ask(access, utc_now())
                if wants_json:
                    return as_json(page.read(ask, **query.given).replies)
                return page_html(page, query, ask, place, done)

        text = await self._workers.run(made, name)
        return _json(text) if wants_json else _html(text)

    async def act(self, request: "Request") -> "Response":
        """Do what a form asks for, and show the page as it is then."""
        name, page = _named_page(request)
        act = page.act(str(request.path_params["action"]))
        if act is None:
            raise NotFoundError("there is no such act on this page")
        session, fields = await _form(request)
        place = replace(self._place(request, name), pulse="")

        def made() -> "tuple[Done, str]":
            form = request_of(act.form, fields)
            with self._api.open(name, lambda _: None) as access:
                done = carry_out(Ask(access, utc_now()), page.name, act, form, session)
                # Without a script the browser is sent to the page, unless what came of it is to be seen only now.
                if not (place.fragment or done.replies):
                    return done, ""
                return done, _page_after(request, page, Ask(access, utc_now()), place, done)

        done, text = await self._workers.run(made, name, long=act.long)
        if text:
            return _html(text)
        self._said = dict([*self._said.items(), ((session.digest, name), done)][-MOST_SESSIONS:])
        return _html("", 303, {"Location": _address(page, done, place)})

    def _place(self, request: "Request", workspace: str = "") -> Place:
        address = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        pulse, machines = self._streams.pulse(workspace), self._machines is not None
        return Place(workspace, address, _csrf(request), pulse, machines, _is_fragment(request))


def _shown(handler: Handler) -> Handler:
    """Return the handler, whose errors are a page for people, or are told above a page that is there."""

    async def answer(request: "Request") -> "Response":
        try:
            return await handler(request)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the top of a request: an unexpected error is logged as a defect
            refused = error_response(error)
        if _wants_json(request):
            return refused.response()
        place = Place(csrf=_csrf(request), fragment=_is_fragment(request))
        above = {"HX-Retarget": "#said", "HX-Reswap": "innerHTML"} if place.fragment else {}
        return _html(html("error", "Error", place, error=refused), refused.status, above)

    return answer


def _page_after(request: "Request", page: Page, ask: Ask, place: Place, done: Done) -> str:
    """Return the page where the browser is, after the act; from elsewhere, or with replies to show, the act's own."""
    try:
        url = urlsplit(request.headers.get("hx-current-url", ""))
        root, _, name = url.path.rpartition("/")
        seen, fields = _page(name), fields_of(url.query.encode("ascii"))
        if seen and root == f"/w/{place.workspace}" and (seen is page or not done.replies):
            at = replace(place, address=f"{place.root}{name}?{urlencode(fields)}" if fields else place.root + name)
            return page_html(seen, request_of(seen.query, fields), ask, at, done)
    except (ValueError, DreamdError):  # it is no address, or what it showed went with the act
        pass
    query = request_of(page.query, fields_of(encoded(done.query).encode()))
    return page_html(page, query, ask, replace(place, address=_address(page, done, place)), done)


def _address(page: Page, done: Done, place: Place) -> str:
    """Return the address of an act's page, for what was acted on."""
    query = encoded(done.query)
    return f"{place.root}{page.name}?{query}" if query else f"{place.root}{page.name}"


def _page(name: str) -> Page | None:
    return PAGES.get(name) or page_of(name)


def _named_page(request: "Request") -> tuple[str, Page]:
    """Return the workspace and the page. Raise NotFoundError."""
    found = _page(str(request.path_params["page"]).removesuffix(".json"))
    if found is None:
        raise NotFoundError("there is no such page", f"the first one is {FIRST}")
    return str(request.path_params["workspace"]), found


def _query(request: "Request") -> list[tuple[str, str]]:
    return fields_of(request.scope["query_string"])


def _wants_json(request: "Request") -> bool:
    return request.url.path.endswith(".json")


def _is_fragment(request: "Request") -> bool:
    return request.headers.get("hx-request") == "true"


def _csrf(request: "Request") -> str:
    session = request.scope.get(SESSION)
    return session.csrf if session is not None else ""


async def _form(request: "Request") -> tuple[Session, list[tuple[str, str]]]:
    """Return the browser's session, and the fields of a form that is of one of its pages.

    Raise RefusedError: the port's token alone does nothing on a page, nor does a form of another session.
    """
    fields, session = fields_of(await request.body()), request.scope.get(SESSION)
    if session is None:
        message = "a page's forms are for a browser that is logged in; programs ask /v1"
        raise RefusedError(ErrorResponse(403, "FORBIDDEN", message))
    shown = [value for name, value in fields if name == CSRF]
    if len(shown) != 1 or not compare_digest(shown[0].encode(), session.csrf.encode()):
        message = "this form is not of a page of this session; load the page again"
        raise RefusedError(ErrorResponse(403, "FORBIDDEN", message))
    return session, fields


def _login_page(*, used: bool = False) -> str:
    """Render the page for a browser that is not logged in; `used`: it came with a link that works no more."""
    return html("login", "Log in", Place(), used=used)


def _html(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> "Response":
    from starlette.responses import HTMLResponse

    return HTMLResponse(text, status, {**HEADERS, **(headers or {})})


def _json(text: str) -> "Response":
    from starlette.responses import Response

    return Response(text, media_type="application/json")
