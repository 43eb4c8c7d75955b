"""`dreamd export` and `dreamd import`: the workspace that comes out is the one that went in."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from daemon.workspace.adoption import open_workspace
from state.forgetting.cutting import Cut
from state.forgetting.known import Target
from state.stores.erasing.intent import intend
from state.stores.erasing.plan import Erasure
from tests.support.archives import exported, files_of, lived, members
from tests.support.copies import copy_of
from tests.support.keeping import one_line
from tests.support.lived import everything
from tests.support.notes import pending_notes
from tests.support.running import Caller
from tests.support.working import working


@pytest.fixture(autouse=True)
def nothing_of_mine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "registry"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-model"))


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lived(tmp_path_factory.mktemp("origin") / "here")


@pytest.fixture(scope="module")
def archive(origin: Path) -> Path:
    return exported(origin, origin.parent / "honest.db")


@pytest.fixture
def here(origin: Path, tmp_path: Path) -> Path:
    return copy_of(origin, tmp_path / "here").root


def rows(root: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table of state.db, the full-text indexes' own ones left out."""
    with closing(sqlite3.connect(open_workspace(root).database)) as connection:
        tables = connection.execute("SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main'")
        names = sorted(name for (name,) in tables.fetchall())
        return {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for name in names}  # noqa: S608


def test_a_workspace_comes_back_exactly(dreamd: Caller, archive: Path, origin: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    left, under_way = (tmp_path / f".dreamd-import-{name}" for name in ("of-a-kill", "of-another"))
    left.mkdir()
    under_way.mkdir()
    os.utime(left, (0, 0))
    assert dreamd("import", archive, there, "--no-daemon").status == 0
    assert (left.exists(), under_way.exists()) == (False, True)
    assert members(exported(there, tmp_path / "again.db")) == members(archive)
    assert files_of(tmp_path / "again.db") == files_of(archive)
    assert rows(there) == rows(origin)
    for name in ("MEMORY.md", "GENOME.md", "memory/scratch.md", "memory/economics.json"):
        assert (there / name).read_bytes() == (origin / name).read_bytes()
        assert (there / name).stat().st_mtime_ns == (origin / name).stat().st_mtime_ns
    assert pending_notes(open_workspace(there)) == pending_notes(open_workspace(origin))
    assert not (there / "transcripts").exists()
    assert {path.stat().st_mode & 0o777 for path in open_workspace(there).state.rglob("*") if path.is_file()} == {
        0o600
    }
    assert {path.stat().st_mode & 0o777 for path in open_workspace(there).state.rglob("*") if path.is_dir()} == {
        0o700
    }


def _lines(root: Path) -> str:
    return (root / "MEMORY.md").read_text(encoding="utf-8")


def test_the_archive_is_private_whole_and_alone(dreamd: Caller, here: Path, tmp_path: Path) -> None:
    # It takes the files along that who only looked left beside state.db.
    assert dreamd("export", here, "-o", tmp_path).status == 0
    before = everything(here)
    target = tmp_path / "backup.db"
    target.write_text("an older one")
    target.chmod(0o644)
    ended = dreamd("export", here, "--output", target, "--json")
    assert ended.status == 0, ended
    assert ended.json["path"] == str(target)
    assert (ended.json["version"], ended.json["bytes"]) == (4, target.stat().st_size)
    assert target.stat().st_mode & 0o777 == 0o600
    assert everything(here) == before
    (named,) = tmp_path.glob("here-*.dreamd.db")
    assert members(named) == members(target)


def test_a_version_that_is_lost_and_a_transcript_elsewhere_are_named(
    dreamd: Caller, here: Path, tmp_path: Path
) -> None:
    with working(here) as store:
        store.connection.execute("UPDATE versions SET text = x'', record = x'' WHERE number = 2")
        store.connection.execute("INSERT INTO watermarks VALUES ('/talks/one.jsonl', 1, 1, '{}')")
    assert dreamd("export", here, "-o", tmp_path / "x.db").status == 0
    ended = dreamd("import", tmp_path / "x.db", tmp_path / "there", "--no-daemon")
    assert ended.status == 0
    assert "1 version without a record" in ended.err
    assert "1 transcript outside the workspace had been read" in ended.err


def test_state_that_could_not_be_imported_is_not_exported(dreamd: Caller, here: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(open_workspace(here).state / "state.db")) as connection:
        connection.execute("UPDATE crystals SET created_at = 'yesterday' WHERE key = 1")
        connection.commit()
    ended = dreamd("export", here, "-o", tmp_path / "x.db")
    one_line(ended, 1, "of crystals hold what they cannot hold", "dreamd doctor")
    assert not (tmp_path / "x.db").exists()
    assert list(open_workspace(here).state.glob(".export*")) == []


@pytest.mark.full
def test_what_is_half_forgotten_is_not_exported(dreamd: Caller, here: Path, tmp_path: Path) -> None:
    with working(here) as store:
        intend(store.connection, Erasure((Target(("tea",)),), Cut.SENTENCES))
    ended = dreamd("export", here, "-o", tmp_path / "x.db")
    one_line(ended, 1, "forgetting has not ended", "run 'dreamd forget'")
    assert not (tmp_path / "x.db").exists()
    assert dreamd("forget", "-w", here, "--yes").status == 0
    assert dreamd("export", here, "-o", tmp_path / "x.db").status == 0
    assert b"tea over" not in b"".join(members(tmp_path / "x.db").values())


def test_only_a_new_or_empty_folder_is_imported_into(
    dreamd: Caller, archive: Path, here: Path, tmp_path: Path
) -> None:
    before = everything(here)
    ended = dreamd("import", archive, here)
    assert ended.status == 2
    assert "is not empty, and nothing is overwritten; name a new folder" in ended.err
    assert everything(here) == before
    assert "is a file" in dreamd("import", archive, archive).err
    assert "make it first" in dreamd("import", archive, tmp_path / "no" / "such").err
    assert dreamd("import", tmp_path / "none.db", tmp_path / "there").status == 1
    assert not (tmp_path / "there").exists()
    empty = tmp_path / "empty"
    empty.mkdir(mode=0o750)
    empty.chmod(0o750)
    (tmp_path / "link").symlink_to(empty)
    assert dreamd("import", archive, tmp_path / "link", "--no-daemon").status == 0
    assert empty.stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "link").is_symlink()
    assert _lines(empty) == _lines(here)
