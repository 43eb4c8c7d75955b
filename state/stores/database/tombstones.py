"""Tombstones in state.db: forgotten texts as salted hashes, which keep them from being learnt and reveal nothing.

A text that a session purges is blocked as a whole: only the identical text is recognised. A text that the
owner has forgotten is blocked as runs of words (`state.forgetting.tombstones`): it is recognised in any text that
holds it.
"""

import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from state.crystals.crystal import Crystal
from state.errors import StorageError
from state.forgetting.digests import FIRST, LAST, PART, digest_of_part, digest_of_run, digest_of_text, mark_of_run
from state.forgetting.matching import RUN_WORDS, Target, parts, readings, runs
from state.forgetting.placed_words import Span, placed_words
from state.forgetting.respelt import Row, is_respelt, respelt, rows
from state.forgetting.tombstones import NOTHING, Runs, Tombstones
from state.stores.database.connection import open_unmigrated, to_text, transaction
from state.stores.database.meta import Meta
from state.text.escapes import unescaped

SALT = "forgotten_salt"
# The length of a part, which is recognised only where a text may be cut off.
_PART = -RUN_WORDS
STAMP = "forgotten_stamp"  # another one after each change
_WITHHELD = "forgotten_withheld"
_REPORTED = "forgotten_withheld_told"


class TombstoneStore:
    """The tombstones of one workspace. While nothing is blocked, each call is one look-up, however many texts."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._meta = Meta(connection)
        self._cached: tuple[tuple[str, str], Tombstones] = (("", ""), NOTHING)

    def block_texts(self, texts: Iterable[str], now: datetime) -> None:
        """Block these texts, each as a whole."""
        with transaction(self._connection):
            salt = self._made_salt()
            self._insert(((digest_of_text(salt, text), 0, 0) for text in texts), now)

    def block(self, target: Target, now: datetime) -> None:
        """Block every text that holds this target."""
        with transaction(self._connection):
            self._insert(_rows(self._made_salt(), target), now)

    def unblock(self, target: Target) -> bool:
        """Unblock the target; whether it was blocked. Parts of it that are blocked by themselves stay blocked."""
        salt = self.tombstones().salt
        return bool(salt) and self._delete([digest for digest, _, _ in _rows(salt, target)])

    def unblock_all_of(self, text: str) -> bool:
        """Unblock everything that is blocked in this text; whether anything was."""
        blocked = self.tombstones()
        places = blocked.found(text)
        if not places:
            return False
        digests = [digest_of_text(blocked.salt, text)]
        read = unescaped(text)
        digests += [digest for _, digest in blocked.respelt.found(blocked.salt, read, placed_words(read))]
        for reading in readings(text):
            for start, end in ((0, len(text)), *places):
                digests += _digests_within(blocked, tuple(word for word, _, _ in placed_words(reading[start:end])))
        return self._delete(digests)

    def found(self, text: str) -> tuple[Span, ...]:
        """The places of blocked texts in this text, in characters."""
        return self.tombstones().found(text)

    def any(self) -> bool:
        """Whether anything is blocked."""
        return bool(self.tombstones())

    def holds(self, text: str) -> bool:
        """Whether the text holds a blocked text."""
        return bool(self.tombstones().found(text))

    def among(self, texts: Iterable[str]) -> set[str]:
        """Those of these texts that hold a blocked text."""
        blocked = self.tombstones()
        return {text for text in texts if blocked.found(text)} if blocked else set()

    def tombstones(self) -> Tombstones:
        """All current tombstones, as a value."""
        salt = self._meta.get(SALT)
        if salt is None:
            return NOTHING
        state = (salt, self._meta.get(STAMP) or "")
        if self._cached[0] != state:
            rows = self._connection.execute("SELECT digest, length, mark FROM forgotten")
            self._cached = (state, _as_value(salt, map(tuple, rows)))
        return self._cached[1]

    def without_forgotten(self, text: str) -> str:
        """The text without its blocked sentences, counted as withheld if it has any; "" when nothing remains."""
        left = self.tombstones().without(text)
        if left != text:
            self.count()
        return left

    def crystals_without(self, crystals: Iterable[Crystal]) -> list[Crystal]:
        """These crystals without blocked sentences, counted likewise; those of which nothing remains are left out."""
        found, blocked = list(crystals), self.tombstones()
        if not blocked:
            return found
        rest = [blocked.spared(crystal) for crystal in found]
        self.count(sum(new is not old for new, old in zip(rest, found, strict=True)))
        return [crystal for crystal in rest if crystal is not None]

    def withholds(self, text: str) -> bool:
        """Whether the text holds a blocked text; if so, it is counted as withheld."""
        is_blocked = self.holds(text)
        self.count(int(is_blocked))
        return is_blocked

    def count(self, texts: int = 1) -> None:
        """Count so many more texts as withheld, in whole or in part."""
        if texts:
            self._meta.count(_WITHHELD, texts)

    def withheld(self) -> int:
        """How many texts have been withheld in all."""
        return int(self._meta.get(_WITHHELD) or 0)

    def withheld_lately(self) -> int:
        """How many texts have been withheld since the last call."""
        total = self.withheld()
        lately = total - int(self._meta.get(_REPORTED) or 0)
        if lately:
            self._meta.put(_REPORTED, str(total))
        return lately

    def _made_salt(self) -> str:
        """The salt, created if missing; in the caller's transaction, which is about to change the tombstones."""
        salt = self._meta.get(SALT)
        if salt is None:
            salt = secrets.token_hex(32)
            self._meta.put(SALT, salt)
        self._changed()
        return salt

    def _changed(self) -> None:
        self._meta.put(STAMP, secrets.token_hex(8))

    def _insert(self, rows: Iterable[tuple[str, int, int]], now: datetime) -> None:
        at = to_text(now)
        self._connection.executemany(
            "INSERT OR IGNORE INTO forgotten (digest, at, length, mark) VALUES (?, ?, ?, ?)",
            [(digest, at, length, mark) for digest, length, mark in rows],
        )

    def _delete(self, digests: Iterable[str]) -> bool:
        with transaction(self._connection) as connection:
            gone = connection.executemany(
                "DELETE FROM forgotten WHERE digest = ?", [(digest,) for digest in digests]
            ).rowcount
            if gone:
                self._changed()
        return gone > 0


