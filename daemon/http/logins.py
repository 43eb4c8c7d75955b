"""Logins: how a person's browser gets in: a link that works once, then a session in a cookie.

A link is asked for at the Unix socket, so only by who owns the daemon; it holds a code that is gone at its first use
and after a minute. The browser gets an id of its own for it, of which the file keeps no more than a digest that the
token of the port is part of: a new token ends every session, and who reads the file gets in nowhere.
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
# Whoever asks for more takes the oldest one's place.
MOST_SESSIONS = 32
_MOST_LINKS = 32
_BYTES = 32
_NONE = (0.0, None)
_ID = re.compile("[A-Za-z0-9_-]{43}")
# More cookies of one host no browser keeps.
_MOST_IDS = 200


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that is logged in. `csrf` stands in each form of its pages; `name` is what a ledger calls it."""

    digest: str
    csrf: str

    @property
    def name(self) -> str:
        """The first signs of its digest."""
        return self.digest[:8]


class _Link(NamedTuple):
    until: float
    destination: str
    user: int | None


class Logins:
    """The links that nobody has used, and the sessions. Any thread may call."""

    def __init__(self, path: Path, token: str, clock: Callable[[], float] = time.time) -> None:
        """Read the sessions of the file `path`; `token` is the port's."""
        self._path = path
        self._token = token.encode()
        self._clock = clock
        self._lock = threading.Lock()
        self._links: dict[str, _Link] = {}
        # When each ends, and whose program came with its link, as far as that is known.
        self._sessions: dict[str, tuple[float, int | None]] = self._read()

    def link(self, destination: str = "/", user: int | None = None) -> str:
        """Return a code that logs in whoever comes with it first, within a minute, and leads there.

        It is for this `user` of the machine; without one for any. Raise OverloadedError.
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
        """Begin a session for this code, which is used up; return None for a code that is none, or old.

        Return the session's id, for the cookie, and where the link leads. `user` says who brings it, as far as it is
        known. None for another one than the link is for: every user of the machine may read the command line of a
        browser that is started with a link.
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
        """Return the session that these Cookie headers name; None for none, or one of another user here.

        A browser shows its cookies to every program at 127.0.0.1, whoever's that is. `user` says who comes.
        """
        for shown in _ids(cookies):
            digest = self._digest("session", shown)
            # Without the lock: the event loop asks, and must not wait for a disk.
            until, whose = self._sessions.get(digest, _NONE)
            if until > self._clock() and (whose is None or user() in (None, whose)):
                return Session(digest, self._digest("csrf", shown))
        return None

    def holds(self, session: Session) -> bool:
        """Tell whether this browser is still logged in."""
        return self._sessions.get(session.digest, _NONE)[0] > self._clock()

    def end(self, session: Session) -> None:
        """Log this browser out."""
        with self._lock:
            self._sessions.pop(session.digest, None)
            self._write()

    def _digest(self, purpose: str, text: str) -> str:
        return hmac.new(self._token, f"{purpose}:{text}".encode(), sha256).hexdigest()

    def _read(self) -> dict[str, tuple[float, int | None]]:
        """Return the sessions of the file. One that cannot be read is none: people log in again."""
        try:
            content = Disk(self._path.parent).read_optional(self._path)
            rows = json.loads(content) if content else {}
            return {
                str(digest): (float(until), None if user is None else int(user))
                for digest, (until, user) in rows.items()
            }
        except Exception as error:  # noqa: BLE001 - of a file that somebody changed everything may come
            logs.get().warning("logins_unread", error=error)
            return {}

    def _write(self) -> None:
        make_private_folder(self._path.parent)
        Disk(self._path.parent).write_atomic(self._path, json.dumps(self._sessions).encode())


def _ids(cookies: tuple[str, ...]) -> list[str]:
    """Return what these Cookie headers give as our ids.

    Every program of this machine sets cookies for our host: one that is not well-formed hides none of ours, as it
    would from http.cookies, which also takes minutes for some.
    """
    pairs = (pair.strip(" \t").partition("=") for header in cookies for pair in header.split(";"))
    return [value for name, _, value in pairs if name == COOKIE and _ID.fullmatch(value)][:_MOST_IDS]


def cookie(id_: str) -> str:
    """Return the Set-Cookie header of a session; an empty id takes it away."""
    age = SESSION_SECONDS if id_ else 0
    return f"{COOKIE}={id_}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict"
