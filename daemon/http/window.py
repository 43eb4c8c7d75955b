"""Window: the interface of the pages for people, which only the port serves."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from daemon.http.errors import HttpError

if TYPE_CHECKING:
    from daemon.api.daemon import DaemonApi
    from daemon.api.workers import Workers
    from daemon.http.logins import Logins

Handler = Callable[[Request], Awaitable[Response]]


class Window(Protocol):
    """The pages: their routes, and their replies to refused requests."""

    @property
    def logins(self) -> "Logins": ...

    def pages(self, api: "DaemonApi", workers: "Workers") -> tuple[Handler, list[Route]]:
        """Return the handler of the first page, and the routes of all others."""

    def refused(self, error: HttpError, scope: Scope) -> ASGIApp:
        """Return the reply to a failed request for a page."""
