"""The two doors, and who may come in: a pure decision about a request's headers.

The Unix socket needs no token: its file is open to its owner alone, and the kernel says who connects. The port is
open to every program of the machine, and through the browser to every page that a person looks at. Hence the token,
and Host (a page whose name was rebound to 127.0.0.1 sends its own name) and Origin (a page says where it is from).
"""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field

from daemon.config.settings import HttpSection
from daemon.http.errors import ErrorResponse

# Whoever asks whether the daemon lives has no token.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - addresses to listen at are no names to be asked by
_USUAL_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """A way in. `token` is what must be shown there; empty at the Unix socket."""

    token: str = field(default="", repr=False)

    @property
    def is_local(self) -> bool:
        """Whether it is the Unix socket, where everything may be asked."""
        return not self.token


SOCKET = AccessPolicy()


def port_door(token: str) -> AccessPolicy:
    """The door at a TCP port. Raises ValueError without a token: a port without one would be open to everybody."""
    if not token:
        raise ValueError("a port needs a token")
    return AccessPolicy(token)


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """What a request says of where it comes from. `port` is the one it came to; each header may be repeated."""

    path: str
    port: int
    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    authorizations: tuple[str, ...]


def refusal(door: AccessPolicy, visit: RequestHeaders, http: HttpSection) -> ErrorResponse | None:
    """Why this request does not come in; None when it does."""
    if door.is_local:
        if visit.origins:
            return ErrorResponse(403, "FORBIDDEN", "the Unix socket is not for pages of a browser; send no Origin")
        return None
    if len(visit.hosts) != 1 or not is_our_host(visit.hosts[0], visit.port, http):
        return ErrorResponse(
            421,
            "MISDIRECTED",
            "this daemon does not go by the name in the Host header; ask 127.0.0.1, or add the name to "
            "http.allowed_hosts",
        )
    if not all(is_our_origin(origin, visit.port, http) for origin in visit.origins):
        return ErrorResponse(
            403, "FORBIDDEN", "pages of this origin are not let in; add its host to http.allowed_hosts if it is yours"
        )
    if visit.path not in OPEN_PATHS and not _shows(visit.authorizations, door.token):
        return ErrorResponse(
            401,
            "UNAUTHORIZED",
            "send the token as 'Authorization: Bearer …'; it is in the file that 'dreamd serve' names",
            headers={"WWW-Authenticate": 'Bearer realm="dreamd"'},
        )
    return None


def is_our_host(host: str, port: int, http: HttpSection) -> bool:
    """Whether the Host header names this daemon, with or without its port."""
    return _without_port(host.lower(), port) in {*_own_names(http), *_lowered(http.allowed_hosts)}


def is_our_origin(origin: str, port: int, http: HttpSection) -> bool:
    """Whether a page from there is ours.

    An allowed host may be behind a proxy with a port of its own; on this machine another port is another program.
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


def _shows(authorizations: tuple[str, ...], token: str) -> bool:
    """Whether the one Authorization is the bearer's token; how long that takes says nothing about the token."""
    if len(authorizations) != 1:
        return False
    scheme, _, shown = authorizations[0].partition(" ")
    matches = hmac.compare_digest(shown.strip(" \t").encode("latin-1", "replace"), token.encode())
    return matches and scheme.lower() == "bearer"
