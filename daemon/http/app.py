"""The routes: the table of operations under /v1/workspaces/{workspace}, and what is known of the daemon itself."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, cast

from pydantic import Field

from daemon.api.operations import OPERATIONS, AnyOperation
from daemon.api.operations import Request as Asked
from daemon.http.access_policy import AccessPolicy
from daemon.http.calls import answered, called, wants_stream
from daemon.http.errors import ErrorResponse, RefusedError, wrong
from daemon.http.middleware import AccessMiddleware
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
    from starlette.types import ASGIApp

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
_MOST_ADOPTED_PATH = 4096

Answering = Callable[["Request"], Awaitable["Response"]]


class Adopt(Asked):
    """A workspace for the daemon to look after."""

    path: str = Field(min_length=1, max_length=_MOST_ADOPTED_PATH, description="Its root, absolute")
    trust: bool = Field(default=False, description="The caller has made or adopted it: the daemon's user does too")


def application(
    house: "DaemonApi", door: AccessPolicy, workers: "Workers", mcp: "ASGIApp | None" = None
) -> "Starlette":
    """What is answered at this door.

    `mcp` answers at /mcp and /mcp/{workspace}; its lifespan is its owner's to enter.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.routing import Route

    window = _Window(house, door, workers)
    routes = [
        Route("/", window.home),
        Route("/healthz", window.alive),
        Route("/readyz", window.ready),
        Route("/metrics", window.metrics),
        Route("/v1/openapi.json", window.openapi),
        Route("/v1/status", window.status),
        *(_route(window, operation) for operation in OPERATIONS.values() if operation.remote or door.is_local),
        *(_local_routes(window) if door.is_local else _remote_routes(window)),
    ]
    if mcp is not None:
        # A path parameter, rather than a mount: a mount would redirect /mcp to /mcp/.
        routes += [Route("/mcp", mcp), Route("/mcp/{workspace}", mcp)]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(AccessMiddleware, house=house, door=door, body_bytes=workers.limits.body_bytes)],
        exception_handlers={HTTPException: _no_route, DreamdError: _told},
    )
    app.router.redirect_slashes = False  # such a redirect would name the host that the client named
    return app


class _Window:
    """The house, seen through one door."""

    def __init__(self, house: "DaemonApi", door: AccessPolicy, workers: "Workers") -> None:
        self._house = house
        self._door = door
        self._workers = workers

    async def home(self, _: "Request") -> "Response":
        return _json(json.dumps(_HOME))

    async def alive(self, _: "Request") -> "Response":
        return _json('{"status": "alive"}')

    async def ready(self, _: "Request") -> "Response":
        # Not in the workers' threads: that they are all at work makes nobody unready.
        if reason := await asyncio.to_thread(self._house.unready_reason):
            return ErrorResponse(503, "NOT_READY", without_paths(reason)).response()
        return _json('{"status": "ready"}')

    async def metrics(self, request: "Request") -> "Response":
        from starlette.responses import Response

        accept = request.headers.get("accept", "")
        figures, kind = await self._workers.run(lambda: self._house.metrics.render(accept))
        return Response(figures, headers={"Content-Type": kind})

    async def openapi(self, _: "Request") -> "Response":
        return _json(await self._workers.run(lambda: _document(self._door.is_local)))

    async def status(self, _: "Request") -> "Response":
        return _json(await self._workers.run(lambda: encode(self._house.status())))

    async def household(self, _: "Request") -> "Response":
        return _json(await self._workers.run(lambda: encode(self._house.info())))

    async def adopt(self, request: "Request") -> "Response":
        _require_json(request)
        asked = from_json(Adopt, await request.body())
        root = _absolute(asked.path)
        return _json(encode({"name": await self._workers.run(lambda: self._house.register(root, trust=asked.trust))}))

    async def release(self, request: "Request") -> "Response":
        name = str(request.path_params["workspace"])
        await self._workers.run(lambda: self._house.unregister(name))
        return _json(encode({"name": name}))

    def operation(self, operation: AnyOperation) -> Answering:
        """What answers this operation."""

        async def answer(request: "Request") -> "Response":
            if operation.method != "GET":
                _require_json(request)
            call = called(request, operation, self._door, await request.body())
            streaming = wants_stream(request.headers.getlist("accept"))
            return await answered(call, self._house, self._workers, streaming=streaming)

        return answer


def _route(window: _Window, operation: AnyOperation) -> "Route":
    from starlette.routing import Route

    path = f"{WORKSPACES}/{{workspace}}{operation.path}"
    return Route(path, window.operation(operation), methods=[operation.method], name=operation.name)


def _local_routes(window: _Window) -> "list[Route]":
    """What only the Unix socket has."""
    from starlette.routing import Route

    async def workspaces(request: "Request") -> "Response":
        return await (window.adopt if request.method == "POST" else window.household)(request)

    return [
        Route(WORKSPACES, workspaces, methods=["GET", "POST"]),
        Route(f"{WORKSPACES}/{{workspace}}", window.release, methods=["DELETE"]),
    ]


def _remote_routes(window: _Window) -> "list[Route]":
    """The same places at the port: what is not answered there says where it is."""
    from starlette.routing import Route

    refused = ErrorResponse(403, "FORBIDDEN", LOCAL_ONLY).response()

    async def refuse(_: "Request") -> "Response":
        return refused

    local = (f"{WORKSPACES}/{{workspace}}{one.path}" for one in OPERATIONS.values() if not one.remote)
    return [
        # The first one's methods are what a 405 says.
        Route(WORKSPACES, window.household),
        Route(WORKSPACES, refuse, methods=["POST"]),
        *(Route(path, refused) for path in (f"{WORKSPACES}/{{workspace}}", *local)),
    ]


async def _no_route(request: "Request", error: Exception) -> "Response":
    refused = cast("HTTPException", error)
    if refused.status_code == 405:
        allowed = ", ".join(sorted((refused.headers or {}).get("Allow", "").split(", ")))
        message = f"{request.method} is not answered here, {allowed} is"
        return ErrorResponse(405, "METHOD_NOT_ALLOWED", message, headers={"Allow": allowed}).response()
    return wrong(NotFoundError("there is nothing at this address", "see /v1/openapi.json")).response()


async def _told(_: "Request", error: Exception) -> "Response":
    return wrong(error).response()


def _require_json(request: "Request") -> None:
    """A page of a browser may send a form to anybody, and JSON only to who agrees: this one does not."""
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


def without_paths(reason: str) -> str:
    """The reason as anybody may read it: where things are on this machine is nobody's business."""
    return re.sub(r"\S*/\S*", "…", reason)


@cache
def _document(is_local: bool) -> str:  # noqa: FBT001
    return json.dumps(document(is_local=is_local))


def _json(text: str) -> "Response":
    from starlette.responses import Response

    return Response(text, media_type="application/json")
