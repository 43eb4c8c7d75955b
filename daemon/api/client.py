"""Client: calls the daemon over its Unix socket, for every command and for an agent's MCP server.

The protocol is the daemon's HTTP. A short question does without http.client: its import takes longer than the answer.
Else the reply is newline-delimited JSON: `{"step": …}` and `{"notice": …}` while it works, `{"reply": …}` or
`{"error": …}` at the end.
"""

import errno
import json
import os
import socket as sockets
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from daemon.api.headers import NDJSON, SETTINGS_HEADER
from daemon.api.peer import require_trusted
from daemon.config.paths import fits_socket, has_socket, service_command, socket_path
from daemon.dream.progress import Step
from state.errors import BusyError, DreamdError, StorageError, error_of

if TYPE_CHECKING:
    from http.client import HTTPConnection

    from daemon.api.operations.operation import Operation
    from daemon.api.operations.request import Request
    from daemon.config.per_dream import DreamSettings

ReplyT = TypeVar("ReplyT")

_CONNECT_SECONDS = 5.0
_REFUSED = 400
ANSWER_SECONDS = 30.0
_NOBODY = ("no daemon runs", "'dreamd serve' starts one")
_GONE = ("the daemon went while it worked", "see 'dreamd status', and try again")
_GOES_ON = "the daemon goes on with it: 'dreamd status' shows that"
_DREAM_GOES_ON = "the dream goes on in the daemon: 'dreamd dream' follows it"
SILENT = (
    "the daemon does not answer: it is stopped, or overrun",
    f"'kill -CONT' lets a stopped one go on, '{service_command('restart')}' starts it anew",
)
# A dream sends nothing while a model thinks, for up to model.timeout_seconds and retries.
LONG_SECONDS = 3_600.0


class NoDaemonError(BusyError):
    """No daemon answered: none runs, or it ended before it had done anything."""


class SandboxedError(NoDaemonError):
    """The sandbox of this process forbids connections to the daemon."""


class LostError(StorageError):
    """The daemon ended while it worked."""


@dataclass(frozen=True, slots=True)
class Client:
    """The daemon behind a socket. Each call opens a connection, so restarts between calls go unnoticed.

    `named`: DREAMD_SOCKET names the socket, so root may call another account's service. Otherwise every call to a
    listener of another user raises StorageError, and nothing is sent.
    """

    socket: Path
    named: bool = False

    @classmethod
    def at(cls, environment: Mapping[str, str]) -> Self:
        """Return the client for this environment's socket, whether a daemon runs or not."""
        return cls(socket_path(environment), bool(environment.get("DREAMD_SOCKET")))

    def call(
        self,
        workspace: str,
        operation: "Operation[..., ReplyT]",
        request: "Request",
        on_step: Callable[[Step], None] = lambda _: None,
        on_notice: Callable[[str], None] = lambda _: None,
        *,
        seconds: float | None = None,
        settings: "DreamSettings | None" = None,
    ) -> ReplyT:
        """Return the operation's reply for the workspace of this name. `settings`: of the dream that it runs.

        `seconds` of silence count as lost; by default as many as the operation may need. Raise what the operation
        raises, NoDaemonError if no daemon runs, UnknownWorkspaceError if it does not keep this workspace, and
        LostError if it ended meanwhile.
        """
        headers = {SETTINGS_HEADER: settings.header()} if settings is not None else {}
        connection = self._connection(seconds or (LONG_SECONDS if operation.long else ANSWER_SECONDS))
        try:
            return reply_over(
                connection, f"/v1/workspaces/{workspace}", headers, operation, request, on_step, on_notice
            )
        except KeyboardInterrupt:
            goes_on = _DREAM_GOES_ON if operation.name == "dream_now" else _GOES_ON
            raise KeyboardInterrupt(goes_on if operation.long and not operation.reads else "") from None

    def get(self, path: str, seconds: float = ANSWER_SECONDS) -> Any:  # noqa: ANN401 - JSON has no better type
        """Return the JSON at this path. Raise NoDaemonError, the daemon's error, and LostError, also on a timeout."""
        return _json(*self.answer("GET", path, {}, "", seconds))

    def post(self, path: str, fields: dict[str, object], workspace: str = "", seconds: float = ANSWER_SECONDS) -> Any:  # noqa: ANN401
        """Return the daemon's reply to these fields, for the workspace of this name if one is given.

        Raise the same errors as `get`, and UnknownWorkspaceError.
        """
        return _json(*self.answer("POST", path, fields, workspace, seconds))

    def answer(
        self, method: str, path: str, fields: Mapping[str, object], workspace: str, seconds: float
    ) -> tuple[int, dict[str, str], str]:
        """Return the status, the headers by lower-case name, and the body of the answer.

        Raise NoDaemonError, BusyError, and LostError if the answer is late or incomplete.
        """
        place, body = f"/v1/workspaces/{workspace}" if workspace else "", json.dumps(fields, default=_iso).encode()
        headers = {"Host": "localhost", "Connection": "close"}
        if method == "POST":
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        rows = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        asked = f"{method} {place}{path} HTTP/1.1\r\n{rows}\r\n".encode("ascii")
        with self._connected(seconds) as connection:
            try:
                connection.sendall(asked + (body if method == "POST" else b""))
                said = b"".join(iter(lambda: connection.recv(65_536), b""))
            except TimeoutError as error:
                raise LostError(*SILENT) from error
            except OSError as error:
                raise LostError(*_GONE) from error
        head, _, whole = said.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        given = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        version, _, status = first.partition(" ")
        is_whole = given.get("content-length") == str(len(whole))
        if version != "HTTP/1.1" or not status[:3].isdecimal() or not is_whole:
            raise LostError(*_GONE)
        return int(status[:3]), given, whole.decode()

    def lines(self, path: str, headers: Mapping[str, str], body: bytes) -> Iterator[bytes]:
        """Yield the lines of the answer to an MCP message. Raise NoDaemonError and LostError.

        While it works, the daemon sends something every 15 seconds.
        """
        own = {"Accept": "application/json, text/event-stream", **headers}
        for _, line in _lines(self._connection(ANSWER_SECONDS), path, body, own):
            yield line

    def _connection(self, seconds: float) -> "HTTPConnection":
        from http.client import HTTPConnection

        connection = HTTPConnection("localhost", timeout=seconds)
        connection.sock = self._connected(seconds)
        return connection

    def _connected(self, seconds: float) -> sockets.socket:
        """Connect to the daemon, if its user is trusted. Raise NoDaemonError, BusyError, StorageError."""
        if not fits_socket(self.socket):
            raise NoDaemonError(*_NOBODY)
        connection = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        try:
            connection.settimeout(min(_CONNECT_SECONDS, seconds))
            connection.connect(str(self.socket))
            require_trusted(connection, self.socket, named=self.named)
            connection.settimeout(seconds)
        except (OSError, StorageError) as error:
            connection.close()
            raise (_unreached(error) if isinstance(error, OSError) else error) from error
        return connection


