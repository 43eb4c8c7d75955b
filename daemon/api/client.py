"""Client: calls the daemon over its Unix socket, for every command and for an agent's MCP server.

The protocol is the daemon's HTTP, asked as version 1.0, in which an answer ends with its connection; to import
http.client takes longer than a short answer. The reply to an operation is newline-delimited JSON: `{"step": …}` and
`{"notice": …}` while it works, `{"reply": …}` or `{"error": …}` at the end.
"""

import errno
import json
import os
import socket as sockets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from daemon.api.headers import NDJSON, SETTINGS_HEADER
from daemon.api.peer import require_trusted
from daemon.config.paths import fits_socket, has_socket, service_command, socket_path
from daemon.dream.progress import Step
from state.errors import BusyError, DreamdError, StorageError, error_of

if TYPE_CHECKING:
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
        settings: "DreamSettings | None" = None,
    ) -> ReplyT:
        """Return the operation's reply for the workspace of this name. `settings`: of the dream that it runs.

        Raise what the operation raises, NoDaemonError if no daemon runs, UnknownWorkspaceError if it does not keep
        this workspace, and LostError if it ended or fell silent meanwhile.
        """
        headers = {SETTINGS_HEADER: settings.header()} if settings is not None else {}
        connection = self._connected(LONG_SECONDS if operation.long else ANSWER_SECONDS)
        try:
            return reply_over(
                connection, f"/v1/workspaces/{workspace}", headers, operation, request, on_step, on_notice
            )
        except KeyboardInterrupt:
            goes_on = _DREAM_GOES_ON if operation.name == "dream_now" else _GOES_ON
            raise KeyboardInterrupt(goes_on if operation.long and not operation.reads else "") from None

    def get(self, path: str, seconds: float = ANSWER_SECONDS) -> Any:  # noqa: ANN401 - JSON has no better type
        """Return the JSON at this path. Raise NoDaemonError, the daemon's error, and LostError, also on a timeout."""
        status, _, body = self.answer(path, None, "", seconds)
        return _json(status, body)

    def post(self, path: str, fields: dict[str, object], workspace: str = "", seconds: float = ANSWER_SECONDS) -> Any:  # noqa: ANN401
        """Return the daemon's reply to these fields, for the workspace of this name if one is given.

        Raise the same errors as `get`, and UnknownWorkspaceError.
        """
        status, _, body = self.answer(path, fields, workspace, seconds)
        return _json(status, body)

    def answer(
        self, path: str, fields: Mapping[str, object] | None, workspace: str, seconds: float
    ) -> tuple[int, dict[str, str], bytes]:
        """Return the status, the headers by lower-case name, and the body of the answer to these fields, or to a GET.

        Raise NoDaemonError, BusyError, and LostError if the answer is late or incomplete.
        """
        place = f"/v1/workspaces/{workspace}{path}" if workspace else path
        body = json.dumps(fields, default=_iso).encode() if fields is not None else None
        rows = [*_rows(self._connected(seconds), place, {}, body)]
        status, given, _ = rows[0] if rows else (0, {}, b"")
        whole = b"".join(row for *_, row in rows)
        if given.get("content-length") != str(len(whole)):
            raise LostError(*_GONE)
        return status, given, whole

    def lines(self, path: str, headers: Mapping[str, str], body: bytes) -> Iterator[bytes]:
        """Yield the lines of the answer to an MCP message. Raise NoDaemonError and LostError.

        While it works, the daemon sends something every 15 seconds.
        """
        own = {"Accept": "application/json, text/event-stream", **headers}
        for *_, line in _rows(self._connected(ANSWER_SECONDS), path, own, body):
            yield line

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
    connection: sockets.socket,
    workspace: str,
    headers: Mapping[str, str],
    operation: "Operation[..., ReplyT]",
    request: "Request",
    on_step: Callable[[Step], None],
    on_notice: Callable[[str], None],
) -> ReplyT:
    """Return the operation's reply over this connection, and close it. `workspace`: its URL path.

    Raise what the operation raises, and LostError.
    """
    from state.codec import decode

    fields, headers = request.model_dump(mode="json", exclude_none=True), {"Accept": NDJSON, **headers}
    path, body = f"{workspace}/{operation.name}", json.dumps(fields).encode()
    for status, _, row in _rows(connection, path, headers, body):
        line = _json(status, row)
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


def _rows(
    connection: sockets.socket, path: str, headers: Mapping[str, str], body: bytes | None
) -> Iterator[tuple[int, dict[str, str], bytes]]:
    """Post the body, or get, and yield each line of the answer with its status and headers. Raise LostError."""
    content = {"Content-Type": "application/json", "Content-Length": str(len(body))} if body is not None else {}
    fields = "".join(f"{name}: {value}\r\n" for name, value in {"Host": "localhost", **content, **headers}.items())
    method = "GET" if body is None else "POST"
    asked = f"{method} {path} HTTP/1.0\r\n{fields}\r\n".encode("ascii") + (body or b"")
    with connection, connection.makefile("rb") as answer:
        try:
            connection.sendall(asked)
            first, *rest = (row.decode("latin-1").strip() for row in takewhile(bytes.strip, answer))
            given = {name.lower(): value for name, _, value in (row.partition(": ") for row in rest)}
            status = int(first.removeprefix("HTTP/1.1 ")[:3])
            for row in answer:
                yield status, given, row
        except TimeoutError as error:
            raise LostError(*SILENT) from error
        except (OSError, ValueError) as error:
            raise LostError(*_GONE) from error


def _json(status: int, body: bytes) -> Any:  # noqa: ANN401
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
