"""MCP over streamable HTTP: /mcp/{workspace}, or /mcp when there is only one; in the daemon, or in `dreamd mcp`.

Stateless: there are no sessions, so that clients do not notice a restart of the daemon. One server serves all
workspaces: each call looks up the one that its request names. The SDK, which takes 25 MiB and half a second, is
loaded at the first request.

The caller has checked Host, Origin and the token, and turns raised errors into replies. The SDK's own check of Host
and Origin is off, because it does not know `http.allowed_hosts`.
"""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, Self

import anyio

from daemon.api.daemon import DaemonApi
from daemon.api.operations.operation import AnyOperation
from daemon.api.operations.request import Request
from daemon.api.workers import Limits, Workers
from daemon.dream.progress import Step
from daemon.mcp.message import read
from state.errors import DreamdError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from daemon.mcp.server import CallOperation

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_WORKSPACE = "dreamd.workspace"


class Endpoint:
    """An ASGI application for POST to /mcp and /mcp/{workspace}, for all workspaces; used once, in `running()`.

    `workers`: threads for its calls, apart from those of HTTP.
    """

    workers: Workers
    _group: "TaskGroup"

    def __init__(
        self,
        call: "CallOperation",
        toolsets: Callable[[], Iterable[str]],
        meant: Callable[[str], str],
        limits: Limits | None = None,
        owner_of: Callable[[str], str] = lambda _: "",
    ) -> None:
        """Build no server yet. `meant` returns the workspace that a path names; `owner_of`: see `Workers`."""
        self._call, self._toolsets, self._meant = call, toolsets, meant
        self._limits, self._owner_of = limits or Limits(), owner_of
        self._manager: StreamableHTTPSessionManager | None = None
        self._building = anyio.Lock()

    @classmethod
    def of(cls, api: DaemonApi, limits: Limits | None = None, owner_of: Callable[[str], str] = lambda _: "") -> Self:
        """Return the endpoint of a daemon."""
        return cls(_called_in(api), lambda: api.config.mcp.toolsets, api.meant, limits, owner_of)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run during the lifespan of the surrounding application."""
        self.workers = Workers(self._limits, self._owner_of)
        async with anyio.create_task_group() as self._group:
            try:
                yield
            finally:
                await self.workers.close()  # before the cancellation, after which nothing can be awaited
                self._group.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request. Raise UsageError or NotFoundError if its path names no workspace."""
        given = str(scope["path_params"].get("workspace", ""))
        name = await self.workers.run(lambda: self._meant(given), given)
        async with self._building:
            if self._manager is None:
                self._manager = await self.workers.run(self._load)
                await self._group.start(_run_manager, self._manager)
        await self._manager.handle_request({**scope, _WORKSPACE: name}, await _mending(receive), send)

    def _load(self) -> "StreamableHTTPSessionManager":
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        from mcp.server.transport_security import TransportSecuritySettings

        from daemon.mcp.server import server

        def name_of(context: Any) -> str:  # noqa: ANN401 - the SDK's
            return str(context.request.scope[_WORKSPACE])

        return StreamableHTTPSessionManager(
            server(self._call, self._toolsets, self.workers, name_of),
            stateless=True,
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )


async def _mending(receive: Receive) -> Receive:
    """Return a `receive` that gives the message mended; whoever called the endpoint has it whole."""
    part = await receive()
    if part["type"] == "http.request" and (message := read(part["body"])) is not None:
        part = {**part, "body": json.dumps(message).encode()}
    given = [part]

    async def again() -> MutableMapping[str, Any]:
        return given.pop() if given else await receive()

    return again


def _called_in(api: DaemonApi) -> "CallOperation":
    """Return a function that runs an operation in the daemon and counts it in the metrics."""

    def call(
        name: str,
        operation: AnyOperation,
        request: Request,
        on_step: Callable[[Step], None],
        on_notice: Callable[[str], None],
    ) -> tuple[Any, tzinfo]:
        began, code = time.monotonic(), DreamdError.code
        try:
            with api.open(name, on_step) as access:
                reply = access.run(operation, request)
            code = "OK"
        except DreamdError as error:
            code = error.code
            raise
        finally:
            api.metrics.answered(operation.name, code, time.monotonic() - began)
        for notice in dict.fromkeys(access.notices):
            on_notice(notice)
        return reply, access.config.zone

    return call


async def _run_manager(
    manager: "StreamableHTTPSessionManager", *, task_status: "TaskStatus[None]" = anyio.TASK_STATUS_IGNORED
) -> None:
    async with manager.run():
        task_status.started()
        await anyio.sleep_forever()
