"""Index: the paths that git tracks in a checkout, read from its `index` (gitformat-index) without running git."""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from state.stores.disk.worktree import Checkout, content_of

_LONGEST_NAME = 4096
_NO_INDEX = (struct.error, ValueError, IndexError)


@dataclass(frozen=True, slots=True)
class Entry:
    """A path that git tracks, and the digest of its blob. `stage` is above 0 for one side of a conflict."""

    name: bytes
    blob: str
    stage: int


class Index:
    """The index of a checkout, read once. Of what is no index the entries before the fault are known."""

    def __init__(self, checkout: Checkout) -> None:
        settings = content_of(checkout.common / "config")
        self._digest = 32 if re.search(rb"(?i)objectformat\s*=\s*sha256", settings) else 20
        self._content = content_of(checkout.own / "index")
        self._shared = [content_of(file) for file in sorted(checkout.own.glob("sharedindex.*"))]
        self._end = 0

    @property
    def is_whole(self) -> bool:
        """Whether all entries were read, and none are elsewhere."""
        return self._end > 0 and not self._shared

    def entries(self) -> Iterator[Entry]:
        """Yield the entries, those of an index that this one is split from as well."""
        for content in (self._content, *self._shared):
            try:
                yield from self._entries(content)
            except _NO_INDEX:
                continue

    def resolved(self) -> Iterator[bytes]:
        """Yield the paths of which a conflict was resolved lately; `entries` comes first."""
        at = self._end
        try:
            while at:
                signature, size = struct.unpack_from(">4sI", self._content, at)
                if signature == b"REUC":
                    yield from self._names(self._content[at + 8 : at + 8 + size])
                at += 8 + size
        except _NO_INDEX:
            return

    def _entries(self, index: bytes) -> Iterator[Entry]:
        signature, version, entries = struct.unpack_from(">4sII", index)
        if signature != b"DIRC" or version not in (2, 3, 4):
            return
        at, name = 12, b""
        for _ in range(entries):
            flags_at = at + 40 + self._digest
            (flags,) = struct.unpack_from(">H", index, flags_at)
            start = flags_at + (4 if version > 2 and flags & 0x4000 else 2)
            kept, start = _prefix(index, start, len(name)) if version > 3 else (0, start)
            end = index.index(b"\0", start)
            name = name[:kept] + index[start:end]
            if len(name) > _LONGEST_NAME:
                return
            yield Entry(name, index[at + 40 : flags_at].hex(), flags >> 12 & 3)
            at = end + 1 if version > 3 else at + ((end - at) // 8 + 1) * 8
        if index is self._content:
            self._end = at

    def _names(self, undo: bytes) -> Iterator[bytes]:
        """Yield the names in the extension: each with three modes, and a digest for each mode that is not 0."""
        at = 0
        while at < len(undo):
            end = undo.index(b"\0", at)
            yield undo[at:end]
            sides = 0
            for _ in range(3):
                at, end = end + 1, undo.index(b"\0", end + 1)
                sides += undo[at:end] != b"0"
            at = end + 1 + sides * self._digest


def _prefix(index: bytes, at: int, length: int) -> tuple[int, int]:
    """Return how much of the name before is kept in version 4, and where the rest of this one begins."""
    left = index[at] & 0x7F
    while index[at] & 0x80:
        at += 1
        left = ((left + 1) << 7) | (index[at] & 0x7F)
    return max(length - left, 0), at + 1
