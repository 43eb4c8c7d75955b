"""Archives of an older dreamd for tests, and forged copies of them."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from state.stores.backup.former_archive import MANIFEST

FORMER = Path(__file__).parents[1] / "stores/backup/former.tar.gz"
"""An export of the workspace that `tests.support.archives.lived` makes."""
FORMER_RECORDS = FORMER.with_name("former_records.tar.gz")
"""An older export of the same workspace, with the records of versions beside state.db."""
Changes = Mapping[str, bytes | None]


def unpacked(path: Path) -> dict[str, bytes]:
    """Return the content of each file in the archive, the manifest included."""
    with tarfile.open(path) as opened:
        found = {info.name: opened.extractfile(info) for info in opened.getmembers()}
        return {name: file.read() for name, file in found.items() if file is not None}


def members(path: Path) -> dict[str, bytes]:
    """Return the content of each file in the archive except the manifest."""
    return {name: content for name, content in unpacked(path).items() if name != MANIFEST}


def header(name: str, size: int = 0, **more: object) -> bytes:
    """Return a tar header for a file, with `more` fields that dreamd never writes."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    for field, value in more.items():
        setattr(entry, field, value)
    return entry.tobuf(tarfile.GNU_FORMAT)


def tarred(entries: Iterable[tuple[bytes, bytes]], end: bytes = bytes(2 * tarfile.BLOCKSIZE)) -> bytes:
    """Return a tar.gz of these headers, each with its content."""
    made = io.BytesIO()
    with gzip.GzipFile(fileobj=made, mode="wb", compresslevel=1) as packed:
        for head, content in entries:
            packed.write(head + content + bytes(-len(content) % tarfile.BLOCKSIZE))
        packed.write(end)
    return made.getvalue()


def packed(content: Mapping[str, bytes], *more: tuple[bytes, bytes]) -> bytes:
    """Return a tar.gz of these files, and of further headers with their contents."""
    return tarred([*((header(name, len(block)), block) for name, block in content.items()), *more])


def forged(
    origin: Path, target: Path, changes: Changes, mend: Callable[[dict[str, Any]], object] | None = None
) -> Path:
    """Write an archive with changed members (None: removed) and a matching manifest, which `mend` then alters."""
    content = {name: block for name, block in {**members(origin), **changes}.items() if block is not None}
    said = json.loads(unpacked(origin)[MANIFEST])
    times = {one["name"]: one["mtime_ns"] for one in said["members"]}
    said["members"] = [
        {
            "name": name,
            "size": len(block),
            "sha256": hashlib.sha256(block).hexdigest(),
            "mtime_ns": times.get(name, 0),
        }
        for name, block in content.items()
    ]
    if mend is not None:
        mend(said)
    target.write_bytes(packed(content | {MANIFEST: json.dumps(said).encode()}))
    return target
