"""HTTP application: the operations, each at one address, and the endpoints for monitoring.

    /v1/workspaces/{workspace}/{operation}   runs on one workspace
    /v1/{operation}                          runs on the daemon itself

Operations take POST with JSON; those that only read also take GET with a query.
"""

import asyncio
import re
from functools import cache
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from daemon.api.daemon import HOUSEHOLD, DaemonApi, DaemonCall
from daemon.api.operations.operation import AnyOperation
from daemon.api.peer import PEER
from daemon.api.workers import Workers
from daemon.http.access_policy import LOGIN_PATH, AccessPolicy
from daemon.http.calls import parse_call, respond
from daemon.http.errors import HttpError
from daemon.http.middleware import SESSION, AccessMiddleware
from daemon.http.window import Handler, Window
from state.errors import NotFoundError

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


def application(
    api: DaemonApi, policy: AccessPolicy, workers: Workers, mcp: ASGIApp | None = None, window: Window | None = None
) -> Starlette:
    """Return the application for listeners with this policy.

    `mcp` serves /mcp and /mcp/{workspace}; the caller enters its lifespan. `window` serves pages at the port.
    """
    handlers = _Handlers(api, policy, workers, window)
    routes = [
        Route("/", handlers.home),
        Route("/healthz", handlers.alive),
        Route("/readyz", handlers.ready),
        Route("/metrics", handlers.metrics),
        Route("/v1/openapi.json", handlers.openapi),
        Route("/v1/{operation}", handlers.operation, methods=["GET", "POST"]),
        Route(f"{WORKSPACES}/{{workspace}}/{{operation}}", handlers.operation, methods=["GET", "POST"]),
    ]
    if mcp is not None:
        # POST only: without sessions a GET would have nothing to stream. A mount would redirect /mcp to /mcp/.
        routes += [Route(path, mcp, methods=["POST"]) for path in ("/mcp", "/mcp/{workspace}")]
    if window is not None and not policy.is_local:
        handlers.first_page, pages = window.pages(api, workers)
        routes += pages
    guard = Middleware(AccessMiddleware, api=api, policy=policy, body_bytes=workers.limits.body_bytes, window=window)
    # The guard answers all other errors.
    app = Starlette(routes=routes, middleware=[guard], exception_handlers={HTTPException: not_routed})
    app.router.redirect_slashes = False  # the redirect would use the client's Host header
    return app


class _Handlers:
    def __init__(self, api: DaemonApi, policy: AccessPolicy, workers: Workers, window: Window | None) -> None:
        self._api = api
        self._policy = policy
        self._workers = workers
        self._window = window
        self.first_page: Handler | None = None  # for logged-in browsers

    async def home(self, request: Request) -> Response:
        if self.first_page is not None and request.scope.get(SESSION) is not None:
            return await self.first_page(request)
        return JSONResponse(_HOME)

    async def alive(self, _: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def ready(self, _: Request) -> Response:
        # Not in the workers' threads: a daemon is ready even if all of them are busy.
        if reason := await asyncio.to_thread(self._api.unready_reason):
            # Without paths, as clients without a token may read it.
            return HttpError(503, "NOT_READY", re.sub(r"\S*/\S*", "…", reason)).response()
        return JSONResponse({"status": "ready"})

    async def metrics(self, request: Request) -> Response:
        accept = request.headers.get("accept", "")
        figures, kind = await self._workers.run(lambda: self._api.metrics.render(accept))
        return Response(figures, headers={"Content-Type": kind})

    async def openapi(self, _: Request) -> Response:
        return JSONResponse(await self._workers.run(lambda: _document(self._policy.is_local)))

    async def operation(self, request: Request) -> Response:
        operation = _operation(request)
        if operation is None:
            raise _nothing()
        if not (operation.remote or self._policy.is_local):
            raise HttpError(403, "FORBIDDEN", LOCAL_ONLY)
        if request.method == "POST":
            require_json(request)
        elif not operation.reads:
            raise _not_answered(request.method, "POST")
        # A link is for the user that asks; one that root asks for may be for any user's browser.
        user = request.scope["state"].get(PEER) or None
        of_daemon = DaemonCall(self._api, lambda destination: self._link(destination, user))
        call = parse_call(request, operation, await request.body(), of_daemon, is_local=self._policy.is_local)
        return await respond(call, self._api, self._workers)

    def _link(self, destination: str, user: int | None) -> str:
        if self._window is None or not (address := self._api.info().http):
            raise NotFoundError(
                "the daemon has no port, and a browser needs one",
                "set http.port (DREAMD_HTTP__PORT) to a free one, and restart it",
            )
        # A browser cannot open a wildcard address.
        here = address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        return f"{here}{LOGIN_PATH}{self._window.logins.link(destination, user)}"


def _operation(request: Request) -> AnyOperation | None:
    """Return the operation that the address names, if there is one."""
    name = request.path_params.get("operation", "")
    if "workspace" not in request.path_params:
        return HOUSEHOLD.get(name)
    from daemon.api.operations.table import OPERATIONS  # late: an idle daemon saves the memory of their imports

    return OPERATIONS.get(name)


async def not_routed(request: Request, error: Exception) -> Response:
    """Answer a request that no route matches with 404 or 405."""
    assert isinstance(error, HTTPException)
    if error.status_code != 405:
        raise _nothing()
    operation = _operation(request)
    allowed = "POST" if operation and not operation.reads else (error.headers or {}).get("Allow", "")
    raise _not_answered(request.method, allowed)


def _nothing() -> NotFoundError:
    return NotFoundError("there is nothing at this address", "see /v1/openapi.json")


def _not_answered(method: str, allowed: str) -> HttpError:
    allowed = ", ".join(sorted(allowed.split(", ")))
    message = f"{method} is not answered here, {allowed} is"
    return HttpError(405, "METHOD_NOT_ALLOWED", message, headers={"Allow": allowed})


def require_json(request: Request) -> None:
    """Require JSON: a browser lets any page send a form to any server, but JSON only if the server agrees."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HttpError(415, "UNSUPPORTED_MEDIA_TYPE", "send JSON, with 'Content-Type: application/json'")


@cache
def _document(is_local: bool) -> dict[str, Any]:  # noqa: FBT001
    from daemon.http.openapi import document

    return document(is_local=is_local)
