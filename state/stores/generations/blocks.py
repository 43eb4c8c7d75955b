"""Blocks: the files of a snapshot, and which of their blocks differ from the generation before.

A block has 4 KiB, the unit in which SQLite changes a database: of a dream, or of one note, few are new.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import BinaryIO

from state.errors import StorageError
from state.fleet.generation import StoredFile
from state.stores.generations.snapshot import Identity

BLOCK_BYTES = 4 * 1024
PART_BYTES = 8 * 1024**2
DIGEST_BYTES = 16
_READ_BYTES = 256 * BLOCK_BYTES
# A file that was changed so shortly before it was read may be changed again without that its time tells.
_TICK_NS = 100_000_000


@dataclass(frozen=True, slots=True)
class Reading:
    """A file as it was read, in a snapshot that began at `at_ns`, with the digest of each of its blocks."""

    known: Identity
    at_ns: int
    file: StoredFile
    digests: bytes

    def is_of(self, known: Identity) -> bool:
        """Return whether the file of this identity is still what was read."""
        # Every time in an identity is followed by an inode.
        return self.known == known and all(moment < self.at_ns - _TICK_NS for moment in known[1::3])


@dataclass(slots=True)
class Extent:
    """Blocks of one file, which had this size: (first, count) of each run."""

    name: str
    size: int
    runs: list[tuple[int, int]]

    def sizes(self) -> Iterator[tuple[int, int]]:
        """Yield (offset, bytes) of each run."""
        for first, count in self.runs:
            start = first * BLOCK_BYTES
            yield start, min(self.size, start + count * BLOCK_BYTES) - start


@dataclass(slots=True)
class Batch:
    """Blocks that are written together: which, and their bytes in the same order."""

    extents: list[Extent] = field(default_factory=list)
    content: bytearray = field(default_factory=bytearray)

    def add(self, name: str, size: int, number: int, block: bytes) -> None:
        """Add one block."""
        last = self.extents[-1] if self.extents else None
        if last is None or (last.name, last.size) != (name, size) or number < sum(last.runs[-1]):
            last = Extent(name, size, [(number, 0)])
            self.extents.append(last)
        first, count = last.runs[-1]
        if first + count == number:
            last.runs[-1] = (first, count + 1)
        else:
            last.runs.append((number, 1))
        self.content += block


class Blocks:
    """The sink of a snapshot. `before`: the files as they are in the generation before, none for a whole one."""

    def __init__(self, before: Mapping[str, Reading]) -> None:
        # Before any file is looked at: what changes from here on is read again.
        self._began_ns = time.time_ns()
        self._before = {**before}
        self.readings: dict[str, Reading] = {}
        self.batches = [Batch()]

    def repeats(self, name: str, known: Identity) -> bool:
        """Take the file as it was read the last time, if it is that one."""
        reading = self._before.get(name)
        if reading is None or not reading.is_of(known):
            return False
        self.readings[name] = reading
        return True

    def add(self, name: str, source: BinaryIO, size: int, mtime_ns: int, known: Identity | None) -> None:
        """Take so many bytes. Raise StorageError if there are fewer."""
        before = self._before[name].digests if name in self._before else b""
        digests = bytearray()
        for number, block in enumerate(read(name, source, size)):
            digest, at = digest_of(block), number * DIGEST_BYTES
            if before[at : at + DIGEST_BYTES] != digest:
                if len(self.batches[-1].content) >= PART_BYTES:
                    self.batches.append(Batch())
                self.batches[-1].add(name, size, number, block)
            digests += digest
        file = StoredFile(name, size, mtime_ns, digest_of(digests).hex())
        self.readings[name] = Reading(known or (), self._began_ns, file, bytes(digests))

    def drop(self, name: str) -> None:
        """Forget what was taken under this name; all of its blocks are taken with the next reading."""
        self.readings.pop(name, None)
        self._before.pop(name, None)


def read(name: str, source: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the blocks of so many bytes. Raise StorageError if there are fewer."""
    left = size
    while left:
        content = source.read(min(left, _READ_BYTES))
        if len(content) < min(left, _READ_BYTES):
            raise StorageError(f"{name} became shorter while it was read", "put it again")
        left -= len(content)
        for start in range(0, len(content), BLOCK_BYTES):
            yield content[start : start + BLOCK_BYTES]


def digest_of(content: bytes | bytearray) -> bytes:
    """Return the digest of a block, or of the digests of a file's blocks."""
    return blake2b(content, digest_size=DIGEST_BYTES).digest()
