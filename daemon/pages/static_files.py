"""Static files: the script, style and drawings that pages load, each under an address with the digest of them all."""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from daemon.http.access_policy import STATIC_PATH

_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class StaticFile(NamedTuple):
    """Its bytes and what they are."""

    content: bytes
    kind: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Return the files by name."""
    return {
        entry.name: StaticFile(entry.read_bytes(), kind)
        for entry in files("daemon.pages").joinpath("static").iterdir()
        if (kind := _KINDS.get(entry.name[entry.name.rfind(".") :])) is not None
    }


@cache
def static_address() -> str:
    """Return where they are: a new place whenever one of them has changed, so that a browser keeps none too long."""
    whole = sha256(b"".join(one.content for _, one in sorted(static_files().items())))
    return f"{STATIC_PATH}{whole.hexdigest()[:12]}/"
