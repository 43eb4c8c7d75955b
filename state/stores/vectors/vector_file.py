"""VectorFile: the vectors of one workspace's crystals in one flat file, which a search compares all at once.

A copy of what state.db holds, and its rows are numbered as there: the vector of the crystal in row `key` stands at
that number; a row of zeros is none. The file is written in place and never made shorter. What in it may differ from
state.db stands in a queue there (`to_file`), so that whoever reads both is told which rows to pass over.
"""

import mmap
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import storage_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME = "vectors.f32"
# What it is, the width of a vector, the generation (which state.db knows too), how many batches were written, and how
# long the file is at least.
_HEADER = struct.Struct("<16sI32sQQ")
_MAGIC = b"dreamd vectors 1"
_BEGINNING = 4_096  # bytes before the first row: rows begin where a page does
_NUMBER_BYTES = 4
_ROOM = 4_096  # it grows by so many rows at once, so that it is seldom mapped again
_WIDEST = 1 << 16
# A file of holes is no use: so many rows for each vector at most, and some.
_SPREAD, _SPARE = 8, 100_000


class VectorFile:
    """The file at this path, opened when it is asked for. Several threads and processes may read it.

    Its one writer holds the write lock of state.db. Methods raise StorageError when the disk refuses.
    """

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        self.path = path
        self._disk = disk or Disk(path.parent)
        self._lock = Lock()
        self._generation = ""
        self._descriptor = -1
        self._width = 0
        self._rows: NDArray[np.float32] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is open here."""
        return self._descriptor >= 0

    def rows(self, generation: str, batches: int) -> "NDArray[np.float32] | None":
        """All rows as they are now, (n, width); None unless the file is of this generation.

        `batches` is how many state.db knows to be written. A file that has fewer, or more than the one that is being
        written, is of another time than state.db, because one of both was copied back; it is none.
        """
        with self._lock:
            try:
                if self._generation != generation:
                    self._close()
                    if not self._opened(generation, batches):
                        return None
                return self._mapped()
            except (OSError, ValueError):  # it is cut, or there is no memory for it
                self._close()
                return None

    def create(self, generation: str, width: int) -> None:
        """An empty file of this generation in place of any other."""
        header = _HEADER.pack(_MAGIC, width, generation.encode(), 0, _BEGINNING).ljust(_BEGINNING, b"\0")
        with self._lock, storage_errors(self.path):
            self._close()
            if self.path.is_symlink():  # it would be followed
                self._disk.system.unlink(self.path)
            self._disk.write_atomic(self.path, header)

    def write(self, rows: Mapping[int, bytes | None], batches: int) -> bool:
        """These rows hold these vectors, or none, and so many batches were written; durable when it returns.

        A vector of another width is none. False when the file is not open, or gone: nothing is written then.
        """
        with self._lock, storage_errors(self.path):
            size = self._width * _NUMBER_BYTES
            status = self._status()
            if status is None:
                return False
            descriptor = self._disk.system.open(self.path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                end = _BEGINNING + (max(rows, default=-1) + 1) * size
                if rows and status.st_size < end:
                    end += _ROOM * size
                    self._put(descriptor, bytes(size), end - size)
                for first, content in _runs(rows, size):
                    self._put(descriptor, content, _BEGINNING + first * size)
                header = _HEADER.pack(
                    _MAGIC, self._width, self._generation.encode(), batches, max(end, status.st_size)
                )
                self._put(descriptor, header, 0)
                self._disk.system.fsync(descriptor)
            finally:
                os.close(descriptor)
            return True

    def _put(self, descriptor: int, content: bytes, at: int) -> None:
        written = 0
        while written < len(content):
            written += self._disk.system.pwrite(descriptor, content[written:], at + written)

    def close(self) -> None:
        """Release the file; it is opened again by whoever asks next."""
        with self._lock:
            self._close()

    def close_lost(self) -> None:
        """Release the file if it lies at its path no longer, so that another one is begun."""
        with self._lock, storage_errors(self.path):
            if self._status() is None:
                self._close()

    def _status(self) -> os.stat_result | None:
        """Of the file that is open; None when there is none at its path, or another one."""
        if self._descriptor < 0 or not os.path.lexists(self.path):
            return None
        status = self.path.lstat()
        return status if os.path.samestat(status, os.fstat(self._descriptor)) else None

    def _close(self) -> None:
        # Whoever still compares its rows holds what is mapped.
        self._rows, self._generation = None, ""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _opened(self, generation: str, batches: int) -> bool:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        with suppress(OSError):
            content = os.pread(descriptor, _HEADER.size, 0)
            if len(content) == _HEADER.size and stat.S_ISREG(os.fstat(descriptor).st_mode):
                magic, width, name, written, _ = _HEADER.unpack(content)
                if (
                    (magic, name) == (_MAGIC, generation.encode())
                    and 0 < width <= _WIDEST
                    and written in (batches, batches + 1)
                ):
                    self._descriptor, self._width, self._generation = descriptor, width, generation
                    return True
        os.close(descriptor)
        return False

    def _mapped(self) -> "NDArray[np.float32]":
        import numpy as np

        size, length = self._width * _NUMBER_BYTES, os.fstat(self._descriptor).st_size
        *_, least = _HEADER.unpack(os.pread(self._descriptor, _HEADER.size, 0).ljust(_HEADER.size, b"\0"))
        if length < max(least, _BEGINNING):
            raise ValueError(f"{self.path} is shorter than it was")
        count = (length - _BEGINNING) // size
        if self._rows is None or len(self._rows) != count:
            if not count:
                return np.empty((0, self._width), dtype="<f4")
            mapped = mmap.mmap(self._descriptor, _BEGINNING + count * size, prot=mmap.PROT_READ)
            self._rows = np.frombuffer(mapped, dtype="<f4", offset=_BEGINNING).reshape(count, self._width)
        return self._rows


def fits(newest: int, count: int) -> bool:
    """Whether rows up to this number are worth a file for so many vectors."""
    return newest <= _SPREAD * count + _SPARE


def _runs(rows: Mapping[int, bytes | None], size: int) -> Iterator[tuple[int, bytes]]:
    """Rows that follow each other, as one piece: the number of the first, and the bytes of all."""
    first, content = 0, bytearray()
    for key in sorted(rows):
        if content and key != first + len(content) // size:
            yield first, bytes(content)
            content.clear()
        if not content:
            first = key
        vector = rows[key]
        content += vector if vector is not None and len(vector) == size else bytes(size)
    if content:
        yield first, bytes(content)
