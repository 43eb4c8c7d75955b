"""A workspace is this user's when the user's own folder says so; any other one is read and never written."""

import itertools
import os
import shutil
import subprocess
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from daemon.api.search import search
from daemon.config.registry import add
from daemon.config.settings import Config
from daemon.dream.run import Mode, dream_now
from daemon.ingest.agent_hooks import link
from daemon.ingest.transcripts import absorb_transcripts, transcript_files
from daemon.upkeep.takeover import contents_of, take_over_workspace
from daemon.workspace.adoption import adopt, init_workspace, open_workspace, own_folder, vouch, vouched
from daemon.workspace.stores import open_exclusive, open_readonly, utc_now
from state.dream import Reason
from state.errors import DreamdError, ForeignError, StorageError
from state.scratch import Note
from state.stores.database.connection import open_database
from state.stores.disk import workspace as workspaces
from state.stores.disk.disk import Disk
from state.stores.disk.lock import acquire
from state.stores.disk.workspace import Workspace
from state.stores.history.acts import Act
from state.stores.history.segments import Segments
from tests.support.faults import Fault, FaultySystem, PowerCut, every_fault, share

FACT = "Ada prefers tea over coffee"


def made(folder: Path) -> Workspace:
    """A workspace of this user's with one dream."""
    workspace = init_workspace(folder)
    Segments(workspace).append(Note(FACT, utc_now(), 0.8))
    with open_exclusive(workspace, Config(), "a test") as store:
        dream_now(store, Reason.MANUAL, Mode.AUTO)
    return workspace


def cloned(workspace: Workspace, folder: Path) -> Workspace:
    """What somebody gets who clones it."""
    shutil.copytree(workspace.root, folder, symlinks=True)
    return open_workspace(folder)


