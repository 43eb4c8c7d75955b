"""Pump: `dreamd mcp` at the agent's side: passes each message on to whoever serves MCP, and the answer back.

An agent gives a server a second or less before its first request, and importing the SDK takes longer. So the daemon
serves MCP over HTTP at its Unix socket, without sessions, and this process needs the standard library alone: each
message is a request of its own, and a daemon that was restarted in between is not noticed.

Without a daemon the SDK serves in this process. Whenever nothing is under way, the daemon is looked for again: one
that was slow or came later is used from then on.
"""

import base64
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

from daemon.api.client import Client, LostError
from daemon.config.paths import registry_path
from daemon.config.registry import excluded, name_of
from state.errors import BusyError, DreamdError, NotFoundError, StorageError, UsageError, error_of
from state.stores.disk.lock import is_stopped, present_holder
from state.stores.disk.workspace import Workspace

Message = dict[str, Any]
# Answers a message, given headers and body of a request, with the lines of the reply.
Server = Callable[[Mapping[str, str], bytes], Iterable[bytes]]

# A note of 16 KiB may be six times as long in JSON.
MAX_MESSAGE_BYTES = 1 << 20
_ASKING_SECONDS = 2.0
_LOOK_SECONDS = 5.0
_TRIES = 3
# The daemon has connections for everybody.
_MOST_AT_ONCE = 64
_RESTART_SECONDS = 3.0  # a daemon that has just gone is waited for, because it may be restarted
# For answers that are still under way when the agent sends no more; this process's own server may yet be loading.
_ENDING_SECONDS, _ENDING_ALONE_SECONDS = 5.0, 60.0
_VERSION = "io.modelcontextprotocol/protocolVersion"
_PLAIN = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_LOST = StorageError(
    "the daemon went while it worked, and may have done it",
    "look whether it was done before you call this again; the next call works",
)
_TOO_LARGE = UsageError(f"a message may have {MAX_MESSAGE_BYTES:,} bytes", "send less at once")


