"""IndexFolder: the files of a vector index, and the seal that says that they are whole.

`index-XXXXXXXX/` holds ChromaDB's files; each build has a folder of its own, because ChromaDB keeps what it has
opened by its path for the life of the process. `clean.json`, the seal, names those files with sizes and times: it is
removed before they may change, and written when nobody is writing them and they are durable.
"""

import json
import os
import shutil
import stat
import struct
import tempfile
from pathlib import Path

from state.errors import DreamdError
from state.stores.disk.disk import Disk, below, opened
from state.stores.disk.syscalls import storage_errors

_PREFIX = "index-"
# header.bin of hnswlib: version, offset of level 0, room for records, records, bytes of each.
_HEADER = struct.Struct("<iQQQQ")
_GRAPH_VERSION = 1
_LENGTH_BYTES = 4
_BLOCK = 1 << 20


class IndexFolder:
    """Where one workspace's index lives. Created when missing; StorageError when the disk refuses."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._seal = folder / "clean.json"
        self._disk = Disk(folder)
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def build(self) -> Path | None:
        """The folder of the one build; None when there is none, or more than one after a crash."""
        with storage_errors(self.path):
            builds = [entry for entry in self.path.iterdir() if entry.name.startswith(_PREFIX)]
        return builds[0] if len(builds) == 1 else None

    def new_build(self) -> Path:
        """A new, empty folder for a build; whatever was built before is gone."""
        self.unseal()
        with storage_errors(self.path):
            for entry in self.path.iterdir():
                if entry.name.startswith(_PREFIX):
                    _delete(entry)
            return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self.path))

    def sealed(self, build: Path) -> bool:
        """Whether these files are the sealed ones, unchanged since."""
        try:
            seal = json.loads(self._disk.read_bytes(self._seal))
        except (DreamdError, ValueError, RecursionError):
            return False  # never written, or unreadable: the index is built again, which costs time and no more
        with storage_errors(build):
            plain = all(stat.S_ISREG(path.lstat().st_mode) for path in _files(build))
            return plain and bool(seal == {"build": build.name, "files": _state(build)})

    def seal(self, build: Path) -> None:
        """Sync these files, which nobody is writing, and write their seal."""
        with storage_errors(build):
            blank_rest(build)
            for file in [*_files(build), *(path for path in below(build) if path.is_dir()), build]:
                _sync(file)
            content = json.dumps({"build": build.name, "files": _state(build)}, indent=1)
        self._disk.write_atomic(self._seal, content.encode())

    def unseal(self) -> None:
        """Remove the seal: the files may change from now on."""
        if self._seal.exists():
            self._disk.remove(self._seal)


def _files(build: Path) -> list[Path]:
    return sorted(path for path in below(build) if path.is_symlink() or not path.is_dir())


def _state(build: Path) -> dict[str, list[int]]:
    """Of each file its size and two times. The second (ctime) cannot be set back, and no rename or copy keeps it."""
    state = {}
    for path in _files(build):
        status = path.lstat()
        state[str(path.relative_to(build))] = [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    return state


def _delete(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        # ChromaDB makes its files as the umask says.
        os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o700)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
