"""Bridge: `dreamd mcp` where a daemon runs: passes an agent's requests to the daemon's MCP, and the answers back.

An agent gives a server a second or less before its first request, and the SDK takes that to be imported. So nothing
but the standard library is loaded here: each request is a POST over the daemon's socket, and what the daemon streams
back goes to the agent line by line. The daemon keeps no session: notifications tell it nothing and stay here, and a
cancelled request is one whose connection is closed.

When the daemon cannot be asked, the SDK's server takes over in this process, for good: it looks for the daemon at
each call by itself. The agent notices nothing, because the handshake is repeated with that server.
"""

import base64
import http.client
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TextIO, cast

from daemon.api.client import Client
from daemon.config.paths import registry_path
from daemon.config.registry import excluded, name_of
from state.errors import DreamdError, StorageError, UnknownWorkspaceError
from state.stores.disk.lock import is_stopped, present_holder
from state.stores.disk.workspace import Workspace

Message = dict[str, Any]
# Serves MCP with the SDK: reads lines here, writes each message there, until the lines end.
ServeAlone = Callable[[BinaryIO, TextIO], None]

_ASKING_SECONDS = 2.0  # at the start, when another way is still open
_SILENCE_SECONDS = 60.0  # while it works the daemon says something every 15 seconds
_ENDING_SECONDS = 5.0  # for answers that are still under way when the agent sends no more
_MOST_AT_ONCE = 64
_HANDSHAKE = "dreamd-handshake"
_INTERNAL_ERROR = -32603
_META = "io.modelcontextprotocol/protocolVersion"
# What the daemon wants to see in a header as well.
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_LOST = (
    "the daemon went while it worked, and may have done it",
    "look whether it was done before you call this again; the next call works",
)


def kept_name(client: Client, workspace: Workspace) -> str | None:
    """Return the name under which the daemon keeps this workspace, from now on at least; None if it does not.

    Raise DreamdError when the daemon does not answer as it should.
    """
    name, root = name_of(workspace.root), str(workspace.root)
    listed = client.get("/v1/workspaces", _ASKING_SECONDS)["workspaces"]
    known = next((one for one in listed if one["name"] == name), None)
    if known is not None:
        is_usable = known["root"] == root and (known["kept"] or known["problem"] is None)
        return name if is_usable else None
    if workspace.root in excluded(registry_path(os.environ)):
        return None
    return str(client.post("/v1/workspaces", {"path": root})["name"])


class Wire:
    """The way to the agent: one message a line, also when several threads have one. As a text stream for the SDK."""

    def __init__(self, outside: BinaryIO) -> None:
        self._outside = outside
        self._turn = threading.Lock()
        self._awaits_handshake = False

    def expect_handshake(self) -> None:
        """Keep the next answer, to the repeated handshake, from the agent."""
        self._awaits_handshake = True

    def send(self, message: bytes) -> None:
        """Write the message. An agent that reads no more has ended, and this process with it."""
        try:
            with self._turn:
                self._outside.write(message.rstrip() + b"\n")
                self._outside.flush()
        except (OSError, ValueError):
            os._exit(0)

    def write(self, text: str) -> int:
        """Write the whole message, as a text stream does."""
        if self._awaits_handshake and json.loads(text).get("id") == _HANDSHAKE:
            self._awaits_handshake = False
        else:
            self.send(text.encode())
        return len(text)

    def flush(self) -> None:
        """Do nothing: every message has been flushed."""


@dataclass(slots=True)
class _Exchange:
    """A request that the daemon is to answer.

    `begun`: the daemon may have it. `cancelled`: nobody waits for the answer any more.
    """

    message: Message
    line: bytes
    connection: http.client.HTTPConnection
    begun: bool = False
    cancelled: bool = False
    answered: bool = False

    @property
    def number(self) -> object:
        return self.message["id"]

    @property
    def method(self) -> str:
        return str(self.message["method"])

    def cancel(self) -> None:
        self.cancelled = True
        if self.connection.sock is not None:
            with suppress(OSError):
                self.connection.sock.shutdown(2)  # wakes the thread that reads


