"""What stands before every route: who comes in, how large a body may be, what every answer says to a browser.

A body is taken in whole before anything is done with it. So a client that sends slowly, or stops in the middle, holds
a connection and no thread, and no route has to think of sizes.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from daemon.api.daemon import MCP_PATH
from daemon.http.access_policy import AccessPolicy, RequestHeaders, refusal
from daemon.http.errors import ErrorResponse, wrong

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from daemon.api.daemon import DaemonApi

# Answers are JSON for programs. A route that answers with a page sets a policy of its own.
SAFE_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
}


# A client that sends more than this is not waited for.
_MOST_DRAINED = 64 << 20


class AccessMiddleware:
    """Before an application, at one door."""

    def __init__(self, app: "ASGIApp", house: "DaemonApi", door: AccessPolicy, body_bytes: int) -> None:
        self._app = app
        self._house = house
        self._door = door
        self._body_bytes = body_bytes

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer, or let the application answer."""
        if scope["type"] != "http":
            return
        answer = _Answer(send)
        try:
            refused = self._refusal(scope)
            body = b"" if refused else await _taken_in(receive, self._body_bytes)
            if isinstance(body, ErrorResponse):
                refused = body
            if refused is not None:
                if refused.status == 413:
                    await _drained(receive)
                    refused = _in_protocol(refused, scope["path"])
                await refused.response()(scope, receive, answer.send)
            elif isinstance(body, bytes):
                await self._app(scope, _given(body, receive), answer.send)
        except Exception as error:  # noqa: BLE001 - the top of the server: told, and logged as a defect if it is one
            told = wrong(error)
            if not answer.started:
                await told.response()(scope, receive, answer.send)

    def _refusal(self, scope: "Scope") -> ErrorResponse | None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value)

        def texts(name: bytes) -> tuple[str, ...]:
            return tuple(value.decode("latin-1") for value in headers.get(name, ()))

        _, port = scope["server"] or ("", None)
        visit = RequestHeaders(scope["path"], port or 0, texts(b"host"), texts(b"origin"), texts(b"authorization"))
        if refused := refusal(self._door, visit, self._house.config.http):
            return refused
        length = texts(b"content-length")
        if length and length[0].isdigit() and int(length[0]) > self._body_bytes:
            return _too_large(self._body_bytes)
        if any(coding.lower() != "identity" for coding in texts(b"content-encoding")):
            return ErrorResponse(415, "UNSUPPORTED_MEDIA_TYPE", "send the body without a Content-Encoding")
        return None


class _Answer:
    """The way out: adds what every answer says."""

    def __init__(self, send: "Send") -> None:
        self._send = send
        self.started = False

    async def send(self, message: "Message") -> None:
        if message["type"] == "http.response.start":
            self.started = True
            said = {name.lower() for name, _ in message.get("headers", ())}
            added = [(name, value) for name, value in SAFE_HEADERS.items() if name not in said]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await self._send(message)


async def _taken_in(receive: "Receive", most: int) -> bytes | ErrorResponse | None:
    """The whole body; or why it is not taken; None when the client has gone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > most:
            return _too_large(most)
        if not message.get("more_body", False):
            return bytes(body)


def _too_large(most: int) -> ErrorResponse:
    return ErrorResponse(413, "TOO_LARGE", f"the body has more than {most:,} bytes; send less at once")


async def _drained(receive: "Receive") -> None:
    """Let a client send what it began to, within bounds: else it meets a closed connection, and reads no answer."""
    left = _MOST_DRAINED
    while left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return


def _in_protocol(refused: ErrorResponse, path: str) -> ErrorResponse:
    """The refusal as an MCP client shows it, where one was refused: as an error of JSON-RPC."""
    return replace(refused, rpc=True) if path == MCP_PATH or path.startswith(f"{MCP_PATH}/") else refused


def _given(body: bytes, receive: "Receive") -> "Receive":
    """The body in one message, and then what else there is to receive: that the client has gone."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> "Message":
        return left.pop() if left else await receive()

    return give
