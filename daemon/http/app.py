"""HTTP application: routes for the operations under /v1/workspaces/{workspace}, and for the daemon itself."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, Protocol, cast

from pydantic import Field

from daemon.api.operations.operation import AnyOperation
from daemon.api.operations.request import Request as OperationRequest
from daemon.api.operations.table import OPERATIONS
from daemon.api.peer import PEER
from daemon.http.access_policy import LOGIN_PATH, AccessPolicy
from daemon.http.calls import parse_call, respond, wants_stream
from daemon.http.errors import ErrorResponse, RefusedError, error_response
from daemon.http.logins import Logins
from daemon.http.middleware import SESSION, AccessMiddleware
from daemon.http.openapi import document
from daemon.http.parsing import from_json
from state.codec import encode
from state.errors import DreamdError, NotFoundError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Scope

    from daemon.api.daemon import DaemonApi
    from daemon.api.workers import Workers

WORKSPACES = "/v1/workspaces"
LOCAL_ONLY = "this names files of the machine, and is answered at the Unix socket alone; use the command line there"
_HOME = {
    "dreamd": "the memory of agents",
    "workspaces": WORKSPACES,
    "status": "/v1/status",
    "openapi": "/v1/openapi.json",
    "mcp": "/mcp",
    "metrics": "/metrics",
    "alive": "/healthz",
    "ready": "/readyz",
}
_MOST_PATH = 4096

Handler = Callable[["Request"], Awaitable["Response"]]


class Window(Protocol):
    """The pages for people, as the application of the port has them."""

    @property
    def logins(self) -> Logins: ...

    def pages(self, api: "DaemonApi", workers: "Workers") -> "tuple[Handler, list[Route]]":
        """Return the first page, and the routes of all others."""

    def refused(self, error: ErrorResponse, scope: "Scope") -> "ASGIApp":
        """Return the reply to a request for a page that is refused."""


class LoginRequest(OperationRequest):
    """Where a link leads: to this workspace, else to the first page."""

    workspace: str = Field(default="", max_length=48, pattern="^[a-z0-9-]*$", description="Its name")


class Registration(OperationRequest):
    """A workspace for the daemon to keep."""

    path: str = Field(min_length=1, max_length=_MOST_PATH, description="Its root, absolute")


def application(
    api: "DaemonApi",
    policy: AccessPolicy,
    workers: "Workers",
    mcp: "ASGIApp | None" = None,
    window: Window | None = None,
) -> "Starlette":
    """Return the application for listeners with this policy.

    `mcp` answers at /mcp and /mcp/{workspace}; the caller enters its lifespan. `window` answers at the port.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.routing import Route

    handlers = _Handlers(api, policy, workers, window)
    routes = [
        Route("/", handlers.home),
        Route("/healthz", handlers.alive),
        Route("/readyz", handlers.ready),
        Route("/metrics", handlers.metrics),
        Route("/v1/openapi.json", handlers.openapi),
        Route("/v1/status", handlers.status),
        *(_route(handlers, operation) for operation in OPERATIONS.values() if operation.remote or policy.is_local),
        *(_local_routes(handlers) if policy.is_local else _remote_routes(handlers)),
    ]
    if mcp is not None:
        # A path parameter, rather than a mount: a mount would redirect /mcp to /mcp/.
        routes += [Route("/mcp", mcp), Route("/mcp/{workspace}", mcp)]
    if window is not None and not policy.is_local:
        handlers.first_page, pages = window.pages(api, workers)
        routes += pages
    guard = Middleware(AccessMiddleware, api=api, policy=policy, body_bytes=workers.limits.body_bytes, window=window)
    app = Starlette(
        routes=routes,
        middleware=[guard],
        exception_handlers={HTTPException: _no_route, DreamdError: _on_error},
    )
    app.router.redirect_slashes = False  # such a redirect would name the host that the client named
    return app


