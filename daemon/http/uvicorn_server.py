"""uvicorn server: without signal handlers and access log, and with limits against slow clients.

A request has some seconds for its head and some for its body. The connections that wait for a request are limited, in
all and by address; beyond the limit the one that has waited longest is closed, so that slow clients block nobody.
Requests being answered are counted by uvicorn, which answers 503. Imported late, by `serve` alone.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from os import geteuid
from typing import TYPE_CHECKING, Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from daemon.api.peer import PEER, user_of
from daemon.api.workers import Limits, Workers
from daemon.observability import logs

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_log = logs.get()


def server(app: "ASGIApp", workers: Workers) -> "Server":
    """Return a server for this application, which ends when the workers are stopping."""
    limits = workers.limits
    config = uvicorn.Config(
        app,
        http=cast(
            "Any",
            partial(
                Connection, limits=limits, waiting=WaitingConnections(limits.waiting, limits.waiting_of_an_address)
            ),
        ),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=limits.grace_seconds,
        h11_max_incomplete_event_size=limits.header_bytes,
    )
    return Server(config, workers.stopping)


class Server(uvicorn.Server):
    """A uvicorn server that ends when an event is set."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the daemon."""
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
    """A connection that must be this user's (at the Unix socket, where the kernel says so) and send in time."""

    def __init__(self, *args: Any, limits: Limits, waiting: "WaitingConnections", **options: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*args, **options)
        self._limits = limits
        self._waiting = waiting
        self._late: asyncio.TimerHandle | None = None
        self._late_for: object = h11.IDLE
        self.address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock; another user's connection is aborted."""
        super().connection_made(transport)
        self.access_log = False  # a query may hold private words
        peer = user_of(transport.get_extra_info("socket"))
        if peer is not None and peer not in (0, geteuid()):
            _log.warning("peer_refused", uid=peer)
            transport.abort()
            return
        self.app_state = {**self.app_state, PEER: peer}
        self.address = self.client[0] if self.client else ""
        self._waiting.enter(self)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Pass the data on, and keep the clock while a request is incomplete."""
        super().data_received(data)
        if self.waits:
            self._expect()
        else:
            self._relax()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._relax()
        self._waiting.leave(self)
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

    def cut_off(self) -> None:
        """Close it."""
        self._relax()
        if not self.transport.is_closing():
            self.transport.close()

    def _expect(self) -> None:
        """Start the clock: for the head from its first byte on, then for the body."""
        state = self.conn.their_state
        if self._late is not None and state is self._late_for:
            return
        self._relax()
        seconds = self._limits.head_seconds if state is h11.IDLE else self._limits.body_seconds
        self._late, self._late_for = self.loop.call_later(seconds, self.cut_off), state

    def _relax(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class WaitingConnections:
    """The connections at one listener, by address; those of the Unix socket have none and are not limited."""

    def __init__(self, most: int, most_of_an_address: int) -> None:
        self._most = most
        self._most_of_an_address = most_of_an_address
        # A dict keeps the order of arrival.
        self._here: dict[str, dict[Connection, None]] = {}

    def enter(self, one: Connection) -> None:
        """Add it. When too many wait, the oldest of its address is closed, or the oldest of the fullest address."""
        self._here.setdefault(one.address, {})[one] = None
        if not one.address:
            return
        waiting = {
            address: [each for each in connections if each.waits]
            for address, connections in self._here.items()
            if address
        }
        fullest = max(waiting, key=lambda address: len(waiting[address]))
        if len(waiting[one.address]) > self._most_of_an_address:
            fullest = one.address
        elif sum(map(len, waiting.values())) <= self._most:
            return
        first = waiting[fullest][0]
        self.leave(first)
        first.cut_off()

    def leave(self, one: Connection) -> None:
        """Remove it."""
        connections = self._here.get(one.address, {})
        connections.pop(one, None)
        if not connections:
            self._here.pop(one.address, None)
