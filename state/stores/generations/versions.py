"""Versions: a generation as one object: its key, its bytes, and the checks before it is trusted.

    PREFIX/generations/000000000007   the key is the number, and only one writer can create it

The content is compressed (zlib): a head (JSON), then what differs from the previous generation: pages of state.db,
and other files whole. The head names its writer, and the earlier objects with their digests, back to a whole one.

A generation holds what makes up the workspace: state.db, the dream under way, MEMORY.md and pending notes. It omits
the vector index and the copies of state.db, which can be rebuilt, and the originals of redacted notes, because a
secret that was removed from the memory must not leave the machine.
"""

import hashlib
import json
import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from pydantic import Field

from state.codec import decode, encode
from state.errors import StorageError
from state.stores.disk.workspace import STATE_FOLDER
from state.stores.generations.pages import Pages

STATE_DB = f"{STATE_FOLDER}/state.db"
DATABASES = (f"{STATE_FOLDER}/checkpoints/dreams.db", STATE_DB)
MOST_BYTES = 1024**3
"""The limit for all files of a generation together."""
_FORMAT = 5
_DIGEST_BYTES = 16
_NAME = re.compile(r"\.?([0-9]{12})(?:\..*)?")
_FILE = re.compile(
    r"MEMORY\.md(\.seed-backup)?|GENOME\.md|memory/(scratch\.md|economics\.json|\.scratch\.md\.[0-9.]{1,40}\.displaced)"
    rf"|{re.escape(STATE_FOLDER)}/(state\.db|checkpoints/dreams\.db|inbox(\.[0-9]{{6,12}})?\.md|bootstraps\.jsonl)"
)
_LENGTH = struct.Struct(">I")
_Number = Annotated[int, Field(ge=0, le=MOST_BYTES)]
_Time = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_Objects = tuple[tuple[_Number, _Number, str], ...]
_Spans = tuple[tuple[_Number, _Number], ...]


class Part(NamedTuple):
    """An object of a chain: its generation's number, its size and its digest."""

    number: int
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a generation, and (offset, bytes) of each span of it that the object holds; the rest is unchanged."""

    size: int
    mtime_ns: int
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Head:
    """An object's head. `files` holds name, size, time and spans of each file."""

    format: int
    writer: str
    place: tuple[str, str]
    number: _Number
    before: _Objects
    files: tuple[tuple[str, _Number, _Time, _Spans], ...]


@dataclass(frozen=True, slots=True)
class Version:
    """One generation: its writer, its owner, and the objects before it, oldest first; `own` is its own object.

    `tenant` and `workspace` are names, from which a lost registry can be rebuilt.
    """

    key: str
    own: Part
    writer: str
    tenant: str
    workspace: str
    before: tuple[Part, ...]
    files: Mapping[str, StoredFile] = field(repr=False)
    blocks: memoryview = field(repr=False)

    @property
    def number(self) -> int:
        """Return the number of the generation."""
        return self.own.number

    @property
    def bytes(self) -> int:
        """Return the total size of its files in bytes."""
        return sum(file.size for file in self.files.values())

    @property
    def chain(self) -> tuple[Part, ...]:
        """Return its objects, the whole one first and its own last."""
        return (*self.before, self.own)

    def apply(self, contents: dict[str, bytearray]) -> None:
        """Turn the files of the previous generation into those of this one, in place."""
        for name in [*contents]:
            if name not in self.files:
                del contents[name]
        at = 0
        for name, file in self.files.items():
            content = contents.setdefault(name, bytearray())
            del content[file.size :]
            content.extend(bytes(file.size - len(content)))
            for offset, size in file.spans:
                content[offset : offset + size] = self.blocks[at : at + size]
                at += size


def belongs(name: str) -> bool:
    """Return whether a regular file of this name (with slashes, relative to the folder) is part of a generation."""
    return _FILE.fullmatch(name) is not None


