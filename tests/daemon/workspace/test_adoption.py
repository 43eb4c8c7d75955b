"""A folder is a workspace if the user's own data says so; which one a folder has; from it only text is read."""

import os
import shutil
import sqlite3
import subprocess
import threading
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

import pytest

from daemon.config.paths import data_folder, registry_path, state_folder
from daemon.config.registry import add, known
from daemon.config.settings import Config
from daemon.dream.run import Mode, dream_now
from daemon.ingest.transcripts import absorb_transcripts, transcript_files
from daemon.workspace.adoption import (
    find_workspace,
    init_workspace,
    open_workspace,
    require_project,
    shared_folder,
    vouch,
    vouched,
    workspace_at,
)
from daemon.workspace.stores import open_exclusive, utc_now
from state.dream import Reason
from state.errors import BusyError, ForeignError, StorageError, UsageError
from state.scratch import Note
from state.stores.disk.lock import acquire
from state.stores.disk.places import PLACE, id_in, read_place
from state.stores.disk.workspace import Workspace, contained
from state.stores.git.exclude import keep_out
from state.stores.repair import moving_out
from tests.stores.disk.test_worktree import repository
from tests.support.faults import Fault, FaultySystem, PowerCut, every_fault, share
from tests.support.repository import git

pytestmark = pytest.mark.usefixtures("own_folders")
FACT = "Ada prefers tea over coffee"


@pytest.fixture
def mine(tmp_path: Path) -> Workspace:
    """A workspace of this user's with one dream, and a note that waits."""
    workspace = init_workspace(tmp_path / "mine")
    with open_exclusive(workspace, Config(), "a test") as store:
        store.notes.inbox.append(Note(FACT, utc_now(), 0.8))
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        store.notes.inbox.append(Note("The gate squeaks", utc_now(), 0.8))
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return workspace


def is_remembered(workspace: Workspace) -> bool:
    """Whether the fact, its version and the note are there."""
    with open_exclusive(workspace, Config(), "a test") as store:
        texts = [row[0] for row in store.connection.execute("SELECT text FROM crystals")]
        notes = [note.text for note in tuple(store.notes.each_pending())]
        return (texts, store.lineage.last_version(), notes) == ([FACT], 1, ["The gate squeaks"])


def test_nothing_but_text_and_an_id_is_in_the_folder(mine: Workspace, tmp_path: Path) -> None:
    assert {path.name for path in mine.root.iterdir()} == {"MEMORY.md", "memory", ".dreamd"}
    assert mine.state.parent == tmp_path / "data" / "dreamd"
    assert id_in(mine.root) == mine.state.name
    assert {path.stat().st_mode & 0o077 for path in (mine.state, *mine.state.rglob("*"))} == {0}
    assert init_workspace(mine.root) == mine == open_workspace(mine.root)


def test_one_that_came_to_another_disk_is_taken_up_when_its_owner_says_so(mine: Workspace, tmp_path: Path) -> None:
    there = Path(shutil.copytree(mine.root, tmp_path / "there"))
    shutil.rmtree(mine.root)
    with pytest.raises(ForeignError, match="was in") as asked:
        open_workspace(there)
    assert f"dreamd init --resume {there}" in asked.value.advice
    workspace = init_workspace(there, resume=True)
    assert workspace.state == mine.state
    assert is_remembered(open_workspace(there))


@pytest.mark.parametrize("number", ["0" * 32 + "\n", "0" * 32])
def test_the_id_of_somebody_else_is_no_workspace(tmp_path: Path, number: str) -> None:
    (tmp_path / "clone" / "src").mkdir(parents=True)
    (tmp_path / "clone" / ".dreamd").write_text(number)
    for folder in ("clone", "clone/src"):
        with pytest.raises(ForeignError, match="not yours"):
            find_workspace(tmp_path / folder)
    workspace = init_workspace(tmp_path / "clone")
    assert id_in(workspace.root) == workspace.state.name != "0" * 32


