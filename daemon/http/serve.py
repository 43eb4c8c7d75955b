"""serve: serves HTTP at the listeners, in the caller's event loop, until the daemon stops.

uvicorn only speaks HTTP: signals, logging and the sockets are the daemon's. A request has a time limit for its head
and one for its body. If too many connections wait for a request, the oldest is closed, so that slow clients keep
nobody out. uvicorn answers 503 if there are too many connections in all.
"""

import asyncio
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from os import geteuid
from typing import TYPE_CHECKING, Any, cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from daemon.api.peer import PEER, user_of
from daemon.api.workers import Limits, Workers
from daemon.http.app import application
from daemon.http.sockets import Listener
from daemon.http.window import Window
from daemon.observability import logs

if TYPE_CHECKING:
    from daemon.api.daemon import DaemonApi

_log = logs.get()


async def serve(
    api: "DaemonApi",
    listeners: Sequence[Listener],
    stop: asyncio.Event,
    mcp: ASGIApp | None = None,
    limits: Limits | None = None,
    window: Window | None = None,
) -> None:
    """Serve at these listeners until `stop` is set, then close them.

    They listen already, so clients that came earlier are served. At the stop, the socket's file is removed first,
    idle connections are closed, and requests under way have `limits.grace_seconds` to end; threads still busy then
    are abandoned. `mcp` serves /mcp at all listeners; the caller has entered its lifespan. `window` serves pages at
    the port.
    """
    workers = Workers(limits or Limits())
    try:
        async with asyncio.TaskGroup() as group:
            for listener in listeners:
                app = application(api, listener.policy, workers, mcp, window)
                # uvicorn closes the socket that it gets; ours stays open until its file is removed.
                group.create_task(server(app, workers).serve([listener.socket.dup()]))
            await stop.wait()
            for listener in listeners:
                listener.close()
            workers.stopping.set()
    finally:
        for listener in listeners:
            listener.close()
        await workers.close()


def server(app: ASGIApp, workers: Workers) -> "Server":
    """Return a server for this application that ends once `workers.stopping` is set."""
    limits, connections = workers.limits, dict[Connection, None]()
    config = uvicorn.Config(
        app,
        http=cast("Any", partial(Connection, limits=limits, connections=connections)),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,  # a query may contain private words
        proxy_headers=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=limits.grace_seconds,
        h11_max_incomplete_event_size=limits.header_bytes,
    )
    return Server(config, workers.stopping)


class Server(uvicorn.Server):
    """A uvicorn server that ends when an event is set, and leaves signals to the daemon."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        """Update the Date header once a second; uvicorn's own loop would wake ten times."""
        while not self._stopping.is_set():
            await self.on_tick(0)
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, and close once every accepted connection has its protocol.

        If a listener closes before that, asyncio forgets the connection, and its client would wait for ever.
        """
        for listener in sockets or ():
            asyncio.get_running_loop().remove_reader(listener)
        for _ in range(3):  # the connection's task, its transport, its protocol
            await asyncio.sleep(0)
        await super().shutdown(sockets)


class Connection(H11Protocol):
    """A connection with time limits; at the Unix socket it must be this user's or root's, according to the kernel.

    `connections`: all connections of its listener, oldest first.
    """

    def __init__(self, *args: Any, limits: Limits, connections: "dict[Connection, None]", **options: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*args, **options)
        self._limits, self._connections = limits, connections
        self._timer: asyncio.TimerHandle | None = None
        self._timed_state: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Abort another user's connection; start the time limit; close the oldest if too many wait."""
        super().connection_made(transport)
        peer = user_of(transport.get_extra_info("socket"))
        if peer is not None and peer not in (0, geteuid()):
            _log.warning("peer_refused", uid=peer)
            transport.abort()
            return
        self.app_state = {**self.app_state, PEER: peer}
        self._connections[self] = None
        self._set_timer()
        waiting = [one for one in self._connections if one.is_waiting and not one.transport.is_closing()]
        if self.client and len(waiting) > self._limits.waiting:
            waiting[0].transport.close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.pop(self, None)
        self._stop_timer()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close when idle, or when only part of a request has arrived, which no route works on yet."""
        if self.is_waiting:
            self.transport.close()
        else:
            super().shutdown()

    @property
    def is_waiting(self) -> bool:
        """Return whether it waits for a request, or for the rest of one."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _set_timer(self) -> None:
        """Start or stop the time limit: one for an incomplete head, another one for its body."""
        state = self.conn.their_state if self.is_waiting else None
        if self._timer is not None and state is self._timed_state:
            return
        self._stop_timer()
        if state is not None:
            seconds = self._limits.head_seconds if state is h11.IDLE else self._limits.body_seconds
            self._timer, self._timed_state = self.loop.call_later(seconds, self.transport.close), state

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
