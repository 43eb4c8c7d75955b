"""Versions: a generation as one object: its key, its bytes, and what is checked before one is believed.

    PREFIX/generations/000000000007-<digest>   number, and the beginning of the SHA-256 of its content

A key is bound to the content, so whoever has the key from the database sees when the store gives out something else;
and to write an object twice is to write it once. Content is zlib of a head (JSON) and the bytes of blocks: of each
file those that differ from the generation before. The head names the objects before it, back to one that is whole.

A generation holds what makes the workspace: state.db, the dream under way, MEMORY.md and the notes that wait. Not the
vector index and the copies of state.db, which are made again, and not the originals of redacted notes, for a secret
that was taken out of the memory leaves the machine in no way.
"""

import hashlib
import json
import os
import re
import shutil
import sqlite3
import struct
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from state.errors import BusyError, NotFoundError, StorageError
from state.fleet import Generation, Lease
from state.stores.backup.archive import add_log
from state.stores.database.connection import explained, open_unmigrated
from state.stores.disk.disk import below, opened
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import STATE_FOLDER, contained
from state.stores.generations.objects import Objects

DATABASES = (f"{STATE_FOLDER}/checkpoints/dreams.db", f"{STATE_FOLDER}/state.db")
MOST_BYTES = 1024**3
"""Of all files of a generation together."""
BLOCK_BYTES = 4 * 1024
"""The unit in which SQLite changes a database: of a dream, or of one note, few are new."""
_FORMAT = 4
_DIGEST, _DIGEST_BYTES = 32, 16
_NAME = re.compile(r"\.?([0-9]{12})-([0-9a-f]{32})(?:\..*)?")
_FILE = re.compile(
    r"MEMORY\.md(\.seed-backup)?|GENOME\.md|memory/(scratch\.md|economics\.json|\.scratch\.md\.[0-9.]{1,40}\.displaced)"
    rf"|{re.escape(STATE_FOLDER)}/(state\.db|checkpoints/dreams\.db|inbox(\.[0-9]{{6,12}})?\.md|bootstraps\.jsonl)"
)
_LENGTH = struct.Struct(">I")
_MALFORMED = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a generation has it: the digest of each of its blocks, and (first, count) of the runs that differ."""

    size: int
    mtime_ns: int
    digests: bytes
    runs: tuple[tuple[int, int], ...] = ()

    @property
    def digest(self) -> str:
        """The digest of the whole file."""
        return _digest(self.digests).hex()

    def spans(self) -> list[tuple[int, int]]:
        """Return (offset, bytes) of each run."""
        starts = ((first * BLOCK_BYTES, (first + count) * BLOCK_BYTES) for first, count in self.runs)
        return [(start, min(self.size, end) - start) for start, end in starts]


@dataclass(frozen=True, slots=True)
class Version:
    """One generation: whose it is, which number it was to be, and the objects before it, the oldest first.

    `tenant` and `workspace` are names, with which a lost registry is made anew.
    """

    key: str
    size: int  # of its own object
    tenant: str
    workspace: str
    number: int
    at: datetime
    before: tuple[tuple[str, int], ...]
    files: Mapping[str, tuple[StoredFile, str]] = field(repr=False)
    blocks: memoryview = field(repr=False)

    @property
    def bytes(self) -> int:
        """How much its files hold."""
        return sum(file.size for file, _ in self.files.values())

    @property
    def chain(self) -> tuple[tuple[str, int], ...]:
        """The objects that it is made of with their sizes, the whole one first and its own last."""
        return (*self.before, (self.key, self.size))

    def apply(self, contents: dict[str, bytearray]) -> None:
        """Make these files, as the generation before has them, those of this one."""
        for name in [*contents]:
            if name not in self.files:
                del contents[name]
        at = 0
        for name, (file, _) in self.files.items():
            content = contents.setdefault(name, bytearray())
            del content[file.size :]
            content.extend(bytes(file.size - len(content)))
            for offset, size in file.spans():
                content[offset : offset + size] = self.blocks[at : at + size]
                at += size


def belongs(name: str) -> bool:
    """Return whether a regular file of this name (with slashes, from the folder on) is part of a generation."""
    return _FILE.fullmatch(name) is not None


def made_by(key: str) -> int | None:
    """Return the number of the generation that an object, or what a killed writer left of one, is of."""
    match = _NAME.fullmatch(key.rpartition("/")[2])
    return int(match.group(1)) if match else None


def key_of(prefix: str, number: int, content: bytes) -> str:
    """Return the key of the object with this content."""
    return f"{prefix}/generations/{number:012d}-{hashlib.sha256(content).hexdigest()[:_DIGEST]}"


def compared(content: bytes, mtime_ns: int, before: bytes) -> StoredFile:
    """Return the file with the runs of blocks that differ from those with the digests `before`."""
    digests, runs = bytearray(), list[tuple[int, int]]()
    view = memoryview(content)
    for number, start in enumerate(range(0, len(content), BLOCK_BYTES)):
        digest, at = _digest(view[start : start + BLOCK_BYTES]), number * _DIGEST_BYTES
        digests += digest
        if before[at : at + _DIGEST_BYTES] == digest:
            continue
        if runs and sum(runs[-1]) == number:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((number, 1))
    return StoredFile(len(content), mtime_ns, bytes(digests), tuple(runs))


def encoded(
    names: tuple[str, str],
    number: int,
    at: datetime,
    before: tuple[tuple[str, int], ...],
    files: Mapping[str, tuple[StoredFile, bytes]],
) -> bytes:
    """Return the content of a generation's object. Raise StorageError for a workspace that is too large."""
    if sum(file.size for file, _ in files.values()) > MOST_BYTES:
        raise StorageError(f"{names[1]} is larger than {MOST_BYTES:,} bytes", "forget what is needed no more")
    plain: dict[str, Any] = {
        "format": _FORMAT,
        "place": names,
        "number": number,
        "at": at.isoformat(),
        "before": before,
        "files": [[name, one.size, one.mtime_ns, one.digest, one.runs] for name, (one, _) in files.items()],
    }
    head, packing = json.dumps(plain, separators=(",", ":")).encode(), zlib.compressobj(1)
    parts = [packing.compress(_LENGTH.pack(len(head)) + head)]
    for file, content in files.values():
        view = memoryview(content)
        parts += [packing.compress(view[offset : offset + size]) for offset, size in file.spans()]
    return b"".join((*parts, packing.flush()))


