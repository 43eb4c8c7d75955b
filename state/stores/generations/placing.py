"""Placing: makes a folder be a generation: what is right there stays, the rest is fetched, all else goes."""

import os
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from state.errors import NotFoundError, StorageError
from state.fleet.generation import Chunk, Manifest, StoredFile
from state.stores.disk.disk import below
from state.stores.disk.syscalls import System, storage_errors
from state.stores.disk.workspace import STATE_FOLDER
from state.stores.generations.belonging import (
    BESIDE,
    CACHES,
    DATABASES,
    FOLDERS,
    INCOMING,
    LOCKS,
    RECORD,
    STATE_DB,
    VECTORS,
)
from state.stores.generations.local_copy import LocalCopy, closed, held, opened
from state.stores.generations.manifests import digest_of
from state.stores.generations.objects import Objects

_BATCH_BYTES = 2 * 1024**2
_AT_ONCE = 8


@dataclass(slots=True)
class _Batch:
    """Chunks of one pack that are asked for together, each with where it belongs: a file, and an offset in it."""

    pack: str
    chunks: list[Chunk] = field(default_factory=list)
    places: list[list[tuple[int, int]]] = field(default_factory=list)
    size: int = 0


def bring_up(objects: Objects, folder: Path, manifest: Manifest, system: System | None = None) -> None:
    """Make the folder (made if missing) be this generation; nobody has it open meanwhile.

    Its locks stay, and ChromaDB's files if state.db does; links in it go, and are never followed. From the first
    change to the last the folder counts as written, so that whatever cuts it off, the next call makes it right.
    Raises StorageError, which names the object, for one that is missing or not what was written.
    """
    calls = system or System()
    with storage_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    root = Path(os.path.realpath(folder))
    with storage_errors(root):
        _make_folder(root, STATE_FOLDER, calls)
        copy = held(root)
        stays = {file.name for file in manifest.files if copy is not None and copy.holds(root, file)}
        if copy is not None and _is_that(copy, manifest, stays) and not _others(root, manifest):
            return
        opened(root, calls)
        wanted = [file for file in manifest.files if file.name not in stays]
        _clear(root, stays, calls)
        _make_folder(root, STATE_FOLDER, calls)
        _make_folder(root, INCOMING, calls)
        _fetch(objects, root / INCOMING, wanted, calls)
        for number, file in enumerate(wanted):
            for depth in range(1, file.name.count("/") + 1):
                _make_folder(root, "/".join(file.name.split("/")[:depth]), calls)
            calls.rename(root / INCOMING / str(number), root / file.name)
        for file in manifest.files:
            if file.name in stays and file.name not in DATABASES:
                os.utime(root / file.name, ns=(file.mtime_ns, file.mtime_ns))
        for name in FOLDERS:
            _make_folder(root, name, calls)
        (root / INCOMING).rmdir()
        closed(root, manifest, calls)


def _is_that(copy: LocalCopy, manifest: Manifest, stays: set[str]) -> bool:
    return (copy.number, copy.fence) == (manifest.number, manifest.fence) and len(stays) == len(manifest.files)


def _others(root: Path, manifest: Manifest) -> bool:
    """Whether there is a file that is neither of the generation nor the machine's own."""
    stays = _staying({file.name for file in manifest.files})
    return any(not is_folder and name not in stays for name, is_folder in _entries(root))


def _staying(names: set[str]) -> set[str]:
    """These files, what SQLite has beside those that are databases, and the machine's own."""
    beside = {name + ending for name in DATABASES if name in names for ending in BESIDE}
    return names | beside | LOCKS | {RECORD}


def _entries(root: Path) -> list[tuple[str, bool]]:
    """Everything below the folder by name, what is in a folder before it; not what is in the machine's caches."""
    inside = tuple(f"{cache}/" for cache in CACHES)
    names = ((str(path.relative_to(root)), path.is_dir() and not path.is_symlink()) for path in below(root))
    return [entry for entry in names if not entry[0].startswith(inside)][::-1]