@pytest.mark.parametrize(
    "said", [b"", b"../../../etc\n", b"0" * 40, b"x" * (1 << 20), b"\xff" * 32, "a link", "a fifo"]
)
def test_what_is_no_id_says_nothing(tmp_path: Path, said: bytes | str) -> None:
    path = tmp_path / ".dreamd"
    if said == "a link":
        (tmp_path / "id").write_text("0" * 32 + "\n")
        path.symlink_to("id")
    elif said == "a fifo":
        os.mkfifo(path)
    else:
        assert isinstance(said, bytes)
        path.write_bytes(said)
    assert id_in(tmp_path) is None
    assert workspace_at(tmp_path) is None


def test_the_state_of_somebody_else_in_a_folder_is_not_looked_at(mine: Workspace, tmp_path: Path) -> None:
    clone = Path(shutil.copytree(mine.root, tmp_path / "clone"))
    (clone / ".dreamd").unlink()
    shutil.copytree(mine.state, clone / ".dreamd")
    (clone / ".dreamd" / "id").write_text(f"{mine.state.name}\n")
    before = {path: path.read_bytes() for path in (clone / ".dreamd").rglob("*") if path.is_file()}
    with pytest.raises(ForeignError, match="not yours"):
        open_workspace(clone)
    workspace = init_workspace(clone)
    aside = clone / ".dreamd-of-another"
    assert {path: path.read_bytes() for path in aside.rglob("*") if path.is_file()} == {
        aside / path.relative_to(clone / ".dreamd"): content for path, content in before.items()
    }
    assert not workspace.database.exists()


def test_state_that_is_planted_in_a_workspace_of_ones_own_is_not_looked_at(mine: Workspace) -> None:
    (mine.root / ".dreamd").unlink()
    (mine.root / ".dreamd").mkdir()
    with closing(sqlite3.connect(mine.root / ".dreamd" / "state.db")) as connection:
        connection.execute("CREATE TABLE crystals (text)")
    assert open_workspace(mine.root) == mine
    assert is_remembered(mine)
    assert (mine.root / ".dreamd" / "state.db").exists()


@pytest.mark.parametrize("row", [None, b"", b"1 1 here\nrelative\n", b"\xff" * 5_000])
def test_a_row_that_is_lost_or_damaged_says_what_to_do_and_loses_nothing(mine: Workspace, row: bytes | None) -> None:
    place = mine.state / PLACE
    if row is None:
        place.unlink()
    else:
        place.write_bytes(row)
    with pytest.raises(StorageError, match="is lost" if not row else "is damaged") as told:
        open_workspace(mine.root)
    assert "dreamd init --resume" in told.value.advice
    assert init_workspace(mine.root, resume=True) == mine
    assert is_remembered(open_workspace(mine.root))


def test_only_transcripts_that_their_owner_named_are_read_through_a_link(mine: Workspace, tmp_path: Path) -> None:
    (mine.root / "transcripts").mkdir()
    for name in ("named", "planted"):
        (tmp_path / f"{name}.md").write_text(f"The {name} zebra sleeps\n", encoding="utf-8")
        (mine.root / "transcripts" / f"{name}.md").symlink_to(tmp_path / f"{name}.md")
    vouch(mine, tmp_path / "named.md")
    with open_exclusive(mine, Config(), "a test") as store:
        found = absorb_transcripts(store, transcript_files(store.workspace, store.config), utc_now())
        texts = [text for (text,) in store.connection.execute("SELECT text FROM crystals")]
    assert vouched(mine) == {str(tmp_path / "named.md")}
    assert [text for text in texts if "zebra" in text] == ["The named zebra sleeps"]
    assert len(found.problems) == 1


# ------------------------------------------------------------------------------------------------ moving out


def as_before(workspace: Workspace) -> Workspace:
    """The workspace as earlier versions kept it: its state in the folder, and a mark that it is this user's."""
    number, old = workspace.state.name, contained(workspace.root)
    (workspace.root / ".dreamd").unlink()
    shutil.copytree(workspace.state, old.state)
    shutil.rmtree(workspace.state)
    (old.state / PLACE).unlink()
    (old.state / "id").write_text(f"{number}\n")
    (old.state / ".gitignore").write_text("*\n")
    marked = marked_at(workspace.root)
    marked.mkdir(parents=True)
    (marked / "mark").write_bytes(number.encode() + b"\n" + os.fsencode(workspace.root) + b"\n")
    (marked / "transcripts").write_text("/named/by/its/owner.md\n")
    return old