def decoded(content: bytes, key: str, prefix: str) -> Version:
    """Return the generation whose object this is.

    Raise StorageError, which names it, unless its content is the one that its key says, each file is one that a
    workspace has, every object before it lies below this prefix, and its blocks are those that it names.
    """
    head, blocks = _unpacked(content, key, prefix)
    try:
        rows = [
            (str(name), _number(size), int(mtime_ns), str(digest), [(_number(a), _number(b)) for a, b in runs])
            for name, size, mtime_ns, digest, runs in head["files"]
        ]
        before = tuple((str(name), _number(size)) for name, size in head["before"])
        tenant, workspace = map(str, head["place"])
        number, at = _number(head["number"]), datetime.fromisoformat(head["at"])
        files = {
            name: (StoredFile(size, mtime, b"", tuple(runs)), digest) for name, size, mtime, digest, runs in rows
        }
    except _MALFORMED as error:
        raise damaged(key, "it is no generation") from error
    if len(files) != len(rows) or not all(map(belongs, files)):
        raise damaged(key, "no workspace has such files")
    spans = [span for file, _ in files.values() for span in file.spans()]
    if any(size <= 0 for _, size in spans) or sum(size for _, size in spans) != len(blocks):
        raise damaged(key, "its blocks are not those that it names")
    if sum(file.size for file, _ in files.values()) > MOST_BYTES:
        raise damaged(key, "its files are too large")
    if not all(-(2**63) <= file.mtime_ns < 2**63 for file, _ in files.values()):
        raise damaged(key, "the time of a file is none")
    if made_by(key) != number:
        raise damaged(key, "it is of another generation")
    if strange := next((name for name, _ in before if not _is_key(name, prefix)), None):
        raise damaged(key, f"it names {strange[:100]!r}, which is no object of this workspace")
    return Version(key, len(content), tenant, workspace, number, at, before, files, blocks)


