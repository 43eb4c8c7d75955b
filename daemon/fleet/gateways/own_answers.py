"""Own answers: what a gateway answers itself: the tenant's workspaces and numbers."""

import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl

from pydantic import Field

from daemon.api.operations.request import Request as Fields
from daemon.fleet.gateways.authentication import TOKEN
from daemon.fleet.gateways.disclosure import not_now, unknown_outcome
from daemon.fleet.gateways.gateway_access import require
from daemon.fleet.gateways.names import SIGN, unknown
from daemon.http.access_policy import AccessPolicy
from daemon.http.app import WORKSPACES
from daemon.http.errors import ErrorResponse, RefusedError, error_response
from daemon.http.middleware import AccessMiddleware
from daemon.http.parsing import from_json
from daemon.observability import logs
from state.codec import encode
from state.errors import (
    ConfigError,
    DreamdError,
    ForbiddenError,
    NotFoundError,
    StorageError,
    UnreachableError,
    UsageError,
)
from state.fleet.tenant import Right, Token
from state.stores.fleet.places import PlaceFacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from daemon.api.workers import Workers
    from daemon.fleet.gateways.gateway import Gateway

Made = TypeVar("Made")

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
_NAME = re.compile(r"[a-z0-9-]{0,48}")


class NewWorkspace(Fields):
    """A workspace to be made."""

    name: str = Field(min_length=1, max_length=48, description="Lower-case letters, digits and hyphens")


@dataclass(frozen=True, slots=True)
class OwnWorkspace:
    """A workspace as its tenant sees it. `waiting`: notes that no generation holds yet; they are safe, and found."""

    name: str
    version: int
    bytes: int
    committed_at: datetime | None
    waiting: int


@dataclass(frozen=True, slots=True)
class OwnWorkspaces:
    """Workspaces by name. `after`: where the next page begins; null when that was all."""

    workspaces: tuple[OwnWorkspace, ...]
    after: str | None


@dataclass(frozen=True, slots=True)
class OwnStatus:
    """A tenant's own numbers: what it has, what today and this minute used, and what it may (0: no limit)."""

    tenant: str
    token: str
    rights: tuple[str, ...]
    workspaces: int
    bytes: int
    dreams_today: int
    tokens_today: int
    usd_today: float
    notes_this_minute: int
    quotas: dict[str, float]


