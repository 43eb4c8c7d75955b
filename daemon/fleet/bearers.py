"""Bearers: whose token is shown, as PostgreSQL says, remembered for ten seconds.

A token that is shown again is not looked up again, whether it was good or not. Nobody is refused because others
guess: a secret of 192 bits is not guessed, and all tenants may come from the one address of a proxy. What guesses
cost is bounded: a few are looked up at once, the others wait for their turn, and a token that was good of late has a
turn of its own, as `is_familiar` tells.
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
# A request under way, and an application of MCP, knows its bearer for so long.
_KNOWN_SECONDS = 600.0
SIGN = "~"


class Recent(Generic[K, V]):
    """A mapping that forgets what is older than `seconds`, and beyond `most` what was used longest ago."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._lock = threading.Lock()
        self._found: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return what was put under this key; None when that is forgotten."""
        with self._lock:
            until, value = self._found.get(key, (0.0, None))
            if until <= time.monotonic():
                self._found.pop(key, None)
                return None
            self._found.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Remember this from now on."""
        with self._lock:
            self._found[key] = time.monotonic() + self._seconds, value
            self._found.move_to_end(key)
            while len(self._found) > self._most:
                self._found.popitem(last=False)

    def drop(self, key: K) -> None:
        """Forget what is under this key."""
        with self._lock:
            self._found.pop(key, None)


class Bearers:
    """The tokens that were shown here. `look` asks PostgreSQL. Any thread may call."""

    def __init__(self, look: Callable[[str], Token | None]) -> None:
        self._look = look
        self._shown: Recent[str, Token] = Recent(_MOST, SECONDS)
        # Apart: no number of bad ones drives out a good one.
        self._bad: Recent[str, bool] = Recent(_MOST, SECONDS)
        # By its id, with what was shown: a request that another process of the fleet answers shows it there.
        self._known: Recent[str, tuple[Token, str]] = Recent(_MOST, _KNOWN_SECONDS)

    def remembered(self, shown: str) -> Token | None:
        """Return whose token this is, if that is known without a look."""
        token = self._shown.get(shown)
        return token if token is not None and self.known(token.id) is not None else None

    def is_bad(self, shown: str) -> bool:
        """Tell whether it is known without a look that this is nobody's token."""
        return TOKEN.fullmatch(shown) is None or self._bad.get(shown) is not None

    def is_familiar(self, shown: str) -> bool:
        """Tell whether this was somebody's token of late."""
        match = TOKEN.fullmatch(shown)
        found = self._known.get(match.group(1)) if match is not None else None
        return found is not None and found[1] == shown

    def authenticate(self, shown: str) -> Token | None:
        """Return whose token this is; None for nobody's. Raise UnreachableError."""
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
        """Return the token of this id, if it was shown of late."""
        found = self._known.get(identity)
        return found[0] if found is not None else None

    def secret_of(self, token: Token) -> str:
        """Return what the bearer of this token showed. Raise UnreachableError if that was long ago."""
        found = self._known.get(token.id)
        if found is None:
            raise UnreachableError("the token is not known any more", "ask again")
        return found[1]


def handle(token: str, name: str, *, is_forwarded: bool = False) -> str:
    """Return the handle by which the applications inside know a workspace, for the bearer of the token of this id."""
    return f"{token}{SIGN}{name}{SIGN if is_forwarded else ''}"


def handle_parts(given: str) -> tuple[str, str, bool]:
    """Return what a handle says: the token's id, the workspace's name, and whether the request was passed on."""
    token, _, name = given.partition(SIGN)
    return token, name.removesuffix(SIGN), name.endswith(SIGN)
