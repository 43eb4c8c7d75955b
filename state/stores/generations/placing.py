"""Placing: makes a folder be a generation: all that was there goes, but for locks and vectors."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from state.fleet.generation import Manifest, StoredFile
from state.stores.disk.disk import below, opened
from state.stores.disk.syscalls import storage_errors
from state.stores.generations.belonging import FOLDERS, KEPT
from state.stores.generations.blocks import Batch, Reading, digest_of, read
from state.stores.generations.manifests import damaged
from state.stores.generations.snapshot import identity

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def place(folder: Path, manifest: Manifest, batches: Iterable[Batch]) -> dict[str, Reading]:
    """Make the folder (made if missing) be this generation; nobody has it open meanwhile.

    Links in it go, and are never followed. Whatever cuts it off, the next call begins anew. Return the files as they
    are now. Raise StorageError if one is not what was put.
    """
    began_ns = time.time_ns()
    clear(folder)
    root = Path(os.path.realpath(folder))
    with storage_errors(root):
        names = {file.name for file in manifest.files}
        above = {str(parent) for name in (*FOLDERS, *names) for parent in PurePosixPath(name).parents}
        for name in sorted((above | {*FOLDERS}) - {"."}):
            (root / name).mkdir(mode=0o700, exist_ok=True)
        for batch in batches:
            _write(root, batch, names)
        return {file.name: _finished(root, file, began_ns, manifest.key) for file in manifest.files}


def clear(folder: Path) -> None:
    """Leave nothing of a workspace in its folder, which is made if missing, but locks and vectors."""
    with storage_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        root = Path(os.path.realpath(folder))
        for path in reversed([*below(root)]):
            if path.is_dir() and not path.is_symlink():
                with suppress(OSError):  # it is not empty: something in it stays
                    path.rmdir()
            elif path.is_symlink() or str(path.relative_to(root)) not in KEPT:
                path.unlink()


def _write(root: Path, batch: Batch, names: set[str]) -> None:
    """Write the blocks of files that the generation has."""
    at, content = 0, memoryview(batch.content)
    for extent in batch.extents:
        sizes = [*extent.sizes()]
        if extent.name in names:
            with os.fdopen(os.open(root / extent.name, _WRITE, 0o600), "wb") as file:
                for offset, size in sizes:
                    file.seek(offset)
                    file.write(content[at : at + size])
                    at += size
        else:
            at += sum(size for _, size in sizes)


def _finished(root: Path, file: StoredFile, began_ns: int, key: str) -> Reading:
    path = root / file.name
    fd = os.open(path, _WRITE, 0o600)
    try:
        os.truncate(fd, file.size)
        os.utime(fd, ns=(file.mtime_ns, file.mtime_ns))
    finally:
        os.close(fd)
    with opened(path) as source:
        digests = b"".join(map(digest_of, read(file.name, source, file.size)))
    if digest_of(digests).hex() != file.digest:
        raise damaged(key, f"{file.name} does not come out as it was put")
    return Reading(identity(root, file.name) or (), began_ns, file, digests)
