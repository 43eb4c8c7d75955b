"""Manifests as objects: their bytes, their keys, and what is checked before one is believed.

    PREFIX/generations/000000000007-3-<digest>   number, fence, and the beginning of the SHA-256 of its content
    PREFIX/packs/000000000007-3-<digest>         of the generation that it was made for

A key is bound to the content, so whoever has the key from the database sees when the store gives out something else;
and to write an object twice is to write it once. Content is zlib of JSON, the packs by their number in a list.
"""

import hashlib
import json
import re
import zlib
from datetime import datetime
from typing import Any

from state.errors import StorageError
from state.fleet.generation import FORMAT, Chunk, Manifest, Pack, StoredFile
from state.stores.generations.belonging import may_be_placed

LONGEST_MANIFEST = 256 * 1024**2
_DIGEST = 32
_HEX = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"\.?([0-9]{12})-([0-9]{1,19})-([0-9a-f]{32})(?:\..*)?")
_MOST_BYTES = 2**53


def digest_of(content: bytes) -> str:
    """SHA-256, as hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def file_digest(chunks: tuple[str, ...]) -> str:
    """The digest of a file whose chunks have these."""
    return digest_of("".join(chunks).encode())


def manifest_key(prefix: str, number: int, fence: int, content: bytes) -> str:
    """The key of a manifest with this content."""
    return f"{prefix}/generations/{number:012d}-{fence}-{digest_of(content)[:_DIGEST]}"


def pack_key(prefix: str, number: int, fence: int, content: bytes | bytearray) -> str:
    """The key of a pack with this content."""
    return f"{prefix}/packs/{number:012d}-{fence}-{hashlib.sha256(content).hexdigest()[:_DIGEST]}"


def made_by(key: str) -> tuple[int, int] | None:
    """Number and fence of the generation that an object (or what a killed writer left of one) was made for."""
    match = _NAME.fullmatch(key.rpartition("/")[2])
    return (int(match.group(1)), int(match.group(2))) if match else None


def encoded(manifest: Manifest) -> bytes:
    """The content of its object."""
    places = {pack.key: place for place, pack in enumerate(manifest.packs)}
    plain = {
        "format": manifest.format,
        "number": manifest.number,
        "fence": manifest.fence,
        "at": manifest.at.isoformat(),
        "packs": [[pack.key, pack.size] for pack in manifest.packs],
        "files": [
            [
                file.name,
                file.mtime_ns,
                [[places[chunk.pack], chunk.offset, chunk.size, chunk.digest] for chunk in file.chunks],
            ]
            for file in manifest.files
        ],
    }
    return zlib.compress(json.dumps(plain, separators=(",", ":")).encode(), 1)


def decoded(content: bytes, key: str, prefix: str) -> Manifest:
    """The manifest that an object holds.

    Raises StorageError, which names it, unless its content is the one that its key says, every file lies below the
    folder under a name of its own, and every chunk in a pack of this prefix.
    """
    if key != f"{prefix}/generations/{key.rpartition('/')[2]}" or digest_of(content)[:_DIGEST] != key[-_DIGEST:]:
        raise _wrong(key, "it is not what was written under this key")
    try:
        unpacking = zlib.decompressobj()
        plain = json.loads(unpacking.decompress(content, LONGEST_MANIFEST))
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise _wrong(key, "it is cut off, or too long")
        if plain["format"] != FORMAT:
            raise StorageError(f"the object {key} has format {plain['format']!r:.20}", "upgrade dreamd")
        manifest = _read(plain)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, zlib.error) as error:
        raise _wrong(key, "it is no manifest") from error
    _require_sound(manifest, key, prefix)
    return manifest


def _read(plain: Any) -> Manifest:  # noqa: ANN401 - JSON has no better type
    packs = tuple(Pack(str(key), _number(size)) for key, size in plain["packs"])
    files = []
    for name, mtime_ns, rows in plain["files"]:
        chunks = tuple(
            Chunk(packs[_number(place)].key, _number(offset), _number(size), str(digest))
            for place, offset, size, digest in rows
        )
        digest = file_digest(tuple(chunk.digest for chunk in chunks))
        size = sum(chunk.size for chunk in chunks)
        files.append(StoredFile(str(name), size, int(mtime_ns), digest, chunks))
    at = datetime.fromisoformat(plain["at"])
    return Manifest(FORMAT, _number(plain["number"]), _number(plain["fence"]), at, tuple(files), packs)


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(value)
    return value


def _require_sound(manifest: Manifest, key: str, prefix: str) -> None:
    sizes = {pack.key: pack.size for pack in manifest.packs}
    if made_by(key) != (manifest.number, manifest.fence):
        raise _wrong(key, "it is of another generation")
    for pack in sizes:
        if made_by(pack) is None or pack != f"{prefix}/packs/{pack.rpartition('/')[2]}":
            raise _wrong(key, f"it names {pack[:100]!r}, which is no pack of this workspace")
    names = {file.name for file in manifest.files}
    if len(names) != len(manifest.files):
        raise _wrong(key, "it has two files of one name")
    for file in manifest.files:
        parts = file.name.split("/")
        above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        if not may_be_placed(file.name) or above & names or file.size > _MOST_BYTES:
            raise _wrong(key, f"no workspace has a file {file.name[:100]!r}")
        if not -(2**63) <= file.mtime_ns < 2**63:
            raise _wrong(key, f"the time of {file.name[:100]!r} is none")
        for chunk in file.chunks:
            if not chunk.size or chunk.offset + chunk.size > sizes[chunk.pack] or not _HEX.fullmatch(chunk.digest):
                raise _wrong(key, f"a chunk of {file.name[:100]!r} lies nowhere")


def _wrong(key: str, what: str) -> StorageError:
    return StorageError(f"the object {key}: {what}", "bring up an older generation ('dreamd fleet recover')")
