"""serve: answers HTTP at the listeners, in the caller's event loop, until the daemon stops.

uvicorn answers HTTP and nothing else: signals, logging and the sockets are the daemon's. A request has some seconds
for its head and some for its body. Of the connections that wait for a request the first one makes room when there are
too many, so that slow clients keep nobody out. Requests being answered are counted by uvicorn, which answers 503.
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
from daemon.http.app import Window, application
from daemon.http.sockets import Listener
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
    """Answer at these listeners until `stop` is set, then close them.

    They listen already, so a client that came earlier waits and is answered. At the stop the socket's file is removed
    first, idle connections are closed, and running requests have `limits.grace_seconds` to end. A thread that is
    still at work then is abandoned. `mcp` answers at /mcp of all listeners; the caller has entered its lifespan.
    `window` answers at the port with pages.
    """
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


def server(app: ASGIApp, workers: Workers) -> "Server":
    """Return a server for this application, which ends when the workers are stopping."""
    limits, here = workers.limits, dict[Connection, None]()
    config = uvicorn.Config(
        app,
        http=cast("Any", partial(Connection, limits=limits, here=here)),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,  # a query may hold private words
        proxy_headers=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=limits.grace_seconds,
        h11_max_incomplete_event_size=limits.header_bytes,
    )
    return Server(config, workers.stopping)


class Server(uvicorn.Server):
    """A uvicorn server that ends when an event is set, and leaves the signals to the daemon."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        """Keep the Date header right; uvicorn's own loop would wake ten times a second."""
        while not self._stopping.is_set():
            await self.on_tick(0)
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nobody any more, and close when every connection that was accepted is known.

        asyncio forgets one that was accepted and not made yet when its listener closes, and its client would wait.
        """
        for listener in sockets or ():
            asyncio.get_running_loop().remove_reader(listener)
        for _ in range(3):  # the connection's task, its transport, its protocol
            await asyncio.sleep(0)
        await super().shutdown(sockets)


class Connection(H11Protocol):
    """A connection that must be this user's (at the Unix socket, where the kernel says so) and send in time.

    `here`: all of its listener, in the order of their arrival.
    """

    def __init__(self, *args: Any, limits: Limits, here: "dict[Connection, None]", **options: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*args, **options)
        self._limits, self._here = limits, here
        self._late: asyncio.TimerHandle | None = None
        self._late_for: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock; another user's connection is aborted."""
        super().connection_made(transport)
        peer = user_of(transport.get_extra_info("socket"))
        if peer is not None and peer not in (0, geteuid()):
            _log.warning("peer_refused", uid=peer)
            transport.abort()
            return
        self.app_state = {**self.app_state, PEER: peer}
        self._here[self] = None
        self._watch()
        waiting = [one for one in self._here if one.waits and not one.transport.is_closing()]
        if self.client and len(waiting) > self._limits.waiting:
            waiting[0].transport.close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._here.pop(self, None)
        self._relax()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close when idle, and when half a request has come: nobody has begun to work on that."""
        if self.waits:
            self.transport.close()
        else:
            super().shutdown()

    @property
    def waits(self) -> bool:
        """Whether it waits for a request, or for the rest of one."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _watch(self) -> None:
        """Keep the clock while a request is incomplete: for the head from its first byte on, then for the body."""
        state = self.conn.their_state if self.waits else None
        if self._late is not None and state is self._late_for:
            return
        self._relax()
        if state is not None:
            seconds = self._limits.head_seconds if state is h11.IDLE else self._limits.body_seconds
            self._late, self._late_for = self.loop.call_later(seconds, self.transport.close), state

    def _relax(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