def own_answers(gateway: "Gateway", policy: AccessPolicy, workers: "Workers") -> "Starlette":
    """Make the application for what a gateway answers itself; each request's scope has its token."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.routing import Route

    answers = _Answers(gateway, workers)
    routes: list[Route] = [
        Route("/", answers.home),
        Route("/v1/status", answers.status),
        Route(WORKSPACES, answers.workspaces, methods=["GET", "POST"]),
        Route(f"{WORKSPACES}/{{workspace}}", answers.remove, methods=["DELETE"]),
    ]
    guard = Middleware(AccessMiddleware, api=gateway, policy=policy, body_bytes=workers.limits.body_bytes)
    app = Starlette(
        routes=routes, middleware=[guard], exception_handlers={HTTPException: _no_route, DreamdError: _error}
    )
    app.router.redirect_slashes = False
    return app


class _Answers:
    def __init__(self, gateway: "Gateway", workers: "Workers") -> None:
        self._gateway = gateway
        self._workers = workers

    async def home(self, _: "Request") -> "Response":
        from starlette.responses import JSONResponse

        return JSONResponse(_HOME)

    async def status(self, request: "Request") -> "Response":
        return await self._answered(request, self._status)

    async def workspaces(self, request: "Request") -> "Response":
        if request.method == "POST":
            _require_json(request)
            name = from_json(NewWorkspace, await request.body()).name
            return await self._answered(request, partial(self._made, name))
        return await self._answered(request, partial(self._listed, _after(request)))

    async def remove(self, request: "Request") -> "Response":
        return await self._answered(request, partial(self._removed, str(request.path_params["workspace"])))

    async def _answered(self, request: "Request", work: "Callable[[Token], object]") -> "Response":
        from starlette.responses import Response

        token: Token = request.scope[TOKEN]
        # Of all threads a tenant's requests for these have their share.
        reply = await self._workers.run(lambda: str(encode(work(token))), f"{token.id}{SIGN}")
        return Response(reply, media_type="application/json")

    # ------------------------------------------------------------ in a thread

    def _listed(self, after: str, token: Token) -> OwnWorkspaces:
        require(token, Right.READ, "list workspaces")
        places = self._gateway.parts.places
        if token.workspaces:
            named = sorted(name for name in set(token.workspaces) if name > after)
            found = [one for name in named[: PAGE + 1] if (one := self._found(token, name)) is not None]
        else:
            found = places.all(token.tenant.id, after, PAGE + 1)
        page = found[:PAGE]
        rest = page[-1].place.name if len(found) > len(page) else None
        return OwnWorkspaces(tuple(_own(one) for one in page), rest)

    def _found(self, token: Token, name: str) -> PlaceFacts | None:
        with suppress(NotFoundError):
            return self._gateway.parts.places.find(token.tenant.id, name)
        return None

    def _made(self, name: str, token: Token) -> dict[str, str]:
        require(token, Right.MANAGE, "make workspaces")
        if not token.reaches(name):
            raise ForbiddenError(
                "this token is for certain workspaces, and this is none of them", "ask for another one"
            )
        return {"name": self._gateway.parts.places.add(token.tenant, name).name}

    def _removed(self, name: str, token: Token) -> dict[str, str]:
        found = self._found(token, name)
        if found is None:
            raise unknown(name)
        require(token, Right.MANAGE, "remove workspaces")
        self._gateway.remove(found.place)
        return {"name": name}

    def _status(self, token: Token) -> OwnStatus:
        tenant = token.tenant
        use = self._gateway.parts.standings.use(tenant.id)
        count, size = use.workspaces, use.bytes
        if token.workspaces:  # it does not say what else the tenant has
            found = [one for name in set(token.workspaces) if (one := self._found(token, name)) is not None]
            count, size = len(found), sum(one.bytes for one in found)
        quotas = {name: float(most) for name, most in asdict(tenant.quotas).items()}
        rights = tuple(sorted(token.rights))
        today = (use.dreams, use.tokens, round(use.usd, 6), use.notes_this_minute)
        return OwnStatus(tenant.name, token.name, rights, count, size, *today, quotas)


def _own(facts: PlaceFacts) -> OwnWorkspace:
    number = facts.generation.number
    return OwnWorkspace(facts.place.name, number, facts.bytes, facts.committed_at, facts.waiting)


def _after(request: "Request") -> str:
    """Return the name after which a list begins. Raise UsageError."""
    try:
        pairs = parse_qsl(request.scope["query_string"].decode("ascii"), keep_blank_values=True, max_num_fields=2)
    except ValueError:
        pairs = [("", "")]
    given = dict(pairs)
    after = str(given.pop("after", ""))
    if given or len(pairs) > 1 or not _NAME.fullmatch(after):
        raise UsageError("the query is none of this list's", "send ?after=NAME, or none")
    return after


def _require_json(request: "Request") -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        answer = ErrorResponse(415, "UNSUPPORTED_MEDIA_TYPE", "send JSON, with 'Content-Type: application/json'")
        raise RefusedError(answer)


async def _no_route(request: "Request", error: Exception) -> "Response":
    if getattr(error, "status_code", 404) == 405:
        allowed = ", ".join(sorted((getattr(error, "headers", None) or {}).get("Allow", "").split(", ")))
        message = f"{request.method} is not answered here, {allowed} is"
        return ErrorResponse(405, "METHOD_NOT_ALLOWED", message, headers={"Allow": allowed}).response()
    return error_response(NotFoundError("there is nothing at this address", "see /v1/openapi.json")).response()


async def _error(request: "Request", error: Exception) -> "Response":
    from psycopg_pool import PoolTimeout

    if isinstance(error, UnreachableError | StorageError | ConfigError):
        logs.get().error("request_not_done", error=error)
        was_asked = isinstance(error, UnreachableError) and not isinstance(error.__cause__, PoolTimeout)
        error = unknown_outcome() if was_asked and request.method != "GET" else not_now()
    return error_response(error).response()
