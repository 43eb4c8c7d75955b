"""Archives that nobody's dreamd wrote: each is refused in one line, and nothing is left of it."""

import gzip
import hashlib
import json
import shutil
import stat
import tarfile
import tempfile
import tracemalloc
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from daemon.upkeep.import_ import import_archive
from state.dream import encode_record
from state.stores.backup.manifest import MANIFEST, MAX_MEMBERS, ArchiveError, place
from state.stores.backup.reading import open_archive
from state.stores.disk.workspace import contained
from tests.support.archives import (
    Importer,
    forged,
    header,
    manifest,
    members,
    packed,
    tarred,
    unpacked,
)
from tests.support.lived import everything
from tests.support.long_variants import examples, spread
from tests.support.working import working


def with_entry(archive: Path, target: Path, head: bytes, content: bytes = b"") -> Path:
    """The archive with one entry more, before its manifest, which does not know it."""
    files = unpacked(archive)
    said = files.pop(MANIFEST)
    target.write_bytes(packed(files, (head, content), (header(MANIFEST, len(said)), said)))
    return target


@pytest.mark.parametrize(
    "name",
    [
        "/etc/cron.d/x", "../x", "history/../../x", "history/..", "..\\x", "C:\\x", "memory\\scratch.md", "memory.md",
        "MEMORY.MD", "memory/Scratch.md", "./MEMORY.md", "MEMORY.md/", "MEMORY.md ", "history/", "history/1.json",
        "history/0000001.json", "history/000001.JSON", "history/٠٠٠٠٠١.json", "segments/retired/000001.01.md",
        "segments/000001.md/x", ".dreamd/state.db", ".dreamd/lock", "lock", "state.db-wal", "checkpoints/dreams.db",
        "crystals/chroma.sqlite3", "inner.tar.gz", "x", "",
        "MEMORY.md\n", "m\u0130emory", "\u202eMEMORY.md", "a" * 60_000,
    ],
)  # fmt: skip
def test_only_names_that_a_workspace_has_are_let_in(
    archive: Path, importer: Importer, tmp_path: Path, name: str
) -> None:
    assert place(contained(tmp_path), name) is None
    importer.refuses(with_entry(archive, tmp_path / "x.tar.gz", header(name)), "is no")


@examples(60)
@given(st.text(max_size=40) | st.from_regex(r"(history/|segments/|segments/retired/)[0-9.]{1,20}(json|md)?"))
def test_a_name_leads_into_the_workspace_or_nowhere(name: str) -> None:
    root = Path("/somewhere/here")
    found = place(contained(root), name)
    assert found is None or (".." not in found.parts and found.is_relative_to(root) and str(found).endswith(name))


def test_a_name_has_one_form(archive: Path, importer: Importer, tmp_path: Path) -> None:
    """Nothing is hidden behind a NUL, put before it by a prefix, or not UTF-8."""
    for number, (at, field) in enumerate(((0, b"GENOME.md\0.exe"), (0, b"\xff\xfe"), (345, b"/etc"))):
        head = bytearray(header("history/000009.json"))
        head[at : at + len(field)] = field
        head[148:156] = b"%06o\0 " % (sum(head[:148]) + sum(head[156:]) + 8 * ord(" "))
        importer.refuses(with_entry(archive, tmp_path / f"{number}.tar.gz", bytes(head)))


@pytest.mark.parametrize(
    "kind",
    [
        tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE,
        tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE, tarfile.AREGTYPE, b"Z",
    ],
)  # fmt: skip
def test_links_devices_folders_and_sparse_files_are_no_files(
    archive: Path, importer: Importer, tmp_path: Path, kind: bytes
) -> None:
    head = header("history/000009.json", type=kind, linkname="/etc/passwd", devmajor=1, devminor=3)
    importer.refuses(with_entry(archive, tmp_path / "x.tar.gz", head), "is no")


@pytest.mark.parametrize(
    "kind",
    [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK],
)
@pytest.mark.parametrize("name", spread(["././@PaxHeader", "history/000009.json"], 2))
def test_a_header_that_says_more_of_the_next_file_is_refused(
    archive: Path, importer: Importer, tmp_path: Path, kind: bytes, name: str
) -> None:
    """A name, a size or a link from somewhere else, and as long as it says: none is read."""
    more = b"30 path=../../../../etc/cron.d/x\n21 size=99999999999\n"
    importer.refuses(with_entry(archive, tmp_path / "x.tar.gz", header(name, len(more), type=kind), more), "is no")
    long = with_entry(archive, tmp_path / "y.tar.gz", header(name, 60_000_000, type=kind), bytes(60_000_000))
    tracemalloc.start()
    importer.refuses(long, "is no")
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("size", [-1, -(2**62), 2**62, 10**12])
def test_a_size_that_cannot_be_meant_is_refused(archive: Path, importer: Importer, tmp_path: Path, size: int) -> None:
    importer.refuses(with_entry(archive, tmp_path / "x.tar.gz", header("history/000009.json", size)))


