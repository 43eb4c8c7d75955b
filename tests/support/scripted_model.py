"""A scripted model: a real HTTP server for OpenAI's chat completions on 127.0.0.1.

    with ScriptedModel(in_turn(error(429, headers={"Retry-After": "7"}), "hello")) as server:
        LitellmModel("openai/scripted", api_base=server.url).ask(request)
    assert server.count == 2

A script is a function (request as JSON, number of the call from 1) -> text, dict (sent as JSON text) or `Reply`.
"""

import json
import socket
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the server, valid or faulty."""

    content: str | None = ""
    finish_reason: str = "stop"
    message: Mapping[str, Any] = field(default_factory=dict)  # further fields of the message
    usage: tuple[int, int] | None = None  # tokens in and out; None: a quarter of the characters
    says_usage: bool = True
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    body: bytes | None = None  # instead of a completion
    wait_seconds: float = 0.0  # before the answer begins
    drip_seconds: float = 0.0  # between two bytes of the body
    stop_after: int | None = None  # bytes of the body, then the connection is closed
    reset: bool = False  # no answer: the connection is reset


Script = Callable[[dict[str, Any], int], "Reply | str | dict[str, Any]"]


def error(status: int, message: str = "scripted", code: str | None = None, **reply: Any) -> Reply:
    """Return an error in OpenAI's format."""
    body = {"error": {"message": message, "type": "scripted", "param": None, "code": code}}
    return Reply(status=status, body=json.dumps(body).encode(), **reply)


def tool_call(arguments: str) -> Reply:
    """Return a reply that calls a tool instead of having content."""
    call = {"id": "call_1", "type": "function", "function": {"name": "reply", "arguments": arguments}}
    return Reply(content=None, finish_reason="tool_calls", message={"tool_calls": [call]})


def in_turn(*replies: Reply | str | dict[str, Any]) -> Script:
    """Return a script that gives these replies in turn, and then repeats the last one."""
    return lambda _request, number: replies[min(number, len(replies)) - 1]


SCRIPTS: dict[str, Script] = {
    "hello": in_turn("hello"),
    "empty": in_turn(""),
    "null": in_turn(Reply(content=None)),
    "reasoning": in_turn(Reply(content=None, message={"reasoning_content": "thinking"})),
    "tool": in_turn(tool_call("{}")),
    "cut": in_turn(Reply(content="half an ans", finish_reason="length")),
    "slow": in_turn(Reply(content="late", wait_seconds=3600)),
}


class LocalServer(ThreadingHTTPServer):
    """A server in this process at a free port of 127.0.0.1, running within its context."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self.requests: list[dict[str, Any]] = []
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Some scripts make clients disconnect; any other error is a defect of a script.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class LocalHandler(BaseHTTPRequestHandler):
    """Answers one request without logging it."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def begin(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send status and headers, and close afterwards: litellm would keep the socket open for ten minutes."""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body)), "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()


class ScriptedModel(LocalServer):
    """The model. `url` is its api_base; `requests` has all request bodies."""

    def __init__(self, script: Script) -> None:
        super().__init__(_Handler)
        self.url += "/v1"
        self.script = script
        self.headers: list[dict[str, str]] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        return len(self.requests)

    @property
    def variables(self) -> dict[str, str]:
        key = {"OPENAI_API_KEY": "sk-of-a-test"}
        return {"DREAMD_MODEL__NAME": "openai/scripted", "DREAMD_MODEL__API_BASE": self.url, **key}

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        super().__exit__()

    def answer(self, request: dict[str, Any], headers: Mapping[str, str]) -> Reply:
        """Record one request and return the script's reply."""
        with self._lock:
            self.requests.append(request)
            self.headers.append({name.lower(): value for name, value in headers.items()})
            number = len(self.requests)
        return _as_reply(self.script(request, number))


class _Handler(LocalHandler):
    server: ScriptedModel

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.endswith("/chat/completions") or request.get("stream"):
            reply = error(404, f"only chat completions without streaming are scripted, not {self.path}")
        else:
            reply = self.server.answer(request, dict(self.headers))
        if self.server.closing.wait(reply.wait_seconds) or reply.reset:
            self._reset()
            return
        body = reply.body if reply.body is not None else json.dumps(_completion(request, reply)).encode()
        self._send(reply, body)

    def _send(self, reply: Reply, body: bytes) -> None:
        self.begin(reply.status, {"Content-Type": reply.content_type, **reply.headers}, body)
        if reply.drip_seconds:
            for byte in body:
                self.wfile.write(bytes((byte,)))
                if self.server.closing.wait(reply.drip_seconds):
                    break
        elif reply.stop_after is not None:
            self.wfile.write(body[: reply.stop_after])
        else:
            self.wfile.write(body)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True


def _as_reply(said: Reply | str | dict[str, Any]) -> Reply:
    if isinstance(said, Reply):
        return said
    return Reply(content=said if isinstance(said, str) else json.dumps(said, ensure_ascii=False))


def _completion(request: dict[str, Any], reply: Reply) -> dict[str, Any]:
    asked = sum(len(str(message.get("content"))) for message in request.get("messages", ()))
    used = reply.usage or (asked // 4 + 1, len(reply.content or "") // 4 + 1)
    completion: dict[str, Any] = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 1_770_000_000,
        "model": request.get("model"),
        "choices": [
            {
                "index": 0,
                "finish_reason": reply.finish_reason,
                "message": {"role": "assistant", "content": reply.content, **reply.message},
            }
        ],
    }
    if reply.says_usage:
        total = used[0] + used[1]
        completion["usage"] = {"prompt_tokens": used[0], "completion_tokens": used[1], "total_tokens": total}
    return completion


def slowly(script: Script, seconds: float) -> Script:
    """Delay each reply of a script, to leave time for killing a process."""

    def late(request: dict[str, Any], number: int) -> Reply:
        return replace(_as_reply(script(request, number)), wait_seconds=seconds)

    return late
