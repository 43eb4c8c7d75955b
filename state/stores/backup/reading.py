"""Archive reading: nothing of an archive that anybody may have made is believed unchecked, and nothing is unbounded.

A zip file's list of entries is looked at before it is read (it is as long as it says), the entries before one of them
is opened (names that a workspace has, regular files, deflated or stored, none in another's place), and of each no
more is unpacked than the manifest says, whose sum was compared with the space on the disk before.
"""

import hashlib
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ConfigDict, ValidationError

from state.codec import decode
from state.errors import StorageError, UsageError
from state.stores.backup.manifest import (
    BLOCK,
    DATABASE,
    FORMAT,
    MANIFEST,
    MAX_MEMBERS,
    ArchiveError,
    Manifest,
    Member,
    place,
    plainly,
)
from state.stores.database.connection import SCHEMA_VERSION
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace

_MAX_LIST_BYTES = MAX_MEMBERS * 128
_MAX_MANIFEST_BYTES = MAX_MEMBERS * 256
# No memory of an agent's is compressed better, when there is so much of it.
_MANY_BYTES = 1024**3
_BEST_RATIO = 100
_MAX_MTIME_NS = 2**62
_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")
_ENTRY_BYTES = 46
_LOCAL_BYTES = 30
_FLAGS = 0x0806  # names in UTF-8, and how hard the compressor tried
# What zipfile and zlib say of what is not as it should be. (A password it wants is a RuntimeError.)
_BAD = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, struct.error, RuntimeError, OverflowError)


class _Head(BaseModel):
    """What a manifest of every format says."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    format: int


class Archive:
    """An archive whose list and manifest are sound, to be unpacked."""

    def __init__(self, path: Path, opened: zipfile.ZipFile, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._zip = opened

    @property
    def size(self) -> int:
        """The bytes of all members."""
        return sum(member.size for member in self.manifest.members)

    def blocks(self, member: Member) -> Iterator[bytes]:
        """The member's bytes; after the last one they are what the manifest says. Raises ArchiveError."""
        digest, left = hashlib.sha256(), member.size
        try:
            with self._zip.open(member.name) as stream:
                # One byte more than there should be, and no more.
                while block := stream.read(min(BLOCK, left + 1)):
                    left -= len(block)
                    if left < 0:
                        break
                    digest.update(block)
                    yield block
        except _BAD as error:
            raise refused(self.path, f"{member.name} cannot be unpacked ({error})") from error
        if left or digest.hexdigest() != member.sha256:
            raise refused(self.path, f"{member.name} is not what the manifest says; the archive is damaged")


def refused(path: Path, what: str) -> ArchiveError:
    """That this archive is not imported, and why."""
    return ArchiveError(f"{path}: {plainly(what)}", "nothing was imported, take another backup")


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """The archive in this file. Raises ArchiveError for what no `dreamd export` wrote, and for a newer one's."""
    with _opened(path) as file, ExitStack() as stack:
        try:
            archive = _archive(path, file, stack)
        except _BAD as error:
            raise refused(path, f"it is no archive of a workspace, or a part of one ({error})") from error
        yield archive


def _archive(path: Path, file: BinaryIO, stack: ExitStack) -> Archive:
    first_after = _require_list(path, file)
    opened = stack.enter_context(zipfile.ZipFile(file))
    infos = _entries(path, opened.infolist(), first_after)
    manifest = _manifest(path, _read_manifest(path, opened, infos))
    _require_members(path, infos, manifest)
    return Archive(path, opened, manifest)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with storage_errors(path):
        # Without O_NONBLOCK a FIFO of this name would be waited for.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise UsageError(f"{path} is no regular file", "name an archive that 'dreamd export' wrote")
        yield file


def _require_list(path: Path, file: BinaryIO) -> int:
    """Where the list of entries begins, which ends the file and is not too long to be read."""
    size = file.seek(0, os.SEEK_END)
    if size < _END.size:
        raise refused(path, "it is no zip file")
    end = size - _END.size
    file.seek(end)
    mark, disk, list_disk, here, count, length, begin, comment = _END.unpack(file.read(_END.size))
    if mark != b"PK\5\6" or comment:
        raise refused(path, "it is no zip file of dreamd's, or cut off, or something was added to it")
    if 0xFFFF in (here, count) or 0xFFFFFFFF in (length, begin):
        end -= _LOCATOR_64.size + _END_64.size
        if end < 0:
            raise refused(path, "it is no whole zip file")
        file.seek(end)
        mark, more, _, _, disk, list_disk, here, count, length, begin = _END_64.unpack(file.read(_END_64.size))
        locator, _, place_of_end, disks = _LOCATOR_64.unpack(file.read(_LOCATOR_64.size))
        if (mark, more, locator, place_of_end, disks) != (b"PK\6\6", _END_64.size - 12, b"PK\6\7", end, 1):
            raise refused(path, "it is no whole zip file")
    if disk or list_disk or here != count or begin + length != end:
        raise refused(path, "its list of entries is not where it should be")
    if count > MAX_MEMBERS + 1 or length > _MAX_LIST_BYTES or count * _ENTRY_BYTES > length:
        raise refused(path, f"it lists more than the {MAX_MEMBERS:,} files that a workspace may have")
    file.seek(0)
    return int(begin)


