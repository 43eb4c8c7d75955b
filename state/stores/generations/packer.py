"""Packer: cuts the files of a snapshot into chunks, and puts those that no pack has yet into new packs."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Self

from state.errors import StorageError
from state.fleet.generation import CHUNK_BYTES, Chunk, Pack, StoredFile
from state.stores.generations.local_copy import Identity
from state.stores.generations.manifests import digest_of, file_digest

PACK_BYTES = 8 * 1024**2
_BLOCK = 64 * CHUNK_BYTES
_UPLOADS = 4
# A file that was changed so shortly before it was read may be changed again without that its time tells.
_TICK_NS = 100_000_000


@dataclass(frozen=True, slots=True)
class Reading:
    """A file as it was read: its identity, in a snapshot that began at `at_ns`, and its chunks' sizes and digests."""

    known: Identity
    at_ns: int
    mtime_ns: int
    chunks: tuple[tuple[int, str], ...]

    def is_of(self, known: Identity) -> bool:
        """Whether the file of this identity still is what was read."""
        # Every time in an identity is followed by an inode.
        return self.known == known and all(moment < self.at_ns - _TICK_NS for moment in known[1::3])


class Packer:
    """Takes the files of one snapshot. Use it as a context manager: what is being uploaded is waited for.

    `has`: the chunks that may be referred to, by digest; `before`: the files as they were read the last time; `write`
    puts the content of a pack and returns its key.
    """

    def __init__(
        self, has: Mapping[str, Chunk], before: Mapping[str, Reading], write: Callable[[bytes], str]
    ) -> None:
        # Before any file is looked at: what changes from here on is read again.
        self._began_ns = time.time_ns()
        self.readings: dict[str, Reading] = {}
        self._has, self._before, self._write = has, before, write
        self._fresh: dict[str, tuple[int, int]] = {}  # which pack it is in, and where
        self._pack = bytearray()
        self._written: list[tuple[Future[str], int]] = []
        self._uploads = ThreadPoolExecutor(_UPLOADS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._uploads.shutdown(cancel_futures=kind is not None)

    def repeats(self, name: str, known: Identity) -> bool:
        """Take the file as it was read the last time, if it is that one and its chunks are in packs."""
        reading = self._before.get(name)
        if reading is None or not reading.is_of(known):
            return False
        if not all(digest in self._has or digest in self._fresh for _, digest in reading.chunks):
            return False
        self.readings[name] = reading
        return True

    def add(self, name: str, source: BinaryIO, size: int, mtime_ns: int, known: Identity | None) -> None:
        """Take so many bytes. Raises StorageError when there are fewer."""
        chunks: list[tuple[int, str]] = []
        left = size
        while left:
            block = source.read(min(left, _BLOCK))
            # A block that is cut off in the middle of a chunk would be cut otherwise the next time.
            while len(block) < min(left, _BLOCK) and (more := source.read(min(left, _BLOCK) - len(block))):
                block += more
            if len(block) < min(left, _BLOCK):
                raise StorageError(f"{name} became shorter while it was read", "put it again")
            left -= len(block)
            view = memoryview(block)
            chunks += [
                self._chunk(bytes(view[start : start + CHUNK_BYTES])) for start in range(0, len(block), CHUNK_BYTES)
            ]
        self.readings[name] = Reading(known or (), self._began_ns, mtime_ns, tuple(chunks))

    def drop(self, name: str) -> None:
        """Take the file out again; its chunks may lie in a pack, and nothing refers to them."""
        self.readings.pop(name, None)

    def finish(self) -> tuple[tuple[StoredFile, ...], tuple[Pack, ...]]:
        """The files by their names, and the new packs, all of which are written."""
        self._flush()
        packs = [Pack(upload.result(), size) for upload, size in self._written]

        def place(size: int, digest: str) -> Chunk:
            if digest in self._fresh:
                number, offset = self._fresh[digest]
                return Chunk(packs[number].key, offset, size, digest)
            return self._has[digest]

        files = []
        for name, reading in sorted(self.readings.items()):
            digest = file_digest(tuple(digest for _, digest in reading.chunks))
            size = sum(size for size, _ in reading.chunks)
            files.append(
                StoredFile(name, size, reading.mtime_ns, digest, tuple(place(*chunk) for chunk in reading.chunks))
            )
        return tuple(files), tuple(packs)

    def _chunk(self, content: bytes) -> tuple[int, str]:
        digest = digest_of(content)
        if digest not in self._has and digest not in self._fresh:
            if len(self._pack) + len(content) > PACK_BYTES:
                self._flush()
            self._fresh[digest] = (len(self._written), len(self._pack))
            self._pack += content
        return len(content), digest

    def _flush(self) -> None:
        if self._pack:
            content = bytes(self._pack)
            self._pack = bytearray()
            # Of a large workspace not all waits in memory: the one before the last four has to be done.
            if len(self._written) >= _UPLOADS:
                self._written[-_UPLOADS][0].result()
            self._written.append((self._uploads.submit(self._write, content), len(content)))
