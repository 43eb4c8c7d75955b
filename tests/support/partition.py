"""A failing network: a proxy to a local server that can refuse, hang, hold back answers, cut and heal."""

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from tests.support.ports import free_port

_CONNECT_SECONDS = 30.0
_SIZE = 1 << 16
_BACKLOG = 256


def _nothing() -> None:
    pass


class Partition:
    """A proxy from `host`:`port` to 127.0.0.1:`target`.

    Refusals and silence come from the kernel; the server is never simulated.
    """

    def __init__(self, target: int, host: str = "127.0.0.1") -> None:
        self.target, self.host = target, host
        self._changed = threading.Condition()
        self._held: frozenset[str] = frozenset()
        self._lost_to, self._then = b"", _nothing
        self.lost = 0
        self._links: set[_Link] = set()
        self._listening: socket.socket | None = None
        self._accepting: threading.Thread | None = None
        self.port = free_port()
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def through(self, address: str) -> str:
        """Replace the server's address in a text by the proxy's."""
        return address.replace(f"127.0.0.1:{self.target}", f"{self.host}:{self.port}")

    def refuse(self) -> None:
        """Refuse new connections and cut existing ones, as if the server's machine had died."""
        self._shut()
        self.cut()

    def hang(self) -> None:
        """Silently hold all traffic, so that new connections wait. Data sent meanwhile arrives after `heal`."""
        self._hold("to server", "to client")

    def hold_answers(self) -> None:
        """Let requests through but hold the answers, which `cut` loses and `heal` delivers."""
        self._hold("to client")

    def lose_answer(self, to: bytes, then: Callable[[], None] = _nothing) -> None:
        """Lose one answer: cut the next connection that sends these bytes once the server has answered.

        So the server has acted, but the client does not learn it. `then` is called before the cut; `lost` counts lost
        answers.
        """
        with self._changed:
            self._lost_to, self._then = to, then

    def cut(self) -> None:
        """End all connections and lose data in transit; new connections are possible."""
        with self._changed:
            if self._listening is not None:
                self._take(self._listening)  # connections that the kernel has accepted already
            links, self._links = self._links, set()
            for link in links:
                link.cut()
            self._changed.notify_all()

    def heal(self) -> None:
        """Let everything through again."""
        self._hold()
        if self._listening is None:
            self._open()

    def close(self) -> None:
        self.refuse()
        self._hold()

    def _hold(self, *directions: str) -> None:
        with self._changed:
            self._held = frozenset(directions)
            self._changed.notify_all()

    def _open(self) -> None:
        listening = self._listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((self.host, self.port))
        listening.listen(_BACKLOG)
        listening.settimeout(0)
        self._accepting = threading.Thread(target=self._accept, args=[listening], daemon=True)
        self._accepting.start()

    def _shut(self) -> None:
        if self._listening is None or self._accepting is None:
            return
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._accepting.join()
        self._listening.close()
        self._listening = None

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                select.select([listening], [], [])
                with self._changed:
                    self._take(listening)

    def _take(self, listening: socket.socket) -> None:
        """Accept all waiting connections. Raise OSError if the listener was shut down."""
        with suppress(BlockingIOError):
            while True:
                client, _ = listening.accept()
                client.settimeout(None)
                link = _Link(client)
                self._links.add(link)
                threading.Thread(target=self._join, args=[link], daemon=True).start()

    def _join(self, link: "_Link") -> None:
        """Connect a client with the server, and forward until either side ends."""
        try:
            if not self._may_pass(link, "to server"):
                return
            server = socket.create_connection(("127.0.0.1", self.target), _CONNECT_SECONDS)
            server.settimeout(None)
            with self._changed:
                link.server = server
                if link.is_cut:  # meanwhile
                    return
            back = threading.Thread(
                target=self._pump, args=[link, link.server, link.client, "to client"], daemon=True
            )
            back.start()
            self._pump(link, link.client, link.server, "to server")
            back.join()
        except OSError:
            pass  # the server is gone, and so is the connection
        finally:
            with self._changed:
                self._links.discard(link)
            link.close()

    def _pump(self, link: "_Link", source: socket.socket, sink: socket.socket, direction: str) -> None:
        try:
            while (said := source.recv(_SIZE)) and self._may_pass(link, direction):
                if direction == "to server":
                    self._mark(link, said)
                if link.then is not None and direction == "to client":
                    self.lost += 1
                    link.then()
                    link.cut()
                    return
                sink.sendall(said)
            if self._may_pass(link, direction):
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            link.cut()

    def _mark(self, link: "_Link", said: bytes) -> None:
        """Check before sending whether the answer to these bytes is the one to lose."""
        with self._changed:
            if self._lost_to and self._lost_to in said:
                self._lost_to, link.then = b"", self._then

    def _may_pass(self, link: "_Link", direction: str) -> bool:
        """Wait until traffic in this direction may pass; return False if the connection was cut meanwhile."""
        with self._changed:
            self._changed.wait_for(lambda: link.is_cut or direction not in self._held)
            return not link.is_cut


class _Link:
    """A client's connection, and the one to the server once it exists."""

    def __init__(self, client: socket.socket) -> None:
        self.client, self.server = client, client
        self.is_cut = False
        self.then: Callable[[], None] | None = None  # called when the next answer is lost; None: it is not lost

    def cut(self) -> None:
        self.is_cut = True
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.client.close()
        self.server.close()
