"""AccessPolicy: access control at the Unix socket and at the port: a pure decision about a request's headers.

The Unix socket needs no token: only its owner can open its file, and the kernel tells who connects. The port is open
to every program on the machine and, through the browser, to every page that a person visits. Hence the token, and the
checks of Host (against DNS rebinding: such a page sends its own name) and Origin (the site that a page is from).

A logged-in browser has a session in place of the token, for pages only. Cookies ignore ports, so requests from pages
that another program of this machine serves carry our cookie too. Therefore a request that changes something must
prove by Origin that it comes from a page of ours, and no page of another origin may load anything of ours.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from daemon.config.settings import HttpSection
from daemon.http.errors import HttpError

if TYPE_CHECKING:
    from starlette.types import Scope

# Health checks have no token, and a browser has none before it is logged in.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
LOGIN_PATH, STATIC_PATH = "/login/", "/static/"
# Paths for programs, which send the token; everything else is a page.
_FOR_PROGRAMS = ("/v1", "/mcp", "/metrics", *OPEN_PATHS)
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - no client addresses a host by these
_USUAL_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The policy of one listener. Clients must send `token`, which is empty at the Unix socket."""

    token: str = field(default="", repr=False)

    @property
    def is_local(self) -> bool:
        """Return whether it is the Unix socket, which offers every operation."""
        return not self.token


SOCKET = AccessPolicy()


def port_policy(token: str) -> AccessPolicy:
    """Return the policy of a TCP port. Raise ValueError without a token, which would admit everybody."""
    if not token:
        raise ValueError("a port needs a token")
    return AccessPolicy(token)


def refusal(
    policy: AccessPolicy, scope: "Scope", http: HttpSection, *, has_session: bool = False
) -> HttpError | None:
    """Return the refusal of this request; None if it is allowed. `has_session`: it is from a logged-in browser."""
    headers = Headers(scope=scope)
    hosts, origins, path = headers.getlist("host"), headers.getlist("origin"), scope["path"]
    port = (scope["server"] or ("", None))[1] or 0
    if policy.is_local:
        refused = HttpError(403, "FORBIDDEN", "the Unix socket is not for pages of a browser; send no Origin")
        return refused if origins else None
    if len(hosts) != 1 or not is_our_host(hosts[0], port, http):
        return HttpError(
            421,
            "MISDIRECTED",
            "this daemon does not go by the name in the Host header; ask 127.0.0.1, or add the name to "
            "http.allowed_hosts",
        )
    if not all(is_our_origin(origin, port, http) for origin in origins):
        return HttpError(
            403, "FORBIDDEN", "pages of this origin are not let in; add its host to http.allowed_hosts if it is yours"
        )
    if path in OPEN_PATHS or _has_token(headers.getlist("authorization"), policy.token):
        return None
    if is_page(path):
        return _refusal_of_page(headers, path, scope["method"], has_session=has_session)
    message = "send the token as 'Authorization: Bearer …'; it is in the file that 'dreamd serve' names"
    return HttpError(401, "UNAUTHORIZED", message, headers=_BEARER)


_BEARER = {"WWW-Authenticate": 'Bearer realm="dreamd"'}


def is_page(path: str) -> bool:
    """Return whether this path is a page. One with a line break never is, as a route may match without seeing it."""
    return "\n" not in path and not any(path == one or path.startswith(f"{one}/") for one in _FOR_PROGRAMS)


def _refusal_of_page(headers: Headers, path: str, method: str, *, has_session: bool) -> HttpError | None:
    """Return the refusal of a browser's request for a page; None if it is allowed."""
    site, mode = (",".join(headers.getlist(name)) for name in ("sec-fetch-site", "sec-fetch-mode"))
    if site not in ("", "none", "same-origin") and mode != "navigate":
        return HttpError(403, "FORBIDDEN", "this is not for pages of another origin")
    if path.startswith((LOGIN_PATH, STATIC_PATH)):
        return None
    if not has_session:
        message = "this browser is not logged in; 'dreamd open' opens it logged in"
        return HttpError(401, "UNAUTHORIZED", message, headers=_BEARER)
    if method not in ("GET", "HEAD") and not headers.getlist("origin"):
        return HttpError(403, "FORBIDDEN", "what changes something is sent by a page of this daemon alone")
    return None


def is_our_host(host: str, port: int, http: HttpSection) -> bool:
    """Return whether the Host header names this daemon, with or without its port."""
    return host.lower().removesuffix(f":{port}") in _own_names(http) | _allowed(http)


def is_our_origin(origin: str, port: int, http: HttpSection) -> bool:
    """Return whether pages of this origin may send requests.

    An allowed host may have any port, as a proxy may be in front; on this machine another port is another program.
    """
    scheme, _, host = origin.lower().partition("://")
    if scheme not in _USUAL_PORTS:
        return False
    name = host.removesuffix(f":{port}")
    return name in _allowed(http) or (name in _own_names(http) and (name != host or port == _USUAL_PORTS[scheme]))


def _own_names(http: HttpSection) -> set[str]:
    configured = f"[{http.host}]" if ":" in http.host else http.host
    return {*_LOOPBACK, *(() if http.host in _EVERYWHERE else (configured.lower(),))}


def _allowed(http: HttpSection) -> set[str]:
    return {name.lower() for name in http.allowed_hosts}


def _has_token(authorizations: Sequence[str], token: str) -> bool:
    """Return whether the only Authorization header is the token, compared in constant time."""
    if len(authorizations) != 1:
        return False
    scheme, _, shown = authorizations[0].partition(" ")
    matches = hmac.compare_digest(shown.strip(" \t").encode("latin-1", "replace"), token.encode())
    return matches and scheme.lower() == "bearer"