def _clear(root: Path, stays: set[str], calls: System) -> None:
    """Remove whatever does not stay; folders as far as they are empty then."""
    staying = _staying(stays)
    for name, is_folder in _entries(root):
        path = root / name
        if name in CACHES and is_folder:
            if STATE_DB not in stays:
                _drop_index(path)
        elif is_folder:
            with suppress(OSError):  # it is not empty: something in it stays
                if name not in FOLDERS:
                    path.rmdir()
        elif name not in staying or path.is_symlink():
            calls.unlink(path)


def _drop_index(folder: Path) -> None:
    """Delete all but the vectors: in ChromaDB's files stand texts, which may be forgotten by now."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif not path.name.startswith(VECTORS):
            path.unlink()


def _make_folder(root: Path, name: str, calls: System) -> None:
    path = root / name
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        calls.unlink(path)
    if not path.exists():
        calls.mkdir(path, 0o700)


def _fetch(objects: Objects, incoming: Path, files: list[StoredFile], calls: System) -> None:
    """Write each file under its number, whole, with its time."""
    for number, file in enumerate(files):
        fd = calls.open(incoming / str(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            os.truncate(fd, file.size)
        finally:
            os.close(fd)
    with ThreadPoolExecutor(_AT_ONCE) as workers:
        tasks = [workers.submit(_fetch_batch, objects, incoming, batch, calls) for batch in _batches(files)]
        wait(tasks, return_when=FIRST_EXCEPTION)
        for task in tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                workers.shutdown(wait=True, cancel_futures=True)
                task.result()
    for number, file in enumerate(files):
        os.utime(incoming / str(number), ns=(file.mtime_ns, file.mtime_ns))


def _batches(files: Iterable[StoredFile]) -> Iterator[_Batch]:
    packs: dict[str, dict[tuple[int, int, str], tuple[Chunk, list[tuple[int, int]]]]] = {}
    for number, file in enumerate(files):
        offset = 0
        for chunk in file.chunks:
            chunks = packs.setdefault(chunk.pack, {})
            _, places = chunks.setdefault((chunk.offset, chunk.size, chunk.digest), (chunk, []))
            places.append((number, offset))
            offset += chunk.size
    for pack, chunks in packs.items():
        batch = _Batch(pack)
        for _, (chunk, places) in sorted(chunks.items(), key=lambda one: one[0]):
            if batch.chunks and batch.size + chunk.size > _BATCH_BYTES:
                yield batch
                batch = _Batch(pack)
            batch.chunks.append(chunk)
            batch.places.append(places)
            batch.size += chunk.size
        yield batch


def _fetch_batch(objects: Objects, incoming: Path, batch: _Batch, calls: System) -> None:
    try:
        contents = objects.get_ranges(batch.pack, [(chunk.offset, chunk.size) for chunk in batch.chunks])
    except NotFoundError:
        raise StorageError(f"the object {batch.pack} is missing", _ADVICE) from None
    writes: dict[int, list[tuple[int, bytes]]] = {}
    for chunk, content, places in zip(batch.chunks, contents, batch.places, strict=True):
        if len(content) != chunk.size or digest_of(content) != chunk.digest:
            raise StorageError(f"the object {batch.pack} is cut off or not what was written", _ADVICE)
        for number, offset in places:
            writes.setdefault(number, []).append((offset, content))
    for number, pieces in writes.items():
        fd = calls.open(incoming / str(number), os.O_WRONLY)
        try:
            for offset, content in _joined(sorted(pieces)):
                done = 0
                while done < len(content):
                    done += calls.pwrite(fd, content[done:], offset + done)
        finally:
            os.close(fd)


def _joined(pieces: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The same writes, those that follow each other as one."""
    start, run = pieces[0][0], [pieces[0][1]]
    end = start + len(pieces[0][1])
    for offset, content in pieces[1:]:
        if offset != end:
            yield start, b"".join(run)
            start, run = offset, []
        run.append(content)
        end = offset + len(content)
    yield start, b"".join(run)


_ADVICE = "bring up an older generation ('dreamd fleet recover')"