def contents(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file, with its time."""
    return {str(one): (one.stat().st_mtime_ns, one.read_bytes()) for one in root.rglob("*") if one.is_file()}


def test_git_shows_nothing_of_the_state_folder_also_of_an_older_workspace(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    workspace = made(tmp_path)

    def shown() -> list[str]:
        command = ["git", "-C", str(tmp_path), "status", "--porcelain", "--untracked-files=all"]
        return [
            one[3:] for one in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
        ]

    assert not any(one.startswith(".dreamd") for one in shown())
    assert "MEMORY.md" in shown()
    (workspace.state / ".gitignore").unlink()
    assert ".dreamd/id" in shown()
    init_workspace(tmp_path)
    assert not any(one.startswith(".dreamd") for one in shown())
    (workspace.state / ".gitignore").write_text("# mine\n")
    init_workspace(tmp_path)
    assert (workspace.state / ".gitignore").read_text() == "# mine\n"


def test_a_link_of_a_stranger_in_place_of_the_ignore_file_is_not_followed(tmp_path: Path) -> None:
    there = cloned(made(tmp_path / "theirs"), tmp_path / "cloned")
    (there.state / ".gitignore").unlink()
    (there.state / ".gitignore").symlink_to(tmp_path / "mine")
    assert not take_over_workspace(there).foreign
    assert (there.state / ".gitignore").is_symlink()
    assert not (tmp_path / "mine").exists()


def test_what_this_user_made_is_own_and_a_copy_of_it_is_not(tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path / "mine")
    assert not workspace.foreign
    assert not open_workspace(tmp_path / "mine").foreign
    assert cloned(workspace, tmp_path / "copy").foreign
    assert not (own_folder(workspace).is_relative_to(workspace.root))


@pytest.mark.parametrize(
    "number", [b"", b"0" * 32 + b"\n", b"../../x\n", None], ids=["empty", "other", "path", "none"]
)
def test_another_one_in_its_place_is_not_it(tmp_path: Path, number: bytes | None) -> None:
    workspace = init_workspace(tmp_path / "mine")
    if number is None:
        workspace.identity.unlink()
    else:
        workspace.identity.write_bytes(number)
    assert open_workspace(workspace.root).foreign


def test_a_mark_inside_of_the_workspace_is_none(tmp_path: Path) -> None:
    mine = init_workspace(tmp_path / "mine")
    copy = cloned(mine, tmp_path / "copy")
    (copy.state / "adopted").mkdir()
    shutil.copytree(own_folder(mine), copy.state / "adopted" / own_folder(copy).name)
    assert open_workspace(copy.root).foreign


def test_init_refuses_what_somebody_else_made(tmp_path: Path) -> None:
    copy = cloned(init_workspace(tmp_path / "mine"), tmp_path / "copy")
    with pytest.raises(ForeignError, match="init --trust"):
        init_workspace(copy.root)


def test_nothing_is_written_in_a_foreign_workspace_and_it_can_be_read(tmp_path: Path) -> None:
    copy = cloned(made(tmp_path / "mine"), tmp_path / "copy")
    before = contents(copy.root)
    chat = tmp_path / "chat.md"
    chat.write_text("a chat", encoding="utf-8")
    for attempt in (
        lambda: acquire(copy, "a test"),
        lambda: Segments(copy).append(Note("a note", utc_now())),
        lambda: link(copy, chat, ["transcripts/**/*"]),
        lambda: vouch(copy, chat),
        lambda: open_exclusive(copy, Config(), "a test").__enter__(),
    ):
        with pytest.raises(ForeignError):
            attempt()
    with open_readonly(copy, Config()) as store:
        assert [hit.crystal.text for hit in search(store, "tea").hits] == [FACT]
    assert contents(copy.root) == before


def test_taking_over_keeps_what_is_remembered_and_leaves_out_what_would_act(tmp_path: Path) -> None:
    mine = made(tmp_path / "mine")
    with open_exclusive(mine, Config(), "a test") as store:
        store.ledger.begin("20260101T000000000000Z", "manual", utc_now())
        _answer(store)
        store.acts.record(Act(utc_now(), "owner, in the window", "restore", "version 1", "done", 2))
    (mine.state / "vouched").write_text("/etc/passwd\n", encoding="utf-8")
    (mine.checkpoints / "dreams.db").write_bytes(b"whatever")
    copy = cloned(mine, tmp_path / "copy")
    found = contents_of(copy)
    assert (found.version, found.crystals, found.unfinished, found.answers) == (1, {"agent": 1}, 1, 1)
    own = take_over_workspace(copy)
    assert not own.foreign
    assert not open_workspace(copy.root).foreign
    assert not (own.state / "vouched").exists()
    assert list(own.checkpoints.iterdir()) == []
    with open_exclusive(own, Config(), "a test") as store:
        assert store.ledger.unfinished() is None
        assert store.ledger.replay("20260101T000000000000Z", "d") is None
        assert [call.request for call in store.ledger.calls("20260101T000000000000Z", 9)] == [""]
        assert store.acts.latest(9) == []
        assert [hit.crystal.text for hit in search(store, "tea").hits] == [FACT]
        assert store.memory.text(1) == own.document.read_text(encoding="utf-8")


@pytest.mark.full
def test_an_adoption_that_was_cut_off_anywhere_is_done_by_doing_it_again(tmp_path: Path) -> None:
    mine = made(tmp_path / "mine")
    numbers = itertools.count()

    def cut_off(fail_at: int, fault: Fault) -> FaultySystem:
        copy = cloned(mine, tmp_path / str(next(numbers)))
        # Rows that stand in the log alone, as after a kill of whoever made it.
        (copy.state / "state.db-wal").touch()
        system = FaultySystem(copy.root, fail_at, fault)
        with suppress(PowerCut, StorageError):
            take_over_workspace(copy, Disk(copy.root, system))
        found = contents_of(open_workspace(copy.root))
        assert (found.version, found.crystals) == (1, {"agent": 1})
        own = take_over_workspace(open_workspace(copy.root))
        with closing(open_database(own.database)) as connection:
            assert connection.execute("SELECT text FROM crystals").fetchone()[0] == FACT
        assert not (own_folder(own) / "database").exists()
        return system

    assert every_fault((Fault.ERROR, Fault.TORN_CRASH), cut_off) > share(10)


def test_a_new_database_that_came_with_the_workspace_is_not_taken_for_one_of_an_adoption(tmp_path: Path) -> None:
    copy = cloned(made(tmp_path / "mine"), tmp_path / "copy")
    other = made(tmp_path / "other")
    with open_exclusive(other, Config(), "a test") as store:
        store.crystals.connection.execute("UPDATE crystals SET trust = 'owner'")
    shutil.copy(other.database, copy.state / "state.db.adopted")
    assert contents_of(copy).crystals == {"agent": 1}
    own = take_over_workspace(copy)
    with open_exclusive(own, Config(), "a test") as store:
        assert [row[0] for row in store.crystals.connection.execute("SELECT trust FROM crystals")] == ["agent"]


def _answer(store: Any) -> None:
    connection = store.crystals.connection
    connection.execute(
        "INSERT INTO calls (dream, digest, at, model, usable, reply, tokens, usd, request)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ("20260101T000000000000Z", "d", utc_now().isoformat(), "m", 1, "{}", 1, 0.0, "[]"),
    )


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON crystals BEGIN DELETE FROM versions; END",
        "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
        "CREATE TABLE another (x)",
        "ALTER TABLE crystals ADD COLUMN more TEXT",
    ],
)
def test_a_database_of_another_shape_is_neither_read_nor_taken_over(tmp_path: Path, statement: str) -> None:
    mine = made(tmp_path / "mine")
    with open_exclusive(mine, Config(), "a test") as store:
        store.crystals.connection.execute(statement)
    copy = cloned(mine, tmp_path / "copy")
    with pytest.raises(StorageError, match="its tables are not those"), open_readonly(copy, Config()):
        pass
    with pytest.raises(StorageError, match="its tables are not those"):
        take_over_workspace(copy)
    assert open_workspace(copy.root).foreign


def test_what_the_registry_listed_before_there_were_marks_is_own_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    registry = tmp_path / "state" / "dreamd" / "workspaces"
    known, later = (workspaces.init_workspace(tmp_path / name) for name in ("known", "later"))
    add(registry, known.root)
    assert not open_workspace(known.root, environment).foreign
    add(registry, later.root)
    assert open_workspace(later.root, environment).foreign


def test_a_link_to_a_file_outside_is_followed_when_the_users_own_list_has_it_and_never_for_what_the_workspace_says(
    tmp_path: Path,
) -> None:
    mine = init_workspace(tmp_path / "mine")
    for name in ("named", "listed", "marked"):
        (tmp_path / f"{name}.md").write_text(f"The {name} zebra sleeps\n", encoding="utf-8")
    (mine.root / "transcripts").mkdir()
    for name in ("named", "listed", "marked"):
        (mine.root / "transcripts" / f"{name}.md").symlink_to(tmp_path / f"{name}.md")
    vouch(mine, tmp_path / "named.md")
    (mine.state / "vouched").write_text(str(tmp_path / "listed.md") + "\n", encoding="utf-8")
    with open_exclusive(mine, Config(), "a test") as store:
        store.crystals.connection.execute(
            "INSERT INTO watermarks VALUES (?, -1, 0, '{}')", (str(tmp_path / "marked.md"),)
        )
        found = absorb_transcripts(store, transcript_files(store), utc_now())
        texts = [text for (text,) in store.crystals.connection.execute("SELECT text FROM crystals")]
    assert vouched(mine) == {str(tmp_path / "named.md")}
    assert [text for text in texts if "zebra" in text] == ["The named zebra sleeps"]
    assert len(found.problems) == 2


@pytest.mark.parametrize("name", ["id", "lock", "fence", "lock.takeover"])
def test_a_fifo_is_never_waited_for(tmp_path: Path, name: str) -> None:
    copy = cloned(made(tmp_path / "mine"), tmp_path / "copy")
    (copy.state / name).unlink(missing_ok=True)
    os.mkfifo(copy.state / name)
    assert open_workspace(copy.root).foreign
    own = take_over_workspace(copy)
    with open_exclusive(own, Config(), "a test") as store:
        assert store.lineage.last_version() == 1


@pytest.mark.parametrize("name", ["segments", "index", "checkpoints"])
def test_a_folder_that_is_a_link_is_not_adopted(tmp_path: Path, name: str) -> None:
    copy = cloned(made(tmp_path / "mine"), tmp_path / "copy")
    shutil.rmtree(copy.state / name)
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "kept").write_text("kept", encoding="utf-8")
    (copy.state / name).symlink_to(tmp_path / "away")
    with pytest.raises(DreamdError, match="is no folder"):
        take_over_workspace(copy)
    assert (tmp_path / "away" / "kept").exists()


def test_adopting_twice_is_adopting_once(tmp_path: Path) -> None:
    mine = init_workspace(tmp_path / "mine")
    number = mine.identity.read_bytes()
    assert adopt(adopt(mine)) == mine
    assert mine.identity.read_bytes() == number
