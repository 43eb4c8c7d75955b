"""AccessMiddleware: before every route: who may ask, how large a body may be, and security headers on every reply.

A browser's session is looked up here, and stands in the request's scope as SESSION; whose program of this machine
comes is told by USER, to whom it matters.

A body is read as a whole before anything is done with it. So a client that sends slowly, or stops halfway, holds a
connection and no thread, and no route has to check sizes.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from daemon.api.daemon import MCP_PATH
from daemon.api.peer import user_of_address
from daemon.http.access_policy import AccessPolicy, RequestHeaders, is_page, refusal
from daemon.http.errors import ErrorResponse, error_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from daemon.api.daemon import DaemonApi
    from daemon.http.app import Window
    from daemon.http.logins import Session

SESSION, USER = "dreamd.session", "dreamd.user"
# Replies are JSON for programs. A route that answers with a page sets headers of its own.
SAFE_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    # With no-referrer a browser would send a plain form of ours without its origin.
    b"referrer-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
}
# A client that sends more than this is not waited for.
_MOST_DRAINED = 64 << 20


class AccessMiddleware:
    """Guards an application at one listener."""

    def __init__(
        self,
        app: "ASGIApp",
        api: "DaemonApi",
        policy: AccessPolicy,
        body_bytes: int,
        window: "Window | None" = None,
    ) -> None:
        """Stand before the application. Without a `window` of sessions nobody comes without the token."""
        self._app = app
        self._api = api
        self._policy = policy
        self._body_bytes = body_bytes
        self._window = window

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Refuse the request, or pass it to the application."""
        if scope["type"] != "http":
            return
        answer = _SafeSend(send)
        try:
            refused = self._refusal(scope)
            if refused is not None and refused.status == 413:
                await _drain(receive)
            body = b"" if refused else await _read_body(receive, self._body_bytes)
            if isinstance(body, ErrorResponse):
                refused = body
            if refused is not None:
                if refused.status == 413:
                    refused = _as_json_rpc(refused, scope["path"])
                if self._window is not None and is_page(scope["path"]):
                    await self._window.refused(refused, scope)(scope, receive, answer.send)
                else:
                    await refused.response()(scope, receive, answer.send)
            elif isinstance(body, bytes):
                await self._app(scope, _replay(body, receive), answer.send)
        except Exception as error:  # noqa: BLE001 - the top of the server: every error is a reply, a defect is logged
            reply = error_response(error)
            if not answer.started:
                await reply.response()(scope, receive, answer.send)

    def _refusal(self, scope: "Scope") -> ErrorResponse | None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value)

        def texts(name: bytes) -> tuple[str, ...]:
            return tuple(value.decode("latin-1") for value in headers.get(name, ()))

        _, port = scope["server"] or ("", None)
        scope[USER] = self._user(scope)
        session = self._session(texts(b"cookie"), scope[USER])
        scope[SESSION] = session
        parsed = RequestHeaders(
            scope["path"],
            port or 0,
            texts(b"host"),
            texts(b"origin"),
            texts(b"authorization"),
            scope["method"],
            session is not None,
            ",".join(texts(b"sec-fetch-site")),
            ",".join(texts(b"sec-fetch-mode")),
        )
        if refused := refusal(self._policy, parsed, self._api.config.http):
            return refused
        length = texts(b"content-length")
        if length and length[0].isdigit() and int(length[0]) > self._body_bytes:
            return _too_large(self._body_bytes)
        if any(coding.lower() != "identity" for coding in texts(b"content-encoding")):
            return ErrorResponse(415, "UNSUPPORTED_MEDIA_TYPE", "send the body without a Content-Encoding")
        return None

    def _session(self, cookies: tuple[str, ...], user: Callable[[], int | None]) -> "Session | None":
        if self._window is None or self._policy.is_local or not cookies:
            return None
        return self._window.logins.session(cookies, user)

    def _user(self, scope: "Scope") -> Callable[[], int | None]:
        ends = scope["client"], scope["server"]
        # What comes through a proxy is the proxy's; a client that has gone already has no address.
        if self._policy.is_local or self._api.config.http.allowed_hosts or None in ends:
            return _unknown
        return partial(user_of_address, *ends)


def _unknown() -> None:
    """Return None: nobody knows whose program comes."""


class _SafeSend:
    """Sends replies with SAFE_HEADERS added. `started`: the head of the reply has been sent."""

    def __init__(self, send: "Send") -> None:
        self._send = send
        self.started = False

    async def send(self, message: "Message") -> None:
        if message["type"] == "http.response.start":
            self.started = True
            present = {name.lower() for name, _ in message.get("headers", ())}
            added = [(name, value) for name, value in SAFE_HEADERS.items() if name not in present]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await self._send(message)


async def _read_body(receive: "Receive", most: int) -> bytes | ErrorResponse | None:
    """Return the whole body; the refusal if it is too large, once all was read; None if the client has gone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > most:
            if message.get("more_body", False):
                await _drain(receive)
            return _too_large(most)
        if not message.get("more_body", False):
            return bytes(body)


def _too_large(most: int) -> ErrorResponse:
    return ErrorResponse(413, "TOO_LARGE", f"the body has more than {most:,} bytes; send less at once")


async def _drain(receive: "Receive") -> None:
    """Read the rest of a body, within bounds: else the client meets a closed connection and never reads the reply."""
    left = _MOST_DRAINED
    while left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return


def _as_json_rpc(refused: ErrorResponse, path: str) -> ErrorResponse:
    """Return the refusal of an MCP request as an error of JSON-RPC, which MCP clients show."""
    return replace(refused, rpc=True) if path == MCP_PATH or path.startswith(f"{MCP_PATH}/") else refused


def _replay(body: bytes, receive: "Receive") -> "Receive":
    """Return a `receive` that gives the body in one message, and then what follows: that the client has gone."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> "Message":
        return left.pop() if left else await receive()

    return give
