"""A real HTTP server over the MCP endpoint of a house."""

import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from daemon.api.daemon import DaemonApi
from daemon.api.workers import Limits
from daemon.http.errors import error_response
from daemon.mcp.http import Endpoint
from state.errors import DreamdError


@contextmanager
def served(house: DaemonApi, port: int = 0, limits: Limits | None = None) -> Iterator[str]:
    """A real server; the address of its /mcp."""
    endpoint = Endpoint.of(house, limits)

    async def living(_: Starlette) -> AsyncIterator[None]:
        async with endpoint.running():
            yield

    app = Starlette(
        routes=[Route(path, endpoint, methods=["POST"]) for path in ("/mcp", "/mcp/{workspace}")],
        exception_handlers={DreamdError: lambda _, error: error_response(error).response()},
        lifespan=asynccontextmanager(living),
    )
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            deadline = time.monotonic() + 30
            while not server.started and time.monotonic() < deadline:
                time.sleep(0.01)
            assert server.started
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join(300)
            assert not thread.is_alive()