class Pump:
    """Between an agent on stdio and a server of MCP for the workspace that `find` finds.

    `serve_alone` makes a server in this process. `with_daemon`: a daemon may serve as well.
    """

    def __init__(
        self,
        find: Callable[[], Workspace],
        serve_alone: Callable[[], Server],
        wire: BinaryIO,
        *,
        with_daemon: bool,
    ) -> None:
        self._find, self._serve_alone, self._wire, self._with_daemon = find, serve_alone, wire, with_daemon
        self._turn, self._writing = threading.Lock(), threading.Lock()
        self._daemon: Server | None = None
        self._alone: Server | None = None
        self._open: set[str] = set()
        self._places = threading.Semaphore(_MOST_AT_ONCE)
        # What is known of the agent since its handshake: its name, and the protocol that it speaks.
        self._agent = self._protocol = ""
        self._look_at = self._wait_until = 0.0

    def run(self, incoming: BinaryIO) -> None:
        """Pass on until the agent sends no more. A dream that it asked for goes on."""
        for line in incoming:
            message = _message(line)
            method, params = message.get("method"), message.get("params")
            if message.get("jsonrpc") != "2.0" or not isinstance(method, str) or not isinstance(params, dict | None):
                continue
            if method == "notifications/cancelled":
                self._open.discard(_key((params or {}).get("requestId")))
            elif type(message.get("id")) in (int, str):
                self._places.acquire()
                self._open.add(_key(message["id"]))
                threading.Thread(target=self._answer, args=(message, line.rstrip(b"\r\n")), daemon=True).start()
        deadline = time.monotonic() + (_ENDING_SECONDS if self._alone is None else _ENDING_ALONE_SECONDS)
        while self._open and time.monotonic() < deadline:
            time.sleep(0.01)

    def _answer(self, message: Message, line: bytes) -> None:
        try:
            error = self._failure(message, line)
        except DreamdError as refused:
            error = refused
        except Exception as defect:  # noqa: BLE001 - whatever it is, the agent is not left waiting
            error = DreamdError(f"a defect in dreamd ({type(defect).__name__})", "please report it")
        finally:
            self._places.release()
        if error is not None:
            self._refuse(message, error)

    def _failure(self, message: Message, line: bytes) -> DreamdError | None:
        """Ask whoever serves until there is an answer; return why there is none. Raise what the server refuses."""
        if len(line) > MAX_MESSAGE_BYTES:
            return _TOO_LARGE
        error: DreamdError = _LOST
        for _ in range(_TRIES):
            server = self._served()
            try:
                if self._is_answered(server, message, line):
                    return None
                error = _LOST
            except LostError:
                error = _LOST
            except (BusyError, NotFoundError) as gone:
                error = gone
            self._leave(server)
            if server is self._alone or (error is _LOST and message["method"] == "tools/call"):
                break
        return error

    def _is_answered(self, server: Server, message: Message, line: bytes) -> bool:
        """Ask once, and pass back what is said; return False if the server went before it had answered."""
        for row in server(self._headers(message), line):
            answer = _message(row.removeprefix(b"data:"))
            if "error" in answer and "jsonrpc" not in answer:  # the daemon's HTTP refuses it
                raise error_of(str(answer.get("code")), str(answer["error"]), answer.get("details"))
            if answer and self._pass_back(message, answer):
                return True
        return False

    def _pass_back(self, asked: Message, answer: Message) -> bool:
        """Tell the agent, unless it has cancelled what it asked; return whether that is answered now."""
        is_last = "method" not in answer
        if is_last and asked["method"] == "initialize" and "result" in answer:
            self._protocol = str(answer["result"].get("protocolVersion", ""))
            client = (asked.get("params") or {}).get("clientInfo")
            self._agent = str(client.get("name", ""))[:100] if isinstance(client, dict) else ""
        if (key := _key(asked["id"])) in self._open:
            self._write(answer)
        if is_last:
            self._open.discard(key)
        return is_last

    def _headers(self, message: Message) -> dict[str, str]:
        """Return what MCP over HTTP says of a message beside it."""
        params = message.get("params") or {}
        meta = params.get("_meta")
        newer = meta.get(_VERSION) if isinstance(meta, dict) else None
        said = {"User-Agent": self._agent, "MCP-Protocol-Version": self._protocol}
        if isinstance(newer, str):
            name = params.get("uri" if message["method"] == "resources/read" else "name")
            said = {"MCP-Protocol-Version": newer, "Mcp-Method": message["method"]}
            said |= {"Mcp-Name": name} if isinstance(name, str) else {}
        return {header: _encoded(value) for header, value in said.items() if value}

    # ------------------------------------------------------------ who serves

    def _served(self) -> Server:
        """Return the server; look for the daemon if there is none, or only this process's own."""
        with self._turn:
            if self._daemon is not None and self._is_daemon_stopped():
                self._daemon, self._wait_until = None, 0.0
            is_to_look = self._alone is None or (len(self._open) <= 1 and time.monotonic() >= self._look_at)
            if self._daemon is None and is_to_look:
                self._daemon = self._found()
                while self._daemon is None and time.monotonic() < self._wait_until:
                    time.sleep(0.1)
                    self._daemon = self._found()
                self._look_at = time.monotonic() + _LOOK_SECONDS
            if self._daemon is not None:
                return self._daemon
            self._alone = self._alone or self._serve_alone()
            return self._alone

    def _is_daemon_stopped(self) -> bool:
        try:
            return is_stopped(present_holder(self._find()))
        except (OSError, DreamdError):
            return False

    def _found(self) -> Server | None:
        """Return the daemon that keeps the workspace, from now on at least; None if none does now."""
        if not self._with_daemon or self._is_daemon_stopped():
            return None
        client = Client.at(os.environ)
        try:
            root = self._find().root
            known = client.get("/v1/workspaces", _ASKING_SECONDS)["workspaces"]
            own = next((one for one in known if one["name"] == name_of(root)), None)
            if own is None and root not in excluded(registry_path(os.environ)):
                client.post("/v1/register", {"path": str(root)})
            elif own is None or own["root"] != str(root) or not (own["kept"] or own["problem"] is None):
                return None
        except (OSError, ValueError, DreamdError):
            return None  # alone, each call says what is wrong
        return lambda headers, body: client.lines(f"/mcp/{name_of(root)}", headers, body)

    def _leave(self, server: Server) -> None:
        with self._turn:
            if server is self._daemon:
                self._daemon, self._wait_until = None, time.monotonic() + _RESTART_SECONDS

    # ------------------------------------------------------------ to the agent

    def _refuse(self, asked: Message, error: DreamdError) -> None:
        """Answer with an error: for a tool as its result, which the model reads."""
        fields = {"error": str(error), "code": error.code, "details": {}}
        answer: Message = {"jsonrpc": "2.0", "id": asked["id"]}
        if asked["method"] == "tools/call":
            content = [{"type": "text", "text": json.dumps(fields)}]
            # Newer clients refuse a result that does not say whether it is whole.
            answer["result"] = {"content": content, "isError": True, "resultType": "complete"}
        else:
            answer["error"] = {"code": -32603, "message": str(error), "data": fields}
        self._pass_back(asked, answer)

    def _write(self, message: Message) -> None:
        """Write the message. An agent that reads no more has ended, and this process with it."""
        try:
            with self._writing:
                self._wire.write(json.dumps(message).encode() + b"\n")
                self._wire.flush()
        except (OSError, ValueError):
            os._exit(0)


def _message(line: bytes) -> Message:
    """Return the message; empty for what is none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _encoded(value: str) -> str:
    """Return the value of a header; what none can hold in base64, as MCP says."""
    if _PLAIN.fullmatch(value) and not value.startswith("=?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode(errors='replace')).decode()}?="


def _key(number: object) -> str:
    """Return the number of a request as a key: 1 and "1" are two."""
    return json.dumps(number)
