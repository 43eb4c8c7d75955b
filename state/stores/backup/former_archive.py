"""Former archive: the tar.gz that an older dreamd exported, which anybody may have made; readable for one release.

Its members are `state.db`, the files of `archive.place`, the log of notes in `segments/`, in the oldest ones
`history/000001.json` (the records of versions), and finally `manifest.json` with size, SHA-256 and time of each. The
tar file is read header by header, once; extensions that say more about an entry (a longer name, a link, holes) are
refused.
"""

import gzip
import hashlib
import os
import re
import struct
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from state.codec import decode
from state.dream import decode_record
from state.errors import StorageError
from state.stores.backup.archive import place
from state.stores.backup.reading import Unpacked, open_foreign, rebuild, refused, write_file
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import open_database
from state.stores.disk.disk import opened
from state.stores.disk.syscalls import System, storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox
from state.stores.history.lineage import Lineage
from state.stores.history.memory import Memory
from state.stores.history.notes import Notes
from state.stores.repair.former_files import take_in_records, take_in_segments

_BLOCK = 1024**2
MANIFEST, _DATABASE = "manifest.json", "state.db"
_HISTORY = re.compile(r"history/([0-9]{6,12})\.json")
_SEGMENT = re.compile(r"segments/(?:([0-9]{6,12})\.(?:md|json)|retired/([0-9]{6,12})\.(?:0|[1-9][0-9]{0,17})\.md)")
_MAX_MEMBERS = 100_000
_MAX_MANIFEST_BYTES = _MAX_MEMBERS * 256
_MAX_RECORD_BYTES = 16 * 1024**2
_MAX_MTIME_NS = 2**62
# No agent's memory of this size compresses better than _BEST_RATIO.
_MANY_BYTES = 1024**3
_BEST_RATIO = 100
# What the libraries raise for malformed data.
_BAD = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, struct.error, OverflowError)


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    size: int
    sha256: str
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class _Manifest:
    format: int
    dreamd: str
    schema: int
    at: datetime
    members: tuple[_Member, ...]


def is_former(path: Path) -> bool:
    """Return whether this is an archive by an older dreamd: compressed, with state.db as its first file."""
    with storage_errors(path):
        file = opened(path)
    with file, suppress(*_BAD), gzip.GzipFile(fileobj=file) as stream:
        return stream.read(len(_DATABASE)) == _DATABASE.encode()
    return False


def unpack(path: Path, workspace: Workspace, system: System) -> Unpacked:
    """Write the files of an archive and a new state.db to a workspace that has neither."""
    incoming = workspace.state / "incoming.db"
    manifest = _unpack_members(path, workspace, incoming, system)
    with open_foreign(incoming, {}) as source:
        foreign = rebuild(source, workspace.database)
    with storage_errors(incoming):
        system.unlink(incoming)
    with closing(open_database(workspace.database)) as connection:
        disk, crystals, lineage = workspace.disk(system), Crystals(connection), Lineage(connection)
        dreams = {version.number: version.dream for version in lineage.versions(lineage.last_version())}
        for member in manifest.members:
            if match := _HISTORY.fullmatch(member.name):
                _require_record(workspace.state / member.name, dreams.get(int(match[1])), int(match[1]))
        inbox = NoteInbox(workspace, disk)
        take_in_segments(workspace, disk, inbox)
        memory = Memory(workspace, disk, crystals, lineage, Notes(inbox, connection), lambda: None)
        take_in_records(workspace, disk, crystals, memory)
    return Unpacked(manifest.at, foreign)


