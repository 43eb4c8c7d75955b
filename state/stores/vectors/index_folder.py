"""Index folder: the folders of ChromaDB's files, one a build, below the folder of a workspace's index.

Each build has a folder of its own, because ChromaDB keeps what it has opened by its path for the life of the process.
"""

import os
import re
import shutil
import stat
import struct
import tempfile
from pathlib import Path

from state.stores.disk.disk import below, opened
from state.stores.disk.syscalls import storage_errors

_PREFIX = "chroma-"
_BUILD = re.compile(rf"{_PREFIX}\w+", re.ASCII)
# header.bin of hnswlib: version, offset of level 0, room for records, records, bytes of each.
_HEADER = struct.Struct("<iQQQQ")
_GRAPH_VERSION = 1
_LENGTH_BYTES = 4
_BLOCK = 1 << 20


def new_build(folder: Path) -> Path:
    """Make an empty folder for a build; whatever was built before is gone. Raises StorageError."""
    drop_builds(folder)
    with storage_errors(folder):
        return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))


def drop_builds(folder: Path, keep: str = "") -> None:
    """Delete every build but this one. Raises StorageError."""
    with storage_errors(folder):
        for entry in folder.iterdir() if folder.is_dir() else ():
            if entry.name.startswith(_PREFIX) and entry.name != keep:
                delete(entry)


def has_build(folder: Path, build: str) -> bool:
    """Return whether a build of this name lies there, of nothing but regular files and folders."""
    path = folder / build
    if not _BUILD.fullmatch(build) or path.is_symlink() or not path.is_dir():
        return False
    with storage_errors(path):
        modes = [entry.lstat().st_mode for entry in below(path)]
    return all(stat.S_ISREG(mode) or stat.S_ISDIR(mode) for mode in modes)


def sync(build: Path) -> None:
    """Make these files, which nobody is writing, durable and private, with nothing in their unused room."""
    with storage_errors(build):
        blank_rest(build)
        for path in (*below(build), build):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                # ChromaDB makes its files as the umask says.
                os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o700)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def delete(path: Path) -> None:
    """Delete a folder with what is in it; of a link or a file, that. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def blank_rest(build: Path) -> int:
    """Overwrite the unused space of every graph below this folder with zeros; how many bytes were none before.

    hnswlib writes memory as it got it from the system into the room for records that are still to come: whatever the
    process had in it, also a text that was forgotten, or a secret that was left out.
    """
    return sum(_blank(header.parent, _read(header)) for header in build.rglob("header.bin"))


def _read(path: Path) -> bytes:
    with opened(path) as file:
        return file.read()


def _blank(folder: Path, header: bytes) -> int:
    if len(header) < _HEADER.size:
        return 0
    version, _, room, records, size = _HEADER.unpack_from(header)
    if version != _GRAPH_VERSION or records > room:  # another library's: its files are not touched
        return 0
    files = (("data_level0.bin", records * size), ("length.bin", records * _LENGTH_BYTES))
    return sum(_zeroed(folder / name, used) for name, used in files)


def _zeroed(path: Path, used: int) -> int:
    if not path.exists():
        return 0
    overwritten = 0
    with path.open("r+b", buffering=0) as file:
        at = file.seek(used)
        end = os.fstat(file.fileno()).st_size
        while at < end:
            block = os.pread(file.fileno(), min(_BLOCK, end - at), at)
            if block.count(0) < len(block):
                overwritten += len(block) - block.count(0)
                os.pwrite(file.fileno(), bytes(len(block)), at)
            at += len(block)
    return overwritten
