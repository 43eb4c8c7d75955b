"""Bearers: whose token is shown, as PostgreSQL says, remembered for ten seconds.

A token that is shown again is not looked up again, whether it was good or not, and those who show it at the same
moment share one look. Nobody is refused because others guess: a secret of 192 bits is not guessed, and all tenants
may come from the one address of a proxy. What guesses cost is bounded: a few are looked up at once, the others wait
for their turn, and a token that was good of late has a turn of its own, as `is_familiar` tells.
"""

import hashlib
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future

from daemon.fleet.recent import Recent
from state.fleet.tenant import Token

SECONDS = 10.0
_MOST = 20_000
# A request under way, and an application of MCP, knows its bearer for so long.
_KNOWN_SECONDS = 600.0
_FORM = re.compile(r"dreamd_[0-9a-f]{12}_[0-9a-f]{48}")


class Bearers:
    """The tokens that were shown here. `look` asks PostgreSQL. Any thread may call."""

    def __init__(self, look: Callable[[str], Token | None]) -> None:
        self._look = look
        self._lock = threading.Lock()
        # By their digests: nothing that is kept here is of use to anybody.
        self._shown: Recent[bytes, Token] = Recent(_MOST, SECONDS)
        # Apart: no number of bad ones drives out a good one.
        self._bad: Recent[bytes, bool] = Recent(_MOST, SECONDS)
        self._familiar: Recent[bytes, bool] = Recent(_MOST, _KNOWN_SECONDS)
        self._known: Recent[str, Token] = Recent(_MOST, _KNOWN_SECONDS)
        self._looks: dict[bytes, Future[Token | None]] = {}

    def remembered(self, shown: str) -> Token | None:
        """Return whose token this is, if that is known without a look."""
        return self._shown.get(_digest(shown))

    def is_bad(self, shown: str) -> bool:
        """Tell whether it is known without a look that this is nobody's token."""
        return _FORM.fullmatch(shown) is None or self._bad.get(_digest(shown)) is not None

    def is_familiar(self, shown: str) -> bool:
        """Tell whether this was somebody's token of late."""
        return self._familiar.get(_digest(shown)) is not None

    def authenticate(self, shown: str) -> Token | None:
        """Return whose token this is; None for nobody's. Raise UnreachableError."""
        if self.is_bad(shown):
            return None
        digest = _digest(shown)
        found = self._shown.get(digest) or self._looked_up(digest, shown)
        if found is None:
            self._familiar.drop(digest)
            self._bad.put(digest, True)  # noqa: FBT003 - a set
            return None
        self._familiar.put(digest, True)  # noqa: FBT003 - a set
        self._known.put(found.id, found)
        return found

    def known(self, identity: str) -> Token | None:
        """Return the token of this id, if it was shown of late."""
        return self._known.get(identity)

    def _looked_up(self, digest: bytes, shown: str) -> Token | None:
        """Return what PostgreSQL says: of those who ask at once only one looks."""
        with self._lock:
            look = self._looks.get(digest)
            mine = look is None
            if look is None:
                look = self._looks[digest] = Future()
        if mine:
            try:
                found = self._look(shown)
                if found is not None:
                    self._shown.put(digest, found)
                look.set_result(found)
            except Exception as error:  # noqa: BLE001 - all who wait get it
                look.set_exception(error)
            finally:
                with self._lock:
                    del self._looks[digest]
        return look.result()


def _digest(shown: str) -> bytes:
    return hashlib.sha256(shown.encode("utf-8", "replace")).digest()
