"""Pump: `dreamd mcp` at the agent's side: forwards each message to an MCP server, and the answer back.

Agents give a server a second or less before the first request, and importing the SDK takes longer. So the daemon
serves MCP over HTTP at its Unix socket, without sessions, and this process needs only the standard library. Each
message is a request of its own, so a restart of the daemon in between goes unnoticed.

Without a daemon, the SDK serves in this process. Whenever no other message is under way, the pump looks for the
daemon again, and uses one that was slow or started later.
"""

import base64
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from daemon.api.client import Client, LostError
from daemon.mcp.message import at, read
from state.errors import BusyError, DreamdError, NotFoundError, StorageError, UsageError, error_of
from state.stores.disk.lock import is_stopped, present_holder
from state.stores.disk.places import read_place
from state.stores.disk.workspace import Workspace

Message = dict[str, Any]
# Takes the headers and body of a request with one message, and yields the lines of the reply.
Server = Callable[[Mapping[str, str], bytes], Iterable[bytes]]
# Returns the workspace that is meant, and raises DreamdError for none; `makes`: a repository that has none gets one.
Find = Callable[..., Workspace]

# Enough for a note of 16 KiB, which may be six times as long in JSON.
MAX_MESSAGE_BYTES = 1 << 20
_ASKING_SECONDS = 2.0
_LOOK_SECONDS = 5.0
_TRIES = 3
# Requests at once, as all agents share the daemon's connections.
_MOST_AT_ONCE = 64
_RESTART_SECONDS = 3.0  # how long to wait for a daemon that has just gone, as it may be restarting
# How long to wait for answers after the agent's last message; this process's own server may still be loading.
_ENDING_SECONDS, _ENDING_ALONE_SECONDS = 5.0, 60.0
_ROOTS = "dreamd-roots"
_VERSION = "io.modelcontextprotocol/protocolVersion"
_PLAIN = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_LOST = StorageError(
    "the daemon went while it worked, and may have done it",
    "look whether it was done before you call this again; the next call works",
)
_TOO_LARGE = UsageError(f"a message may have {MAX_MESSAGE_BYTES:,} bytes", "send less at once")


