"""MCP over streamable HTTP, inside the daemon: /mcp/{workspace}, or /mcp when there is only one workspace.

Stateless: each request is answered without a session, so that a client does not notice a restart of the daemon. One
server answers for all workspaces: each call looks up the one that its request names. The SDK, which
takes 25 MiB and half a second, is loaded at the first request.

Whoever routes here has checked Host, Origin and the token before, and answers the errors that are raised: the SDK's
own check of Host and Origin is off, because it knows nothing of `http.allowed_hosts`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from daemon.api.daemon import DaemonApi
from daemon.api.workers import Limits, Workers
from daemon.mcp.pump import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_WORKSPACE = "dreamd.workspace"


class Endpoint:
    """An ASGI application for POST to /mcp and /mcp/{workspace}, over all workspaces; used once, in `running()`.

    `workers`: its calls have threads of their own within these limits, apart from those of HTTP.
    """

    workers: Workers
    _group: "TaskGroup"

    def __init__(
        self, api: DaemonApi, limits: Limits | None = None, owner_of: Callable[[str], str] = lambda _: ""
    ) -> None:
        """Build no server yet. `owner_of`: as the workers have it."""
        self._api, self._limits, self._owner_of = api, limits or Limits(), owner_of
        self._manager: StreamableHTTPSessionManager | None = None
        self._building = anyio.Lock()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run for the lifespan of the application that this is part of."""
        self.workers = Workers(self._limits, self._owner_of)
        async with anyio.create_task_group() as self._group:
            try:
                yield
            finally:
                self._group.cancel_scope.cancel()
                await self.workers.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request. Raise UsageError and NotFoundError for a path that names no workspace."""
        given = str(scope["path_params"].get("workspace", ""))
        name = await self.workers.run(lambda: self._api.meant(given), given)
        async with self._building:
            if self._manager is None:
                self._manager = await self.workers.run(lambda: _load(self._api, self.workers))
                await self._group.start(_run_manager, self._manager)
        await self._manager.handle_request({**scope, _WORKSPACE: name}, receive, send)


def _load(api: DaemonApi, workers: Workers) -> "StreamableHTTPSessionManager":
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings

    from daemon.mcp.server import called_in, server

    def name_of(context: Any) -> str:  # noqa: ANN401 - the SDK's
        return str(context.request.scope[_WORKSPACE])

    return StreamableHTTPSessionManager(
        server(called_in(api), lambda: api.config.mcp.toolsets, workers, name_of),
        stateless=True,
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=MAX_MESSAGE_BYTES,
    )


async def _run_manager(
    manager: "StreamableHTTPSessionManager", *, task_status: "TaskStatus[None]" = anyio.TASK_STATUS_IGNORED
) -> None:
    async with manager.run():
        task_status.started()
        await anyio.sleep_forever()