def _entries(path: Path, infos: list[zipfile.ZipInfo], end: int) -> dict[str, zipfile.ZipInfo]:
    """The entries by name: each once, of a name that a workspace has, in a place of its own before `end`."""
    somewhere = Workspace(Path("/"))
    found: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        # zipfile cuts a name at a NUL.
        name = info.orig_filename
        if name != info.filename or (name != MANIFEST and place(somewhere, name) is None):
            raise refused(path, f"{name[:200]!r} is no file of a workspace's")
        if name in found:
            raise refused(path, f"{name} is in it twice")
        kind = info.external_attr >> 16
        if stat.S_IFMT(kind) not in (0, stat.S_IFREG) or info.external_attr & 0x10:
            raise refused(path, f"{name} is no regular file")
        if info.flag_bits & ~_FLAGS:
            raise refused(path, f"{name} is encrypted, or packed in another way than dreamd does")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise refused(path, f"{name} is compressed in a way that dreamd does not use")
        found[name] = info
    begin = 0
    for info in sorted(infos, key=lambda one: one.header_offset):
        if info.header_offset < begin:
            raise refused(path, f"{info.filename} stands where another file does")
        begin = info.header_offset + _LOCAL_BYTES + len(info.filename) + info.compress_size
    if begin > end:
        raise refused(path, "a file in it is longer than it is")
    return found


def _read_manifest(path: Path, opened: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo]) -> bytes:
    info = infos.get(MANIFEST)
    if info is None:
        raise refused(path, f"it has no {MANIFEST}: it is no archive of a workspace")
    if info.file_size > _MAX_MANIFEST_BYTES:
        raise refused(path, f"its {MANIFEST} is too long")
    with opened.open(info) as stream:
        return stream.read(_MAX_MANIFEST_BYTES)


def _manifest(path: Path, content: bytes) -> Manifest:
    try:
        head = _Head.model_validate_json(content)
    except ValidationError as error:
        raise refused(path, f"its {MANIFEST} cannot be read") from error
    if head.format > FORMAT:
        raise _newer(path, f"format {head.format}, this one knows {FORMAT}")
    try:
        manifest = decode(Manifest, content, MANIFEST)
    except StorageError as error:
        raise refused(path, f"its {MANIFEST} cannot be read") from error
    if manifest.schema > SCHEMA_VERSION:
        raise _newer(path, f"schema {manifest.schema}, this one knows {SCHEMA_VERSION}")
    if manifest.format < 1 or manifest.schema < 1 or manifest.at.tzinfo is None:
        raise refused(path, f"its {MANIFEST} cannot be meant")
    return manifest


def _newer(path: Path, what: str) -> ArchiveError:
    return ArchiveError(f"{path}: written by a newer dreamd ({what})", "upgrade, then import it")


def _require_members(path: Path, infos: dict[str, zipfile.ZipInfo], manifest: Manifest) -> None:
    """The manifest and the list agree on what there is and how long it is."""
    listed = {member.name: member for member in manifest.members}
    if len(listed) != len(manifest.members) or listed.keys() != infos.keys() - {MANIFEST}:
        raise refused(path, f"its {MANIFEST} names other files than are in it")
    if DATABASE not in listed:
        raise refused(path, f"it has no {DATABASE}")
    for name, member in listed.items():
        if member.size != infos[name].file_size or not 0 <= member.mtime_ns < _MAX_MTIME_NS:
            raise refused(path, f"{name} is not as long as the {MANIFEST} says, or of no time")
    size, packed = sum(member.size for member in listed.values()), sum(one.compress_size for one in infos.values())
    if size > _MANY_BYTES and size > packed * _BEST_RATIO:
        raise refused(path, f"{packed:,} bytes of it would unpack to {size:,}: that is no memory")
