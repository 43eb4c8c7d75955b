"""uvicorn, as the daemon wants it: no signal handlers, no access log, and limits to who keeps it waiting.

A request has seconds for its head and seconds for its body. So many connections may wait for a request, at the door
and of one address; beyond that the one that has waited longest makes room, so that slow ones keep nobody out. Those
that are being answered are counted by uvicorn, which answers 503. Imported late, by `serving` alone.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from os import geteuid
from typing import TYPE_CHECKING, Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from daemon.api.peer import user_of
from daemon.api.workers import Limits, Workers
from daemon.observability import logs

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_log = logs.get()


def server(app: "ASGIApp", workers: Workers) -> "Server":
    """A server for this application, which ends when the workers are stopping."""
    limits = workers.limits
    config = uvicorn.Config(
        app,
        http=cast(
            "Any", partial(Connection, limits=limits, crowd=Crowd(limits.waiting, limits.waiting_of_an_address))
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
    """Serves until an event is set."""

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


class Connection(H11Protocol):
    """One connection: of this user, where the kernel can say so (the Unix socket); its requests come in time."""

    def __init__(self, *of_uvicorn: Any, limits: Limits, crowd: "Crowd", **also: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*of_uvicorn, **also)
        self._limits = limits
        self._crowd = crowd
        self._late: asyncio.TimerHandle | None = None
        self._late_for: object = h11.IDLE
        self.address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, unless it is another user's."""
        super().connection_made(transport)
        self.access_log = False  # a query holds what is remembered
        peer = user_of(transport.get_extra_info("socket"))
        if peer is not None and peer not in (0, geteuid()):
            _log.warning("peer_refused", uid=peer)
            transport.abort()
            return
        self.address = self.client[0] if self.client else ""
        self._crowd.enter(self)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """More of a request."""
        super().data_received(data)
        if self.waits:
            self._expect()
        else:
            self._relax()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        self._relax()
        self._crowd.leave(self)
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
        """Wait no longer."""
        self._relax()
        if not self.transport.is_closing():
            self.transport.close()

    def _expect(self) -> None:
        """The head has its time, from its first byte on, and then the body has."""
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


class Crowd:
    """Who is connected at one door, by address; the Unix socket's have none, and are one user's."""

    def __init__(self, most: int, most_of_an_address: int) -> None:
        self._most = most
        self._most_of_an_address = most_of_an_address
        # A dict keeps the order in which they came.
        self._here: dict[str, dict[Connection, None]] = {}

    def enter(self, one: Connection) -> None:
        """Let it in. Where too many wait, the first of its address is cut off, or the first of the largest crowd."""
        self._here.setdefault(one.address, {})[one] = None
        if not one.address:
            return
        waiting = {
            address: [each for each in found if each.waits] for address, found in self._here.items() if address
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
        """It is gone."""
        found = self._here.get(one.address, {})
        found.pop(one, None)
        if not found:
            self._here.pop(one.address, None)
