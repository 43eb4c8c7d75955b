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
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from pydantic import Field

from state.codec import decode, encode
from state.errors import StorageError
from state.stores.disk.workspace import STATE_FOLDER

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
_Number = Annotated[int, Field(ge=0, le=MOST_BYTES)]
_Time = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_Objects = tuple[tuple[str, _Number], ...]
_Runs = tuple[tuple[_Number, _Number], ...]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a generation has it: the digest of each of its blocks, and (first, count) of the runs that differ."""

    size: int
    mtime_ns: int
    digests: bytes
    runs: tuple[tuple[int, int], ...] = ()

    @property
    def digest(self) -> str:
        """Return the digest of the whole file."""
        return _digest(self.digests).hex()

    def spans(self) -> list[tuple[int, int]]:
        """Return (offset, bytes) of each run."""
        starts = ((first * BLOCK_BYTES, (first + count) * BLOCK_BYTES) for first, count in self.runs)
        return [(start, min(self.size, end) - start) for start, end in starts]


@dataclass(frozen=True, slots=True)
class _Head:
    """What an object says of itself. `files`: of each its name, size, time, digest, and the runs that it has."""

    format: int
    place: tuple[str, str]
    number: _Number
    at: datetime
    before: _Objects
    files: tuple[tuple[str, _Number, _Time, str, _Runs], ...]


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
        """Return how many bytes its files hold."""
        return sum(file.size for file, _ in self.files.values())

    @property
    def chain(self) -> tuple[tuple[str, int], ...]:
        """Return the objects that it is made of with their sizes, the whole one first and its own last."""
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
    rows = tuple((name, one.size, one.mtime_ns, one.digest, one.runs) for name, (one, _) in files.items())
    head = encode(_Head(_FORMAT, names, number, at, before, rows)).encode()
    packing = zlib.compressobj(1)
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
    files = {name: (StoredFile(size, time, b"", runs), digest) for name, size, time, digest, runs in head.files}
    if len(files) != len(head.files) or not all(map(belongs, files)):
        raise damaged(key, "no workspace has such files")
    spans = [span for file, _ in files.values() for span in file.spans()]
    if any(size <= 0 for _, size in spans) or sum(size for _, size in spans) != len(blocks):
        raise damaged(key, "its blocks are not those that it names")
    if sum(file.size for file, _ in files.values()) > MOST_BYTES:
        raise damaged(key, "its files are too large")
    if made_by(key) != head.number:
        raise damaged(key, "it is of another generation")
    if strange := next((name for name, _ in head.before if not _is_key(name, prefix)), None):
        raise damaged(key, f"it names {strange[:100]!r}, which is no object of this workspace")
    return Version(key, len(content), *head.place, head.number, head.at, head.before, files, blocks)


def damaged(key: str, what: str) -> StorageError:
    """Return the error for an object of a generation that cannot be used."""
    return StorageError(f"the object {key}: {what}", "bring up an older generation ('dreamd fleet recover')")


def _unpacked(content: bytes, key: str, prefix: str) -> tuple[_Head, memoryview]:
    """Return head and blocks of an object."""
    if not _is_key(key, prefix) or hashlib.sha256(content).hexdigest()[:_DIGEST] != key[-_DIGEST:]:
        raise damaged(key, "it is not what was written under this key")
    try:
        unpacking = zlib.decompressobj()
        whole = unpacking.decompress(content, 2 * MOST_BYTES)
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise damaged(key, "it is cut off, or too long")
        start = _LENGTH.size + _LENGTH.unpack_from(whole)[0]
        head = whole[_LENGTH.size : start]
        found = json.loads(head)["format"]
    except (ValueError, KeyError, TypeError, RecursionError, zlib.error, struct.error) as error:
        raise damaged(key, "it is none of a generation's objects") from error
    if found != _FORMAT:
        raise StorageError(f"the object {key} has format {found!r:.20}", "use the dreamd that wrote it")
    try:
        return decode(_Head, head), memoryview(whole)[start:]
    except StorageError as error:
        raise damaged(key, "it is no generation") from error


def _is_key(key: str, prefix: str) -> bool:
    return made_by(key) is not None and key == f"{prefix}/generations/{key.rpartition('/')[2]}"


def _digest(content: "bytes | bytearray | memoryview") -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
