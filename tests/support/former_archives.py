"""Archives of an older dreamd for tests, and what can be made of them."""

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
"""An older one of the same, with the records of versions beside state.db."""
Changes = Mapping[str, bytes | None]


def unpacked(path: Path) -> dict[str, bytes]:
    """Every file that is in it, the manifest too."""
    with tarfile.open(path) as opened:
        found = {info.name: opened.extractfile(info) for info in opened.getmembers()}
        return {name: file.read() for name, file in found.items() if file is not None}


def members(path: Path) -> dict[str, bytes]:
    """What is in it, but for the manifest."""
    return {name: content for name, content in unpacked(path).items() if name != MANIFEST}


def header(name: str, size: int = 0, **more: object) -> bytes:
    """The header of a file in a tar file, with these things in it that dreamd never writes."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    for field, value in more.items():
        setattr(entry, field, value)
    return entry.tobuf(tarfile.GNU_FORMAT)


def tarred(entries: Iterable[tuple[bytes, bytes]], end: bytes = bytes(2 * tarfile.BLOCKSIZE)) -> bytes:
    """A tar.gz of these headers, each with what follows it."""
    made = io.BytesIO()
    with gzip.GzipFile(fileobj=made, mode="wb", compresslevel=1) as packed:
        for head, content in entries:
            packed.write(head + content + bytes(-len(content) % tarfile.BLOCKSIZE))
        packed.write(end)
    return made.getvalue()


def packed(content: Mapping[str, bytes], *more: tuple[bytes, bytes]) -> bytes:
    """A tar.gz of these files, and of more headers with what follows them."""
    return tarred([*((header(name, len(block)), block) for name, block in content.items()), *more])


def forged(
    origin: Path, target: Path, changes: Changes, mend: Callable[[dict[str, Any]], object] | None = None
) -> Path:
    """An archive with other members (None: without) and a manifest that agrees with them, which is changed then."""
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