def damaged(key: str, what: str) -> StorageError:
    """Return the error for an object of a generation that cannot be used."""
    return StorageError(f"the object {key}: {what}", "bring up an older generation ('dreamd fleet recover')")


def _unpacked(content: bytes, key: str, prefix: str) -> tuple[dict[str, Any], memoryview]:
    """Return head and blocks of an object."""
    if not _is_key(key, prefix) or hashlib.sha256(content).hexdigest()[:_DIGEST] != key[-_DIGEST:]:
        raise damaged(key, "it is not what was written under this key")
    try:
        unpacking = zlib.decompressobj()
        whole = unpacking.decompress(content, 2 * MOST_BYTES)
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise damaged(key, "it is cut off, or too long")
        start = _LENGTH.size + _LENGTH.unpack_from(whole)[0]
        head = json.loads(whole[_LENGTH.size : start])
        found = head["format"]
    except (*_MALFORMED, zlib.error, struct.error) as error:
        raise damaged(key, "it is none of a generation's objects") from error
    if found != _FORMAT:
        raise StorageError(f"the object {key} has format {found!r:.20}", "use the dreamd that wrote it")
    return head, memoryview(whole)[start:]


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MOST_BYTES:
        raise ValueError(value)
    return value


def _is_key(key: str, prefix: str) -> bool:
    return made_by(key) is not None and key == f"{prefix}/generations/{key.rpartition('/')[2]}"


def _digest(content: "bytes | bytearray | memoryview") -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


# ------------------------------------------------------------------- putting and bringing up


# Objects beyond the last whole generation, after which the next is whole.
_MOST_CHANGES = 16
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Taken:
    """A workspace as it was at one moment, to be put: its files, and the objects that hold what did not change."""

    files: Mapping[str, tuple[StoredFile, bytes]]
    before: tuple[tuple[str, int], ...]

    @property
    def bytes(self) -> int:
        """How much its files hold."""
        return sum(file.size for file, _ in self.files.values())


class Generations:
    """The generations of one workspace under its prefix. For one thread at a time.

    It remembers the digests of what it has put or brought up last, and writes what has changed of the next one.
    """

    def __init__(self, objects: Objects, prefix: str) -> None:
        self._objects = objects
        self._prefix = prefix.strip("/")
        self._digests: dict[str, bytes] = {}
        self._chain: tuple[tuple[str, int], ...] = ()  # the objects of the last one, the whole one first

    def take(self, folder: Path, *, whole: bool = False) -> Taken:
        """Read the workspace in this folder as a crash at this moment would leave it; nothing is written.

        Others may append notes and write rows meanwhile, but make no version: never inside the commit of a dream.
        Raise BusyError if MEMORY.md was written all the same.
        """
        known = {} if whole or _is_long(self._chain) else self._digests
        files = {}
        for name, (content, mtime_ns) in _read(folder).items():
            files[name] = compared(content, mtime_ns, known.get(name, b"")), content
        return Taken(files, self._chain if known else ())

    def put(self, taken: Taken, lease: Lease, now: datetime) -> Generation:
        """Write what was taken as the generation after the lease's, durably."""
        number, place = lease.generation.number + 1, lease.place
        content = encoded((place.tenant_name, place.name), number, now, taken.before, taken.files)
        key = key_of(self._prefix, number, content)
        self._objects.put(key, content)
        self._digests = {name: file.digests for name, (file, _) in taken.files.items()}
        self._chain = (*taken.before, (key, len(content)))
        return Generation(number, key)

    def version(self, key: str) -> Version:
        """Return the generation with this key. Raise StorageError if it is missing or not what was written."""
        return decoded(self._get(key), key, self._prefix)

    def bring_up(self, folder: Path, key: str) -> None:
        """Make the folder be this generation, and nothing else. Raise StorageError, which names the object."""
        last = self.version(key)
        contents = dict[str, bytearray]()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for start in range(0, len(last.before), _AT_ONCE):
                keys = [name for name, _ in last.before[start : start + _AT_ONCE]]
                for one in pool.map(self.version, keys):
                    one.apply(contents)
        last.apply(contents)
        self._digests = {}
        for name, (_, digest) in last.files.items():
            file = compared(bytes(contents[name]), 0, b"")
            if file.digest != digest:
                raise damaged(key, f"{name} does not come out as it was put")
            self._digests[name] = file.digests
        self._chain = last.chain
        _write(folder, {name: (contents[name], file.mtime_ns) for name, (file, _) in last.files.items()})

    def sweep(self, *, forgotten: bool = False) -> int:
        """Delete what is so old that nobody goes back to it; never what was put for a later one. Return how many.

        `forgotten`: leave nothing but what the last generation itself is made of.
        """
        if not self._chain:
            return 0
        needed = {key for key, _ in self._chain}
        first, last = made_by(self._chain[0][0]) or 0, made_by(self._chain[-1][0]) or 0
        # The chain before this one stays until the next whole generation, for whoever has to go back.
        oldest = last + 1 if forgotten else first - _MOST_CHANGES
        listed = ((one.key, made_by(one.key)) for one in self._objects.list(self._prefix))
        doomed = [key for key, made in listed if made is not None and made < oldest and key not in needed]
        self._objects.delete(doomed)
        return len(doomed)

    @property
    def is_whole(self) -> bool:
        """Whether the last generation stands by itself."""
        return len(self._chain) == 1

    def _get(self, key: str) -> bytes:
        try:
            return self._objects.get(key)
        except NotFoundError:
            raise damaged(key, "it is missing") from None


