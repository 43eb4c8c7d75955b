"""Doors: the outermost application of the fleet's port: it authenticates a request and picks who answers it.

    Authorization: Bearer dreamd_…  ─>  the tenant's token (PostgreSQL, cached for ten seconds)
    /v1/workspaces/NAME/…, /mcp/NAME ─> the application of the daemon's port, which sees a handle in place of NAME
    /, /v1/workspaces, /v1/status    ─> the fleet's own answers
    /metrics                         ─> for the operator's token alone;  /healthz, /readyz: for everybody

Both inner applications accept only a secret of this process in place of the token, so nothing bypasses the doors.
They check Host, Origin and the size of a body, as the daemon's port does.

A handle (`TOKEN~NAME`) says on any thread whose request it is; a second `~` at its end means that another process of
the fleet forwarded it. Clients cannot forge one: a path with `~` or percent-encoding is refused, and no endpoint
needs either.
"""

import asyncio
import hmac
import re
import secrets
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from daemon.api.daemon import MCP_PATH
from daemon.api.workers import Limits, Workers
from daemon.fleet.access import FORWARDED, FleetApi
from daemon.fleet.answers import TOKEN, own_answers
from daemon.fleet.bearers import SEPARATOR, Bearers, handle
from daemon.fleet.disclosure import not_now, unknown
from daemon.http.access_policy import OPEN_PATHS, port_policy
from daemon.http.app import WORKSPACES
from daemon.http.errors import HttpError, http_error
from daemon.observability import logs
from state.errors import DreamdError, NotFoundError, OverloadedError, UnreachableError
from state.fleet import Token, is_name

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from daemon.fleet.process import FleetProcess
    from daemon.http.sockets import Listener

# Larger than a daemon's, as many tenants share the one address of a load balancer.
LIMITS = Limits(
    short_threads=128,
    long_threads=64,
    threads_of_an_owner=24,
    requests=2_048,
    connections=4_096,
    waiting=2_048,
    grace_seconds=4,
)
# The most requests of one tenant that a process answers at once.
MOST_OF_A_TENANT = 128
# Concurrent lookups of unknown tokens, and of tokens that were valid lately.
_STRANGERS_AT_ONCE, _FAMILIAR_AT_ONCE = 3, 4
_LOOK_SECONDS = 12.0
_OPERATORS = frozenset({"/metrics"})
_LONGEST_TOKEN = 4_096
_PLAIN = re.compile(r"(?:/[A-Za-z0-9_.-]*)+")
_FORWARDED = FORWARDED.lower().encode()
# Headers of clients that are stripped; the last two are only for a daemon's Unix socket.
_CREDENTIALS = frozenset({b"authorization", b"cookie"})
_UNAUTHORIZED = HttpError(
    401,
    "UNAUTHORIZED",
    "send your token as 'Authorization: Bearer dreamd_…'; who runs the service gives it to you",
    headers={"WWW-Authenticate": 'Bearer realm="dreamd"'},
)
_NOT_FOR_TENANTS = HttpError(
    403, "FORBIDDEN", "the figures of the whole service are its operator's; your own are at /v1/status"
)
_NOT_FOR_OPERATORS = HttpError(
    403, "FORBIDDEN", "this token is for /metrics alone; ask for workspaces with a tenant's token"
)


async def serve_doors(
    process: "FleetProcess", listener: "Listener", operator_token: str, closing: asyncio.Event
) -> None:
    """Serve on this listener until `closing` is set; requests under way then get the grace period of `LIMITS`."""
    from daemon.http.app import application
    from daemon.http.serve import server
    from daemon.mcp.http import Endpoint

    api = FleetApi(process)
    workers = Workers(LIMITS, api.owner_of)
    mcp = Endpoint.of(api, LIMITS, api.owner_of)
    secret = secrets.token_urlsafe(32)
    policy = port_policy(secret)
    inside, own = application(api, policy, workers, mcp), own_answers(process, api, policy, workers)
    doors = Doors(process.bearers, operator_token, secret, inside, own, lambda: process.lifetime.is_draining)
    try:
        async with mcp.running(), asyncio.TaskGroup() as group:
            group.create_task(server(doors, workers).serve([listener.socket.dup()]))
            await closing.wait()
            listener.close()
            workers.stopping.set()
    finally:
        listener.close()
        doors.close()
        await workers.close()


