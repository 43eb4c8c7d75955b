"""Git index: which files of a checkout git tracks, read without running git.

Anybody may have written a folder's `.git`, so reading is bounded, and an index that cannot be read tracks everything.
"""

import os
import re
import struct
from collections.abc import Iterator
from enum import Enum, auto
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from state.stores.disk.worktree import Checkout, checkout_of, content_of

if TYPE_CHECKING:
    from state.stores.disk.stamp import Stamp

_LONGEST_NAME = 4096
_WHOLE_NAMES = (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3")
_NO_INDEX = (struct.error, ValueError, IndexError)


class Tracking(Enum):
    """Whether git tracks a file. UNKNOWN: git is changing files, and says in a moment which of them it tracks."""

    NO = auto()
    YES = auto()
    UNKNOWN = auto()


def tracking(*paths: Path) -> Tracking:
    """Return whether git tracks any of the files at these paths, or a file that one of them leads to."""
    found = {_tracking_of(one) for path in paths for one in {path, Path(os.path.realpath(path))}}
    return next((one for one in (Tracking.UNKNOWN, Tracking.YES) if one in found), Tracking.NO)


def _tracking_of(path: Path) -> Tracking:
    checkout = checkout_of(path.parent)
    if checkout is None:
        return Tracking.NO
    if os.path.lexists(checkout.own / "index.lock"):  # files come before the index that lists them
        return Tracking.UNKNOWN
    if not os.path.lexists(checkout.own / "index"):
        return Tracking.NO
    from state.stores.disk.stamp import Stamp  # late: a session start outside of git does without

    within, name = os.path.split(os.fsencode(path.relative_to(checkout.top)))
    names = _names_in(checkout, within, Stamp.of(str(checkout.own / "index")))
    return Tracking.YES if names is None or name in names else Tracking.NO


@lru_cache(maxsize=16)
def _names_in(checkout: Checkout, within: bytes, _: "Stamp | None") -> frozenset[bytes] | None:
    """Return the names of tracked files in a folder; None if the index cannot be read. Read once per index."""
    index = Index(checkout)
    if within and not index.may_hold(within + b"/"):
        return frozenset()
    split = (os.path.split(entry.name) for entry in index.entries())
    names = frozenset(name for folder, name in split if folder == within)
    return names if index.is_sound else None


class Entry(NamedTuple):
    """A tracked path with the digest of its blob. `stage` is above 0 for one side of a conflict."""

    name: bytes
    blob: str
    stage: int


class Index:
    """The paths that git tracks in a checkout (gitformat-index), read once.

    A malformed index yields the entries before the fault.
    """

    def __init__(self, checkout: Checkout) -> None:
        settings = content_of(checkout.common / "config")
        self._digest = 32 if re.search(rb"(?i)objectformat\s*=\s*sha256", settings) else 20
        self._content = content_of(checkout.own / "index")
        self._shared = [content_of(file) for file in sorted(checkout.own.glob("sharedindex.*"))]
        self._end = 0

    @property
    def is_whole(self) -> bool:
        """Return whether all entries were read and no part of the index is in another file."""
        return self.is_sound and not self._shared

    def may_hold(self, words: bytes) -> bool:
        """Return whether these bytes may be in a name: quick, where the index is one file that has whole names."""
        is_plain = self._content[:8] in _WHOLE_NAMES and not self._shared
        return not is_plain or words in self._content

    @property
    def is_sound(self) -> bool:
        """Return whether the entries of this file were read to their end."""
        return self._end > 0

    def entries(self) -> Iterator[Entry]:
        """Yield the entries, including those of the shared index of a split one."""
        for content in (self._content, *self._shared):
            try:
                yield from self._entries(content)
            except _NO_INDEX:
                continue

    def resolved(self) -> Iterator[bytes]:
        """Yield the paths whose conflicts were resolved recently; call `entries` first."""
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
        """Yield the names in the extension; each is followed by three modes, and a digest for each nonzero mode."""
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
    """Return how much of the previous name version 4 keeps, and where the rest of this name begins."""
    left = index[at] & 0x7F
    while index[at] & 0x80:
        at += 1
        left = ((left + 1) << 7) | (index[at] & 0x7F)
    return max(length - left, 0), at + 1
