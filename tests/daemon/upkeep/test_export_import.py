"""`dreamd export` and `dreamd import`: the workspace that comes out is the one that went in."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from daemon.cli import export as command
from daemon.config.paths import registry_path
from daemon.config.registry import known
from daemon.dream.run import Mode, dream_now
from daemon.ingest.formats.turn import Watermark
from daemon.upkeep.export import export
from daemon.upkeep.forget import forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.upkeep.import_ import import_archive
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.stores import recover
from state.codec import encode
from state.dream import Reason
from state.forgetting.cutting import Cut
from state.forgetting.known import Target
from state.stores.erasing.intent import intend
from state.stores.erasing.plan import Erasure
from tests.support.archives import NOTES, exported, files_of, lived, members
from tests.support.copies import copy_of
from tests.support.keeping import one_line
from tests.support.lived import everything
from tests.support.notes import pending_notes
from tests.support.running import Caller
from tests.support.working import working

ASKED = (
    "history", "diff 2 3", "why tea", "session events s", "session show s", "mood", "bootstrap", "search 東京",
)  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_of_mine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "registry"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-model"))
    monkeypatch.setenv("DREAMD_EMBEDDINGS__DOWNLOAD", "false")


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
    assert dreamd("import", archive, there, "--no-daemon").status == 0
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


@pytest.mark.full
def test_every_window_says_the_same_of_it(dreamd: Caller, archive: Path, here: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    import_archive(archive, there)
    for asked in ASKED:
        words = asked.split()
        before, after = dreamd(*words, "-w", here), dreamd(*words, "-w", there)
        assert (before.status, *map(_ageless, before.out.splitlines()), before.err) == (
            after.status, *map(_ageless, after.out.splitlines()), after.err,
        ), asked  # fmt: skip
        assert before.status == 0, before
    before, after = (dreamd("status", root, "--json").json for root in (here, there))
    for moving in ("workspace", "at", "holder"):
        del before[moving], after[moving]
    for status in (before, after):
        status["pending"]["oldest_seconds"] = round(status["pending"]["oldest_seconds"], -3)
        status["last_bootstrap"]["at"] = ""  # each was given at its own second
    assert before == after
    assert dreamd("restore", "1", "-w", there).status == 0
    assert dreamd("dream", there).status == 0
    assert all(note in _lines(there) for note in ("pending", *NOTES))
    assert "problem" not in dreamd("doctor", there).out.replace("problems", "")


def _ageless(line: str) -> str:
    return re.sub(r"\d+ (s|min|h|d) (old|ago)", "old", line)


def _lines(root: Path) -> str:
    return (root / "MEMORY.md").read_text(encoding="utf-8")


def test_two_exports_differ_in_the_manifests_time_alone(here: Path, tmp_path: Path) -> None:
    one, other = exported(here, tmp_path / "1.db"), exported(here, tmp_path / "2.db")
    times = set[str]()
    for path in (one, other):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            times.add(*connection.execute("SELECT at FROM manifest").fetchone())
            connection.execute("UPDATE manifest SET at = 'then'")
    assert len(times) == 2
    assert one.read_bytes() == other.read_bytes()


def test_anybody_can_read_an_archive_with_sqlite(archive: Path, origin: Path) -> None:
    with closing(sqlite3.connect(archive)) as connection:
        (text,) = connection.execute("SELECT content FROM files WHERE name = 'MEMORY.md'").fetchone()
        notes = [text for (text,) in connection.execute("SELECT text FROM crystals WHERE origin = 'scratch'")]
    assert text.decode() == _lines(origin)
    assert set(NOTES) <= set(notes)


def test_the_archive_is_private_whole_and_alone(dreamd: Caller, here: Path, tmp_path: Path) -> None:
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
    assert dreamd("export", here, "-o", tmp_path).status == 0
    (named,) = tmp_path.glob("here-*.dreamd.db")
    assert members(named) == members(target)


def test_it_may_go_to_stdout_and_to_another_disk(dreamd: Caller, here: Path, tmp_path: Path) -> None:
    assert dreamd("export", here, "-o", "-", "--json").status == 2
    other = Path("/dev/shm")  # noqa: S108 - a file system of its own, mostly
    if not os.access(other, os.W_OK) or other.stat().st_dev == here.stat().st_dev:
        pytest.skip("there is no other file system")
    target = other / f"dreamd-test-{os.getpid()}.db"
    try:
        assert dreamd("export", here, "-o", target).status == 0
        assert target.stat().st_mode & 0o777 == 0o600
        assert members(target) == members(exported(here, tmp_path / "x.db"))
        assert list(other.glob(".dreamd-export-*")) == []
    finally:
        target.unlink(missing_ok=True)


def test_what_cannot_be_written_to_is_told(dreamd: Caller, here: Path, tmp_path: Path) -> None:
    before = everything(here)
    os.mkfifo(tmp_path / "pipe")
    for target in (tmp_path / "pipe", "/dev/null", tmp_path / "no" / "such" / "x.db"):
        ended = dreamd("export", here, "-o", target)
        assert (ended.status, ended.out) == (2, "")
    assert everything(here) == before
    assert Path("/dev/null").is_char_device()


def test_a_version_that_is_lost_and_a_transcript_elsewhere_are_named(
    dreamd: Caller, here: Path, tmp_path: Path
) -> None:
    with working(here) as store:
        store.crystals.connection.execute("UPDATE versions SET text = '', record = '' WHERE number = 2")
        store.crystals.connection.execute("INSERT INTO watermarks VALUES ('/talks/one.jsonl', 1, 1, '{}')")
    assert dreamd("export", here, "-o", tmp_path / "x.db").status == 0
    ended = dreamd("import", tmp_path / "x.db", tmp_path / "there", "--no-daemon")
    assert ended.status == 0
    assert "1 version had no record" in ended.err
    assert "1 transcript outside the workspace had been read" in ended.err


@pytest.mark.full
def test_a_dream_under_way_begins_anew(dreamd: Caller, here: Path, tmp_path: Path) -> None:
    with working(here) as store:
        store.ledger.begin("20260312T143000000000Z", "manual", store.feelings.levels(_now()).at)
    ended = dreamd("export", here, "-o", tmp_path / "x.db")
    assert "begins anew" in ended.err
    assert dreamd("import", tmp_path / "x.db", tmp_path / "there", "--no-daemon").status == 0
    assert dreamd("dream", tmp_path / "there").status == 0
    assert "it is pending" in _lines(tmp_path / "there")


def _now() -> Any:
    from daemon.workspace.stores import utc_now

    return utc_now()


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
        intend(store.crystals.connection, Erasure((Target(("tea",)),), Cut.SENTENCES))
    ended = dreamd("export", here, "-o", tmp_path / "x.db")
    one_line(ended, 1, "forgetting has not ended", "run 'dreamd forget'")
    assert not (tmp_path / "x.db").exists()
    assert dreamd("forget", "-w", here, "--yes").status == 0
    assert dreamd("export", here, "-o", tmp_path / "x.db").status == 0
    assert b"tea over" not in b"".join(members(tmp_path / "x.db").values())


def test_what_a_killed_export_left_goes_when_the_next_owner_comes(here: Path) -> None:
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    left = open_workspace(here).state / f".export-{gone.pid}-aa.db.dreamd-tmp"
    beside = open_workspace(here).state / f".export-{gone.pid}-aa.db.db.dreamd-tmp"
    alive = open_workspace(here).state / f".export-{os.getpid()}-aa.db.dreamd-tmp"
    with working(here) as store:
        for act in (
            lambda: export(store, _now()),
            lambda: dream_now(store, Reason.MANUAL, Mode.AUTO),
            lambda: recover(store),
        ):
            for path in (left, beside, alive):
                path.write_bytes(b"x")
            act()
            assert [path.exists() for path in (left, beside, alive)] == [False, False, True]


@pytest.mark.full
def test_a_file_of_the_machine_that_an_archive_names_is_never_opened(archive: Path, tmp_path: Path) -> None:
    """A forgetting does not read what state.db alone says was read: the owner has not named it here."""
    diary = tmp_path / "diary.md"
    diary.write_text("# Diary\n\nZebras whisper at midnight in Lisbon.\n")
    import_archive(archive, tmp_path / "there")
    workspace = open_workspace(tmp_path / "there")
    (workspace.root / "chats").mkdir()
    (workspace.root / "chats" / "one.md").write_text("Camels hum at noon in Porto.\n")
    (workspace.root / "link.md").symlink_to(diary)
    names = ("../diary.md", str(diary), "link.md", "chats/one.md", "chats\0")
    with working(workspace.root) as store:
        store.crystals.connection.executemany(
            "INSERT INTO watermarks VALUES (?, -1, 0, ?)", [(name, encode(Watermark())) for name in names]
        )
        receipt = forget(store, ForgetRequest("zebras whisper"), _now())
        assert [(one.place, one.count) for one in receipt.left] == [("files outside the workspace", 3)]
        assert receipt.clean
        assert forget(store, ForgetRequest("camels hum"), _now()).left[-1].place == "chats/one.md"


def test_a_dream_is_waited_for(dreamd: Caller, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from daemon.workspace.stores import utc_now
    from state.stores.disk.lock import acquire

    monkeypatch.setattr(command, "_PATIENCE_SECONDS", 0.3)
    with acquire(open_workspace(here), "dreamd dream"):
        began = utc_now()
        ended = dreamd("export", here, "-o", tmp_path / "x.db")
        assert (utc_now() - began).total_seconds() > 0.3
        assert ended.status == 5
        assert ended.err.count("waiting: ") == 1
    assert not (tmp_path / "x.db").exists()


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


def test_the_daemon_learns_of_it_and_an_agent_can_be_connected(
    dreamd: Caller, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = dreamd("import", archive)
    assert ended.status == 0, ended
    root = tmp_path / "honest"
    assert known(registry_path(os.environ)) == (root,)
    assert "dreamd connect -w" in ended.out
    assert str(root) in ended.out
    shutil.rmtree(root)
    ended = dreamd("import", archive, root, "--json")
    assert ended.json["workspace"] == str(root)
    assert ended.json["daemon"] is False


def test_a_registry_that_cannot_be_written_leaves_the_workspace(
    dreamd: Caller, archive: Path, tmp_path: Path
) -> None:
    (tmp_path / "registry").write_text("in the way")
    ended = dreamd("import", archive, tmp_path / "there")
    assert ended.status == 0
    assert "run 'dreamd init" in ended.err
    assert dreamd("status", tmp_path / "there").status == 0


def test_what_a_killed_import_left_goes_and_what_a_running_one_makes_stays(archive: Path, tmp_path: Path) -> None:
    import fcntl

    dead, alive = tmp_path / ".dreamd-import-1-dead", tmp_path / ".dreamd-import-2-alive"
    for folder in (dead, alive):
        (folder / "memory").mkdir(parents=True)
    held = os.open(alive, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        import_archive(archive, tmp_path / "there")
        assert (dead.exists(), alive.exists()) == (False, True)
    finally:
        os.close(held)


@pytest.fixture(params=["empty", "a note"])
def young(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    workspace = init_workspace(tmp_path / "young")
    if request.param == "a note":
        workspace.scratch.write_text("- only this\n")
    return workspace.root


def test_a_workspace_that_has_never_dreamt_comes_back_too(dreamd: Caller, young: Path, tmp_path: Path) -> None:
    assert dreamd("export", young, "-o", tmp_path / "x.db").status == 0
    done = asdict(import_archive(tmp_path / "x.db", tmp_path / "there"))
    noted = (young / "memory" / "scratch.md").exists()
    assert (done["version"], done["crystals"], done["missing"]) == (0, int(noted), ())
    assert json.loads(dreamd("status", tmp_path / "there", "--json").out)["version"] == 0
    assert pending_notes(open_workspace(tmp_path / "there")) == pending_notes(open_workspace(young))