class Doors:
    """The application of the port. `inside` serves the operations and MCP, `own` the fleet's own answers."""

    def __init__(
        self,
        bearers: Bearers,
        operator_token: str,
        secret: str,
        inside: "ASGIApp",
        own: "ASGIApp",
        is_draining: Callable[[], bool],
    ) -> None:
        """`secret`: the bearer token that both inner applications require."""
        self._bearers = bearers
        self._operator = operator_token
        self._secret = secret
        self._inside = inside
        self._own = own
        self._is_draining = is_draining
        self._under_way: Counter[int] = Counter()
        self._strangers = ThreadPoolExecutor(_STRANGERS_AT_ONCE, "stranger")
        self._familiar = ThreadPoolExecutor(_FAMILIAR_AT_ONCE, "bearer")

    def close(self) -> None:
        """Stop the threads that look up tokens."""
        for threads in (self._strangers, self._familiar):
            threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Refuse the request, or pass it to an inner application."""
        if scope["type"] != "http":
            return
        if self._is_draining():
            send = _last(send)
        try:
            token = await self._token(scope)
            if isinstance(token, HttpError):
                await token.response()(scope, receive, send)
                return
            app, rewritten = self._application(scope, token)
            if token is not None and self._under_way[token.tenant.id] >= MOST_OF_A_TENANT:
                what = f"{MOST_OF_A_TENANT} requests of yours are being answered already"
                raise OverloadedError(what, "try again")
        except DreamdError as error:
            await _refused(error).response()(scope, receive, send)
            return
        tenant = token.tenant.id if token is not None else 0
        self._under_way[tenant] += 1
        try:
            await app(rewritten, receive, send)
        finally:
            self._under_way[tenant] -= 1
            if not self._under_way[tenant]:
                del self._under_way[tenant]

    async def _token(self, scope: "Scope") -> Token | HttpError | None:
        """Return the tenant's token; None for an open path, or for the operator at /metrics. Raise DreamdError."""
        path = scope["path"]
        if path in OPEN_PATHS:
            return None
        shown = _shown(scope)
        if shown is None:
            return _UNAUTHORIZED
        if hmac.compare_digest(shown.encode(), self._operator.encode()):
            return None if path in _OPERATORS else _NOT_FOR_OPERATORS
        if self._bearers.is_bad(shown):
            return _UNAUTHORIZED
        token = self._bearers.remembered(shown) or await self._looked_up(shown)
        if token is None:
            return _UNAUTHORIZED
        return _NOT_FOR_TENANTS if path in _OPERATORS else token

    async def _looked_up(self, shown: str) -> Token | None:
        """Ask PostgreSQL for the token. Raise UnreachableError, also after 12 s."""
        threads = self._familiar if self._bearers.is_familiar(shown) else self._strangers
        look = asyncio.get_running_loop().run_in_executor(threads, self._bearers.authenticate, shown)
        try:
            return await asyncio.wait_for(look, _LOOK_SECONDS)
        except TimeoutError as error:
            raise UnreachableError("the token could not be looked up in time", "try again") from error

    def _application(self, scope: "Scope", token: Token | None) -> "tuple[ASGIApp, Scope]":
        """Return the application for this request, and the scope to give it. Raise NotFoundError."""
        if not _is_plain(scope.get("raw_path") or scope["path"].encode()):
            raise NotFoundError("there is nothing at this address", "see /v1/openapi.json")
        path = scope["path"]
        if token is None or path == "/v1/openapi.json":
            return self._inside, self._inner(scope, path)
        if path == MCP_PATH:
            only = token.workspaces[0] if len(token.workspaces) == 1 else ""
            return self._inside, self._inner(scope, f"{MCP_PATH}/{handle(token.id, only)}")
        room = next((room for room in (WORKSPACES, MCP_PATH) if path.startswith(f"{room}/")), None)
        if room is None:
            return self._own, {**self._inner(scope, path), TOKEN: token}
        name, slash, rest = path[len(room) + 1 :].partition("/")
        if not is_name(name) or not token.reaches(name):
            raise unknown(name)
        if room == WORKSPACES and not slash:
            return self._own, {**self._inner(scope, path), TOKEN: token}
        is_forwarded = any(header.lower() == _FORWARDED for header, _ in scope["headers"])
        inner = f"{room}/{handle(token.id, name, is_forwarded=is_forwarded)}{slash}{rest}"
        return self._inside, self._inner(scope, inner)

    def _inner(self, scope: "Scope", path: str) -> "Scope":
        """Return the scope for this path, with the secret in place of the token."""
        headers = [(name, value) for name, value in scope["headers"] if name not in _CREDENTIALS]
        headers.append((b"authorization", f"Bearer {self._secret}".encode()))
        return {**scope, "headers": headers, "path": path, "raw_path": path.encode(), "root_path": ""}


def _last(send: "Send") -> "Send":
    """Tell the client to send its next request over another connection, as this port is about to close."""

    async def sent(message: "Message") -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await send(message)

    return sent


def _is_plain(path: bytes) -> bool:
    """Return whether a path has only plain characters, and no empty, `.` or `..` part."""
    text = path.decode("latin-1")
    parts = text[1:].split("/")
    return _PLAIN.fullmatch(text) is not None and (text == "/" or not any(part in ("", ".", "..") for part in parts))


def _shown(scope: "Scope") -> str | None:
    """Return the bearer token of the request; None unless it has exactly one Authorization header, well-formed."""
    given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    if len(given) != 1 or len(given[0]) > _LONGEST_TOKEN:
        return None
    scheme, _, shown = given[0].decode("latin-1").partition(" ")
    shown = shown.strip(" \t")
    return shown if scheme.lower() == "bearer" and shown and SEPARATOR not in shown else None


def _refused(error: DreamdError) -> HttpError:
    """Return the reply to an error, without anything about the operator's machines."""
    if isinstance(error, UnreachableError) or error.code == DreamdError.code:
        logs.get().error("token_not_looked_up", error=error)
        error = not_now()
    return http_error(error)
