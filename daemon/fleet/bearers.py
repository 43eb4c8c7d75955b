"""Bearers: authentication of tokens against PostgreSQL, with a cache of ten seconds.

Both valid and invalid tokens are cached. Guesses lead to no rate limit: a secret of 192 bits cannot be guessed, and
all tenants may share the one address of a proxy. Their cost is bounded instead: a few lookups run at once, the
others wait, and tokens that were valid lately (`is_familiar`) have a queue of their own.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from state.errors import UnreachableError
from state.fleet import TOKEN, Token

K = TypeVar("K")
V = TypeVar("V")

SECONDS = 10.0
_MOST = 20_000
# How long a request under way, or an MCP application, can still find its bearer.
_KNOWN_SECONDS = 600.0
SEPARATOR = "~"


class ExpiringCache(Generic[K, V]):
    """A cache whose entries expire after `seconds`; beyond `most` entries the least recently used one leaves."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._lock = threading.Lock()
        self._found: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value under this key; None if there is none or it has expired."""
        with self._lock:
            until, value = self._found.get(key, (0.0, None))
            if until <= time.monotonic():
                self._found.pop(key, None)
                return None
            self._found.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Store the value, which expires `seconds` from now."""
        with self._lock:
            self._found[key] = time.monotonic() + self._seconds, value
            self._found.move_to_end(key)
            while len(self._found) > self._most:
                self._found.popitem(last=False)

    def drop(self, key: K) -> None:
        """Remove this key, if it is there."""
        with self._lock:
            self._found.pop(key, None)


class Bearers:
    """The tokens that this process has seen. `look` asks PostgreSQL. Any thread may call."""

    def __init__(self, look: Callable[[str], Token | None]) -> None:
        self._look = look
        self._shown: ExpiringCache[str, Token] = ExpiringCache(_MOST, SECONDS)
        # In a cache of their own, so that no number of bad tokens evicts a good one.
        self._bad: ExpiringCache[str, bool] = ExpiringCache(_MOST, SECONDS)
        # By token id, with the text that was shown, for requests forwarded to another process of the fleet.
        self._known: ExpiringCache[str, tuple[Token, str]] = ExpiringCache(_MOST, _KNOWN_SECONDS)

    def remembered(self, shown: str) -> Token | None:
        """Return the token if it is cached as valid."""
        token = self._shown.get(shown)
        return token if token is not None and self.known(token.id) is not None else None

    def is_bad(self, shown: str) -> bool:
        """Return whether this is malformed or cached as invalid."""
        return TOKEN.fullmatch(shown) is None or self._bad.get(shown) is not None

    def is_familiar(self, shown: str) -> bool:
        """Return whether this token was valid in the last ten minutes."""
        match = TOKEN.fullmatch(shown)
        found = self._known.get(match.group(1)) if match is not None else None
        return found is not None and found[1] == shown

    def authenticate(self, shown: str) -> Token | None:
        """Return the token, from the cache or PostgreSQL; None if it is invalid. Raise UnreachableError."""
        if self.is_bad(shown):
            return None
        found = self.remembered(shown) or self._look(shown)
        if found is not None:
            self._shown.put(shown, found)
            self._known.put(found.id, (found, shown))
            return found
        if self.is_familiar(shown):
            self._known.drop(shown.split("_")[1])
        self._bad.put(shown, True)  # noqa: FBT003 - a set
        return None

    def known(self, identity: str) -> Token | None:
        """Return the token of this id, if it was shown in the last ten minutes."""
        found = self._known.get(identity)
        return found[0] if found is not None else None

    def secret_of(self, token: Token) -> str:
        """Return the text that the bearer of this token showed. Raise UnreachableError after ten minutes."""
        found = self._known.get(token.id)
        if found is None:
            raise UnreachableError("the token is not known any more", "ask again")
        return found[1]


def handle(token: str, name: str, *, is_forwarded: bool = False) -> str:
    """Return the handle of a workspace for the inner applications; it names the token by its id."""
    return f"{token}{SEPARATOR}{name}{SEPARATOR if is_forwarded else ''}"


def handle_parts(given: str) -> tuple[str, str, bool]:
    """Split a handle into the token's id, the workspace's name, and whether the request was forwarded."""
    token, _, name = given.partition(SEPARATOR)
    return token, name.removesuffix(SEPARATOR), name.endswith(SEPARATOR)
