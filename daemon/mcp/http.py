"""MCP over streamable HTTP, inside the daemon: /mcp/{workspace}, or /mcp when there is only one workspace.

Stateless: each request is answered without a session, so that a client does not notice a restart of the daemon.
The SDK is loaded at the first request, or soon after the start: an agent that has just been started waits a second or
less for `dreamd mcp`, which passes its requests on to here.

Whoever mounts this has checked Host, Origin and the token before: the SDK's own check of Host and Origin is off here,
because it knows nothing of `http.allowed_hosts`, and would refuse requests that the access policy allows.
"""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from daemon.api.daemon import MCP_PATH, DaemonApi
from daemon.api.operations.operation import AnyOperation
from daemon.api.operations.request import Request
from daemon.api.workers import Limits, Workers
from daemon.dream.progress import Step
from state.errors import DreamdError, UsageError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

    from daemon.mcp.server import CallOperation

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# A note of 16 KiB may be six times as long in JSON.
MAX_BODY_BYTES = 1 << 20
# After the start, which has enough to do.
_LOADING_SECONDS = 3.0
# An application is half a megabyte.
_MOST_APPS = 256


@dataclass(slots=True)
class _WorkspaceApp:
    """The SDK's application for one workspace; it ends with `cancel`. `requests` are being answered now."""

    answer: App
    cancel: Callable[[], None]
    requests: int = 0


class Endpoint:
    """An ASGI application for /mcp and everything below it, over all workspaces; usable inside `running()`, once.

    Its calls have threads of their own within these limits, apart from those of HTTP.
    """

    def __init__(
        self, api: DaemonApi, limits: Limits | None = None, owner_of: Callable[[str], str] = lambda _: ""
    ) -> None:
        """Build no application yet. `owner_of`: as the workers have it."""
        self._api = api
        self._owner_of = owner_of
        self._limits = limits or Limits()
        self._apps: dict[tuple[str, tuple[str, ...]], _WorkspaceApp] = {}
        self._running: tuple[TaskGroup, Workers] | None = None
        self._building = anyio.Lock()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run for the lifespan of the application that this is part of."""
        workers = Workers(self._limits, self._owner_of)
        async with anyio.create_task_group() as group:
            self._running = group, workers
            group.start_soon(_load_sdk_soon)
            try:
                yield
            finally:
                self._running = None
                self._apps.clear()
                group.cancel_scope.cancel()
                await workers.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request."""
        if scope["method"] != "POST":
            # Without sessions there is nothing to listen to and nothing to end.
            await _refuse(send, 405, UsageError("MCP is asked by POST here"), (b"allow", b"POST"))
            return
        try:
            app = await self._app(_workspace_in(scope))
        except DreamdError as error:
            await _refuse(send, error.http_status, error)
            return
        app.requests += 1
        try:
            await app.answer(scope, receive, send)
        finally:
            app.requests -= 1

    async def _app(self, given: str) -> _WorkspaceApp:
        """Return the application of the workspace with this name; built at its first request."""
        if self._running is None:
            raise RuntimeError("the endpoint answers inside running() only")
        group, workers = self._running
        name = await workers.run(lambda: self._api.meant(given), given)
        key = name, self._api.config.mcp.toolsets
        async with self._building:
            await self._drop_needless(workers)
            if key in self._apps:
                self._apps[key] = self._apps.pop(key)  # the last one that was asked stands last
            else:
                manager = await workers.run(lambda: _load(self._api, name, workers))
                self._apps[key] = await group.start(_run_manager, manager)
            return self._apps[key]

    async def _drop_needless(self, workers: Workers) -> None:
        """End the applications of workspaces that are not kept any more, and beyond a bound the least asked ones.

        One that has something to answer stays.
        """
        idle = [key for key, app in self._apps.items() if not app.requests]
        names = {key[0] for key in idle}
        gone = await workers.run(lambda: {name for name in names if not self._api.keeps(name)})
        needless = len(self._apps) - _MOST_APPS
        for number, key in enumerate(idle):
            if key[0] in gone or number < needless:
                self._apps.pop(key).cancel()


async def _load_sdk_soon() -> None:
    await anyio.sleep(_LOADING_SECONDS)
    await anyio.to_thread.run_sync(_sdk, abandon_on_cancel=True)


def _sdk() -> None:
    """Import what the first request needs."""
    import mcp.server.streamable_http_manager  # noqa: F401

    import daemon.mcp.server  # noqa: F401


def _load(api: DaemonApi, name: str, workers: Workers) -> Any:  # noqa: ANN401 - the SDK's types are late, too
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings

    from daemon.mcp.server import server

    return StreamableHTTPSessionManager(
        server(_call_in(api, name), api.config, workers, name),
        stateless=True,
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=MAX_BODY_BYTES,
    )


async def _run_manager(manager: Any, *, task_status: "TaskStatus[_WorkspaceApp]") -> None:  # noqa: ANN401
    """Let the SDK's manager serve until the application is cancelled."""
    with anyio.CancelScope() as scope:
        async with manager.run():
            task_status.started(_WorkspaceApp(manager.handle_request, scope.cancel))
            await anyio.sleep_forever()


def _call_in(api: DaemonApi, name: str) -> "CallOperation":
    """Return what runs the operations of this workspace's tools, and counts each call in the metrics."""

    def call(
        operation: AnyOperation, request: Request, on_step: Callable[[Step], None], on_notice: Callable[[str], None]
    ) -> Any:  # noqa: ANN401 - the operation's reply
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
        return reply

    return call


def _workspace_in(scope: Scope) -> str:
    """Return the workspace in the path; empty if there is none. Works mounted at /mcp and routed from the top."""
    if "workspace" in scope.get("path_params", {}):
        return str(scope["path_params"]["workspace"])
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    if root.endswith(MCP_PATH) and path.startswith(root):
        return path[len(root) :].strip("/")
    return path.partition(MCP_PATH)[2].strip("/")


async def _refuse(send: Send, status: int, error: DreamdError, *headers: tuple[bytes, bytes]) -> None:
    body = json.dumps({"error": str(error), "code": error.code, "details": {}}).encode()
    length = (b"content-length", str(len(body)).encode())
    start = [(b"content-type", b"application/json"), length, *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
