"""Static files: the script, style and drawings that pages load, each under an address with the digest of them all."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType

from daemon.http.access_policy import STATIC_PATH

_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """Its bytes and what they are."""

    content: bytes
    kind: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Return the files by name."""
    found = {}
    for entry in files("daemon.pages").joinpath("static").iterdir():
        kind = _KINDS.get(entry.name[entry.name.rfind(".") :])
        if kind is not None:
            found[entry.name] = StaticFile(entry.read_bytes(), kind)
    return MappingProxyType(found)


@cache
def static_address() -> str:
    """Return where they are: a new place whenever one of them has changed, so that a browser keeps none too long."""
    whole = sha256(b"".join(one.content for _, one in sorted(static_files().items())))
    return f"{STATIC_PATH}{whole.hexdigest()[:12]}/"