def _unpack_members(path: Path, workspace: Workspace, incoming: Path, system: System) -> _Manifest:
    """Write every member, state.db as `incoming`; when this returns, all members match the manifest."""
    found, content, disk = dict[str, tuple[_Member, Path]](), b"", workspace.disk(system)
    with storage_errors(path):
        file = opened(path)
    try:
        with file, gzip.GzipFile(fileobj=file) as stream:
            for name, size, blocks in _entries(stream, os.fstat(file.fileno()).st_size):
                if content or name in found or len(found) > _MAX_MEMBERS:
                    raise refused(f"{name} is in it twice, behind its end, or one of too many")
                if name == MANIFEST:
                    content = b"".join(blocks) if size <= _MAX_MANIFEST_BYTES else b""
                    continue
                target = incoming if name == _DATABASE else _place(workspace, name)
                if target is None:
                    raise refused(f"{name[:200]!r} is no file of a workspace's")
                if not target.parent.exists():
                    disk.make_folder(target.parent.parent)
                    disk.make_folder(target.parent)
                write_file(target, blocks, 0, system)
                found[name] = _Member(name, size, blocks.digest.hexdigest(), 0), target
    except _BAD as error:
        raise refused(f"it is no archive of a workspace, or a part of one ({error})") from error
    manifest = _manifest(content)
    if {member.name: replace(member, mtime_ns=0) for member in manifest.members} != {
        name: member for name, (member, _) in found.items()
    }:
        raise refused(f"its {MANIFEST} does not say what is in it; the archive is damaged")
    for member in manifest.members:
        path = found[member.name][1]
        os.utime(path, ns=(member.mtime_ns, member.mtime_ns))
        disk.sync(path)
    return manifest


class _Content:
    """The bytes of a file, to be read once, before the next one. `digest` covers what was read."""

    def __init__(self, stream: gzip.GzipFile, size: int) -> None:
        self.digest = hashlib.sha256()
        self._stream = stream
        self._left = size

    def __iter__(self) -> Iterator[bytes]:
        while self._left:
            try:
                block = self._stream.read(min(_BLOCK, self._left))
            except _BAD as error:
                raise refused(f"it cannot be unpacked ({error})") from error
            if not block:
                raise refused("it is cut off")
            self._left -= len(block)
            self.digest.update(block)
            yield block


def _entries(stream: gzip.GzipFile, packed: int) -> Iterator[tuple[str, int, _Content]]:
    """Yield the name, size and content of each file."""
    total = 0
    while any(header := stream.read(tarfile.BLOCKSIZE)):
        info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        # Names are only accepted in one form: without prefix, and with nothing after a NUL.
        name = header[:100].rstrip(b"\0").decode()
        if info.type != tarfile.REGTYPE or info.name != name or info.size < 0:
            raise refused(f"{name[:200]!r} is no regular file, or packed in another way than dreamd does")
        total += info.size
        if total > max(_MANY_BYTES, packed * _BEST_RATIO):
            raise refused(f"{packed:,} bytes of it would unpack to {total:,}: that is no memory")
        end = stream.tell() + -(-info.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        yield name, info.size, _Content(stream, info.size)
        if stream.seek(end) != end:
            raise EOFError("it is cut off")
    # Two zero blocks end the file, then zeros fill the record, or one more record if only one block fitted.
    rest = stream.read(2 * tarfile.RECORDSIZE)
    if not header or len(rest) > tarfile.RECORDSIZE or any(rest):
        raise ValueError("it is cut off, or something was added to it")


def _place(workspace: Workspace, name: str) -> Path | None:
    match = _HISTORY.fullmatch(name) or _SEGMENT.fullmatch(name)
    if match is None:
        return place(workspace, name)
    number = next(filter(None, match.groups()))
    return workspace.state / name if f"{int(number):06d}" == number else None


def _manifest(content: bytes) -> _Manifest:
    if not content:
        raise refused(f"it has no {MANIFEST}, or too long a one: it is no archive of a workspace")
    try:
        manifest = decode(_Manifest, content, MANIFEST)
    except StorageError as error:
        raise refused(f"its {MANIFEST} cannot be read") from error
    is_dated = manifest.at.tzinfo is not None and all(0 <= one.mtime_ns < _MAX_MTIME_NS for one in manifest.members)
    if manifest.format != 1 or len({one.name for one in manifest.members}) < len(manifest.members) or not is_dated:
        raise refused(f"its {MANIFEST} cannot be meant")
    return manifest


def _require_record(path: Path, dream: str | None, number: int) -> None:
    """Raise unless this is the record of its version by this dream; otherwise the next owner would commit it."""
    if dream is None:
        raise refused(f"{path.name} is of a version that state.db does not know")
    if path.stat().st_size > _MAX_RECORD_BYTES:
        raise refused(f"{path.name} is longer than any record")
    try:
        record = decode_record(path.read_bytes(), path.name)
    except StorageError as error:
        raise refused(error.what) from error
    if (record.number, record.id) != (number, dream):
        raise refused(f"{path.name} is version {record.number} of dream {record.id}")