def test_a_file_that_is_in_it_twice_is_in_it_wrongly(archive: Path, importer: Importer, tmp_path: Path) -> None:
    path = with_entry(archive, tmp_path / "x.tar.gz", header("MEMORY.md", 7), b"another")
    importer.refuses(path, "MEMORY.md is in it twice")


def test_what_the_manifest_does_not_know_is_refused_and_what_it_misses_too(
    archive: Path, importer: Importer, tmp_path: Path
) -> None:
    more = with_entry(archive, tmp_path / "more.tar.gz", header("history/000077.json"))
    importer.refuses(more, "names other files")
    importer.refuses(forged(archive, tmp_path / "less.tar.gz", {}, lambda said: said["members"].pop()), "other files")
    importer.refuses(forged(archive, tmp_path / "none.tar.gz", {"state.db": None}), "has no state.db")

    def twice(said: dict[str, Any]) -> None:
        said["members"].append(said["members"][0])

    importer.refuses(forged(archive, tmp_path / "twice.tar.gz", {}, twice), "names other files")


@pytest.mark.parametrize(
    ("field", "value"),
    [("sha256", "0" * 64), ("size", 1), ("size", 10**12), ("size", -1), ("mtime_ns", -1), ("mtime_ns", 2**63)],
)
def test_the_manifest_must_be_true(
    archive: Path, importer: Importer, tmp_path: Path, field: str, value: object
) -> None:
    def lie(said: dict[str, Any]) -> None:
        next(one for one in said["members"] if one["name"] == "MEMORY.md")[field] = value

    importer.refuses(forged(archive, tmp_path / "x.tar.gz", {}, lie), "MEMORY.md", "manifest")


