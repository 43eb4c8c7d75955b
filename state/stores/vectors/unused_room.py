"""What ChromaDB writes that nobody has put there: the room for records that are still to come.

Its graph library (hnswlib) writes memory as it got it from the system into that room: whatever the process had in it
before, also a text that was forgotten, or a secret that was left out. So it is overwritten with zeros.
"""

import os
import struct
from pathlib import Path

from state.stores.disk.disk import opened

# header.bin of hnswlib: version, offset of level 0, room for records, records, bytes of each.
_HEADER = struct.Struct("<iQQQQ")
_VERSION = 1
_LENGTH_BYTES = 4
_BLOCK = 1 << 20


def blank_rest(build: Path) -> int:
    """Overwrite the unused room of every graph below this folder; how many bytes said something."""
    return sum(_blank(header.parent, _read(header)) for header in build.rglob("header.bin"))


def _read(path: Path) -> bytes:
    with opened(path) as file:
        return file.read()


def _blank(folder: Path, header: bytes) -> int:
    if len(header) < _HEADER.size:
        return 0
    version, _, room, records, size = _HEADER.unpack_from(header)
    if version != _VERSION or records > room:  # another library's: its files are not touched
        return 0
    files = (("data_level0.bin", records * size), ("length.bin", records * _LENGTH_BYTES))
    return sum(_zeroed(folder / name, used) for name, used in files)


def _zeroed(path: Path, used: int) -> int:
    if not path.exists():
        return 0
    said = 0
    with path.open("r+b", buffering=0) as file:
        at = file.seek(used)
        end = os.fstat(file.fileno()).st_size
        while at < end:
            block = os.pread(file.fileno(), min(_BLOCK, end - at), at)
            if block.count(0) < len(block):
                said += len(block) - block.count(0)
                os.pwrite(file.fileno(), bytes(len(block)), at)
            at += len(block)
    return said
