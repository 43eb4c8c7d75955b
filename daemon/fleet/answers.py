"""Answers: the requests that the fleet answers itself: a tenant's workspaces, and its usage."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from psycopg_pool import PoolTimeout
from pydantic import Field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from daemon.api.operations.request import Request as Fields
from daemon.config.settings import Zone
from daemon.fleet.access import require_right
from daemon.fleet.bearers import handle
from daemon.fleet.disclosure import not_now, unknown_outcome
from daemon.http.app import WORKSPACES, not_routed, require_json
from daemon.http.calls import fields_of, from_query
from daemon.http.errors import http_error
from daemon.http.middleware import AccessMiddleware
from daemon.observability import logs
from state.codec import encode
from state.errors import (
    ConfigError,
    DreamdError,
    ForbiddenError,
    StorageError,
    UnreachableError,
)
from state.fleet import Right, Token

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.api.daemon import DaemonApi
    from daemon.api.workers import Workers
    from daemon.fleet.process import FleetProcess
    from daemon.http.access_policy import AccessPolicy

TOKEN = "dreamd.token"  # noqa: S105 - a key of the scope
"""The key of the ASGI scope under which these requests carry the token."""
PAGE = 1_000
_HOME = {
    "dreamd": "the memory of agents",
    "workspaces": WORKSPACES,
    "status": "/v1/status",
    "openapi": "/v1/openapi.json",
    "mcp": "/mcp/NAME",
    "alive": "/healthz",
    "ready": "/readyz",
}


class NewWorkspace(Fields):
    """A workspace to be made."""

    name: str = Field(min_length=1, max_length=48, description="Lower-case letters, digits and hyphens")
    timezone: Zone = Field("", description="Of its owner: an IANA name; empty: the fleet's")


class ChangedWorkspace(Fields):
    """What may be changed of a workspace."""

    timezone: Zone = Field(description="Of its owner: an IANA name; empty: the fleet's")


class Next(Fields):
    """A page of the list of workspaces, which begins after the name."""

    after: str = Field("", max_length=48, pattern="^[a-z0-9-]*$")


def own_answers(process: "FleetProcess", api: "DaemonApi", policy: "AccessPolicy", workers: "Workers") -> Starlette:
    """Return the application for these requests; the scope of each carries its token."""

    async def answered(request: Request, work: "Callable[[FleetProcess, Token], dict[str, Any]]") -> Response:
        token: Token = request.scope[TOKEN]
        # These requests count against the tenant's share of the threads.
        reply = await workers.run(lambda: encode(work(process, token)), handle(token.id, ""))
        return Response(reply, media_type="application/json")

    async def workspaces(request: Request) -> Response:
        if request.method == "GET":
            after = from_query(Next, fields_of(request.scope["query_string"])).after
            return await answered(request, partial(_list_workspaces, after=after))
        require_json(request)
        new = NewWorkspace.of_json(await request.body())
        return await answered(request, partial(_add_workspace, **new.given))

    async def workspace(request: Request) -> Response:
        name = request.path_params["workspace"]
        if request.method == "DELETE":
            return await answered(request, partial(_remove_workspace, name=name))
        require_json(request)
        changed = ChangedWorkspace.of_json(await request.body())
        return await answered(request, partial(_change_workspace, name=name, **changed.given))

    routes = [
        Route("/", lambda _: JSONResponse(_HOME)),
        Route("/v1/status", partial(answered, work=_status)),
        Route(WORKSPACES, workspaces, methods=["GET", "POST"]),
        Route(f"{WORKSPACES}/{{workspace}}", workspace, methods=["DELETE", "PATCH"]),
    ]
    guard = Middleware(AccessMiddleware, api=api, policy=policy, body_bytes=workers.limits.body_bytes)
    handlers: dict[Any, Any] = {HTTPException: not_routed, DreamdError: _error}
    app = Starlette(routes=routes, middleware=[guard], exception_handlers=handlers)
    app.router.redirect_slashes = False
    return app


# ------------------------------------------------------------------- in a thread


def _list_workspaces(process: "FleetProcess", token: Token, *, after: str) -> dict[str, Any]:
    """Return a page of workspaces by name; the reply's `after` starts the next page, null after the last."""
    require_right(token, Right.READ, "list workspaces")
    found = process.places.all(token.tenant.id, after, PAGE + 1, token.workspaces)
    page = found[:PAGE]
    # `waiting` notes are in no generation yet, but they are safe and searchable.
    rows = [
        {
            "name": one.place.name,
            "timezone": one.place.timezone,
            "version": one.generation,
            "bytes": one.bytes,
            "committed_at": one.committed_at,
            "waiting": one.waiting,
        }
        for one in page
    ]
    return {"workspaces": rows, "after": page[-1].place.name if len(found) > len(page) else None}


def _add_workspace(process: "FleetProcess", token: Token, *, name: str, timezone: str) -> dict[str, Any]:
    require_right(token, Right.MANAGE, "make workspaces")
    if not token.reaches(name):
        raise ForbiddenError("this token is for certain workspaces, and this is none of them", "ask for another one")
    place = process.places.add(token.tenant, name)
    if timezone:
        process.places.set_timezone(place, timezone)
    return {"name": place.name}


def _change_workspace(process: "FleetProcess", token: Token, *, name: str, timezone: str) -> dict[str, Any]:
    """Set the time zone of a workspace; its holder learns of it with the next call."""
    place = process.place(token, name, anew=True)
    require_right(token, Right.MANAGE, "change workspaces")
    process.places.set_timezone(place, timezone)
    process.known.drop((place.tenant, name))
    return {"name": name, "timezone": timezone}


def _remove_workspace(process: "FleetProcess", token: Token, *, name: str) -> dict[str, Any]:
    """Close a workspace at once: nothing of it is served from now on."""
    place = process.place(token, name, anew=True)
    require_right(token, Right.MANAGE, "remove workspaces")
    process.database.removals.close(place)
    process.known.drop((place.tenant, name))
    return {"name": name}


def _status(process: "FleetProcess", token: Token) -> dict[str, Any]:
    """Return the tenant's workspaces, its usage today and in this minute, and its quotas (0: no limit)."""
    tenant = token.tenant
    use = process.places.use(tenant.id, token.workspaces)  # only the workspaces that this token reaches
    return {
        "tenant": tenant.name,
        "token": token.name,
        "rights": sorted(token.rights),
        "workspaces": use.workspaces,
        "bytes": use.bytes,
        "dreams_today": use.dreams,
        "tokens_today": use.tokens,
        "usd_today": round(use.usd, 6),
        "notes_this_minute": use.notes_this_minute,
        "quotas": {name: float(most) for name, most in asdict(tenant.quotas).items()},
    }


async def _error(request: Request, error: Exception) -> Response:
    if isinstance(error, UnreachableError | StorageError | ConfigError):
        logs.get().error("request_not_done", error=error)
        was_asked = isinstance(error, UnreachableError) and not isinstance(error.__cause__, PoolTimeout)
        error = unknown_outcome() if was_asked and request.method != "GET" else not_now()
    return http_error(error).response()
