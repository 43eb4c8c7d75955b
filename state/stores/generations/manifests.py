"""Manifests: generations as objects: their bytes, their keys, and what is checked before one is believed.

    PREFIX/generations/000000000007-<digest>   number, and the beginning of the SHA-256 of its content
    PREFIX/parts/000000000007-<digest>         blocks that it has besides

A key is bound to the content, so whoever has the key from the database sees when the store gives out something else;
and to write an object twice is to write it once. Content is zlib of a head (JSON) and the bytes of its blocks. The
head of a generation's own object names all objects that it is made of.
"""

import hashlib
import json
import re
import struct
import zlib
from datetime import datetime
from typing import Any

from state.errors import StorageError
from state.fleet.generation import Manifest, Part, StoredFile
from state.stores.generations.belonging import may_be_placed
from state.stores.generations.blocks import DIGEST_BYTES, Batch, Extent

_FORMAT = 3
_LONGEST = 256 * 1024**2
_DIGEST = 32
_HEX = re.compile(f"[0-9a-f]{{{2 * DIGEST_BYTES}}}")
_NAME = re.compile(r"\.?([0-9]{12})-([0-9a-f]{32})(?:\..*)?")
_OLD_NAME = re.compile(r"/[0-9]{12}-[0-9]{1,19}-[0-9a-f]{32}$")
_MOST_BYTES = 2**53
_LENGTH = struct.Struct(">I")


def manifest_key(prefix: str, number: int, content: bytes) -> str:
    """Return the key of a generation's own object with this content."""
    return f"{prefix}/generations/{_name(number, content)}"


def part_key(prefix: str, number: int, content: bytes) -> str:
    """Return the key of a part with this content."""
    return f"{prefix}/parts/{_name(number, content)}"


def _name(number: int, content: bytes) -> str:
    return f"{number:012d}-{hashlib.sha256(content).hexdigest()[:_DIGEST]}"


def made_by(key: str) -> int | None:
    """Return the number of the generation that an object, or what a killed writer left of one, is of."""
    match = _NAME.fullmatch(key.rpartition("/")[2])
    return int(match.group(1)) if match else None


def encoded(batch: Batch, manifest: Manifest | None = None) -> bytes:
    """Return the content of an object with these blocks; `manifest`: of the generation whose own it is."""
    plain: dict[str, Any] = {"format": _FORMAT, "blocks": [[one.name, one.size, one.runs] for one in batch.extents]}
    if manifest is not None:
        plain |= {
            "place": [manifest.tenant, manifest.workspace],
            "number": manifest.number,
            "at": manifest.at.isoformat(),
            "files": [[file.name, file.size, file.mtime_ns, file.digest] for file in manifest.files],
            "parts": [[part.key, part.size] for part in manifest.parts],
        }
    head = json.dumps(plain, separators=(",", ":")).encode()
    return zlib.compress(b"".join((_LENGTH.pack(len(head)), head, batch.content)), 1)


def decoded_manifest(content: bytes, key: str, prefix: str) -> Manifest:
    """Return the generation whose own object this is.

    Raise StorageError, which names it, unless its content is the one that its key says, every file lies below the
    folder under a name of its own, and every object below this prefix.
    """
    plain, _ = _decoded(content, key, prefix)
    try:
        files = tuple(
            StoredFile(str(name), _number(size), int(mtime_ns), str(digest))
            for name, size, mtime_ns, digest in plain["files"]
        )
        parts = tuple(Part(str(part), _number(size)) for part, size in plain["parts"])
        tenant, workspace = map(str, plain["place"])
        number, at = _number(plain["number"]), datetime.fromisoformat(plain["at"])
        manifest = Manifest(tenant, workspace, number, at, files, (*parts, Part(key, len(content))))
    except _MALFORMED as error:
        raise damaged(key, "it is no generation") from error
    _require_sound(manifest, prefix)
    return manifest


def decoded_batch(content: bytes, key: str, prefix: str) -> Batch:
    """Return the blocks that an object holds. Raise StorageError as `decoded_manifest`."""
    plain, blocks = _decoded(content, key, prefix)
    try:
        extents = [
            Extent(str(name), _number(size), [(_number(first), _number(count)) for first, count in runs])
            for name, size, runs in plain["blocks"]
        ]
    except _MALFORMED as error:
        raise damaged(key, "it has no blocks") from error
    sizes = [size for extent in extents for _, size in extent.sizes()]
    if any(size <= 0 for size in sizes) or sum(sizes) != len(blocks):
        raise damaged(key, "its blocks are not those that it names")
    return Batch(extents, bytearray(blocks))


_MALFORMED = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError)


def _decoded(content: bytes, key: str, prefix: str) -> tuple[dict[str, Any], bytes]:
    """Return head and blocks of an object."""
    if _OLD_NAME.search(key):
        raise StorageError(
            f"the object {key} was written by an older dreamd",
            "export the workspace with that one, and import it with this one",
        )
    if not _is_key(key, prefix) or hashlib.sha256(content).hexdigest()[:_DIGEST] != key[-_DIGEST:]:
        raise damaged(key, "it is not what was written under this key")
    try:
        unpacking = zlib.decompressobj()
        whole = unpacking.decompress(content, _LONGEST)
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise damaged(key, "it is cut off, or too long")
        start = _LENGTH.size + _LENGTH.unpack_from(whole)[0]
        plain = json.loads(whole[_LENGTH.size : start])
        found = plain["format"]
    except (*_MALFORMED, zlib.error, struct.error) as error:
        raise damaged(key, "it is none of a generation's objects") from error
    if found != _FORMAT:
        raise StorageError(f"the object {key} has format {found!r:.20}", "use the dreamd that wrote it")
    return plain, whole[start:]


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value < _MOST_BYTES:
        raise ValueError(value)
    return value


def _is_key(key: str, prefix: str) -> bool:
    return made_by(key) is not None and key in {
        f"{prefix}/{kind}/{key.rpartition('/')[2]}" for kind in ("generations", "parts")
    }


def _require_sound(manifest: Manifest, prefix: str) -> None:
    key = manifest.key
    if made_by(key) != manifest.number:
        raise damaged(key, "it is of another generation")
    for part in manifest.parts:
        if not _is_key(part.key, prefix):
            raise damaged(key, f"it names {part.key[:100]!r}, which is no object of this workspace")
    names = {file.name for file in manifest.files}
    if len(names) != len(manifest.files):
        raise damaged(key, "it has two files of one name")
    for file in manifest.files:
        steps = file.name.split("/")
        above = {"/".join(steps[:depth]) for depth in range(1, len(steps))}
        if not may_be_placed(file.name) or above & names:
            raise damaged(key, f"no workspace has a file {file.name[:100]!r}")
        if not -(2**63) <= file.mtime_ns < 2**63:
            raise damaged(key, f"the time of {file.name[:100]!r} is none")
        if not _HEX.fullmatch(file.digest):
            raise damaged(key, f"the digest of {file.name[:100]!r} is none")


def damaged(key: str, what: str) -> StorageError:
    """Return the error for an object of a generation that cannot be used."""
    return StorageError(f"the object {key}: {what}", "bring up an older generation ('dreamd fleet recover')")
