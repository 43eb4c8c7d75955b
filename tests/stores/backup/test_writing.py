"""Archives that nobody's dreamd wrote: each is refused in one line, and nothing is left of it."""

import io
import json
import shutil
import stat
import struct
import tempfile
import tracemalloc
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from daemon.upkeep.import_ import import_archive
from state.stores.backup.manifest import MANIFEST, MAX_MEMBERS, ArchiveError, place
from state.stores.backup.reading import open_archive
from state.stores.disk.workspace import Workspace
from tests.support.archives import Importer, exported, forged, lived, manifest, members
from tests.support.lived import everything
from tests.support.long_variants import examples

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("origin")
    return exported(lived(folder / "here"), folder / "honest.zip")


@pytest.fixture
def importer(tmp_path: Path) -> Importer:
    folder = tmp_path / "alone"
    folder.mkdir()
    return Importer(folder)


def with_entry(archive: Path, target: Path, entry: zipfile.ZipInfo, content: bytes = b"x") -> Path:
    """The archive with one entry more, which the manifest does not know."""
    shutil.copy(archive, target)
    with zipfile.ZipFile(target, "a") as opened:
        opened.writestr(entry, content)
    return target


@pytest.mark.parametrize(
    "name",
    [
        "/etc/cron.d/x", "../x", "history/../../x", "history/..", "..\\x", "C:\\x", "memory\\scratch.md", "memory.md",
        "MEMORY.MD", "memory/Scratch.md", "./MEMORY.md", "MEMORY.md/", "MEMORY.md ", "history/", "history/1.json",
        "history/0000001.json", "history/000001.JSON", "history/٠٠٠٠٠١.json", "segments/retired/000001.01.md",
        "segments/000001.md/x", ".dreamd/state.db", ".dreamd/lock", "lock", "state.db-wal", "checkpoints/dreams.db",
        "crystals/chroma.sqlite3", "inner.zip", "x", "",
        "MEMORY.md\n", "m\u0130emory", "\u202eMEMORY.md", "a" * 60_000,
    ],
)  # fmt: skip
def test_only_names_that_a_workspace_has_are_let_in(
    archive: Path, importer: Importer, tmp_path: Path, name: str
) -> None:
    assert place(Workspace(tmp_path), name) is None
    importer.refuses(with_entry(archive, tmp_path / "x.zip", zipfile.ZipInfo(name)), "is no file of a workspace's")


@examples(60)
@given(st.text(max_size=40) | st.from_regex(r"(history/|segments/|segments/retired/)[0-9.]{1,20}(json|md)?"))
def test_a_name_leads_into_the_workspace_or_nowhere(name: str) -> None:
    root = Path("/somewhere/here")
    found = place(Workspace(root), name)
    assert found is None or (".." not in found.parts and found.is_relative_to(root) and str(found).endswith(name))


def test_a_name_that_is_cut_at_a_nul_is_not_the_name_before_it(
    archive: Path, importer: Importer, tmp_path: Path
) -> None:
    path = forged(archive, tmp_path / "x.zip", {"GENOME.mdQ.exe": b"x"})
    path.write_bytes(path.read_bytes().replace(b"GENOME.mdQ.exe", b"GENOME.md\0.exe"))
    importer.refuses(path, "is no file of a workspace's")


def test_links_devices_and_folders_are_no_files(archive: Path, importer: Importer, tmp_path: Path) -> None:
    for number, kind in enumerate(
        (stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFDIR, stat.S_IFSOCK)
    ):
        entry = zipfile.ZipInfo("history/000009.json")
        entry.create_system, entry.external_attr = 3, (kind | 0o777) << 16
        importer.refuses(with_entry(archive, tmp_path / f"{number}.zip", entry, b"/etc/passwd"), "no regular file")