@pytest.mark.parametrize(
    "content",
    [b"", b"null", b"[]", b"{", b'{"format": 1}', b'{"format": "1"}', b"\xff\xfe", b'{"format": 1, "members": [7]}',
     b"[" * 200_000, b'{"format": 1, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"format": 1e999}'],
)  # fmt: skip
def test_a_manifest_that_cannot_be_read_is_told_so(
    archive: Path, importer: Importer, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(packed(members(archive) | {MANIFEST: content}))
    importer.refuses(path, "manifest.json cannot be read")


def test_a_newer_format_and_a_newer_schema_ask_for_an_upgrade(
    archive: Path, importer: Importer, tmp_path: Path
) -> None:
    path = tmp_path / "x.tar.gz"
    for newer in ({"format": 99, "cargo": {}}, {"schema": 99}):
        said = importer.refuses(forged(archive, path, {}, partial(dict.update, **newer)), "99")
        assert "a newer dreamd" in said
        assert "upgrade" in said
    for never in ({"format": 0}, {"schema": 0}, {"at": "2026-03-01T12:00:00"}):
        importer.refuses(forged(archive, path, {}, partial(dict.update, **never)), "manifest")


def test_what_is_no_archive_is_told_so(archive: Path, importer: Importer, tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    whole = archive.read_bytes()
    cut = (b"", whole[:-1], whole[:-9], whole[: len(whole) // 2], whole[100:])
    for content in (*cut, b"PK", b"\x1f\x8b", b"x" * 5_000, whole + b"x", whole + whole, b"#!/bin/sh\n" + whole):
        path.write_bytes(content)
        importer.refuses(path)
    files = [(header(name, len(content)), content) for name, content in unpacked(archive).items()]
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
        ({f"history/{number:06d}.json": 50_000_000 for number in range(1, 60)} | {"state.db": 9}, 9, "x.tar.gz"),
        # It says that it is short, and is not; and the other way round.
        ({"state.db": 1000}, 20_000_000, "x.tar.gz"),
        ({"state.db": 20_000_000}, 20_000_000, "state.db is not what the manifest says"),
        ({"state.db": 60_000_000}, 20_000_000, "x.tar.gz"),
    ):
        path.write_bytes(bomb(sizes, real))
        tracemalloc.start()
        importer.refuses(path, said)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
        tracemalloc.stop()


@pytest.mark.full
def test_more_files_than_there_may_be_are_not_read(importer: Importer, tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(tarred((header(f"history/{number:06d}.json"), b"") for number in range(MAX_MEMBERS + 2)))
    importer.refuses(path, "lists more than the 100,000 files")


def test_a_manifest_that_is_too_long_is_not_unpacked(importer: Importer, tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(packed({"state.db": b"x", MANIFEST: b" " * 40_000_000}))
    importer.refuses(path, "manifest.json is too long")


def test_a_file_that_changes_while_it_is_read_is_refused(archive: Path, tmp_path: Path) -> None:
    """It is read twice, and checked the first time."""
    other = forged(archive, tmp_path / "other.tar.gz", {"GENOME.md": None})
    path = tmp_path / "x.tar.gz"
    for changed in (other.read_bytes(), packed(members(archive) | {"GENOME.md": b"another"}), b""):
        path.write_bytes(archive.read_bytes())
        with open_archive(path) as opened:
            path.write_bytes(changed)
            with pytest.raises(ArchiveError):
                assert [b"".join(blocks) for _, blocks in opened.contents()] == []


def test_an_archive_in_an_archive_is_not_opened(archive: Path, importer: Importer, tmp_path: Path) -> None:
    path = forged(archive, tmp_path / "x.tar.gz", {"GENOME.md": archive.read_bytes()})
    import_archive(path, importer.folder / "there")
    assert (importer.folder / "there" / "GENOME.md").read_bytes() == archive.read_bytes()


def test_records_of_an_older_archive_that_are_no_dreams_are_refused(
    archive: Path, importer: Importer, tmp_path: Path
) -> None:
    import_archive(archive, importer.folder / "there")
    with working(importer.folder / "there") as store:
        first, second = (encode_record(store.memory.version(number)).encode() for number in (1, 2))
    shutil.rmtree(importer.folder / "there")
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
        importer.refuses(forged(archive, tmp_path / f"{number}.tar.gz", {name: content}), said)


def test_a_persons_file_is_kept_whatever_is_in_it(archive: Path, importer: Importer, tmp_path: Path) -> None:
    path = forged(archive, tmp_path / "x.tar.gz", {"MEMORY.md": b"\xff\x00 mine\r\n"})
    import_archive(path, importer.folder / "there")
    assert (importer.folder / "there" / "MEMORY.md").read_bytes() == b"\xff\x00 mine\r\n"


spoils = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8)


@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spoils, st.none() | st.floats(0, 1), st.booleans())
def test_a_damaged_archive_is_refused_or_gives_the_same(
    archive: Path,
    spoiled: list[tuple[float, int]],
    cut: float | None,
    is_inside: bool,  # noqa: FBT001
) -> None:
    whole = archive.read_bytes()
    # Of every other one the tar file itself: a sum of gzip's would tell.
    content = bytearray(gzip.decompress(whole) if is_inside else whole)
    for at, value in spoiled:
        content[int(at * len(content))] = value
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "alone").mkdir()
        path = folder / "x.tar.gz"
        content = content if cut is None else content[: int(cut * len(content))]
        path.write_bytes(gzip.compress(content, 1) if is_inside else content)
        with suppress(ArchiveError):
            import_archive(path, folder / "alone" / "there")
            import_archive(archive, folder / "honest")
            assert everything(folder / "alone" / "there") == everything(folder / "honest")
            return
        assert list((folder / "alone").iterdir()) == []


def test_an_archive_that_ends_anywhere_in_a_record_is_read(archive: Path, tmp_path: Path) -> None:
    files = [(header(name, len(content)), content) for name, content in unpacked(archive).items()]
    path = tmp_path / "some.tar.gz"
    longest = tarfile.RECORDSIZE + tarfile.BLOCKSIZE  # one block was left of the record
    for end in range(2 * tarfile.BLOCKSIZE, longest + 1, tarfile.BLOCKSIZE):
        path.write_bytes(tarred(files, bytes(end)))
        with open_archive(path) as opened:
            assert opened.manifest.members


def test_the_file_is_an_ordinary_tar_gz(archive: Path) -> None:
    with tarfile.open(archive) as opened:
        infos = opened.getmembers()
    assert all(info.isreg() and stat.S_IMODE(info.mode) == 0o600 for info in infos)
    assert {(info.uid, info.gid, info.uname, info.gname, info.mtime) for info in infos} == {(0, 0, "", "", 0)}
    assert infos[-1].name == MANIFEST
    listed = {one["name"]: one for one in manifest(archive)["members"]}
    assert {
        name: (len(content), hashlib.sha256(content).hexdigest()) for name, content in members(archive).items()
    } == {name: (one["size"], one["sha256"]) for name, one in listed.items()}
