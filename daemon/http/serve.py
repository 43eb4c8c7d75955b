"""Serving at the entrances, in the event loop of whoever calls, until told to stop.

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


async def serve(
    house: "DaemonApi",
    entrances: Sequence[Listener],
    stop: asyncio.Event,
    mcp: "ASGIApp | None" = None,
    limits: Limits | None = None,
) -> None:
    """Answer at these entrances until `stop` is set; they are closed then.

    They listen already, so a client that came before this waits and is answered. At the stop the socket's file goes
    first, idle connections are closed, and what is being answered has `limits.grace_seconds` to end. A thread that is
    still at work then is left to itself. `mcp` answers at /mcp of both doors, inside its lifespan, which the
    caller has entered.
    """
    from daemon.http.app import application
    from daemon.http.uvicorn_server import server

    workers = Workers(limits or Limits())
    try:
        async with asyncio.TaskGroup() as group:
            for entrance in entrances:
                app = application(house, entrance.door, workers, mcp)
                # uvicorn closes what it is given; ours stays open until the file is gone.
                group.create_task(server(app, workers).serve([entrance.socket.dup()]))
            await stop.wait()
            for entrance in entrances:
                entrance.close()
            workers.stopping.set()
    finally:
        for entrance in entrances:
            entrance.close()
        await workers.close()
