"""Logins: how a person's browser logs in: with a link that works once, then with a session in a cookie.

Only the Unix socket makes links, so only the daemon's owner gets one. Its code works once and for a minute. In
exchange the browser gets a session id, of which the file keeps only a digest keyed with the port's token: a new token
ends every session, and whoever reads the file cannot log in.
"""

import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from daemon.config.paths import make_private_folder
from daemon.observability import logs
from state.errors import OverloadedError
from state.stores.disk.disk import Disk

COOKIE = "dreamd"
LINK_SECONDS = 60.0
SESSION_SECONDS = 30 * 86_400
# A further session replaces the oldest one.
MOST_SESSIONS = 32
_MOST_LINKS = 32
_BYTES = 32
_NONE = (0.0, None)
_ID = re.compile("[A-Za-z0-9_-]{43}")
# No browser keeps more cookies of one host.
_MOST_IDS = 200


@dataclass(frozen=True, slots=True)
class Session:
    """A logged-in browser. Each form of its pages contains `csrf`; ledgers call it `name`."""

    digest: str
    csrf: str

    @property
    def name(self) -> str:
        """Return the first eight characters of its digest."""
        return self.digest[:8]


class _Link(NamedTuple):
    until: float
    destination: str
    user: int | None


class Logins:
    """The unused links, and the sessions. Any thread may call."""

    def __init__(self, path: Path, token: str, clock: Callable[[], float] = time.time) -> None:
        """Read the sessions from the file `path`; `token` is the port's."""
        self._path = path
        self._token = token.encode()
        self._clock = clock
        self._lock = threading.Lock()
        self._links: dict[str, _Link] = {}
        # By digest: when each ends (epoch seconds), and the uid that redeemed its link, if known.
        self._sessions: dict[str, tuple[float, int | None]] = self._read()

    def link(self, destination: str = "/", user: int | None = None) -> str:
        """Return a code that logs in its first user within a minute and leads to the destination.

        `user`: only programs of this uid may redeem it. Raise OverloadedError.
        """
        now = self._clock()
        with self._lock:
            self._links = {digest: link for digest, link in self._links.items() if link.until > now}
            if len(self._links) >= _MOST_LINKS:
                raise OverloadedError(f"{_MOST_LINKS} links wait to be used", "use one, or wait for a minute")
            code = secrets.token_urlsafe(_BYTES)
            self._links[self._digest("link", code)] = _Link(now + LINK_SECONDS, destination, user)
        return code

    def redeem(self, code: str, user: Callable[[], int | None] = lambda: None) -> tuple[str, str] | None:
        """Use up this code and begin a session; return the session's id, for the cookie, and the destination.

        Return None for an unknown or expired code, or if `user` (the client's uid, if known) is not the one that the
        link is for: every user of the machine can read the command line of a browser started with a link.
        """
        now, digest = self._clock(), self._digest("link", code)
        with self._lock:
            link = self._links.get(digest)
            if link is None or link.until <= now:
                return None
            comes = user()
            if link.user is not None and comes not in (None, 0, link.user):  # root may read everything anyway
                return None
            del self._links[digest]
            new = secrets.token_urlsafe(_BYTES)
            living = [one for one in self._sessions.items() if one[1][0] > now]
            youngest = sorted(living, key=lambda one: one[1][0])[-(MOST_SESSIONS - 1) :]
            self._sessions = {**dict(youngest), self._digest("session", new): (now + SESSION_SECONDS, comes)}
            self._write()
        return new, link.destination

    def session(self, cookies: tuple[str, ...], user: Callable[[], int | None] = lambda: None) -> Session | None:
        """Return the session that these Cookie headers name; None if there is none, or it is another user's.

        A browser sends its cookies to every program at 127.0.0.1, whoever runs it. `user` returns the client's uid.
        """
        for shown in _ids(cookies):
            digest = self._digest("session", shown)
            # Without the lock: the event loop calls this, and must not wait for the disk.
            until, whose = self._sessions.get(digest, _NONE)
            if until > self._clock() and (whose is None or user() in (None, whose)):
                return Session(digest, self._digest("csrf", shown))
        return None

    def holds(self, session: Session) -> bool:
        """Return whether this browser is still logged in."""
        return self._sessions.get(session.digest, _NONE)[0] > self._clock()

    def end(self, session: Session) -> None:
        """Log this browser out."""
        with self._lock:
            self._sessions.pop(session.digest, None)
            self._write()

    def _digest(self, purpose: str, text: str) -> str:
        return hmac.new(self._token, f"{purpose}:{text}".encode(), sha256).hexdigest()

    def _read(self) -> dict[str, tuple[float, int | None]]:
        """Return the sessions in the file, or none if it cannot be read: people log in again."""
        try:
            content = Disk(self._path.parent).read_optional(self._path)
            rows = json.loads(content) if content else {}
            return {
                str(digest): (float(until), None if user is None else int(user))
                for digest, (until, user) in rows.items()
            }
        except Exception as error:  # noqa: BLE001 - a file that somebody changed may contain anything
            logs.get().warning("logins_unread", error=error)
            return {}

    def _write(self) -> None:
        make_private_folder(self._path.parent)
        Disk(self._path.parent).write_atomic(self._path, json.dumps(self._sessions).encode())


def _ids(cookies: tuple[str, ...]) -> list[str]:
    """Return the session ids in these Cookie headers.

    Any program of this machine can set cookies for our host. A malformed one must not hide ours, as it would with
    http.cookies, which also takes minutes for some.
    """
    pairs = (pair.strip(" \t").partition("=") for header in cookies for pair in header.split(";"))
    return [value for name, _, value in pairs if name == COOKIE and _ID.fullmatch(value)][:_MOST_IDS]


def cookie(id_: str) -> str:
    """Return the Set-Cookie header of a session; an empty id removes the cookie."""
    age = SESSION_SECONDS if id_ else 0
    return f"{COOKIE}={id_}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict"
