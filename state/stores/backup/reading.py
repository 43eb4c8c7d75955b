"""Archive reading: checks an archive that anybody may have made, and unpacks no more of it than its manifest says.

An archive is a tar.gz; the zip files of older versions are read as well. It is read twice: its entries are checked
(names that a workspace has, each once, regular files, not too many, and no more bytes than a memory can have), then
each is unpacked and compared with the manifest.
"""

import gzip
import hashlib
import io
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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
from state.stores.disk.workspace import contained

_MAX_LIST_BYTES = MAX_MEMBERS * 128
_MAX_MANIFEST_BYTES = MAX_MEMBERS * 256
# No memory of an agent's is compressed better, when there is so much of it.
_MANY_BYTES = 1024**3
_BEST_RATIO = 100
_MAX_MTIME_NS = 2**62
_GZIP, _ZIP, _ZIP_END = b"\x1f\x8b", b"PK\3\4", b"PK\5\6"
_ZIP_END_BYTES = 22
# What the libraries say of what is not as it should be. (A password that zipfile wants is a RuntimeError.)
_BAD = (
    tarfile.TarError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, EOFError, ValueError, struct.error,
    RuntimeError, OverflowError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Entry:
    """One file of an archive. `read` gives its next bytes, until the next entry is asked for."""

    name: str
    size: int
    is_plain: bool
    read: Callable[[int], bytes]


class _Head(BaseModel):
    """What a manifest of every format says."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    format: int


class _File(io.BufferedReader):
    """An archive's file. The list of a zip file, which zipfile reads in one piece, is refused when it is too long."""

    def read(self, size: int | None = -1, /) -> bytes:
        """At most so many bytes. Raises ValueError for more than a list may have."""
        if size is not None and size > _MAX_LIST_BYTES:
            raise ValueError(f"it lists more than the {MAX_MEMBERS:,} files that a workspace may have")
        return super().read(_MAX_LIST_BYTES if size is None or size < 0 else size)


class Archive:
    """An archive whose entries and manifest have been checked."""

    def __init__(self, path: Path, file: _File) -> None:
        self.path = path
        self._file = file
        sizes: dict[str, int] = {}
        content: bytes | None = None
        total, packed = 0, os.fstat(file.fileno()).st_size
        for entry in self._entries():
            total += entry.size
            if total > _MANY_BYTES and total > packed * _BEST_RATIO:
                raise refused(path, f"{packed:,} bytes of it would unpack to {total:,}: that is no memory")
            if len(sizes) > MAX_MEMBERS:
                raise refused(path, f"it lists more than the {MAX_MEMBERS:,} files that a workspace may have")
            _require_entry(path, entry, sizes)
            sizes[entry.name] = entry.size
            if entry.name == MANIFEST:
                if entry.size > _MAX_MANIFEST_BYTES:
                    raise refused(path, f"its {MANIFEST} is too long")
                content = entry.read(entry.size)
        if content is None:
            raise refused(path, f"it has no {MANIFEST}: it is no archive of a workspace")
        self.manifest = _manifest(path, content)
        _require_members(path, sizes, self.manifest)

    def contents(self) -> Iterator[tuple[Member, Iterator[bytes]]]:
        """Each member with its bytes, in the archive's order, to be read before the next member.

        After the last block the bytes are what the manifest says. Raises ArchiveError.
        """
        members = {member.name: member for member in self.manifest.members}
        try:
            for entry in self._entries():
                if entry.name != MANIFEST:
                    member = members.pop(entry.name)
                    yield member, self._blocks(member, entry)
        except (*_BAD, KeyError) as error:
            raise refused(self.path, f"it cannot be unpacked ({error})") from error
        if members:
            raise refused(self.path, "it has changed while it was read")

    def _blocks(self, member: Member, entry: _Entry) -> Iterator[bytes]:
        digest, left = hashlib.sha256(), member.size if entry.size == member.size else 0
        try:
            while left and (block := entry.read(min(BLOCK, left))):
                left -= len(block)
                digest.update(block)
                yield block
        except _BAD as error:
            raise refused(self.path, f"{member.name} cannot be unpacked ({error})") from error
        if left or digest.hexdigest() != member.sha256:
            raise refused(self.path, f"{member.name} is not what the manifest says; the archive is damaged")

    def _entries(self) -> Iterator[_Entry]:
        self._file.seek(0)
        begin = self._file.read(len(_ZIP))
        self._file.seek(0)
        if begin == _ZIP:
            return _zip_entries(self._file)
        if begin[: len(_GZIP)] == _GZIP:
            return _tar_entries(self._file)
        raise refused(self.path, "it is no archive of a workspace")


def refused(path: Path, what: str) -> ArchiveError:
    """That this archive is not imported, and why."""
    return ArchiveError(f"{path}: {plainly(what)}", "nothing was imported, take another backup")


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """The archive in this file. Raises ArchiveError for what no `dreamd export` wrote, and for a newer one's."""
    with storage_errors(path):
        # Without O_NONBLOCK a FIFO of this name would be waited for.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UsageError(f"{path} is no regular file", "name an archive that 'dreamd export' wrote")
    with _File(io.FileIO(fd)) as file:
        try:
            archive = Archive(path, file)
        except _BAD as error:
            raise refused(path, f"it is no archive of a workspace, or a part of one ({error})") from error
        yield archive


def _require_entry(path: Path, entry: _Entry, known: Container[str]) -> None:
    """Return if an archive may have this entry beside those that are known. Raises ArchiveError."""
    if entry.name != MANIFEST and place(contained(Path("/")), entry.name) is None:
        raise refused(path, f"{entry.name[:200]!r} is no file of a workspace's")
    if entry.name in known:
        raise refused(path, f"{entry.name} is in it twice")
    if not entry.is_plain:
        raise refused(path, f"{entry.name} is no regular file, or packed in another way than dreamd does")


def _tar_entries(file: _File) -> Iterator[_Entry]:
    """The entries of a tar.gz, header by header: no extension that says more of an entry is read."""
    with gzip.GzipFile(fileobj=file) as stream:
        while any(header := stream.read(tarfile.BLOCKSIZE)):
            info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
            if info.size < 0:
                raise ValueError(f"the size {info.size}")
            end = stream.tell() + -(-info.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
            # A name has one form: no prefix, and nothing behind a NUL.
            name = header[:100].rstrip(b"\0").decode()
            yield _Entry(name, info.size, info.type == tarfile.REGTYPE and info.name == name, stream.read)
            if stream.seek(end) != end:
                raise EOFError("it is cut off")
        # Two blocks end it, and fill the record; where one block was left of that, another record with the second.
        rest = stream.read(2 * tarfile.RECORDSIZE)
        if not header or len(rest) > tarfile.RECORDSIZE or any(rest):
            raise ValueError("it is cut off, or something was added to it")


def _zip_entries(file: _File) -> Iterator[_Entry]:
    """The entries of a zip file, as dreamd wrote one before its archives were tar files."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _ZIP_END_BYTES))
    if not file.read().startswith(_ZIP_END):
        raise ValueError("it is cut off, or something was added to it")
    with zipfile.ZipFile(file) as opened:
        for info in opened.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            is_plain = (
                kind in (0, stat.S_IFREG)
                and not info.external_attr & 0x10
                and not info.flag_bits & 1
                and info.header_offset >= 0
                and info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            )
            # zipfile cuts a name at a NUL.
            if not is_plain or info.filename != info.orig_filename:
                yield _Entry(info.orig_filename, info.file_size, is_plain, lambda _: b"")
                continue
            with opened.open(info) as stream:
                yield _Entry(info.filename, info.file_size, is_plain, stream.read)


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


def _require_members(path: Path, sizes: dict[str, int], manifest: Manifest) -> None:
    """The manifest and the entries agree on what there is and how long it is."""
    listed = {member.name: member for member in manifest.members}
    if len(listed) != len(manifest.members) or listed.keys() != sizes.keys() - {MANIFEST}:
        raise refused(path, f"its {MANIFEST} names other files than are in it")
    if DATABASE not in listed:
        raise refused(path, f"it has no {DATABASE}")
    for name, member in listed.items():
        if member.size != sizes[name] or not 0 <= member.mtime_ns < _MAX_MTIME_NS:
            raise refused(path, f"{name} is not as long as the {MANIFEST} says, or of no time")
