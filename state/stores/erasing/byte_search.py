"""Byte search: looks for forgotten texts in the bytes of every file, as they are written.

A long text is searched in slices of a few words, because SQLite spreads it over pages. In a file of SQLite nothing
marks where a value ends: if it has more occurrences than a copy of its rows, the rest is left over in some page.
"""

import json
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from state.forgetting.folded import fold
from state.forgetting.known import Target
from state.stores.disk.packed_files import opened_unpacked

_BLOCK = 8 << 20
_SLICE = 8  # words
_MOST_SLICES = 64


@dataclass(frozen=True, slots=True)
class Residue:
    """Occurrences left after a forgetting: where, how many, and why. `owners`: in a file that is not dreamd's."""

    place: str
    count: int
    why: str
    owners: bool = False


class Needles:
    """What is searched for: the targets, and `surfaces`, the same texts as somebody wrote them."""

    def __init__(self, targets: Iterable[Target], surfaces: Iterable[str] = ()) -> None:
        texts = {*(" ".join(target.words) for target in targets), *surfaces}
        self._needles = {form.lower() for text in texts for piece in _slices(text) for form in _forms(piece)}
        self._reach = max(map(len, self._needles), default=1) - 1

    def count(self, content: bytes) -> int:
        """Count the needles in these bytes."""
        content = content.lower()
        return sum(map(content.count, self._needles))

    def count_file(self, path: Path) -> tuple[int, int]:
        """Count the needles in this file, reading it block by block; also return how many bytes were read."""
        found = size = 0
        with opened_unpacked(path) as file:
            before = b""
            while block := file.read(_BLOCK):
                size += len(block)
                found += self.count(before + block) - self.count(before)
                before = (before + block)[-self._reach :] if self._reach else b""
        return found, size


def _slices(text: str) -> Iterator[str]:
    """Yield slices of the text, as it is written; of a very long one, not all."""
    spans = fold(text).spans
    for at in list(range(0, len(spans), _SLICE))[:: 1 + len(spans) // (_SLICE * _MOST_SLICES)]:
        yield text[spans[at][0] : spans[min(at + _SLICE, len(spans)) - 1][1]]


def _forms(text: str) -> Iterator[bytes]:
    """Yield the text in every encoding, normalisation form and case; of ASCII the case does not matter."""
    for normal in {text, *(unicodedata.normalize(form, text) for form in ("NFC", "NFD"))}:
        for one in {normal, normal.lower(), normal.upper(), normal.title()}:
            for written in {one, json.dumps(one)[1:-1], json.dumps(one, ensure_ascii=False)[1:-1]}:
                for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
                    yield written.encode(encoding, "surrogatepass")
