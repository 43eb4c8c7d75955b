"""Byte search: looks for what was forgotten in the bytes of every file, in every form in which it may be kept.

It finds each run of words (`state.forgetting.matching.runs`), in any ASCII case, in UTF-8, as JSON escapes it,
and in UTF-16, whatever stands between its words. In SQLite's files nothing says where a value ends, so there a run
counts wherever it stands, also as a part of longer words, and is compared with what the tables are known to hold:
what is more than that is left over in some page.
"""

import json
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from state.forgetting.matching import Target, parts, runs, spans
from state.forgetting.placed_words import placed_words
from state.stores.disk.disk import opened

_ELSEWHERE = " … x x … "
_BLOCK = 8 * 1024 * 1024
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([nrtbf])|([\"\\/]))")
_MOST_IDS = 500
# So many words are looked for one by one; more are looked up, word by word of the text.
_MANY = 48
_TOKEN = re.compile(rb"[0-9a-z]+")


@dataclass(frozen=True, slots=True)
class Residue:
    """An occurrence that is left: where, how often, and why. `owners`: it is in a file of the owner's."""

    place: str
    count: int
    why: str
    owners: bool = False


@dataclass(frozen=True, slots=True)
class _Form:
    """A word as bytes of one encoding, in lower ASCII case."""

    encoding: str
    literal: bytes


class Patterns:
    """The patterns of a byte search. `surfaces` are texts with the targets: they show how words are spelt."""

    def __init__(self, targets: Iterable[Target], surfaces: Iterable[str] = (), ids: Iterable[str] = ()) -> None:
        self.targets = tuple(targets)
        # Loosely, the content of a page may be the beginning or the end of a value: any part counts.
        wanted = {run for target in self.targets for run in parts(target) or runs(target)}
        self._single = {run[0] for run in wanted if len(run) == 1}
        self._ends: dict[tuple[str, ...], set[tuple[str, str]]] = {}
        for run in wanted:
            if len(run) > 1:
                self._ends.setdefault(run[1:-1], set()).add((run[0], run[-1]))
        self._middles = sorted({len(middle) for middle in self._ends})
        self._ids = tuple(one.encode() for one in list(ids)[:_MOST_IDS])
        spelt: dict[str, set[str]] = {}
        for text in surfaces:
            for word, start, end in placed_words(text):
                spelt.setdefault(word, set()).add(text[start:end])
        # A word in the middle of a run is a word by itself, whatever the run's ends are joined to.
        telling = {max(run[1:-1] or run, key=lambda word: (word.isascii(), len(word))) for run in wanted}
        many = len(telling) > _MANY
        self._tokens = frozenset(word.encode() for word in telling if many and word.isascii())
        rare = [word for word in telling if not (many and word.isascii())]
        self._forms = tuple({form for word in rare for form in _forms(word, spelt.get(word, set()))})
        longest = max((sum(map(len, run)) + len(run) for target in self.targets for run in runs(target)), default=0)
        self._reach = 256 + 6 * longest

    def count(self, content: bytes, *, loose: bool = False, most: int | None = None) -> int:
        """How often the targets occur in these bytes, counting to `most`. `loose`: also as a part of longer words."""
        found = 0
        for at, encoding in self._places(content):
            found += not encoding or self._occurs(content, at, encoding, loose=loose)
            if most is not None and found >= most:
                break
        return found

    def count_file(self, path: Path, *, loose: bool = False, most: int | None = None) -> tuple[int, int]:
        """How often the targets occur in this file, read piece by piece; and how many bytes were read."""
        found = size = 0
        with opened(path) as file:
            kept = b""
            while (most is None or found < most) and (block := file.read(_BLOCK)):
                size += len(block)
                content = kept + block
                twice = self.count(kept, loose=loose, most=most) if kept else 0
                found += max(0, self.count(content, loose=loose, most=most) - twice)
                kept = content[-2 * self._reach :]
        return found, size

    def _places(self, content: bytes) -> Iterator[tuple[int, str]]:
        """The places of candidates with their encoding; without an encoding, of certain occurrences."""
        lowered = content.lower()
        for one in self._ids:
            yield from ((at, "") for at in _all(lowered, one))
        for form in self._forms:
            yield from ((at, form.encoding) for at in _all(lowered, form.literal))
        if not self._tokens:
            return
        # Of UTF-16 every other byte is the letter.
        for first, step, encoding in ((0, 1, "utf-8"), (0, 2, "utf-16-le"), (1, 2, "utf-16-be")):
            letters = lowered[first::step]
            for token in _TOKEN.finditer(letters):
                word, escaped = token.group(), letters[token.start() - 1 : token.start()] == b"\\"
                if word in self._tokens or (escaped and word[1:] in self._tokens):
                    yield (token.start() * step, encoding)

    def _occurs(self, content: bytes, at: int, encoding: str, *, loose: bool) -> bool:
        start, end = max(0, at - self._reach), at + self._reach
        if encoding != "utf-8":
            start += (at - start) % 2
        text = content[start:end].decode(encoding, "replace")
        if not loose:  # where the piece ends, no text does
            text = f"{_ELSEWHERE * (start > 0)}{text}{_ELSEWHERE * (end < len(content))}"
        texts = (text, _ESCAPE.sub(_unescaped, text)) if "\\" in text else (text,)
        return any(self._within(one) if loose else bool(spans(one, self.targets)) for one in texts)

    def _within(self, text: str) -> bool:
        words = [word for word, _, _ in placed_words(text)]
        if any(single in word for word in words for single in self._single):
            return True
        for middle in self._middles:
            for at in range(len(words) - middle - 1):
                ends = self._ends.get(tuple(words[at + 1 : at + 1 + middle]), ())
                if any(words[at].endswith(one) and words[at + middle + 1].startswith(other) for one, other in ends):
                    return True
        return False


def _all(content: bytes, literal: bytes) -> Iterator[int]:
    at = content.find(literal)
    while at >= 0:
        yield at
        at = content.find(literal, at + 1)


def live_count(connection: sqlite3.Connection, patterns: Patterns) -> int:
    """How often the patterns occur, loosely, in the current values, indexes and names of all tables."""
    found = sum(
        patterns.count(row["sql"].encode(), loose=True)
        for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    )
    listed = "SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'shadow')"
    for table in connection.execute(listed).fetchall():
        columns: dict[str, int] = {}
        for row in connection.execute(f'SELECT * FROM "{table["name"]}"'):
            for column in row.keys():  # noqa: SIM118 - a Row is no mapping
                value = row[column]
                if isinstance(value, str | bytes):
                    piece = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
                    columns[column] = columns.get(column, 0) + patterns.count(piece, loose=True)
        found += sum(columns.values())
        for index in connection.execute("SELECT name, origin FROM pragma_index_list(?)", (table["name"],)).fetchall():
            if not (table["wr"] and index["origin"] == "pk"):
                rows = connection.execute("SELECT name FROM pragma_index_xinfo(?)", (index["name"],)).fetchall()
                found += sum(columns.get(row["name"], 0) for row in rows)
    return found


def _forms(word: str, spelt: Iterable[str]) -> Iterator[_Form]:
    for one in {word, word.upper(), word.title(), *spelt}:
        for normal in {one, unicodedata.normalize("NFC", one), unicodedata.normalize("NFD", one)}:
            escaped = json.dumps(normal)[1:-1]
            yield _Form("utf-8", normal.encode("utf-8", "surrogatepass").lower())
            yield _Form("utf-8", escaped.encode().lower())
            for encoding in ("utf-16-le", "utf-16-be"):
                yield _Form(encoding, normal.encode(encoding, "surrogatepass").lower())


def _unescaped(match: re.Match[str]) -> str:
    code, control, sign = match.groups()
    return chr(int(code, 16)) if code else {"n": "\n", "r": "\r"}.get(control, " ") if control else sign
