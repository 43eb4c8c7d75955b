"""Archives of an older dreamd, which were zip files: one of them is imported, and the hostile ones are refused."""

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

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.upkeep.import_ import import_archive
from daemon.workspace.adoption import open_workspace
from state.dream import decode_record
from state.stores.backup.manifest import MANIFEST, ArchiveError
from tests.support.archives import NOTES, Importer
from tests.support.lived import everything
from tests.support.long_variants import examples
from tests.support.notes import pending_notes
from tests.support.working import working

# An export of the workspace that `tests.support.archives.lived` makes.
OLDER = Path(__file__).with_name("older.zip")
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")


def test_an_archive_of_an_older_dreamd_is_imported_exactly(tmp_path: Path) -> None:
    there = tmp_path / "there"
    done = import_archive(OLDER, there)
    assert (done.version, done.missing, done.foreign) == (4, (), 0)
    assert "it is pending" in [note.text for note in pending_notes(open_workspace(there))]
    document = (there / "MEMORY.md").read_text(encoding="utf-8")
    assert NOTES[0] in document
    with zipfile.ZipFile(OLDER) as opened:
        for name in ("MEMORY.md", "GENOME.md", "memory/scratch.md", "memory/economics.json"):
            assert (there / name).read_bytes() == opened.read(name)
        for name in opened.namelist():
            if name.startswith(("history/", "segments/")):
                place = open_workspace(there).state / ("kept" if name.startswith("history/") else "")
                assert (place / name).read_bytes() == opened.read(name)
        records = [decode_record(opened.read(f"history/{number:06d}.json"), "record") for number in range(1, 5)]
    with working(there) as store:
        assert [store.memory.text(number) for number in range(5)] == [
            records[0].before,
            *(record.text for record in records),
        ]
        kept = store.memory.version(2)
        assert (kept.operations, kept.births, kept.id) == (records[1].operations, records[1].births, records[1].id)


def with_entry(target: Path, entry: zipfile.ZipInfo, content: bytes = b"x") -> Path:
    """The archive with one entry more, which the manifest does not know."""
    shutil.copy(OLDER, target)
    with zipfile.ZipFile(target, "a") as opened:
        opened.writestr(entry, content)
    return target


@pytest.mark.parametrize("name", ["/etc/cron.d/x", "../x", "history/../../x", "MEMORY.md/", "x", "", "a" * 60_000])
def test_only_names_that_a_workspace_has_are_let_in(importer: Importer, tmp_path: Path, name: str) -> None:
    importer.refuses(with_entry(tmp_path / "x.zip", zipfile.ZipInfo(name)), "is no file of a workspace's")


def test_a_name_that_is_cut_at_a_nul_is_not_the_name_before_it(importer: Importer, tmp_path: Path) -> None:
    path = with_entry(tmp_path / "x.zip", zipfile.ZipInfo("GENOME.mdQ.exe"))
    path.write_bytes(path.read_bytes().replace(b"GENOME.mdQ.exe", b"GENOME.md\0.exe"))
    importer.refuses(path, "is no file of a workspace's")


def test_links_devices_and_folders_are_no_files(importer: Importer, tmp_path: Path) -> None:
    for number, kind in enumerate(
        (stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFDIR, stat.S_IFSOCK)
    ):
        entry = zipfile.ZipInfo("history/000009.json")
        entry.create_system, entry.external_attr = 3, (kind | 0o777) << 16
        importer.refuses(with_entry(tmp_path / f"{number}.zip", entry, b"/etc/passwd"), "no regular file")


def test_a_file_that_is_in_it_twice_is_in_it_wrongly(importer: Importer, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        path = with_entry(tmp_path / "x.zip", zipfile.ZipInfo("MEMORY.md"), b"another")
    importer.refuses(path, "MEMORY.md is in it twice")


def test_encrypted_and_otherwise_compressed_entries_are_refused(importer: Importer, tmp_path: Path) -> None:
    for kind in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        entry = zipfile.ZipInfo("history/000009.json")
        entry.compress_type = kind
        importer.refuses(with_entry(tmp_path / f"{kind}.zip", entry), "packed in another way")
    content = bytearray(OLDER.read_bytes())
    at = content.rindex(b"PK\1\2")
    content[at + 8] |= 1
    (tmp_path / "secret.zip").write_bytes(content)
    importer.refuses(tmp_path / "secret.zip", "packed in another way")


def test_what_is_no_zip_file_is_told_so(importer: Importer, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    whole = OLDER.read_bytes()
    cut = (b"", whole[:-1], whole[: len(whole) // 2], whole[100:])
    # Its list would begin further on: the first entries lie before the file.
    (begin,) = struct.unpack("<L", whole[-6:-2])
    moved = whole[:-6] + struct.pack("<L", begin + 50) + whole[-2:]
    for content in (*cut, moved, b"PK", b"x" * 5_000, b"PK\5\6" + bytes(18), whole + b"x", b"#!/bin/sh\n" + whole):
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
    importer.refuses(path)
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


def test_a_manifest_that_is_too_long_is_not_unpacked(importer: Importer, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("state.db", b"x")
        made.writestr(MANIFEST, b" " * 40_000_000)
    importer.refuses(path, "manifest.json is too long")


@examples(30)
@given(
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8),
    st.none() | st.floats(0, 1),
)
def test_a_damaged_archive_is_refused_or_gives_the_same(spoiled: list[tuple[float, int]], cut: float | None) -> None:
    whole = OLDER.read_bytes()
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
            import_archive(OLDER, folder / "honest")
            assert everything(folder / "alone" / "there") == everything(folder / "honest")
            return
        assert list((folder / "alone").iterdir()) == []
