"""Events: one stream of server-sent events for a page: that something changed, and nothing else.

What changed, the browser asks for: no word of a memory is ever in the stream, so that none can be read as a line of
it. A stream looks four times a second at a short text in the daemon's memory; no file is read for it. Its ids say
what the browser has seen, so that one that listens again misses nothing.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from typing import TYPE_CHECKING
from weakref import WeakSet

from state.errors import OverloadedError, UnknownWorkspaceError

if TYPE_CHECKING:
    from starlette.responses import Response

    from daemon.api.daemon import DaemonApi
    from daemon.api.workers import Workers

MOST_STREAMS = 64
_LOOK_SECONDS = 0.25
# A line that says nothing, so that both sides notice when the other one has gone.
_SIGN_SECONDS = 15.0
_ID = re.compile("[0-9a-f]{16}")


class _Listener:
    """One that listens, or was let in and never does: its place is free when nobody holds it."""

    __slots__ = ("__weakref__",)


class Streams:
    """The streams of one listener; used in its event loop."""

    def __init__(self, api: "DaemonApi", workers: "Workers") -> None:
        self._api = api
        self._stopping = workers.stopping
        self._listeners: WeakSet[_Listener] = WeakSet()

    def response(self, workspace: str, seen: str, may_listen: Callable[[], bool]) -> "Response":
        """Return a stream of this workspace's changes (empty: of all), until the browser or the daemon goes.

        `seen` is the id of the last event that the browser has had, if any; the stream ends when it `may_listen` no
        more. Raise OverloadedError for one too many, UnknownWorkspaceError.
        """
        from starlette.responses import StreamingResponse

        if len(self._listeners) >= MOST_STREAMS:
            raise OverloadedError(f"{MOST_STREAMS} pages are listening already", "close some of them")
        before = self.pulse(workspace)
        # It counts from now on: many may be asked for before the first one begins.
        listener = _Listener()
        self._listeners.add(listener)
        events = self._events(listener, workspace, seen if _ID.fullmatch(seen) else before, may_listen)
        return StreamingResponse(events, media_type="text/event-stream")

    async def _events(
        self, listener: _Listener, workspace: str, before: str, may_listen: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        try:
            yield b"retry: 1000\nid: %b\n\n" % before.encode()
            quiet = 0.0
            while may_listen() and not self._stopping.is_set():
                if (now := self.pulse(workspace)) != before:
                    before, quiet = now, 0.0
                    yield b"event: changed\nid: %b\ndata: 1\n\n" % now.encode()
                elif quiet >= _SIGN_SECONDS:
                    quiet = 0.0
                    yield b": here\n\n"
                try:
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await self._stopping.wait()
                except TimeoutError:
                    quiet += _LOOK_SECONDS
        except UnknownWorkspaceError:
            return  # it is kept no more
        finally:
            self._listeners.discard(listener)

    def pulse(self, workspace: str) -> str:
        """Return the id of the last event. Raise UnknownWorkspaceError."""
        return sha256(self._api.pulse(workspace).encode()).hexdigest()[:16]