def test_a_file_that_is_in_it_twice_is_in_it_wrongly(archive: Path, importer: Importer, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        path = with_entry(archive, tmp_path / "x.zip", zipfile.ZipInfo("MEMORY.md"), b"another")
    importer.refuses(path, "MEMORY.md is in it twice")


def test_what_the_manifest_does_not_know_is_refused_and_what_it_misses_too(
    archive: Path, importer: Importer, tmp_path: Path
) -> None:
    more = with_entry(archive, tmp_path / "more.zip", zipfile.ZipInfo("history/000077.json"))
    importer.refuses(more, "names other files")
    importer.refuses(forged(archive, tmp_path / "less.zip", {}, lambda said: said["members"].pop()), "other files")
    importer.refuses(forged(archive, tmp_path / "none.zip", {"state.db": None}), "has no state.db")

    def twice(said: dict[str, Any]) -> None:
        said["members"].append(said["members"][0])

    importer.refuses(forged(archive, tmp_path / "twice.zip", {}, twice), "names other files")


@pytest.mark.parametrize(
    ("field", "value"),
    [("sha256", "0" * 64), ("size", 1), ("size", 10**12), ("size", -1), ("mtime_ns", -1), ("mtime_ns", 2**63)],
)
def test_the_manifest_must_be_true(
    archive: Path, importer: Importer, tmp_path: Path, field: str, value: object
) -> None:
    def lie(said: dict[str, Any]) -> None:
        next(one for one in said["members"] if one["name"] == "MEMORY.md")[field] = value

    importer.refuses(forged(archive, tmp_path / "x.zip", {}, lie), "MEMORY.md", "manifest")


@pytest.mark.parametrize(
    "content",
    [b"", b"null", b"[]", b"{", b'{"format": 1}', b'{"format": "1"}', b"\xff\xfe", b'{"format": 1, "members": [7]}',
     b"[" * 200_000, b'{"format": 1, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"format": 1e999}'],
)  # fmt: skip
def test_a_manifest_that_cannot_be_read_is_told_so(
    archive: Path, importer: Importer, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as made:
        for name, block in (members(archive) | {MANIFEST: content}).items():
            made.writestr(name, block)
    importer.refuses(path, "manifest.json cannot be read")


def test_a_newer_format_and_a_newer_schema_ask_for_an_upgrade(
    archive: Path, importer: Importer, tmp_path: Path
) -> None:
    for number, newer in enumerate(({"format": 99, "cargo": {}}, {"schema": 99})):
        said = importer.refuses(forged(archive, tmp_path / f"{number}.zip", {}, lambda m, n=newer: m.update(n)), "99")  # type: ignore[misc]
        assert "a newer dreamd" in said
        assert "upgrade" in said
    for number, never in enumerate(({"format": 0}, {"schema": 0}, {"at": "2026-03-01T12:00:00"})):
        importer.refuses(forged(archive, tmp_path / f"n{number}.zip", {}, lambda m, n=never: m.update(n)), "manifest")  # type: ignore[misc]


def test_encrypted_and_otherwise_compressed_entries_are_refused(
    archive: Path, importer: Importer, tmp_path: Path
) -> None:
    for kind in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        entry = zipfile.ZipInfo("history/000009.json")
        entry.compress_type = kind
        importer.refuses(with_entry(archive, tmp_path / f"{kind}.zip", entry), "compressed in a way")
    content = bytearray(archive.read_bytes())
    at = content.rindex(b"PK\1\2")
    content[at + 8] |= 1
    (tmp_path / "secret.zip").write_bytes(content)
    importer.refuses(tmp_path / "secret.zip", "is encrypted")


def test_what_is_no_zip_file_is_told_so(archive: Path, importer: Importer, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    whole = archive.read_bytes()
    cut = (b"", whole[:-1], whole[: len(whole) // 2], whole[100:])
    for content in (*cut, b"PK", b"x" * 5_000, b"PK\5\6" + bytes(18), whole + b"x", b"#!/bin/sh\n" + whole):
        path.write_bytes(content)
        importer.refuses(path)


def zipped(entries: list[tuple[str, bytes, int, int]], crc: int = 0, shared: int | None = None) -> bytes:
    """A zip of raw deflated data, its sizes as they are said to be: (name, packed, said size, said packed size).

    `shared`: every entry is that one's data, as in bombs of overlapping files.
    """
    body, listed, places = io.BytesIO(), io.BytesIO(), []
    for name, packed, size, said in entries:
        places.append(body.tell())
        sums = zlib.crc32(zlib.decompress(packed, -15)) if name == MANIFEST else crc
        if shared is None or len(places) == shared + 1:
            body.write(
                _LOCAL.pack(b"PK\3\4", 20, 0, 8, 0, 0, sums, said, size, len(name), 0) + name.encode() + packed
            )
    for (name, packed, size, said), at in zip(entries, places, strict=True):
        begin = at if shared is None else places[shared]
        sums = zlib.crc32(zlib.decompress(packed, -15)) if name == MANIFEST else crc
        listed.write(_CENTRAL.pack(b"PK\1\2", 20, 20, 0, 8, 0, 0, sums, said, size, len(name), 0, 0, 0, 0, 0, begin))
        listed.write(name.encode())
    end = _END.pack(b"PK\5\6", 0, 0, len(entries), len(entries), len(listed.getvalue()), body.tell(), 0)
    return body.getvalue() + listed.getvalue() + end


def deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


def said_of(sizes: dict[str, int]) -> bytes:
    rows = [{"name": name, "size": size, "sha256": "0" * 64, "mtime_ns": 0} for name, size in sizes.items()]
    return json.dumps(
        {"format": 1, "dreamd": "", "schema": 1, "at": "2026-03-01T12:00:00Z", "members": rows}
    ).encode()


def bomb(sizes: dict[str, int], packed: bytes) -> bytes:
    """An archive whose manifest says these sizes, every member being this data."""
    head = said_of(sizes)
    rows = [(name, packed, size, len(packed)) for name, size in sizes.items()]
    return zipped([*rows, (MANIFEST, deflated(head), len(head), len(deflated(head)))])


def test_a_bomb_does_not_go_off(importer: Importer, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    zeros = deflated(bytes(50_000_000))
    tracemalloc.start()
    path.write_bytes(bomb({"state.db": 3 * 1024**3}, zeros))
    importer.refuses(path, "would unpack to")
    # It says that it is short, and is not; and the other way round.
    path.write_bytes(bomb({"state.db": 1000}, zeros))
    importer.refuses(path, "state.db")
    path.write_bytes(bomb({"state.db": 60_000_000}, zeros))
    importer.refuses(path, "state.db")
    path.write_bytes(
        bomb({f"history/{number:06d}.json": 50_000_000 for number in range(1, 60)} | {"state.db": 9}, zeros)
    )
    importer.refuses(path, "would unpack to")
    assert tracemalloc.get_traced_memory()[1] < 40_000_000
    tracemalloc.stop()


def test_files_that_stand_in_each_others_place_are_refused(importer: Importer, tmp_path: Path) -> None:
    path, data = tmp_path / "x.zip", deflated(bytes(1_000_000))
    names = ["state.db", *(f"history/{number:06d}.json" for number in range(1, 50))]
    path.write_bytes(zipped([(name, data, 1_000_000, len(data)) for name in names], shared=0))
    importer.refuses(path, "where another file does")
    # Quoted: each file's data holds the headers of the next one.
    path.write_bytes(zipped([(name, data, 1_000_000, 40 * len(data)) for name in names]))
    importer.refuses(path)


def test_a_list_of_more_files_than_there_may_be_is_not_read(importer: Importer, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    entry = _CENTRAL.pack(b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"x"
    for count, said in ((300_000, 0xFFFF), (20_000, 3), (3, 60_000)):
        end = _END.pack(b"PK\5\6", 0, 0, said, said, count * len(entry), 0, 0)
        path.write_bytes(entry * count + end)
        tracemalloc.start()
        importer.refuses(path)
        assert tracemalloc.get_traced_memory()[1] < 70_000_000
        tracemalloc.stop()
    assert MAX_MEMBERS >= 100_000


def test_a_manifest_that_is_too_long_is_not_unpacked(archive: Path, importer: Importer, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("state.db", b"x")
        made.writestr(MANIFEST, b" " * 40_000_000)
    importer.refuses(path, "manifest.json is too long")


def test_an_archive_in_an_archive_is_not_opened(archive: Path, importer: Importer, tmp_path: Path) -> None:
    path = forged(archive, tmp_path / "x.zip", {"GENOME.md": archive.read_bytes()})
    import_archive(path, importer.folder / "there")
    assert (importer.folder / "there" / "GENOME.md").read_bytes() == archive.read_bytes()


def test_history_records_that_are_no_dreams_are_refused(archive: Path, importer: Importer, tmp_path: Path) -> None:
    record = json.loads(members(archive)["history/000002.json"])
    for number, (name, content, said) in enumerate(
        (
            ("history/000002.json", b"{}", "cannot be read"),
            ("history/000002.json", b"\xff" * 100, "cannot be read"),
            ("history/000002.json", b"[" * 100_000, "cannot be read"),
            ("history/000002.json", members(archive)["history/000001.json"], "is version 1"),
            ("history/000002.json", json.dumps(record | {"id": "another"}).encode(), "of dream another"),
            ("history/000002.json", json.dumps(record | {"extra": 1}).encode(), "cannot be read"),
            # The next owner would take it for a commit that was interrupted, and finish it.
            ("history/000005.json", json.dumps(record | {"number": 5, "id": "new"}).encode(), "does not know"),
        )
    ):
        importer.refuses(forged(archive, tmp_path / f"{number}.zip", {name: content}), said)


def test_a_version_without_its_record_is_imported_and_named(
    archive: Path, importer: Importer, tmp_path: Path
) -> None:
    path = forged(archive, tmp_path / "x.zip", {"history/000002.json": None})
    assert import_archive(path, importer.folder / "there").missing == (2,)


def test_a_persons_file_is_kept_whatever_is_in_it(archive: Path, importer: Importer, tmp_path: Path) -> None:
    path = forged(archive, tmp_path / "x.zip", {"MEMORY.md": b"\xff\x00 mine\r\n"})
    import_archive(path, importer.folder / "there")
    assert (importer.folder / "there" / "MEMORY.md").read_bytes() == b"\xff\x00 mine\r\n"


spoils = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8)


@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spoils, st.none() | st.floats(0, 1))
def test_a_damaged_archive_is_refused_or_gives_the_same(
    archive: Path, spoiled: list[tuple[float, int]], cut: float | None
) -> None:
    whole = archive.read_bytes()
    content = bytearray(whole)
    for at, value in spoiled:
        # Half of them in the list at the end, where the names and sizes are.
        place_ = int(at * 2 * len(whole)) if at < 0.5 else len(whole) - 1 - int((at - 0.5) * 2 * 800)
        content[place_] = value
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "alone").mkdir()
        path = folder / "x.zip"
        path.write_bytes(content if cut is None else content[: int(cut * len(content))])
        with suppress(ArchiveError):
            import_archive(path, folder / "alone" / "there")
            import_archive(archive, folder / "honest")
            assert everything(folder / "alone" / "there") == everything(folder / "honest")
            return
        assert list((folder / "alone").iterdir()) == []


def test_the_file_is_an_ordinary_zip(archive: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        assert opened.testzip() is None
        infos = opened.infolist()
    assert all(stat.S_IMODE(info.external_attr >> 16) == 0o600 for info in infos)
    assert {one["name"] for one in manifest(archive)["members"]} == set(members(archive))
    with open_archive(archive) as opened_again:
        assert opened_again.size == sum(map(len, members(archive).values()))
