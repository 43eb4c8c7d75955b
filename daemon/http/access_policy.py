"""AccessPolicy: who may ask at the Unix socket and at the port: a pure decision about a request's headers.

The Unix socket needs no token: its file is open to its owner alone, and the kernel says who connects. The port is
open to every program of the machine, and through the browser to every page that a person looks at. Hence the token,
and the checks of Host (DNS rebinding: such a page sends its own name) and Origin (a page says where it is from).

A browser that is logged in has a session in place of the token, for pages alone. Cookies know no ports: a page that
another program of this machine serves is sent along with ours. So what changes something must say by Origin that it
is a page of ours, and nothing of ours is loaded into a page of another origin.
"""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field

from daemon.config.settings import HttpSection
from daemon.http.errors import ErrorResponse

# Health checks have no token; nor has who comes with a link to log in, or with a browser that is not logged in yet.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
LOGIN_PATH, STATIC_PATH = "/login/", "/static/"
# What programs ask, with the token; everything else is a page.
_FOR_PROGRAMS = ("/v1", "/mcp", "/metrics", *OPEN_PATHS)
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - addresses to listen at are no names to be asked by
_USUAL_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The policy of one listener. `token` is required there; empty at the Unix socket."""

    token: str = field(default="", repr=False)

    @property
    def is_local(self) -> bool:
        """Whether it is the Unix socket, where every operation is answered."""
        return not self.token


SOCKET = AccessPolicy()


def port_policy(token: str) -> AccessPolicy:
    """Return the policy of a TCP port. Raise ValueError without a token: everybody could come in."""
    if not token:
        raise ValueError("a port needs a token")
    return AccessPolicy(token)


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """The headers that say where a request comes from. `port` is the local one; each header may be repeated.

    `has_session`: a browser that is logged in sends it. `fetch_site`, `fetch_mode`: what browsers say of who asks.
    """

    path: str
    port: int
    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    authorizations: tuple[str, ...]
    method: str = "GET"
    has_session: bool = False
    fetch_site: str = ""
    fetch_mode: str = ""


def refusal(policy: AccessPolicy, request: RequestHeaders, http: HttpSection) -> ErrorResponse | None:
    """Say why this request is refused; None when it is not."""
    if policy.is_local:
        refused = ErrorResponse(403, "FORBIDDEN", "the Unix socket is not for pages of a browser; send no Origin")
        return refused if request.origins else None
    if len(request.hosts) != 1 or not is_our_host(request.hosts[0], request.port, http):
        return ErrorResponse(
            421,
            "MISDIRECTED",
            "this daemon does not go by the name in the Host header; ask 127.0.0.1, or add the name to "
            "http.allowed_hosts",
        )
    if not all(is_our_origin(origin, request.port, http) for origin in request.origins):
        return ErrorResponse(
            403, "FORBIDDEN", "pages of this origin are not let in; add its host to http.allowed_hosts if it is yours"
        )
    if request.path in OPEN_PATHS or _has_token(request.authorizations, policy.token):
        return None
    if is_page(request.path):
        return _refusal_of_page(request)
    return ErrorResponse(
        401,
        "UNAUTHORIZED",
        "send the token as 'Authorization: Bearer …'; it is in the file that 'dreamd serve' names",
        headers=_BEARER,
    )


_BEARER = {"WWW-Authenticate": 'Bearer realm="dreamd"'}


def is_page(path: str) -> bool:
    """Tell whether this is for people with a browser. No address of one has a line break: a route may overlook it."""
    return "\n" not in path and not any(path == one or path.startswith(f"{one}/") for one in _FOR_PROGRAMS)


def _refusal_of_page(request: RequestHeaders) -> ErrorResponse | None:
    """Say why a browser is refused a page of ours; None when it is not."""
    if request.fetch_site not in ("", "none", "same-origin") and request.fetch_mode != "navigate":
        return ErrorResponse(403, "FORBIDDEN", "this is not for pages of another origin")
    if request.path.startswith((LOGIN_PATH, STATIC_PATH)):
        return None
    if not request.has_session:
        return ErrorResponse(
            401, "UNAUTHORIZED", "this browser is not logged in; 'dreamd open' opens it logged in", headers=_BEARER
        )
    if request.method not in ("GET", "HEAD") and not request.origins:
        return ErrorResponse(403, "FORBIDDEN", "what changes something is sent by a page of this daemon alone")
    return None


def is_our_host(host: str, port: int, http: HttpSection) -> bool:
    """Tell whether the Host header names this daemon, with or without its port."""
    return _without_port(host.lower(), port) in {*_own_names(http), *_lowered(http.allowed_hosts)}


def is_our_origin(origin: str, port: int, http: HttpSection) -> bool:
    """Tell whether a page of this origin may ask.

    An allowed host may be behind a proxy with another port; on this machine another port is another program.
    """
    scheme, _, host = origin.lower().partition("://")
    if scheme not in _USUAL_PORTS:
        return False
    if _without_port(host, port) in _lowered(http.allowed_hosts):
        return True
    name = _without_port(host, port)
    return name in _own_names(http) and (name != host or port == _USUAL_PORTS[scheme])


def _without_port(host: str, port: int) -> str:
    return host.removesuffix(f":{port}")


def _own_names(http: HttpSection) -> set[str]:
    configured = f"[{http.host}]" if ":" in http.host else http.host
    return {*_LOOPBACK, *(() if http.host in _EVERYWHERE else (configured.lower(),))}


def _lowered(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def _has_token(authorizations: tuple[str, ...], token: str) -> bool:
    """Tell whether the only Authorization is the token, compared in constant time."""
    if len(authorizations) != 1:
        return False
    scheme, _, shown = authorizations[0].partition(" ")
    matches = hmac.compare_digest(shown.strip(" \t").encode("latin-1", "replace"), token.encode())
    return matches and scheme.lower() == "bearer"