def made_by(key: str) -> int | None:
    """Return the number of the generation that an object, or a killed writer's leftover of one, belongs to."""
    match = _NAME.fullmatch(key.rpartition("/")[2])
    return int(match.group(1)) if match else None


def key_of(prefix: str, number: int) -> str:
    """Return the key of the object of a generation."""
    return f"{prefix}/generations/{number:012d}"


def part_of(number: int, content: bytes) -> Part:
    """Return the object with this content as a part of a chain."""
    return Part(number, len(content), digest_of(content))


def whole_file(content: bytes, mtime_ns: int) -> tuple[StoredFile, list[bytes]]:
    """Return the file with all of its content."""
    size = len(content)
    return StoredFile(size, mtime_ns, ((0, size),) if size else ()), [content]


def changed_file(found: Pages, mtime_ns: int) -> tuple[StoredFile, list[bytes]]:
    """Return the database with its changed pages alone."""
    step, spans, contents = found.page_bytes, list[tuple[int, int]](), list[bytes]()
    for number, content in sorted(found.pages.items()):
        start = (number - 1) * step
        if start >= found.size:
            break  # the database became shorter
        contents.append(content)
        if spans and sum(spans[-1]) == start:
            spans[-1] = spans[-1][0], spans[-1][1] + step
        else:
            spans.append((start, step))
    return StoredFile(found.size, mtime_ns, tuple(spans)), contents


def encoded(
    writer: str,
    names: tuple[str, str],
    number: int,
    before: tuple[Part, ...],
    files: Mapping[str, tuple[StoredFile, Sequence[bytes]]],
) -> bytes:
    """Return the content of a generation's object. Raise StorageError if the workspace is too large."""
    if sum(file.size for file, _ in files.values()) > MOST_BYTES:
        raise StorageError(f"{names[1]} is larger than {MOST_BYTES:,} bytes", "forget what is needed no more")
    rows = tuple((name, one.size, one.mtime_ns, one.spans) for name, (one, _) in files.items())
    head = encode(_Head(_FORMAT, writer, names, number, before, rows)).encode()
    packing = zlib.compressobj(1)
    parts = [packing.compress(_LENGTH.pack(len(head)) + head)]
    parts += [packing.compress(content) for _, contents in files.values() for content in contents]
    return b"".join((*parts, packing.flush()))


def decoded(content: bytes, key: str) -> Version:
    """Decode a generation from its object.

    Raise StorageError naming the object unless it is of its key's generation, all its files are ones that a workspace
    has, all objects before it are of earlier generations, and its blocks are those that the head lists.
    """
    head, blocks = _unpacked(content, key)
    files = {name: StoredFile(size, time, spans) for name, size, time, spans in head.files}
    if len(files) != len(head.files) or not all(map(belongs, files)):
        raise damaged(key, "no workspace has such files")
    spans = [(*span, file.size) for file in files.values() for span in file.spans]
    if any(size <= 0 or offset + size > most for offset, size, most in spans):
        raise damaged(key, "it has more of a file than there is")
    if sum(size for _, size, _ in spans) != len(blocks):
        raise damaged(key, "its content is not what it names")
    total = sum(file.size for file in files.values())
    if total > MOST_BYTES or not (head.before or total == len(blocks)):
        raise damaged(key, "its files are too large")
    if made_by(key) != head.number:
        raise damaged(key, "it is of another generation")
    before = tuple(Part(*one) for one in head.before)
    if any(one.number >= head.number for one in before):
        raise damaged(key, "it builds on a later one")
    return Version(key, part_of(head.number, content), head.writer, *head.place, before, files, blocks)


def damaged(key: str, what: str) -> StorageError:
    """Return the error for a generation's object that cannot be used."""
    return StorageError(
        f"the object {key}: {what}", "restore the bucket, or go back with 'dreamd fleet recover --older'"
    )


def _unpacked(content: bytes, key: str) -> tuple[_Head, memoryview]:
    """Return the head and the blocks of an object."""
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


def digest_of(content: bytes) -> str:
    """Return the digest of an object or a file."""
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()
