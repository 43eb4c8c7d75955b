"""Names: which workspace a path names, and the handle by which the application inside knows it.

    /v1/workspaces/NAME/mood ─> /v1/workspaces/TOKEN~NAME/mood        /mcp/NAME ─> /mcp/TOKEN~NAME

A handle says whose request it is, on any thread; a second sign at its end, that another process of the fleet has
passed it on. No client can write one: a path of theirs has no `~`, and no percent-encoding either, for nothing that
is asked here needs one.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from daemon.api.daemon import MCP_PATH
from daemon.http.app import WORKSPACES

SIGN = "~"
_PLAIN = re.compile(r"(?:/[A-Za-z0-9_.-]*)+")
_ROOMS = (WORKSPACES, MCP_PATH)


class HandleParts(NamedTuple):
    """What a handle says."""

    token: str
    name: str
    is_forwarded: bool


@dataclass(frozen=True, slots=True)
class NamedPath:
    """A path below `room` (of workspaces, or of MCP) that names one, and what of it."""

    room: str
    name: str
    rest: str


def is_plain(path: bytes) -> bool:
    """Tell whether a path was sent in the only form that is answered: no escapes, no empty parts."""
    text = path.decode("latin-1")
    parts = text[1:].split("/")
    return _PLAIN.fullmatch(text) is not None and (text == "/" or not any(part in ("", ".", "..") for part in parts))


def named_path(path: str) -> NamedPath | None:
    """Return what a plain path names; None for one that names no workspace."""
    for room in _ROOMS:
        if path.startswith(f"{room}/"):
            name, slash, rest = path[len(room) + 1 :].partition("/")
            return NamedPath(room, name, slash + rest)
    return None


def handle(token: str, name: str, *, is_forwarded: bool = False) -> str:
    """Return the handle of a workspace for the bearer of the token with this id."""
    return f"{token}{SIGN}{name}{SIGN if is_forwarded else ''}"


def handle_parts(given: str) -> HandleParts:
    """Return what a handle says."""
    token, _, name = given.partition(SIGN)
    return HandleParts(token, name.removesuffix(SIGN), name.endswith(SIGN))