class _Handlers:
    """The handlers of the routes at one listener."""

    def __init__(self, api: "DaemonApi", policy: AccessPolicy, workers: "Workers", window: Window | None) -> None:
        self._api = api
        self._policy = policy
        self._workers = workers
        self._window = window
        self.first_page: Handler | None = None  # for a browser that is logged in

    async def home(self, request: "Request") -> "Response":
        if self.first_page is not None and request.scope.get(SESSION) is not None:
            return await self.first_page(request)
        return _json(json.dumps(_HOME))

    async def login(self, request: "Request") -> "Response":
        """Return a link for a browser, which works once."""
        _require_json(request)
        name = from_json(LoginRequest, await request.body()).workspace
        if self._window is None or not (address := self._api.info().http):
            raise NotFoundError(
                "the daemon has no port, and a browser needs one",
                "set http.port (DREAMD_HTTP__PORT) to a free one, and restart it",
            )
        # What root asks for may be for anybody's browser; else it is for who asks.
        user = request.scope["state"][PEER] or None
        logins, destination = self._window.logins, f"/w/{name}/now" if name else "/"
        code = await self._workers.run(lambda: logins.link(destination, user))
        return _json(json.dumps({"url": f"{reachable(address)}{LOGIN_PATH}{code}"}))

    async def alive(self, _: "Request") -> "Response":
        return _json('{"status": "alive"}')

    async def ready(self, _: "Request") -> "Response":
        # Not in the workers' threads: a daemon whose threads are all busy is ready.
        if reason := await asyncio.to_thread(self._api.unready_reason):
            return ErrorResponse(503, "NOT_READY", without_paths(reason)).response()
        return _json('{"status": "ready"}')

    async def metrics(self, request: "Request") -> "Response":
        from starlette.responses import Response

        accept = request.headers.get("accept", "")
        figures, kind = await self._workers.run(lambda: self._api.metrics.render(accept))
        return Response(figures, headers={"Content-Type": kind})

    async def openapi(self, _: "Request") -> "Response":
        return _json(await self._workers.run(lambda: _document(self._policy.is_local)))

    async def status(self, _: "Request") -> "Response":
        return _json(await self._workers.run(lambda: encode(self._api.status())))

    async def workspaces(self, _: "Request") -> "Response":
        return _json(await self._workers.run(lambda: encode(self._api.info())))

    async def register(self, request: "Request") -> "Response":
        _require_json(request)
        registration = from_json(Registration, await request.body())
        root = _absolute(registration.path)
        return _json(encode({"name": await self._workers.run(lambda: self._api.register(root))}))

    async def unregister(self, request: "Request") -> "Response":
        name = str(request.path_params["workspace"])
        await self._workers.run(lambda: self._api.unregister(name))
        return _json(encode({"name": name}))

    def operation(self, operation: AnyOperation) -> Handler:
        """Return the handler of this operation."""

        async def answer(request: "Request") -> "Response":
            if operation.method != "GET":
                _require_json(request)
            call = parse_call(request, operation, self._policy, await request.body())
            streaming = wants_stream(request.headers.getlist("accept"))
            return await respond(call, self._api, self._workers, streaming=streaming)

        return answer


def _route(handlers: _Handlers, operation: AnyOperation) -> "Route":
    from starlette.routing import Route

    path = f"{WORKSPACES}/{{workspace}}{operation.path}"
    return Route(path, handlers.operation(operation), methods=[operation.method], name=operation.name)


def _local_routes(handlers: _Handlers) -> "list[Route]":
    """Return the routes that only the Unix socket has."""
    from starlette.routing import Route

    async def workspaces(request: "Request") -> "Response":
        return await (handlers.register if request.method == "POST" else handlers.workspaces)(request)

    return [
        Route(WORKSPACES, workspaces, methods=["GET", "POST"]),
        Route(f"{WORKSPACES}/{{workspace}}", handlers.unregister, methods=["DELETE"]),
        Route("/v1/login", handlers.login, methods=["POST"]),
    ]


def _remote_routes(handlers: _Handlers) -> "list[Route]":
    """Return the socket's routes as the port has them: listing is answered, the others say where to ask."""
    from starlette.routing import Route

    refused = ErrorResponse(403, "FORBIDDEN", LOCAL_ONLY).response()

    async def refuse(_: "Request") -> "Response":
        return refused

    local = ("/v1/login", *(f"{WORKSPACES}/{{workspace}}{one.path}" for one in OPERATIONS.values() if not one.remote))
    return [
        # A 405 lists the methods of the first one.
        Route(WORKSPACES, handlers.workspaces),
        Route(WORKSPACES, refuse, methods=["POST"]),
        *(Route(path, refused) for path in (f"{WORKSPACES}/{{workspace}}", *local)),
    ]


async def _no_route(request: "Request", error: Exception) -> "Response":
    refused = cast("HTTPException", error)
    if refused.status_code == 405:
        allowed = ", ".join(sorted((refused.headers or {}).get("Allow", "").split(", ")))
        message = f"{request.method} is not answered here, {allowed} is"
        return ErrorResponse(405, "METHOD_NOT_ALLOWED", message, headers={"Allow": allowed}).response()
    return error_response(NotFoundError("there is nothing at this address", "see /v1/openapi.json")).response()


async def _on_error(_: "Request", error: Exception) -> "Response":
    return error_response(error).response()


def _require_json(request: "Request") -> None:
    """Require JSON: a browser lets a page send a form to any server, but JSON only to one that agrees."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusedError(
            ErrorResponse(415, "UNSUPPORTED_MEDIA_TYPE", "send JSON, with 'Content-Type: application/json'")
        )


def _absolute(path: str) -> "Path":
    from pathlib import Path

    if not path.startswith("/") or "\0" in path:
        raise UsageError(f"{path!r} is no absolute path", "name the workspace from the root on")
    return Path(path)


def reachable(address: str) -> str:
    """Return a port's address as a browser here asks it: that of a listener everywhere leads nowhere."""
    return address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def without_paths(reason: str) -> str:
    """Return the reason without paths: it is shown to clients without a token."""
    return re.sub(r"\S*/\S*", "…", reason)


@cache
def _document(is_local: bool) -> str:  # noqa: FBT001
    return json.dumps(document(is_local=is_local))


def _json(text: str) -> "Response":
    from starlette.responses import Response

    return Response(text, media_type="application/json")
