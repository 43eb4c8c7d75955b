"""serve: answers HTTP at the listeners, in the caller's event loop, until the daemon stops.

uvicorn answers HTTP and nothing else: signals, logging and the sockets are the daemon's.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from daemon.api.workers import Limits, Workers
from daemon.http.sockets import Listener

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from daemon.api.daemon import DaemonApi
    from daemon.http.app import Window


async def serve(
    api: "DaemonApi",
    listeners: Sequence[Listener],
    stop: asyncio.Event,
    mcp: "ASGIApp | None" = None,
    limits: Limits | None = None,
    window: "Window | None" = None,
) -> None:
    """Answer at these listeners until `stop` is set, then close them.

    They listen already, so a client that came earlier waits and is answered. At the stop the socket's file is removed
    first, idle connections are closed, and running requests have `limits.grace_seconds` to end. A thread that is
    still at work then is abandoned. `mcp` answers at /mcp of all listeners; the caller has entered its lifespan.
    `window` answers at the port with pages.
    """
    from daemon.http.app import application
    from daemon.http.uvicorn_server import server

    workers = Workers(limits or Limits())
    try:
        async with asyncio.TaskGroup() as group:
            for listener in listeners:
                app = application(api, listener.policy, workers, mcp, window)
                # uvicorn closes what it is given; ours stays open until the file is gone.
                group.create_task(server(app, workers).serve([listener.socket.dup()]))
            await stop.wait()
            for listener in listeners:
                listener.close()
            workers.stopping.set()
    finally:
        for listener in listeners:
            listener.close()
        await workers.close()