@dataclass(slots=True)
class Bridge:
    """Between an agent on stdio and the workspace that the daemon keeps under this name."""

    client: Client
    workspace: Workspace
    name: str
    wire: Wire
    serve_alone: ServeAlone
    _version: str = ""
    _agent: str = "dreamd mcp"
    _handshake: Message | None = None
    _exchanges: dict[str, _Exchange] = field(default_factory=dict)
    _places: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(_MOST_AT_ONCE))
    _switching: threading.Lock = field(default_factory=threading.Lock)
    _alone: BinaryIO | None = None
    _server: threading.Thread | None = None

    def run(self, incoming: BinaryIO) -> None:
        """Pass on until the agent sends no more. A dream that the daemon was asked for goes on there."""
        for line in incoming:
            if self._alone is not None:
                self._feed(line)
            else:
                self._take(line)
        deadline = time.monotonic() + _ENDING_SECONDS
        while self._exchanges and time.monotonic() < deadline:
            time.sleep(0.01)
        with self._switching:
            if self._alone is not None:
                self._alone.close()
        if self._server is not None:
            self._server.join()

    def _take(self, line: bytes) -> None:
        message = _message(line)
        method = message.get("method")
        if method == "notifications/cancelled":
            params = message.get("params")
            cancelled = self._exchanges.get(_key(params.get("requestId"))) if isinstance(params, dict) else None
            if cancelled is not None:
                cancelled.cancel()
        elif not isinstance(method, str) or type(message.get("id")) not in (int, str):
            return  # to the daemon a notification means nothing, nor does an answer
        elif method == "initialize":
            self._greet(message, line)
        else:
            exchange = self._begin(message, line)
            threading.Thread(target=self._pass_on, args=(exchange,), daemon=True).start()

    def _greet(self, message: Message, line: bytes) -> None:
        """Pass on the handshake before anything else is read: every later request names the version agreed on."""
        self._handshake = message
        with suppress(KeyError, TypeError):
            self._agent = _header(str(message["params"]["clientInfo"]["name"])[:100]) or self._agent
        self._pass_on(self._begin(message, line))

    def _begin(self, message: Message, line: bytes) -> _Exchange:
        self._places.acquire()
        exchange = _Exchange(message, line, self.client.connection(_SILENCE_SECONDS))
        self._exchanges[_key(message["id"])] = exchange
        return exchange

    def _pass_on(self, exchange: _Exchange) -> None:
        """Have the daemon answer; else the server in this process, or an error when it may be done already."""
        try:
            if is_stopped(present_holder(self.workspace)):
                raise StorageError("the daemon is stopped")
            with closing(exchange.connection):
                exchange.connection.connect()
                if exchange.cancelled:
                    return
                exchange.begun = True
                self._exchange(exchange)
        except (OSError, ValueError, http.client.HTTPException, DreamdError) as error:
            if exchange.answered or exchange.cancelled:
                return
            if exchange.begun and exchange.method == "tools/call" and not isinstance(error, UnknownWorkspaceError):
                self._refuse(exchange, StorageError(*_LOST))
            else:
                self._go_on_alone(exchange.line)
        finally:
            self._exchanges.pop(_key(exchange.number), None)
            self._places.release()

    def _exchange(self, exchange: _Exchange) -> None:
        """Send the request and pass on what comes. Raise OSError and HTTPException, and ValueError for no answer."""
        headers = self._headers(exchange.message, exchange.method)
        exchange.connection.request("POST", f"/mcp/{self.name}", exchange.line.strip(), headers)
        reply = exchange.connection.getresponse()
        streams = reply.headers.get_content_type() == "text/event-stream"
        for text in _events(reply) if streams else [reply.read()]:
            message = _message(text)
            if "jsonrpc" not in message:
                self._refused(exchange, reply.status, message)
            elif not exchange.cancelled:
                self._forward(exchange, message, text)
            if exchange.answered:
                return
        if not exchange.cancelled:
            raise ValueError("the daemon ended its reply before the answer")

    def _forward(self, exchange: _Exchange, message: Message, text: bytes) -> None:
        """Pass on a message of the daemon's; what it refused before it had read the request gets its number."""
        if "method" not in message:
            exchange.answered = True
            if exchange.method == "initialize":
                with suppress(KeyError, TypeError):
                    self._version = str(message["result"]["protocolVersion"])
            if message.get("id") is None:
                text = json.dumps({**message, "id": exchange.number}).encode()
        self.wire.send(text)

    def _refused(self, exchange: _Exchange, status: int, message: Message) -> None:
        """Pass on a refusal of HTTP's. Raise UnknownWorkspaceError if the daemon keeps this workspace no more."""
        if status in (http.client.NOT_FOUND, http.client.SERVICE_UNAVAILABLE):
            raise UnknownWorkspaceError("the daemon does not keep this workspace")
        self._refuse(
            exchange, DreamdError(str(message.get("error", f"the daemon refused this with status {status}")))
        )

    def _refuse(self, exchange: _Exchange, error: DreamdError) -> None:
        """Answer with an error: for a tool as its result, which the model reads."""
        exchange.answered = True
        fields = {"error": str(error), "code": error.code, "details": {}}
        answer: Message = {"jsonrpc": "2.0", "id": exchange.number}
        if exchange.method == "tools/call":
            content = [{"type": "text", "text": json.dumps(fields)}]
            # Newer clients refuse a result that does not say whether it is whole.
            answer["result"] = {"content": content, "isError": True, "resultType": "complete"}
        else:
            answer["error"] = {"code": _INTERNAL_ERROR, "message": str(error), "data": fields}
        self.wire.send(json.dumps(answer).encode())

    def _headers(self, message: Message, method: str) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "User-Agent": self._agent,
            "Mcp-Method": _header(method),
        }
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        meta = params.get("_meta")
        version = meta.get(_META) if isinstance(meta, dict) else None
        named = params.get(_NAMED_BY.get(method, ""))
        if version or self._version:
            headers["MCP-Protocol-Version"] = _header(str(version or self._version))
        if isinstance(named, str):
            headers["Mcp-Name"] = _header(named)
        return headers

    # ------------------------------------------------------------ without the daemon

    def _go_on_alone(self, line: bytes) -> None:
        """Have the server in this process answer this line, and whatever comes after it."""
        with self._switching:
            if self._alone is None:
                self._start_alone()
        self._feed(line)

    def _start_alone(self) -> None:
        reading, writing = os.pipe()
        lines = os.fdopen(reading, "rb")
        alone = os.fdopen(writing, "wb", buffering=0)
        self._server = threading.Thread(
            target=self.serve_alone, args=(lines, cast("TextIO", self.wire)), name="server"
        )
        if self._version and self._handshake is not None:  # the agent has had its answer
            self.wire.expect_handshake()
            repeated = json.dumps({**self._handshake, "id": _HANDSHAKE}).encode() + b"\n"
            alone.write(repeated + b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        self._server.start()
        self._alone = cast("BinaryIO", alone)

    def _feed(self, line: bytes) -> None:
        with self._switching:
            if self._alone is None or self._alone.closed:
                return
            rest = memoryview(line.rstrip(b"\n") + b"\n")
            while rest:
                rest = rest[self._alone.write(rest) :]


def _message(line: bytes) -> Message:
    """Return the message; empty for what is none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _key(number: object) -> str:
    """Return the number of a request as a key: 1 and "1" are two."""
    return json.dumps(number)


def _header(value: str) -> str:
    """Return the value as a header can hold it; MCP has base64 for what is not printable ASCII."""
    if _PLAIN.fullmatch(value) and not value.startswith("=?base64?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


def _events(reply: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the data of each event of a stream."""
    rows: list[bytes] = []
    for line in reply:
        row = line.rstrip(b"\r\n")
        if row.startswith(b"data:"):
            rows.append(row[5:].strip())
        elif not row and rows:
            yield b" ".join(rows)
            rows = []
