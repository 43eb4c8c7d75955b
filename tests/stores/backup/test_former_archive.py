import gzip
import json
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from daemon.upkeep.import_ import import_archive
from daemon.workspace.adoption import open_workspace
from state.dream import decode_record
from state.stores.backup.former_archive import MANIFEST
from tests.support.archives import HOSTILE_NAMES, NOTES, Importer
from tests.support.former_archives import (
    FORMER,
    FORMER_RECORDS,
    forged,
    header,
    members,
    packed,
    tarred,
    unpacked,
)
from tests.support.long_variants import spread
from tests.support.notes import pending_notes
from tests.support.working import working


@pytest.mark.parametrize("origin", [FORMER, FORMER_RECORDS])
def test_an_archive_of_an_older_dreamd_is_imported_exactly(origin: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    done = import_archive(origin, there)
    assert (done.version, done.missing, done.foreign) == (4, (), 0)
    assert "it is pending" in [note.text for note in pending_notes(open_workspace(there))]
    files = unpacked(origin)
    times = {one["name"]: one["mtime_ns"] for one in json.loads(files[MANIFEST])["members"]}
    assert NOTES[0].encode() in files["MEMORY.md"]
    for name in files.keys() - {"state.db", MANIFEST}:
        root, state = there, open_workspace(there).state
        root = state / "kept" if name.startswith(("history/", "segments/")) else root
        assert (root / name).read_bytes() == files[name]
        assert (root / name).stat().st_mtime_ns == times[name]
    with working(there) as store:
        assert all(store.memory.text(number) for number in range(1, 5))
        for name in files:
            if name.startswith("history/"):
                record = decode_record(files[name], name)
                kept = store.memory.version(record.number)
                assert (kept.after, kept.operations, kept.id) == (record.after, record.operations, record.id)


def with_entry(target: Path, head: bytes, content: bytes = b"") -> Path:
    """The archive with one entry more, before its manifest, which does not know it."""
    files = unpacked(FORMER)
    said = files.pop(MANIFEST)
    target.write_bytes(packed(files, (head, content), (header(MANIFEST, len(said)), said)))
    return target


def hidden(at: int, field: bytes) -> bytes:
    """A header with these bytes at this place, and the sum that it has then."""
    head = bytearray(header(NINTH))
    head[at : at + len(field)] = field
    head[148:156] = b"%06o\0 " % (sum(head[:148]) + sum(head[156:]) + 8 * ord(" "))
    return bytes(head)


NINTH = "history/000009.json"
# Links, devices, folders, sparse files.
NO_FILES = (
    tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE,
    tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE, tarfile.AREGTYPE, b"Z",
)  # fmt: skip
ENTRIES: dict[str, tuple[bytes, str]] = {
    **{f"name {name[:40]!a}": (header(name), "is no") for name in HOSTILE_NAMES},
    **{
        f"kind {kind!r}": (header(NINTH, type=kind, linkname="/etc/passwd", devmajor=1, devminor=3), "is no")
        for kind in NO_FILES
    },
    **{f"size {size}": (header(NINTH, size), "") for size in (-1, -(2**62), 2**62, 10**12)},
    "behind a NUL": (hidden(0, b"GENOME.md\0.exe"), ""),
    "no UTF-8": (hidden(0, b"\xff\xfe"), ""),
    "a prefix": (hidden(345, b"/etc"), ""),
    "twice": (header("MEMORY.md", 7), "MEMORY.md is in it twice"),
    "unknown": (header("history/000077.json"), "does not say what is in it"),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_that_no_dreamd_wrote_is_refused(importer: Importer, tmp_path: Path, entry: str) -> None:
    head, said = ENTRIES[entry]
    importer.refuses(with_entry(tmp_path / "x.tar.gz", head, b"another" if entry == "twice" else b""), said)


@pytest.mark.parametrize(
    "kind",
    [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK],
)
@pytest.mark.parametrize("name", spread(["././@PaxHeader", "history/000009.json"], 2))
def test_a_header_that_says_more_of_the_next_file_is_refused(
    importer: Importer, tmp_path: Path, kind: bytes, name: str
) -> None:
    """A name, a size or a link from somewhere else, and as long as it says: none is read."""
    more = b"30 path=../../../../etc/cron.d/x\n21 size=99999999999\n"
    importer.refuses(with_entry(tmp_path / "x.tar.gz", header(name, len(more), type=kind), more), "is no")
    long = with_entry(tmp_path / "y.tar.gz", header(name, 60_000_000, type=kind), bytes(60_000_000))
    tracemalloc.start()
    importer.refuses(long, "is no")
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_what_a_manifest_does_not_say_or_says_twice_is_refused(importer: Importer, tmp_path: Path) -> None:
    importer.refuses(
        forged(FORMER, tmp_path / "less.tar.gz", {}, lambda said: said["members"].pop()), "does not say what is in it"
    )
    importer.refuses(forged(FORMER, tmp_path / "none.tar.gz", {"state.db": None}), "is no archive")

    def twice(said: dict[str, Any]) -> None:
        said["members"].append(said["members"][0])

    importer.refuses(forged(FORMER, tmp_path / "twice.tar.gz", {}, twice), "manifest")


@pytest.mark.parametrize(
    "content",
    [b"", b"null", b"[]", b"{", b'{"format": 1}', b'{"format": "1"}', b"\xff\xfe", b'{"format": 1, "members": [7]}',
     b"[" * 200_000, b'{"format": 1, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"format": 1e999}'],
)  # fmt: skip
def test_a_manifest_that_cannot_be_read_is_told_so(importer: Importer, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(packed(members(FORMER) | {MANIFEST: content}))
    importer.refuses(path, "manifest.json")


def test_what_is_no_archive_is_told_so(importer: Importer, tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    whole = FORMER.read_bytes()
    cut = (b"", whole[:-1], whole[:-9], whole[: len(whole) // 2], whole[100:])
    for content in (*cut, b"PK", b"\x1f\x8b", b"x" * 5_000, whole + b"x", whole + whole, b"#!/bin/sh\n" + whole):
        path.write_bytes(content)
        importer.refuses(path)
    files = [(header(name, len(content)), content) for name, content in unpacked(FORMER).items()]
    for end in (b"", b"x" * 512, bytes(1024) + b"x" * 512, bytes(30_000), bytes(1024) + files[0][0]):
        path.write_bytes(tarred(files, end))
        importer.refuses(path)
    path.write_bytes(gzip.compress(b"".join(head + content for head, content in files)[:-300]))
    importer.refuses(path)


def bomb(sizes: dict[str, int], real: int) -> bytes:
    """An archive whose headers and manifest say these sizes, every member being so many zeros."""
    rows = [{"name": name, "size": size, "sha256": "0" * 64, "mtime_ns": 0} for name, size in sizes.items()]
    said = json.dumps(
        {"format": 1, "dreamd": "", "schema": 1, "at": "2026-03-01T12:00:00Z", "members": rows}
    ).encode()
    entries = [(header(name, size), bytes(real)) for name, size in sizes.items()]
    return tarred([*entries, (header(MANIFEST, len(said)), said)])


def test_a_bomb_does_not_go_off(importer: Importer, tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    for sizes, real, said in (
        ({"state.db": 3 * 1024**3}, 20_000_000, "would unpack to"),
        ({"state.db": 9} | {f"history/{number:06d}.json": 50_000_000 for number in range(1, 60)}, 9, "x.tar.gz"),
        # It says that it is short, and is not; and the other way round.
        ({"state.db": 1000}, 20_000_000, "x.tar.gz"),
        ({"state.db": 20_000_000}, 20_000_000, "does not say what is in it"),
        ({"state.db": 60_000_000}, 20_000_000, "x.tar.gz"),
    ):
        path.write_bytes(bomb(sizes, real))
        tracemalloc.start()
        importer.refuses(path, said)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
        tracemalloc.stop()


def test_records_of_an_older_archive_that_are_no_dreams_are_refused(importer: Importer, tmp_path: Path) -> None:
    first, second = (members(FORMER_RECORDS)[f"history/{number:06d}.json"] for number in (1, 2))
    record = json.loads(second)
    for number, (name, content, said) in enumerate(
        (
            ("history/000002.json", b"{}", "cannot be read"),
            ("history/000002.json", b"\xff" * 100, "cannot be read"),
            ("history/000002.json", b"[" * 100_000, "cannot be read"),
            ("history/000002.json", first, "is version 1"),
            ("history/000002.json", json.dumps(record | {"id": "another"}).encode(), "of dream another"),
            ("history/000002.json", json.dumps(record | {"extra": 1}).encode(), "cannot be read"),
            # The next owner would take it for a commit that was interrupted, and finish it.
            ("history/000009.json", json.dumps(record | {"number": 9, "id": "new"}).encode(), "does not know"),
        )
    ):
        importer.refuses(forged(FORMER, tmp_path / f"{number}.tar.gz", {name: content}), said)