def marked_at(root: Path) -> Path:
    return state_folder(os.environ) / "adopted" / sha256(os.fsencode(root)).hexdigest()[:40]


def test_the_state_of_an_earlier_version_moves_out_of_the_folder(mine: Workspace) -> None:
    as_before(mine)
    assert open_workspace(mine.root) == mine
    assert id_in(mine.root) == mine.state.name
    assert vouched(mine) == {"/named/by/its/owner.md"}
    assert {path.name for path in mine.root.iterdir()} == {"MEMORY.md", "memory", ".dreamd"}
    assert is_remembered(mine)


def test_of_many_who_open_it_at_once_all_get_it(mine: Workspace) -> None:
    as_before(mine)
    got = list[Workspace]()
    threads = [threading.Thread(target=lambda: got.append(open_workspace(mine.root))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [mine] * 8
    assert is_remembered(mine)


def test_without_its_users_mark_it_stays_where_it_is(mine: Workspace) -> None:
    old = as_before(mine)
    (marked_at(mine.root) / "mark").write_bytes(b"0" * 32 + b"\n" + os.fsencode(mine.root) + b"\n")
    with pytest.raises(ForeignError, match="not yours"):
        open_workspace(mine.root)
    assert old.database.exists()


def test_git_leaves_out_the_file_that_stands_where_the_folder_was(mine: Workspace) -> None:
    old = as_before(mine)
    subprocess.run(["git", "init", "-q", str(mine.root)], check=True)
    keep_out(mine.root, [old.state, mine.document])
    exclude = mine.root / ".git" / "info" / "exclude"
    exclude.write_text(exclude.read_text().replace("/.dreamd\n", "/.dreamd/\n"))
    open_workspace(mine.root)
    assert {"/.dreamd", "/MEMORY.md"} <= {*exclude.read_text().splitlines()}


def test_it_is_not_taken_from_a_process_that_has_it(mine: Workspace) -> None:
    with acquire(as_before(mine), "an older dreamd"), pytest.raises(BusyError, match="an older dreamd"):
        open_workspace(mine.root)
    assert is_remembered(open_workspace(mine.root))


@pytest.mark.parametrize("name", ["inbox.000009.md", "index/x", "state.db-journal", "more"])
def test_a_link_that_was_planted_there_is_not_brought_in(mine: Workspace, tmp_path: Path, name: str) -> None:
    old = as_before(mine)
    (tmp_path / "secret").write_text("secret")
    (old.state / name).symlink_to(tmp_path / "secret")
    with pytest.raises(StorageError, match="no file") as refused:
        open_workspace(mine.root)
    assert str(old.state / name) in refused.value.what
    (old.state / name).unlink()
    assert is_remembered(open_workspace(mine.root))


def test_a_trigger_that_was_planted_there_is_refused(mine: Workspace) -> None:
    old = as_before(mine)
    with closing(sqlite3.connect(old.database)) as connection:
        connection.execute("CREATE TRIGGER t AFTER INSERT ON crystals BEGIN DELETE FROM versions; END")
        connection.commit()
    with pytest.raises(StorageError, match="schema is not ours"):
        open_workspace(mine.root)


@pytest.mark.parametrize("between_disks", [False, True])
def test_a_move_that_was_cut_off_anywhere_goes_on(mine: Workspace, tmp_path: Path, *, between_disks: bool) -> None:
    old = as_before(mine)
    kept, marks = Path(shutil.copytree(old.root, tmp_path / "kept")), tmp_path / "marks"
    shutil.copytree(state_folder(os.environ), marks)

    def prepare(_: Path) -> Path:
        shutil.rmtree(mine.root)
        shutil.rmtree(data_folder(os.environ), ignore_errors=True)
        shutil.rmtree(state_folder(os.environ))
        shutil.copytree(kept, mine.root)
        shutil.copytree(marks, state_folder(os.environ))
        return tmp_path

    def cut_off(system: FaultySystem) -> None:
        number = moving_out.own_number(mine.root, os.environ)
        assert number == mine.state.name
        place = moving_out.expect(mine.root, number, mine.root, os.environ)
        with suppress(PowerCut, StorageError):
            moving_out.move_out(place, os.environ, system)
        assert is_remembered(open_workspace(mine.root)), (system.fail_at, system.fault)
        assert id_in(mine.root) == mine.state.name
        read = read_place(data_folder(os.environ), mine.state.name)
        assert read is not None
        assert not read.incoming

    kind = FarSystem if between_disks else FaultySystem
    assert every_fault((Fault.ERROR, Fault.CRASH), prepare, cut_off, kind) > share(8)


class FarSystem(FaultySystem):
    """The folder and the data are on two file systems."""

    def rename(self, source: Path, target: Path) -> None:
        if source.parts[: len(target.parent.parts)] != target.parent.parts:
            raise OSError(18, "Invalid cross-device link", str(source))
        super().rename(source, target)


def test_one_that_was_moved_goes_on_and_the_daemons_list_follows(mine: Workspace, tmp_path: Path) -> None:
    add(registry_path(os.environ), mine.root)
    moved = mine.root.rename(tmp_path / "renamed")
    workspace = open_workspace(moved)
    assert (workspace.root, workspace.state) == (moved, mine.state)
    assert known(registry_path(os.environ)) == (moved,)
    assert is_remembered(workspace)
    assert workspace_at(mine.root) is None


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """The main checkout, whose linked worktree is beside it."""
    main = repository(tmp_path / "main")
    git(main, "worktree", "add", "--detach", tmp_path / "tree")
    return main


def test_the_nearest_workspace_above_is_found(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="dreamd init"):
        find_workspace(tmp_path)
    outer, inner = init_workspace(tmp_path / "a"), init_workspace(tmp_path / "a" / "b" / "c")
    (inner.root / "d" / "e").mkdir(parents=True)
    assert find_workspace(inner.root / "d" / "e") == inner
    assert find_workspace(tmp_path / "a" / "b") == outer


def test_a_worktree_has_the_workspace_of_the_corresponding_folder(main: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for folder in (main, tree):
        (folder / "part" / "deep").mkdir(parents=True)
    with pytest.raises(UsageError):
        find_workspace(tree)
    assert shared_folder(tree / "part") == main / "part"
    whole = init_workspace(main)
    assert find_workspace(tree / "part") == whole
    assert shared_folder(tree / "part") == main
    part = init_workspace(main / "part")
    assert find_workspace(tree / "part" / "deep") == part
    assert find_workspace(tree) == whole
    assert shared_folder(tree / "only here") == main
    own = init_workspace(tree)
    assert find_workspace(tree / "part" / "deep") == own
    assert shared_folder(tree / "part") is None
    assert shared_folder(main / "part" / "deep") is None


def test_a_worktree_has_also_what_is_above_the_main_checkout(main: Path, tmp_path: Path) -> None:
    git(main, "worktree", "add", "--detach", tmp_path / "away" / "tree")
    above = init_workspace(tmp_path)
    assert find_workspace(tmp_path / "away" / "tree") == above


def test_a_worktree_shares_nothing_that_this_user_has_not_adopted(main: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(init_workspace(tmp_path / "elsewhere").state, main / ".dreamd")
    with pytest.raises(UsageError, match=str(tree)):
        find_workspace(tree)
    shutil.rmtree(main / ".dreamd")
    (main / ".dreamd").symlink_to("/etc")
    with pytest.raises(UsageError, match=str(tree)):
        find_workspace(tree)


def test_a_link_in_the_main_checkout_leads_to_no_other_workspace(main: Path, tmp_path: Path) -> None:
    private = init_workspace(tmp_path / "private")
    (main / "part").symlink_to(private.root)
    (main / "up").symlink_to(tmp_path)
    for name in ("part", "up/private"):
        (tmp_path / "tree" / name).mkdir(parents=True)
        assert shared_folder(tmp_path / "tree" / name) == main
        with pytest.raises(UsageError):
            find_workspace(tmp_path / "tree" / name)


def test_a_worktree_whose_main_checkout_is_the_home_folder_has_its_own(main: Path, tmp_path: Path) -> None:
    environment = {"HOME": str(main), "XDG_STATE_HOME": str(tmp_path / "state")}
    assert shared_folder(tmp_path / "tree", environment) is None
    init_workspace(main, environment)
    with pytest.raises(UsageError):
        find_workspace(tmp_path / "tree", environment)
    with pytest.raises(UsageError, match="--here"):
        require_project(main, environment)
