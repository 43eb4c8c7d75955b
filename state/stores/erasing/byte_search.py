"""Byte search: looks for forgotten texts in the bytes of every file, in whatever form they may be there.

A file is read as text, in UTF-8 and UTF-16 and with escapes decoded, and searched like any text. In SQLite's files
nothing marks where a value ends, so the words are searched as bytes, whatever is between them, and even inside longer
words. If such a file has more occurrences than a copy of its rows, the rest is left over in some page.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from state.forgetting.known import RUN_WORDS, Target, known_of
from state.stores.disk.packed_files import opened_unpacked

_BLOCK, _REACH = 8 << 20, 1 << 16
_MANY = 48  # up to this many needles are searched one by one
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([nrtbf\"\\/]))")
_GAPS = re.compile(rb"[\x00-/:-@\[-`{-\x7f]+")


@dataclass(frozen=True, slots=True)
class Residue:
    """Occurrences left after a forgetting: where, how many, and why. `owners`: in a file that is not dreamd's."""

    place: str
    count: int
    why: str
    owners: bool = False


class Patterns:
    """What is searched for. `surfaces` are texts that contain the targets, and so show how words are spelt."""

    def __init__(self, targets: Iterable[Target], surfaces: Iterable[str] = ()) -> None:
        self.targets = tuple(targets)
        self._known = known_of(self.targets)
        spelt = [[word.encode() for word in target.words] for target in self.targets]
        for text in surfaces:
            if self._known.found(text):
                spelt += [_GAPS.split(one) for one in _spellings(text)]
        windows = {
            tuple(words[at : at + RUN_WORDS])
            for words in (list(filter(None, one)) for one in spelt)
            for at in range(max(1, len(words) - RUN_WORDS + 1))
            if words
        }
        self._needles = tuple(b" ".join(window) for window in windows)
        # Only whole words in the middle are compared: the first and the last may be part of a longer word.
        self._middles = {window[1:-1] for window in windows} if len(windows) > _MANY else set()

    def count(self, content: bytes, *, loose: bool = False, most: int | None = None) -> int:
        """Count the targets in these bytes, up to `most`; `loose` compares bytes only, for SQLite's files."""
        if loose:
            # In UTF-16 every other byte is an ASCII letter.
            found = sum(map(self._count_bytes, (content, content[::2], content[1::2])))
        else:
            found = sum(len(self._known.found(text)) for text in _texts(content))
        return found if most is None else min(found, most)

    def count_file(self, path: Path, *, loose: bool = False, most: int | None = None) -> tuple[int, int]:
        """Count the targets in this file, reading it block by block; also return how many bytes were read."""
        found = size = 0
        with opened_unpacked(path) as file:
            kept = b""
            while (most is None or found < most) and (block := file.read(_BLOCK)):
                size += len(block)
                twice = self.count(kept, loose=loose) if kept else 0
                found += max(0, self.count(kept + block, loose=loose) - twice)
                kept = (kept + block)[-_REACH:]
        return (found if most is None else min(found, most)), size

    def _count_bytes(self, content: bytes) -> int:
        if b"\\" in content:
            content = _ESCAPE.sub(_unescaped, content.decode("latin-1")).encode("utf-8", "surrogatepass")
        spaced = _GAPS.sub(b" ", content.lower())
        if not self._middles:
            return sum(map(spaced.count, self._needles))
        words, size = spaced.split(b" "), RUN_WORDS - 2
        return sum(tuple(words[at : at + size]) in self._middles for at in range(len(words) - size + 1))


def _texts(content: bytes) -> Iterator[str]:
    """Yield these bytes decoded as text, plain and with JSON's escapes decoded."""
    encodings = ("utf-16-le", "utf-16-be") if b"\0" in content else ()
    for text in (content.decode("utf-8", "replace"), *(content.decode(one, "replace") for one in encodings)):
        yield text
        if "\\" in text and (read := _ESCAPE.sub(_unescaped, text)) != text:
            yield read


def _spellings(text: str) -> Iterator[bytes]:
    """Yield the text as bytes, in every case and normalisation form."""
    for normal in {unicodedata.normalize(form, text) for form in ("NFC", "NFD")} | {text}:
        for one in {normal, normal.lower(), normal.upper(), normal.title()}:
            yield one.encode("utf-8", "surrogatepass").lower()


def _unescaped(match: re.Match[str]) -> str:
    code, control = match.groups()
    return chr(int(code, 16)) if code else control if control in '"\\/' else " "
