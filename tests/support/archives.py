"""Archives for tests: an honest one, and what can be made of it."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from daemon.dream.restore import restore
from daemon.dream.run import Mode, dream_now
from daemon.sessions import clear_session
from daemon.upkeep.export import export
from daemon.upkeep.import_ import import_archive
from daemon.workspace.stores import Store
from state.dream import Reason
from state.scratch import Note
from state.stores.backup.manifest import MANIFEST, ArchiveError
from tests.support.working import add, working

NOTES = ("Ada prefers tea over coffee", "The deployment runs on port 8443", "Grüße aus Köln, 東京で会いましょう 🍵")
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
Changes = Mapping[str, bytes | None]


def lived(root: Path) -> Path:
    """A workspace with versions, a restored one, sessions, pending notes of every kind, and a person's files."""
    with working(root) as store:
        for number, note in enumerate(NOTES):
            store.segments.append(Note(note, AT + timedelta(minutes=number)))
            dream_now(store, Reason.MANUAL, Mode.AUTO)
        restore(store, 2)
        add(store, "the harbour wall is of granite", priority="critical")
        clear_session(store, "s", AT)
        add(store, "the swift nests under the roof", session="other")
        store.segments.append(Note("it is pending", AT))
    with (root / "memory" / "scratch.md").open("a", encoding="utf-8") as log:
        log.write("- by hand, without a stamp\n\n  and in two lines\n")
    (root / "GENOME.md").write_bytes(b"# Genome\n\xff\xfe is no UTF-8\n")
    (root / "memory" / "economics.json").write_text("{}")
    (root / "transcripts").mkdir()
    (root / "transcripts" / "one.jsonl").write_text("{}\n")
    return root


def exported(root: Path, target: Path) -> Path:
    """An archive of the workspace."""
    with working(root) as store:
        return moved(store, target)


def moved(store: Store, target: Path) -> Path:
    return Path(export(store, datetime.now(UTC)).path).rename(target)


def unpacked(path: Path) -> dict[str, bytes]:
    """Every file that is in it, the manifest too."""
    with tarfile.open(path) as opened:
        found = {info.name: opened.extractfile(info) for info in opened.getmembers()}
        return {name: file.read() for name, file in found.items() if file is not None}


def members(path: Path) -> dict[str, bytes]:
    """What is in it, but for the manifest."""
    return {name: content for name, content in unpacked(path).items() if name != MANIFEST}


def manifest(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(unpacked(path)[MANIFEST])
    return found


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
    said = manifest(origin)
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


@dataclass(frozen=True, slots=True)
class Importer:
    """Imports into a folder in which there is nothing else."""

    folder: Path

    def refuses(self, archive: Path, *said: str) -> str:
        """The archive is refused with these words, and nothing is left of it."""
        with pytest.raises(ArchiveError) as caught:
            import_archive(archive, self.folder / "there")
        assert [word for word in said if word not in str(caught.value)] == [], str(caught.value)
        assert "\n" not in str(caught.value)
        assert list(self.folder.iterdir()) == []
        return str(caught.value)