def tombstones_in(database: Path) -> Tombstones:
    """The tombstones in this state.db, read without its lock; none when it cannot be read."""
    if database.exists():
        with suppress(sqlite3.Error, StorageError), open_unmigrated(database) as connection:
            return TombstoneStore(connection).tombstones()
    return NOTHING


def tombstones_of(targets: Iterable[Target]) -> Tombstones:
    """Tombstones of these targets, to search existing texts without blocking anything."""
    salt = secrets.token_hex(32)
    return _as_value(salt, (row for target in targets for row in _rows(salt, target)))


def _as_value(salt: str, kept: Iterable[Row]) -> Tombstones:
    whole: set[str] = set()
    by_length: dict[int, tuple[set[int], set[str]]] = {}
    other: list[Row] = []
    for digest, length, mark in kept:
        if is_respelt(length):
            other.append((digest, length, mark))
        elif length:
            marks, digests = by_length.setdefault(length, (set(), set()))
            marks.add(mark)
            digests.add(digest)
        else:
            whole.add(digest)
    found = {
        length: Runs(abs(length), frozenset(marks), frozenset(digests))
        for length, (marks, digests) in by_length.items()
    }
    cut = found.pop(_PART, None)
    return Tombstones(salt, frozenset(whole), tuple(found[length] for length in sorted(found)), cut, respelt(other))


def _rows(salt: str, target: Target) -> Iterator[Row]:
    """The rows of a target: its runs, its parts, and its other spellings."""
    for run in runs(target):
        yield digest_of_run(salt, run), len(run), mark_of_run(salt, run)
    if cut := parts(target):
        ends = ((target.words[:RUN_WORDS], FIRST), (target.words[-RUN_WORDS:], LAST))
        for part, place in (*((part, PART) for part in cut), *ends):
            yield digest_of_part(salt, part, place), _PART, mark_of_run(salt, part)
    yield from rows(salt, target.words)


def _digests_within(blocked: Tombstones, words: tuple[str, ...]) -> Iterator[str]:
    """The digests of each run of these words, and of the words as a text of their own."""
    for at in range(len(words) - RUN_WORDS + 1):
        for place in (PART, FIRST, LAST):
            yield digest_of_part(blocked.salt, words[at : at + RUN_WORDS], place)
    for one in blocked.runs:
        for at in range(len(words) - one.length + 1):
            yield digest_of_run(blocked.salt, words[at : at + one.length])
    if words:
        yield from (digest for digest, _, _ in _rows(blocked.salt, Target(words)))
