"""Pump: `dreamd mcp` at the agent's side: copies lines between the agent and whoever serves it.

An agent gives a server a second or less before its first request, and the SDK takes that to be imported. So the
daemon serves MCP at a Unix socket of its own, and this process needs the standard library alone. It keeps the
handshake: when the daemon has gone, the next line connects to its successor, which is greeted first.

Without a daemon the SDK serves in this process, at the other end of a pair of sockets. Whenever nothing is under way
there, the daemon is looked for again: one that was slow or came later is used from then on.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

from daemon.api.peer import require_trusted
from daemon.config.paths import mcp_socket_path, registry_path
from daemon.config.registry import excluded
from state.errors import DreamdError, StorageError, UsageError
from state.stores.disk.lock import is_stopped, present_holder
from state.stores.disk.workspace import Workspace

Message = dict[str, Any]

# A note of 16 KiB may be six times as long in JSON.
MAX_MESSAGE_BYTES = 1 << 20
_ASKING_SECONDS = 2.0
_LOOK_SECONDS = 5.0
_RESTART_SECONDS = 3.0  # a daemon that has just gone is waited for, because it may be restarted
# For answers that are still under way when the agent sends no more; this process's own server may yet be loading.
_ENDING_SECONDS, _ENDING_ALONE_SECONDS = 5.0, 60.0
_HANDSHAKE = "dreamd-handshake"
_INITIALIZED = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
_LOST = StorageError(
    "the daemon went while it worked, and may have done it",
    "look whether it was done before you call this again; the next call works",
)


class Pump:
    """Between an agent on stdio and a server of MCP for the workspace that `find` finds.

    `serve_alone` serves at a socket in this process until that is closed. `with_daemon`: a daemon may serve as well.
    """

    def __init__(
        self,
        find: Callable[[], Workspace],
        serve_alone: Callable[[socket.socket], None],
        wire: BinaryIO,
        *,
        with_daemon: bool,
    ) -> None:
        self._find, self._serve_alone, self._wire, self._with_daemon = find, serve_alone, wire, with_daemon
        self._turn, self._writing = threading.RLock(), threading.Lock()
        self._server: socket.socket | None = None
        self._is_alone = False
        self._handshake: Message | None = None
        self._open: dict[str, tuple[Message, bytes]] = {}
        self._look_at = self._wait_until = 0.0

    def run(self, incoming: BinaryIO) -> None:
        """Copy until the agent sends no more. A dream that it asked for goes on."""
        for line in incoming:
            message = _message(line)
            if message.get("jsonrpc") == "2.0" and isinstance(message.get("method"), str):
                with self._turn:
                    self._take(message, line.rstrip(b"\r\n") + b"\n")
        deadline = time.monotonic() + (_ENDING_ALONE_SECONDS if self._is_alone else _ENDING_SECONDS)
        while self._open and time.monotonic() < deadline:
            time.sleep(0.01)
        with self._turn:
            self._leave()

    def _take(self, message: Message, line: bytes) -> None:
        method, params = message["method"], message.get("params")
        if len(line) > MAX_MESSAGE_BYTES:
            self._refuse(message, UsageError(f"a message may have {MAX_MESSAGE_BYTES:,} bytes", "send less at once"))
            return
        if method == "notifications/cancelled" and isinstance(params, dict):
            self._open.pop(_key(params.get("requestId")), None)
        is_request = type(message.get("id")) in (int, str) and isinstance(params, dict | None)
        while True:
            server = self._served()
            if is_request:
                self._open[_key(message["id"])] = message, line
            try:
                server.sendall(line)
                break
            except OSError:  # it has not had the whole line
                self._open.pop(_key(message.get("id")), None)
                self._lose(server)

    # ------------------------------------------------------------ who serves

    def _served(self) -> socket.socket:
        """Return the connection to the server; look for the daemon if there is none, or only this process's own."""
        server = self._server
        if server is not None and not self._is_alone:
            with suppress(OSError, DreamdError):
                if is_stopped(present_holder(self._find())):
                    self._lose(server)
                    server, self._wait_until = None, 0.0
        if server is not None and not (self._is_alone and not self._open and time.monotonic() >= self._look_at):
            return server
        daemon = self._connection()
        while daemon is None and server is None and time.monotonic() < self._wait_until:
            time.sleep(0.1)
            daemon = self._connection()
        self._look_at = time.monotonic() + _LOOK_SECONDS
        if daemon is None and server is not None:
            return server
        self._leave()
        self._is_alone = daemon is None
        self._server = daemon or self._alone()
        threading.Thread(target=self._copy_back, args=(self._server,), daemon=True).start()
        with suppress(OSError):  # the thread finds out, too
            if self._handshake is not None and _key(self._handshake["id"]) not in self._open:
                greeting = {**self._handshake, "id": _HANDSHAKE}
                self._server.sendall(json.dumps(greeting).encode() + b"\n" + _INITIALIZED)
            for _, line in tuple(self._open.values()):
                self._server.sendall(line)
        return self._server

    def _connection(self) -> socket.socket | None:
        """Return a connection to the daemon that serves the workspace; None if none does now."""
        if not self._with_daemon:
            return None
        connection = socket.socket(socket.AF_UNIX)
        try:
            workspace, path = self._find(), mcp_socket_path(os.environ)
            if not is_stopped(present_holder(workspace)):
                connection.settimeout(_ASKING_SECONDS)
                connection.connect(str(path))
                require_trusted(connection, path, named=bool(os.environ.get("DREAMD_SOCKET")))
                adopt = workspace.root not in excluded(registry_path(os.environ))
                connection.sendall(json.dumps({"root": str(workspace.root), "adopt": adopt}).encode() + b"\n")
                with connection.makefile("rb", buffering=0) as answer:
                    if _message(answer.readline() or b"") == {"served": True}:
                        connection.settimeout(None)
                        return connection
        except (OSError, ValueError, DreamdError):
            pass  # alone, each call says what is wrong
        connection.close()
        return None

    def _alone(self) -> socket.socket:
        near, far = socket.socketpair()
        threading.Thread(target=self._serve_alone, args=(far,), name="server").start()
        return near

    def _leave(self) -> None:
        """Close the connection; its thread ends, and answers nothing for it."""
        server, self._server = self._server, None
        if server is not None:
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()

    def _lose(self, server: socket.socket) -> None:
        """Leave a server that has gone: what it may have done is answered with an error, and the rest asked again."""
        if server is not self._server:
            return
        self._leave()
        self._wait_until = time.monotonic() + _RESTART_SECONDS
        for key, (message, _) in tuple(self._open.items()):
            if message["method"] == "tools/call":
                del self._open[key]
                self._refuse(message, _LOST)

    # ------------------------------------------------------------ to the agent

    def _copy_back(self, server: socket.socket) -> None:
        with suppress(OSError, ValueError), server.makefile("rb") as lines:
            for line in lines:
                message = _message(line)
                if "method" in message:
                    self._write(line)
                elif (asked := self._open.get(key := _key(message.get("id")))) is not None:
                    if asked[0]["method"] == "initialize" and "result" in message:
                        self._handshake = asked[
                            0
                        ]  # a refused one decides nothing: the client speaks the newer protocol
                    self._write(line)
                    self._open.pop(key, None)
        with self._turn:
            self._lose(server)
            if self._open and self._server is None:
                self._served()

    def _refuse(self, message: Message, error: DreamdError) -> None:
        """Answer with an error: for a tool as its result, which the model reads."""
        fields = {"error": str(error), "code": error.code, "details": {}}
        answer: Message = {"jsonrpc": "2.0", "id": message.get("id")}
        if message["method"] == "tools/call":
            content = [{"type": "text", "text": json.dumps(fields)}]
            # Newer clients refuse a result that does not say whether it is whole.
            answer["result"] = {"content": content, "isError": True, "resultType": "complete"}
        else:
            answer["error"] = {"code": -32603, "message": str(error), "data": fields}
        self._write(json.dumps(answer).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        """Write the message. An agent that reads no more has ended, and this process with it."""
        try:
            with self._writing:
                self._wire.write(line)
                self._wire.flush()
        except (OSError, ValueError):
            os._exit(0)


def _message(line: bytes) -> Message:
    """Return the message; empty for what is none, such as half a line."""
    try:
        message = json.loads(line) if line.endswith(b"\n") or not line else {}
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _key(number: object) -> str:
    """Return the number of a request as a key: 1 and "1" are two."""
    return json.dumps(number)
