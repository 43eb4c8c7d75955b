"""The server as a test runs it: real sockets, in a thread with an event loop of its own."""

import asyncio
import http.client
import json
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daemon.api.client import Client
from daemon.api.workers import Limits
from daemon.http.serve import serve
from daemon.http.sockets import Listener, open_port, open_socket
from tests.daemon.http.house import OwnHouse
from tests.support.folders import PLACE

TOKEN = "a-token-of-the-tests-0123456789"
JSON = {"Content-Type": "application/json"}
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error's code."""
        assert set(self.json) == {"error", "code", "details"}
        return str(self.json["code"])


class Running:
    """A server under way."""

    def __init__(
        self, house: OwnHouse, entrances: list[Listener], limits: Limits | None, mcp: Any, window: Any
    ) -> None:
        self.house = house
        self.entrances = entrances
        self.client = Client(entrances[0].path or Path())
        self.port = int(entrances[1].socket.getsockname()[1])
        self._limits = limits
        self._mcp = mcp
        self._window = window
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def path(self) -> Path:
        assert self.entrances[0].path is not None
        return self.entrances[0].path

    def ask(
        self,
        method: str,
        path: str,
        fields: object = None,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        token: bool = True,
    ) -> Answer:
        """At the port, with the token."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        return asked(connection, method, path, fields, body, {**(BEARER if token else {}), **(headers or {})})

    def ask_socket(
        self,
        method: str,
        path: str,
        fields: object = None,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """At the Unix socket."""
        connection = http.client.HTTPConnection("localhost", timeout=300)
        connection.sock = self.connected()
        return asked(connection, method, path, fields, body, headers or {})

    def connected(self) -> socket.socket:
        """A connection to the Unix socket."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(60)
        connection.connect(str(self.path))
        return connection

    def connected_to_port(self) -> socket.socket:
        """A connection to the port."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=300)

    def tell_to_stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)

    def ended(self, seconds: float = 60) -> bool:
        """Wait for the end of the server."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with self._mcp.running() if self._mcp else nullcontext():
            await serve(self.house, self.entrances, self._stop, self._mcp, self._limits, self._window)


@contextmanager
def running(
    house: OwnHouse, limits: Limits | None = None, mcp: Any = None, window: Any = None, port: int = 0
) -> Iterator[Running]:
    """A server over this house at both doors, stopped at the end."""
    folder = Path(tempfile.mkdtemp(prefix="dreamd-http-", dir=PLACE))
    try:
        entrances = [open_socket(folder / "run" / "dreamd.sock"), open_port("127.0.0.1", port, TOKEN)]
        house.http = entrances[1].address
        server = Running(house, entrances, limits, mcp, window)
        try:
            yield server
        finally:
            if not server.ended(0):
                server.tell_to_stop()
            assert server.ended()
    finally:
        shutil.rmtree(folder)


def asked(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    fields: object,
    body: bytes | None,
    headers: Mapping[str, str],
) -> Answer:
    """One request, on a connection that is closed after it."""
    kind = JSON if fields is not None else {}
    with closing(connection):
        connection.request(method, path, json.dumps(fields) if fields is not None else body, {**kind, **headers})
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())


def spoken(connection: socket.socket, *said: bytes) -> bytes:
    """Say this, and hear all until the other side closes."""
    with connection:
        for part in said:
            connection.sendall(part)
        heard = b""
        while block := connection.recv(65_536):
            heard += block
    return heard