def _is_long(chain: tuple[tuple[str, int], ...]) -> bool:
    """Return whether the next generation is to be whole: the changes since the last are many, or larger than it."""
    changes = [size for _, size in chain[1:]]
    return len(changes) >= _MOST_CHANGES or 2 * sum(changes) > sum(size for _, size in chain)


class _Files:
    """The files of a snapshot, by name; given to `add_log`."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[bytes, int]] = {}

    def add(self, name: str, source: BinaryIO, size: int, mtime_ns: int) -> None:
        content = source.read(size)
        if len(content) < size:
            raise StorageError(f"{name} became shorter while it was read", "put it again")
        self.found[name] = content, mtime_ns


def _read(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the files of a workspace, with their times.

    The checkpoints of a dream come first: they know less than state.db then, never more. Notes that were appended
    before are here, and of those that come meanwhile each wholly or not at all.
    """
    workspace, files = contained(folder), _Files()
    root, document = workspace.root, _time(workspace.document)
    checkpoints, database = DATABASES
    with suppress(sqlite3.DatabaseError):  # a damaged one is begun anew: an answer is paid for again
        _read_database(root, checkpoints, files)
    try:
        _read_database(root, database, files)
    except sqlite3.Error as error:
        raise explained(error, workspace.database) from error
    add_log(files.add, workspace, workspace.disk())
    with storage_errors(root):
        names = [str(path.relative_to(root)) for path in below(root) if path.is_file() and not path.is_symlink()]
    for name in names:
        if belongs(name) and name not in DATABASES and name not in files.found:
            with suppress(NotFoundError), storage_errors(root / name), opened(root / name) as file:
                status = os.fstat(file.fileno())
                files.found[name] = file.read(), status.st_mtime_ns
    # Every commit writes MEMORY.md after state.db: the file must not be newer than the copy of that.
    if _time(workspace.document) != document:
        raise BusyError(f"{root}: MEMORY.md was written while it was read", "put it again")
    return files.found


def _read_database(root: Path, name: str, files: _Files) -> None:
    """Read a database as one transaction sees it; others may write."""
    path = root / name
    if not path.exists() or not path.stat().st_size:
        return
    with open_unmigrated(path) as connection:
        files.found[name] = connection.serialize(), path.stat().st_mtime_ns


def _time(path: Path) -> tuple[int, ...]:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return ()
    return (status.st_size, status.st_mtime_ns, status.st_ino)


def _write(folder: Path, files: Mapping[str, tuple[bytearray, int]]) -> None:
    """Make a new folder with these files; what was there goes, links with it."""
    with storage_errors(folder):
        if folder.is_symlink():
            folder.unlink()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        for name, (content, mtime_ns) in files.items():
            path = folder / name
            for above in reversed(path.relative_to(folder).parents):
                (folder / above).mkdir(mode=0o700, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o600)
            os.utime(path, ns=(mtime_ns, mtime_ns))