class Pump:
    """Connects an agent on stdio with an MCP server for the workspace that `find` finds.

    `serve_alone` makes a server in this process. `with_daemon`: prefer the daemon. `told`, if any, gets the folders
    that the agent says it works in.
    """

    def __init__(
        self,
        find: Find,
        serve_alone: Callable[[], Server],
        wire: BinaryIO,
        *,
        with_daemon: bool,
        told: list[Path] | None = None,
    ) -> None:
        self._find, self._serve_alone, self._wire, self._with_daemon = find, serve_alone, wire, with_daemon
        self._turn, self._writing = threading.Lock(), threading.Lock()
        self._daemon: Server | None = None
        self._alone: Server | None = None
        self._open: dict[str, Message] = {}  # by id, which an agent may use again once it was answered
        self._ids = threading.Lock()
        self._slots = threading.Semaphore(_MOST_AT_ONCE)
        # From the handshake: the agent's name, the version of its protocol, and whether it names its folders.
        self._agent = self._protocol = ""
        self._names_roots, self._told = False, told
        self._look_at = self._wait_until = 0.0

    def run(self, incoming: BinaryIO) -> None:
        """Forward messages until the agent closes the stream, then wait for open answers. A dream goes on."""
        for line in incoming:
            said = read(line)
            if isinstance(said, dict) or (isinstance(said, list) and said):
                # A batch, as older protocols have it: each is answered by itself.
                for one in said if isinstance(said, list) else [said]:
                    self._take(one if isinstance(one, dict) else {})
            elif line.strip():
                self._refuse_line(None, -32700, "Parse error: a line is one JSON message")
        ended = time.monotonic()
        while self._open and time.monotonic() - ended < self._patience:
            time.sleep(0.01)

    def _take(self, message: Message) -> None:
        method, params, number = message.get("method"), message.get("params"), message.get("id")
        if self._told is not None:
            self._hear_of_folders(message, self._told)
        is_sound = message.get("jsonrpc") == "2.0" and isinstance(method, str) and isinstance(params, dict | None)
        if is_sound and method == "notifications/cancelled":
            with self._ids:
                self._open.pop(_key((params or {}).get("requestId")), None)
        elif is_sound and type(number) in (int, str):
            self._slots.acquire()
            with self._ids:
                self._open[_key(number)] = message
            threading.Thread(target=self._answer, args=(message,), daemon=True).start()
        elif not is_sound and type(number) in (int, str) and not message.keys() & {"result", "error"}:
            self._refuse_line(
                number, -32600, 'Invalid request: "jsonrpc" is "2.0", "method" a text, "params" an object'
            )

    def _hear_of_folders(self, message: Message, told: list[Path]) -> None:
        """Learn in which folders the agent works, which it is asked once, and which Codex says at each call."""
        method, roots = message.get("method"), at(message, "result", "roots")
        if method == "initialize":
            self._names_roots = at(message, "params", "capabilities", "roots") is not None
        elif method in ("notifications/initialized", "notifications/roots/list_changed") and self._names_roots:
            self._write({"jsonrpc": "2.0", "id": _ROOTS, "method": "roots/list"})
        elif message.get("id") == _ROOTS and "result" in message:
            named = [str(at(one, "uri")) for one in (roots if isinstance(roots, list) else ())]
            told[:] = [Path(unquote(urlsplit(one).path)) for one in named if one.startswith("file:///")]
            with self._turn:  # the next call finds the project anew
                self._daemon, self._look_at = None, 0.0
        elif method == "tools/call" and not told:
            folders = at(message, "params", "_meta", "x-codex-turn-metadata", "workspaces")
            told += [Path(one) for one in (folders if isinstance(folders, dict) else ()) if one.startswith("/")]

    def _refuse_line(self, number: object, code: int, what: str) -> None:
        self._write({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": what}})

    @property
    def _patience(self) -> float:
        """Return how many seconds to wait for answers; this process's own server may still be loading."""
        return _ENDING_ALONE_SECONDS if self._daemon is None else _ENDING_SECONDS

    def _answer(self, message: Message) -> None:
        try:
            error = self._failure(message, json.dumps(message).encode())
        except DreamdError as refused:
            error = refused
        except Exception as defect:  # noqa: BLE001 - the agent must not be left waiting
            error = DreamdError(f"a defect in dreamd ({type(defect).__name__})", "please report it")
        finally:
            self._slots.release()
        if error is not None:
            self._refuse(message, error)

    def _failure(self, message: Message, line: bytes) -> DreamdError | None:
        """Try up to three times to get an answer; return the error if none came. Raise a refusal of the server."""
        if len(line) > MAX_MESSAGE_BYTES:
            return _TOO_LARGE
        error: DreamdError = _LOST
        for _ in range(_TRIES):
            server = self._server()
            try:
                if self._is_answered(server, message, line):
                    return None
                error = _LOST
            except LostError:
                error = _LOST
            except (BusyError, NotFoundError) as gone:
                error = gone
            self._drop_daemon(server)
            if server is self._alone or (error is _LOST and message["method"] == "tools/call"):
                break
        return error

    def _is_answered(self, server: Server, message: Message, line: bytes) -> bool:
        """Send the message once, and pass replies back; return False if the server ended before its answer."""
        for row in server(self._headers(message), line):
            answer = _message(row.removeprefix(b"data:"))
            if "error" in answer and "jsonrpc" not in answer:  # refused by the daemon's HTTP layer
                raise error_of(str(answer.get("code")), str(answer["error"]), answer.get("details"))
            if answer and self._pass_back(message, answer):
                return True
        return False

    def _pass_back(self, asked: Message, answer: Message) -> bool:
        """Write to the agent unless it has cancelled the request; return whether this was the final answer."""
        is_last = "method" not in answer
        if is_last and asked["method"] == "initialize" and "result" in answer:
            self._protocol = str(answer["result"].get("protocolVersion", ""))
            self._agent = str(at(asked, "params", "clientInfo", "name") or "")[:100]
        if self._open.get(key := _key(asked["id"])) is asked:
            self._write(answer)
        if is_last:
            with self._ids:
                if self._open.get(key) is asked:
                    del self._open[key]
        return is_last

    def _headers(self, message: Message) -> dict[str, str]:
        """Return the headers that MCP over HTTP requires for a message."""
        newer = at(message, "params", "_meta", _VERSION)
        said = {"User-Agent": self._agent, "MCP-Protocol-Version": self._protocol}
        if isinstance(newer, str):
            name = at(message, "params", "uri" if message["method"] == "resources/read" else "name")
            said = {"MCP-Protocol-Version": newer, "Mcp-Method": message["method"]}
            said |= {"Mcp-Name": name} if isinstance(name, str) else {}
        return {header: _encoded(value) for header, value in said.items() if value}

    # ------------------------------------------------------------ the server

    def _server(self) -> Server:
        """Return the server to use: the daemon if it is known or found now, else this process's own."""
        with self._turn:
            if self._daemon is not None and self._is_daemon_stopped():
                self._daemon, self._wait_until = None, 0.0
            is_to_look = self._alone is None or (len(self._open) <= 1 and time.monotonic() >= self._look_at)
            if self._daemon is None and is_to_look:
                self._daemon = self._find_daemon()
                while self._daemon is None and time.monotonic() < self._wait_until:
                    time.sleep(0.1)
                    self._daemon = self._find_daemon()
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

    def _find_daemon(self) -> Server | None:
        """Return the daemon if it keeps the workspace or takes it up now; else None."""
        if not self._with_daemon or self._is_daemon_stopped():
            return None
        client = Client.at(os.environ)
        try:
            workspace = self._find()
            known = client.get("/v1/workspaces", _ASKING_SECONDS)["workspaces"]
            own = next((one for one in known if one["name"] == workspace.name), None)
            if own is None:
                place = read_place(workspace.state.parent, workspace.name)
                if place is None or not place.kept:
                    return None
            elif not (own["kept"] or own["problem"] is None):
                return None
        except (OSError, ValueError, DreamdError):
            return None  # the server of this process reports it at each call
        return lambda headers, body: client.lines(f"/mcp/{workspace.name}", headers, body)

    def _drop_daemon(self, server: Server) -> None:
        with self._turn:
            if server is self._daemon:
                self._daemon, self._wait_until = None, time.monotonic() + _RESTART_SECONDS

    # ------------------------------------------------------------ to the agent

    def _refuse(self, asked: Message, error: DreamdError) -> None:
        """Answer with an error: for a tool call as its result, so that the model reads it."""
        answer: Message = {"jsonrpc": "2.0", "id": asked["id"]}
        if asked["method"] == "tools/call":
            content = [{"type": "text", "text": json.dumps(error.fields)}]
            # Newer clients refuse a result without `resultType`.
            answer["result"] = {"content": content, "isError": True, "resultType": "complete"}
        else:
            answer["error"] = {"code": -32603, "message": str(error), "data": error.fields}
        self._pass_back(asked, answer)

    def _write(self, message: Message) -> None:
        """Write the message. Exit if the agent has closed the pipe."""
        try:
            with self._writing:
                self._wire.write(json.dumps(message).encode() + b"\n")
                self._wire.flush()
        except (OSError, ValueError):
            os._exit(0)


def _message(line: bytes) -> Message:
    """Parse a message; return an empty one for anything else."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _encoded(value: str) -> str:
    """Return the text as the value of a header, if needed in base64 as MCP specifies."""
    if _PLAIN.fullmatch(value) and not value.startswith("=?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode(errors='replace')).decode()}?="


def _key(number: object) -> str:
    """Return the id of a request as a key: 1 and "1" differ."""
    return json.dumps(number)
