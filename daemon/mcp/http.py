"""MCP over streamable HTTP, inside the daemon: /mcp/{workspace}, or /mcp when there is only one workspace.

Stateless: a request is answered without a session, so that a client does not notice that the daemon was restarted.
The SDK is loaded at the first request: it costs memory, and most daemons are asked over stdio alone.

Whoever mounts this has checked Host, Origin and the token before: the SDK's own check of Host and Origin is off here,
because it knows nothing of `http.allowed_hosts`, and would refuse what the guard has let pass.
"""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from daemon.api.daemon import MCP_PATH, DaemonApi
from daemon.api.operations import AnyOperation, Request
from daemon.dream.progress import Step
from state.errors import DreamdError, NotFoundError, UsageError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

    from daemon.mcp.server import Ask

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# A note of 16 KiB may be six times as long in JSON.
MAX_BODY_BYTES = 1 << 20


def streamable(house: DaemonApi) -> "Endpoint":
    """The endpoint over all the workspaces of the house."""
    return Endpoint(house)


class Endpoint:
    """An ASGI application for /mcp and all below it; usable inside `running()`, once."""

    def __init__(self, house: DaemonApi) -> None:
        self._house = house
        self._apps: dict[tuple[str, tuple[str, ...]], App] = {}
        self._group: TaskGroup | None = None
        self._building = anyio.Lock()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """For the lifespan of the application that this is part of."""
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                yield
            finally:
                self._group = None
                self._apps.clear()
                group.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request."""
        if scope["method"] != "POST":
            # Without sessions there is nothing to listen to and nothing to end.
            await _refuse(send, 405, UsageError("MCP is asked by POST here"), (b"allow", b"POST"))
            return
        try:
            name = await anyio.to_thread.run_sync(self._workspace, _named(scope))
        except DreamdError as error:
            await _refuse(send, 404 if isinstance(error, NotFoundError) else 400, error)
            return
        app = await self._app(name)
        await app(scope, receive, send)

    def _workspace(self, name: str) -> str:
        there = sorted(kept.name for kept in self._house.info().workspaces)
        if name in there:
            return name
        if not name and len(there) == 1:
            return there[0]
        known = f"there are {', '.join(there)}" if there else "there is none; 'dreamd init' makes one"
        if not name:
            raise UsageError(f"which workspace is meant? ask at {MCP_PATH}/NAME", known)
        raise NotFoundError(f"there is no workspace {name[:100]!r}", known)

    async def _app(self, name: str) -> App:
        toolsets = self._house.config.mcp.toolsets
        async with self._building:
            if (name, toolsets) not in self._apps:
                if self._group is None:
                    raise RuntimeError("the endpoint answers inside running() only")
                served = await anyio.to_thread.run_sync(_load, self._house, name)
                self._apps[name, toolsets] = await self._group.start(_keep, served)
            return self._apps[name, toolsets]


def _load(house: DaemonApi, name: str) -> Any:  # noqa: ANN401 - the SDK's types are late, too
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings

    from daemon.mcp.server import server

    return StreamableHTTPSessionManager(
        server(_asking(house, name), house.config),
        stateless=True,
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=MAX_BODY_BYTES,
    )


async def _keep(manager: Any, *, task_status: "TaskStatus[App]") -> None:  # noqa: ANN401
    """Let it serve for as long as this task lives."""
    async with manager.run():
        task_status.started(manager.handle_request)
        await anyio.sleep_forever()


def _asking(house: DaemonApi, name: str) -> "Ask":
    def ask(
        operation: AnyOperation, asked: Request, told: Callable[[Step], None], noticed: Callable[[str], None]
    ) -> Any:  # noqa: ANN401 - the operation's reply
        began, code = time.monotonic(), DreamdError.code
        try:
            with house.open(name, told) as access:
                reply = operation.run(access, asked)
            code = "OK"
        except DreamdError as error:
            code = error.code
            raise
        finally:
            house.metrics.answered(operation.name, code, time.monotonic() - began)
        for notice in dict.fromkeys(access.notices):
            noticed(notice)
        return reply

    return ask


def _named(scope: Scope) -> str:
    """The workspace in the path; empty when there is none. Works mounted at /mcp and routed from the top."""
    if "workspace" in scope.get("path_params", {}):
        return str(scope["path_params"]["workspace"])
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    if root.endswith(MCP_PATH) and path.startswith(root):
        return path[len(root) :].strip("/")
    return path.partition(MCP_PATH)[2].strip("/")


async def _refuse(send: Send, status: int, error: DreamdError, *headers: tuple[bytes, bytes]) -> None:
    body = json.dumps({"error": str(error), "code": error.code, "details": {}}).encode()
    sized = (b"content-length", str(len(body)).encode())
    start = [(b"content-type", b"application/json"), sized, *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