def daemon() -> Client | None:
    """Return the daemon of this user; None if there is no socket."""
    client = Client.at(os.environ)
    return client if has_socket(client.socket) else None


def reply_over(
    connection: "HTTPConnection",
    workspace: str,
    headers: Mapping[str, str],
    operation: "Operation[..., ReplyT]",
    request: "Request",
    on_step: Callable[[Step], None],
    on_notice: Callable[[str], None],
) -> ReplyT:
    """Open the connection, return the operation's reply, and close it. `workspace`: its URL path.

    Raise what the operation raises, NoDaemonError, and LostError.
    """
    from state.codec import decode

    fields, headers = request.model_dump(mode="json", exclude_none=True), {"Accept": NDJSON, **headers}
    for status, row in _lines(connection, f"{workspace}/{operation.name}", json.dumps(fields).encode(), headers):
        line = _json(status, {}, row.decode())
        if "step" in line:
            on_step(Step(line["step"]["node"], line["step"]["figures"]))
        elif "notice" in line:
            on_notice(str(line["notice"]))
        elif "error" in line:
            raise _error(line["error"])
        elif "reply" in line:
            return decode(operation.reply, json.dumps(line["reply"]), f"the daemon's answer to {operation.name}")
    raise LostError(*_GONE)


def _iso(moment: Any) -> str:  # noqa: ANN401 - json's
    return str(moment.isoformat())


def _lines(
    connection: "HTTPConnection", path: str, body: bytes, headers: Mapping[str, str]
) -> Iterator[tuple[int, bytes]]:
    """Send a request, and yield the status with each line of the answer. Raise LostError."""
    from http.client import HTTPException

    with closing(connection):
        try:
            if connection.sock is None:
                connection.connect()
        except OSError as error:
            raise _unreached(error) from error
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            for line in answer:
                yield answer.status, line
        except TimeoutError as error:
            raise LostError(*SILENT) from error
        except (OSError, HTTPException) as error:
            raise LostError(*_GONE) from error


def _json(status: int, _: Mapping[str, str], body: str) -> Any:  # noqa: ANN401
    try:
        reply = json.loads(body)
    except ValueError as error:
        raise LostError(*_GONE) from error
    if status >= _REFUSED:
        raise _error(reply)
    return reply


def _error(reply: dict[str, Any]) -> DreamdError:
    return error_of(str(reply.get("code", "FAILED")), str(reply.get("error", reply)), reply.get("details", {}))


def _unreached(error: OSError) -> DreamdError:
    """Return the error for a failed connection."""
    if isinstance(error, ConnectionRefusedError | FileNotFoundError):
        return NoDaemonError(*_NOBODY)
    if error.errno == errno.EPERM:  # a sandbox: a socket without permission raises EACCES
        return SandboxedError(
            "this process may not ask the daemon, as in a sandbox",
            "ask over MCP (memory_search, working_memory_note), which is outside of it",
        )
    return BusyError(f"the daemon does not answer ({error})", f"see '{service_command('status')}'")
