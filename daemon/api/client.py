"""Client: calls the daemon over its Unix socket, for every command and for an agent's MCP server.

The protocol is the daemon's HTTP with newline-delimited JSON as the reply: `{"step": …}` and `{"notice": …}` while it
works, `{"reply": …}` or `{"error": …}` at the end.
"""

import errno
import http.client
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

from daemon.api.headers import ADOPT_HEADER, NDJSON, ROOT_HEADER
from daemon.api.peer import require_trusted
from daemon.config.paths import socket_path
from daemon.config.registry import name_of
from daemon.dream.progress import Step
from state.errors import BusyError, DreamdError, StorageError, error_of

if TYPE_CHECKING:
    from daemon.api.operations.operation import Operation
    from daemon.api.operations.request import Request

ReplyT = TypeVar("ReplyT")

_CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
_GONE = ("the daemon went while it worked", "see 'dreamd status', and try again")
SILENT = (
    "the daemon does not answer: it is stopped, or overrun",
    "'kill -CONT' lets a stopped one go on, 'systemctl --user restart dreamd' starts it anew",
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
        root: Path,
        operation: "Operation[..., ReplyT]",
        request: "Request",
        on_step: Callable[[Step], None] = lambda _: None,
        on_notice: Callable[[str], None] = lambda _: None,
        *,
        register: bool = False,
        seconds: float | None = None,
    ) -> ReplyT:
        """Return the operation's reply for the workspace at this root. `register`: the daemon keeps it from now on.

        `seconds` of silence count as lost; by default as many as the operation may need. Raise what the operation
        raises, NoDaemonError if no daemon runs, UnknownWorkspaceError if it does not keep this workspace, and
        LostError if it ended meanwhile.
        """
        headers = _root_header(root) | ({ADOPT_HEADER: "yes"} if register else {})
        connection = _Connection(self, seconds or (LONG_SECONDS if operation.long else ANSWER_SECONDS))
        path = f"/v1/workspaces/{name_of(root)}"
        return reply_over(connection, path, headers, operation, request, on_step, on_notice)

    def get(self, path: str, seconds: float = ANSWER_SECONDS) -> Any:  # noqa: ANN401 - JSON has no better type
        """Return the JSON at this path. Raise NoDaemonError, the daemon's error, and LostError, also on a timeout."""
        return self._json("GET", path, None, {}, seconds)

    def post(
        self, path: str, fields: dict[str, object], root: Path | None = None, seconds: float = ANSWER_SECONDS
    ) -> Any:  # noqa: ANN401
        """Return the daemon's reply to these fields, for the workspace at this root if one is given.

        It saves the imports of `call`. Raise as `get`, and UnknownWorkspaceError.
        """
        place = f"/v1/workspaces/{name_of(root)}" if root else ""
        return self._json("POST", f"{place}{path}", fields, _root_header(root) if root else {}, seconds)

    def lines(self, path: str, headers: Mapping[str, str], body: bytes) -> Iterator[bytes]:
        """Yield the lines of the answer to an MCP message. Raise NoDaemonError and LostError.

        While it works, the daemon sends something every 15 seconds.
        """
        own = {"Accept": "application/json, text/event-stream", **headers}
        for _, line in _lines(_Connection(self, ANSWER_SECONDS), "POST", path, body, own):
            yield line

    def _json(
        self, method: str, path: str, fields: dict[str, object] | None, headers: Mapping[str, str], seconds: float
    ) -> Any:  # noqa: ANN401
        replies = [*_answered(_Connection(self, seconds), method, path, fields, headers)]
        if len(replies) != 1:  # it was cut off
            raise LostError(*_GONE)
        return replies[0]


def daemon() -> Client | None:
    """Return the daemon of this user; None if there is no socket."""
    client = Client.at(os.environ)
    return client if client.socket.exists() else None


def reply_over(
    connection: http.client.HTTPConnection,
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
    for line in _answered(connection, "POST", f"{workspace}/{operation.name}", fields, headers):
        if "step" in line:
            on_step(Step(line["step"]["node"], line["step"]["figures"]))
        elif "notice" in line:
            on_notice(str(line["notice"]))
        elif "error" in line:
            raise _error(line["error"])
        elif "reply" in line:
            return decode(operation.reply, json.dumps(line["reply"]), f"the daemon's answer to {operation.name}")
    raise LostError(*_GONE)


def _root_header(root: Path) -> dict[str, str]:
    return {ROOT_HEADER: quote(os.fsencode(root))}


class _Connection(http.client.HTTPConnection):
    def __init__(self, client: Client, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._client = client

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(min(_CONNECT_SECONDS, self.timeout or _CONNECT_SECONDS))
            self.sock.connect(str(self._client.socket))
            require_trusted(self.sock, self._client.socket, named=self._client.named)
            self.sock.settimeout(self.timeout)
        except (OSError, StorageError):
            self.sock.close()
            raise


def _answered(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    fields: dict[str, object] | None,
    headers: Mapping[str, str],
) -> Iterator[Any]:
    """Send a request, and yield the JSON of each line of the answer. Raise the daemon's error."""
    for status, line in _lines(connection, method, path, json.dumps(fields).encode(), headers):
        try:
            reply = json.loads(line)
        except ValueError as error:
            raise LostError(*_GONE) from error
        if status >= http.client.BAD_REQUEST:
            raise _error(reply)
        yield reply


def _lines(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes, headers: Mapping[str, str]
) -> Iterator[tuple[int, bytes]]:
    """Send a request, and yield the status with each line of the answer. Raise LostError."""
    own = {"Content-Type": "application/json", **headers}
    with closing(connection), _sent(connection, method, path, body, own) as answer:
        try:
            for line in answer:
                yield answer.status, line
        except (OSError, http.client.HTTPException) as error:
            raise LostError(*_GONE) from error


def _error(reply: dict[str, Any]) -> DreamdError:
    return error_of(str(reply.get("code", "FAILED")), str(reply.get("error", reply)), reply.get("details", {}))


def _sent(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes, headers: dict[str, str]
) -> http.client.HTTPResponse:
    try:
        connection.connect()
    except (ConnectionRefusedError, FileNotFoundError) as error:
        raise NoDaemonError("no daemon runs", "'dreamd serve' starts one") from error
    except OSError as error:
        if error.errno == errno.EPERM:  # a sandbox: a socket without permission raises EACCES
            raise SandboxedError(
                "this process may not ask the daemon, as in a sandbox",
                "ask over MCP (memory_search, working_memory_note), which is outside of it",
            ) from error
        raise BusyError(f"the daemon does not answer ({error})", "see 'systemctl --user status dreamd'") from error
    try:
        connection.request(method, path, body if method == "POST" else None, headers)
        return connection.getresponse()
    except TimeoutError as error:
        raise LostError(*SILENT) from error
    except (OSError, http.client.HTTPException) as error:
        raise LostError(*_GONE) from error
