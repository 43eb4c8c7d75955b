"""AccessMiddleware: before every route: access control, a limit on bodies, and security headers on every reply.

It looks up a browser's session and puts it into the request's scope as SESSION. USER is a function that returns the
uid of the client's program on this machine.

It reads a body completely before anything else happens. So a client that sends slowly, or stops halfway, holds a
connection but no thread, and no route has to check sizes.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import Response

from daemon.api.daemon import MCP_PATH
from daemon.api.peer import user_of_address
from daemon.http.access_policy import AccessPolicy, is_page, refusal
from daemon.http.errors import HttpError, http_error

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from daemon.api.daemon import DaemonApi
    from daemon.http.window import Window

SESSION, USER = "dreamd.session", "dreamd.user"
# For replies in JSON; a route that answers with a page sets headers of its own.
SAFE_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    # With no-referrer, a browser would send our plain forms without their origin.
    b"referrer-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
}
# The most bytes of a too large body that are read before the reply.
_MOST_DRAINED = 64 << 20
_INVALID_REQUEST = -32600  # JSON-RPC's


class AccessMiddleware:
    """ASGI middleware that guards the application of one listener."""

    def __init__(
        self, app: "ASGIApp", api: "DaemonApi", policy: AccessPolicy, body_bytes: int, window: "Window | None" = None
    ) -> None:
        """Guard `app`. Without a `window` there are no sessions, so every client needs the token."""
        self._app = app
        self._api = api
        self._policy = policy
        self._body_bytes = body_bytes
        self._window = window

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Refuse the request, or pass it to the application."""
        if scope["type"] != "http":
            return
        started = False

        async def send_safely(message: "Message") -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                given = dict(message.get("headers", ()))
                added = [(name, value) for name, value in SAFE_HEADERS.items() if name not in given]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        try:
            self._admit(scope)
            body = await _read_body(receive, self._body_bytes, scope)
            if body is not None:
                await self._app(scope, _replay(body, receive), send_safely)
        except Exception as error:  # noqa: BLE001 - the top of the server: every error is a reply, a defect is logged
            reply = http_error(error)
            if not started:
                await self._reply(reply, scope)(scope, receive, send_safely)

    def _reply(self, error: HttpError, scope: "Scope") -> "ASGIApp":
        """Return the reply to a failed request: a page for people, an error of JSON-RPC for MCP clients, or JSON."""
        path = scope["path"]
        if error.status == 413 and (path == MCP_PATH or path.startswith(f"{MCP_PATH}/")):
            # The id is null, as the request has not been read.
            told = {"code": _INVALID_REQUEST, "message": error.what, "data": json.loads(error.body)}
            whole = json.dumps({"jsonrpc": "2.0", "id": None, "error": told})
            return Response(whole, error.status, media_type="application/json")
        if self._window is not None and not self._policy.is_local and is_page(path):
            return self._window.refused(error, scope)
        return error.response()

    def _admit(self, scope: "Scope") -> None:
        """Raise HttpError unless this request is allowed."""
        scope[USER] = self._user(scope)
        scope[SESSION] = None
        cookies = tuple(value.decode("latin-1") for name, value in scope["headers"] if name == b"cookie")
        if self._window is not None and not self._policy.is_local and cookies:
            scope[SESSION] = self._window.logins.session(cookies, scope[USER])
        refused = refusal(self._policy, scope, self._api.config.http, has_session=scope[SESSION] is not None)
        coded = any(value.lower() != b"identity" for name, value in scope["headers"] if name == b"content-encoding")
        if refused is None and coded:
            refused = HttpError(415, "UNSUPPORTED_MEDIA_TYPE", "send the body without a Content-Encoding")
        if refused is not None:
            raise refused

    def _user(self, scope: "Scope") -> Callable[[], int | None]:
        ends = scope["client"], scope["server"]
        # Behind a proxy the connection is the proxy's; a client that has gone already has no address.
        if self._policy.is_local or self._api.config.http.allowed_hosts or None in ends:
            return lambda: None
        return partial(user_of_address, *ends)


async def _read_body(receive: "Receive", most: int, scope: "Scope") -> bytes | None:
    """Return the whole body; None if the client has gone. Raise HttpError if it is too large.

    Even then it is read to the end, up to 64 MiB: else the client finds a closed connection and never sees the reply.
    """
    said = dict(scope["headers"]).get(b"content-length", b"0")
    body, left, more = bytearray(), _MOST_DRAINED, True
    is_large = said.isdigit() and int(said) > most
    while more and left > 0:
        message = await receive()
        if message["type"] != "http.request":
            return None
        block = message.get("body", b"")
        left -= len(block)
        if not (is_large := is_large or len(body) + len(block) > most):
            body += block
        more = message.get("more_body", False)
    if is_large:
        raise HttpError(413, "TOO_LARGE", f"the body has more than {most:,} bytes; send less at once")
    return bytes(body)


def _replay(body: bytes, receive: "Receive") -> "Receive":
    """Return a `receive` that gives the body in one message, and then whatever `receive` gives (a disconnect)."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> "Message":
        return left.pop() if left else await receive()

    return give
