"""Packed files: reads files compressed with Zstandard (.zst) like plain ones, in bounded memory.

Codex compresses its old sessions. A file may hold a thousand times its size, so it is unpacked in small steps, and
at most UNPACKED_BYTES of it.
"""

import errno
from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from state.stores.disk.disk import opened

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SUFFIX = ".zst"
UNPACKED_BYTES = 1024**3
# A block of 4 bytes may stand for 128 KiB: this much makes at most 8 MiB.
_STEP = 256
_WINDOW_BYTES = 128 * 1024**2


class UnpackingError(OSError):
    """The file is damaged or cut off, or it holds too much."""


def opened_unpacked(path: Path) -> BufferedReader:
    """Open a regular file as `opened` does; a packed one gives its content, and raises UnpackingError if damaged."""
    file = opened(path)
    return BufferedReader(_Unpacked(file)) if path.suffix == SUFFIX else file


class _Unpacked(RawIOBase):
    """The content of a packed file. A step back begins again at the start."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._rewind()

    def _rewind(self) -> None:
        self._file.seek(0)
        self._blocks, self._block, self._at = _blocks(self._file), b"", 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read the next bytes. Raise UnpackingError."""
        while not self._block and (block := next(self._blocks, b"")):
            self._block = block
        view = memoryview(buffer)
        size = min(len(view), len(self._block))
        view[:size] = self._block[:size]
        self._block, self._at = self._block[size:], self._at + size
        return size

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to an offset from the start, from here, or to the end; no further than the end. Raise UnpackingError."""
        target = offset + (self._at if whence == 1 else 0) if whence < 2 else UNPACKED_BYTES
        if target < self._at:
            self._rewind()
        skipped = bytearray(1024**2)
        while self._at < target and self.readinto(memoryview(skipped)[: target - self._at]):
            pass
        return self._at

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        """Close the packed file, too."""
        self._file.close()
        super().close()


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of all frames."""
    from zstandard import ZstdDecompressor, ZstdError

    frames = ZstdDecompressor(max_window_size=_WINDOW_BYTES)
    frame, is_open, size = frames.decompressobj(), False, 0
    try:
        while step := file.read(_STEP):
            while step:
                block = frame.decompress(step)
                size += len(block)
                if size > UNPACKED_BYTES:
                    raise UnpackingError(errno.EFBIG, f"it holds more than {UNPACKED_BYTES // 2**20} MiB")
                if block:
                    yield block
                is_open, step = not frame.eof, frame.unused_data
                if frame.eof:
                    frame = frames.decompressobj()
    except ZstdError as error:
        raise UnpackingError(errno.EBADMSG, "it is damaged, or no zstd file") from error
    if is_open:
        raise UnpackingError(errno.EBADMSG, "it is cut off")
