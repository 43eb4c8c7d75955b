"""uvicorn, as the daemon wants it: no signal handlers, no access log, and a limit to how slowly a request may come.

Imported late, by `serving` alone.
"""

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from os import geteuid
from typing import TYPE_CHECKING, Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from daemon import logs
from daemon.http.workers import Workers

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid: struct ucred of unix(7)
_log = logs.get()


def server(app: "ASGIApp", workers: Workers) -> "Server":
    """A server for this application, which ends when the workers are stopping."""
    limits = workers.limits
    config = uvicorn.Config(
        app,
        http=cast("Any", partial(Connection, request_seconds=limits.request_seconds)),
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

    def __init__(self, *of_uvicorn: Any, request_seconds: float, **also: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*of_uvicorn, **also)
        self._request_seconds = request_seconds
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, unless it is another user's."""
        super().connection_made(transport)
        self.access_log = False  # a query holds what is remembered
        peer = _user(transport)
        if peer is not None and peer not in (0, geteuid()):
            _log.warning("peer_refused", uid=peer)
            transport.abort()
            return
        self._expect()

    def data_received(self, data: bytes) -> None:
        """More of a request."""
        super().data_received(data)
        if self._is_incomplete():
            self._expect()
        else:
            self._relax()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        self._relax()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close when idle, and when half a request has come: nobody has begun to work on that."""
        if self._is_incomplete():
            self.transport.close()
        else:
            super().shutdown()

    def _is_incomplete(self) -> bool:
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _expect(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self._request_seconds, self._cut_off)

    def _relax(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _cut_off(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            self.transport.close()


def _user(transport: asyncio.Transport) -> int | None:
    """Whose process is at the other end of a Unix socket; None for TCP."""
    ours: socket.socket | None = transport.get_extra_info("socket")
    if ours is None or ours.family != socket.AF_UNIX:
        return None
    return int(_CREDENTIALS.unpack(ours.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[1])
