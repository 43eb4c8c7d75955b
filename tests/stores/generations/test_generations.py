"""Generations: whatever was changed, put, forgotten and swept, what comes up anywhere is what was put."""

import os
import sqlite3
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from state.errors import BusyError, FencedError, StorageError
from state.fleet import Place
from state.scratch import Note
from state.stores.disk.workspace import contained, init_workspace
from state.stores.generations import generations as module
from state.stores.generations.generations import Generations
from state.stores.generations.objects import FolderObjects, Objects
from state.stores.generations.pages import Mark, PageLog, Pages
from state.stores.generations.versions import encoded, key_of
from state.stores.history.inbox import NoteInbox
from tests.support import folders
from tests.support.generation_folders import (
    NOW,
    PLACE,
    PREFIX,
    bring_up,
    contents,
    everything,
    files,
    grow,
    make_folder,
    put,
    rows,
    write_rows,
)
from tests.support.lived import pending
from tests.support.long_variants import examples

STATE = ".dreamd/state.db"
_NAMES = ["MEMORY.md", "memory/scratch.md", "GENOME.md", ".dreamd/inbox.000009.md", ".dreamd/bootstraps.jsonl"]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "here")


def test_a_generation_comes_up_elsewhere_as_it_was_put(objects: Objects, here: Path, tmp_path: Path) -> None:
    put(Generations(objects, PREFIX), here, 1)
    assert [one.key for one in objects.list(PREFIX)] == [f"{PREFIX}/generations/000000000001"]
    outside, there = tmp_path / "outside", tmp_path / "there"
    outside.mkdir()
    (outside / "scratch.md").write_text("not mine")
    there.mkdir()
    (there / "memory").symlink_to(outside)
    (there / "MEMORY.md").mkdir()
    (there / "left").write_text("behind")
    for folder in (there, tmp_path / "link"):
        if folder.name == "link":
            folder.symlink_to(outside)
        bring_up(objects, folder, 1)
        assert contents(folder) == contents(here)
        assert files(folder) == set(contents(here))
        assert (folder / "MEMORY.md").stat().st_mtime_ns == (here / "MEMORY.md").stat().st_mtime_ns
        assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o600}
        assert {path.stat().st_mode & 0o777 for path in [folder, *folder.rglob("*")] if path.is_dir()} == {0o700}
    assert (outside / "scratch.md").read_text() == "not mine"


def test_what_is_this_machines_alone_is_in_no_generation(objects: Objects, here: Path, tmp_path: Path) -> None:
    secret = "hunter2-hunter2"
    for name in ("originals.jsonl", "lock", "fence", ".originals.jsonl.1-a.dreamd-tmp", "index/vectors.db"):
        (here / ".dreamd" / name).write_text(secret)
    outside = tmp_path / "outside"
    outside.write_text(secret)
    (here / "GENOME.md").symlink_to(outside)
    (here / "linked").symlink_to(tmp_path)
    put(Generations(objects, PREFIX), here, 1)
    assert not any(secret in content for content in everything(objects).values())


def test_a_small_change_is_one_small_object(objects: Objects, here: Path, tmp_path: Path) -> None:
    grow(here, 4)
    generations = Generations(objects, PREFIX)
    put(generations, here, 1)
    before = everything(objects).keys()
    write_rows(here, ["one more"])
    (here / "MEMORY.md").write_text("# Memory\n\n- coffee\n")
    put(generations, here, 2)
    assert everything(objects).keys() - before == {key_of(PREFIX, 2)}
    assert len(objects.get(key_of(PREFIX, 2))) < 10_000
    # Whoever has brought it up goes on from there.
    other, there = Generations(objects, PREFIX), tmp_path / "there"
    other.bring_up(there, other.version(2))
    assert contents(there) == contents(here)
    write_rows(there, ["by the next holder"])
    put(other, there, 3)
    assert len(objects.get(key_of(PREFIX, 3))) < 10_000
    bring_up(objects, here, 3)
    assert contents(there) == contents(here)


def test_a_sweep_by_a_holder_of_before_leaves_what_a_later_one_wrote(
    objects: Objects, here: Path, tmp_path: Path
) -> None:
    old, new = Generations(objects, PREFIX), Generations(objects, PREFIX)
    put(old, here, 1)
    write_rows(here, ["by the later holder"])
    put(new, here, 2)
    old.sweep(forgotten=True)
    bring_up(objects, tmp_path / "there", 2)
    assert contents(tmp_path / "there") == contents(here)


def test_the_store_holds_little_more_than_the_workspace(folder_store: Objects, here: Path) -> None:
    generations = Generations(folder_store, PREFIX)
    for number in range(1, 90):
        (here / "MEMORY.md").write_bytes(os.urandom(4_000))
        put(generations, here, number)
        if generations.is_whole:
            generations.sweep()
    assert len(everything(folder_store)) < 52  # a chain, the one before, and what goes with the next sweep
    assert sum(one.size for one in folder_store.list(PREFIX)) < 400_000


def test_of_a_small_change_the_log_alone_is_read(
    folder_store: Objects, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generations, path = Generations(folder_store, PREFIX), here / STATE
    found, since = list[Pages | None](), PageLog.since

    def told(log: PageLog, mark: Mark | None) -> Pages | None:
        found.append(since(log, mark))
        return found[-1]

    monkeypatch.setattr(PageLog, "since", told)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, closing(sqlite3.connect(path)) as reader:
        other.execute("PRAGMA secure_delete = ON")
        grow(here, 1)
        put(generations, here, 1)
        number = 1
        for change, is_read_whole in (
            ("INSERT INTO texts (text) SELECT hex(randomblob(3000)) FROM texts LIMIT 9", False),
            ("UPDATE texts SET text = 'x' WHERE id = 3", False),
            ("DELETE FROM texts WHERE id BETWEEN 30 AND 50", False),
            ("PRAGMA wal_checkpoint(RESTART)", False),
            ("INSERT INTO texts (text) VALUES ('after the log began anew')", True),
            ("INSERT INTO texts (text) VALUES ('after it was read whole')", False),
            ("PRAGMA wal_checkpoint(TRUNCATE)", True),
            ("DELETE FROM texts WHERE id BETWEEN 60 AND 70", False),
            ("VACUUM", False),
        ):
            other.execute(change)
            number += 1
            found.clear()
            taken = generations.take(here)
            assert [one is None for one in found] == [is_read_whole], change
            generations.put(taken, PLACE, number)
            bring_up(folder_store, tmp_path / "there", number)
            assert rows(tmp_path / "there" / STATE) == reader.execute("SELECT * FROM texts ORDER BY id").fetchall()
        generations.close()


def test_of_two_who_commit_the_same_number_one_does(objects: Objects, here: Path, tmp_path: Path) -> None:
    both = [Generations(objects, PREFIX), Generations(objects, PREFIX)]
    put(both[0], here, 1)
    both[1].bring_up(tmp_path / "there", both[1].version(1))
    write_rows(here, ["of the first"])
    write_rows(tmp_path / "there", ["of the second"])
    assert put(both[1], tmp_path / "there", 2) == 2
    with pytest.raises(FencedError, match="committed by another holder"):
        put(both[0], here, 2)
    bring_up(objects, here, 2)
    assert contents(here) == contents(tmp_path / "there")


def test_an_own_commit_whose_answer_was_lost_is_passed_and_not_doubled(objects: Objects, here: Path) -> None:
    generations = Generations(objects, PREFIX)
    put(generations, here, 1)
    write_rows(here, ["of the lost answer"])
    taken = generations.take(here)
    objects.put(key_of(PREFIX, 2), encoded(generations._writer, ("acme", "notes"), 2, taken.before, taken.files))
    write_rows(here, ["and more"])
    assert put(generations, here, 2) == 3
    bring_up(objects, here.parent / "there", 3)
    assert contents(here.parent / "there") == contents(here)


def test_the_newest_generation_is_of_this_workspace_and_not_older_than_what_is_known(
    folder_store: Objects, here: Path
) -> None:
    generations = Generations(folder_store, PREFIX)
    assert generations.newest(PLACE, 0) is None
    put(generations, here, 1)
    put(generations, here, 2)
    newest = generations.newest(PLACE, 1)
    assert newest is not None
    assert newest.number == 2
    with pytest.raises(StorageError, match="the newest there is 2"):
        generations.newest(PLACE, 3)
    with pytest.raises(StorageError, match="of acme/notes, not of workspace notes of tenant another"):
        generations.newest(Place(42, 7, "another", "notes"), 0)


class Workspaces(RuleBasedStateMachine):
    """One workspace of a fleet, and the folders of machines that have it now and then."""

    @initialize()
    def begin(self) -> None:
        self.place = tempfile.TemporaryDirectory(dir=folders.PLACE)
        self.root = Path(self.place.name)
        self.here = make_folder(self.root / "here")
        self.objects = FolderObjects(self.root / "store")
        self.generations = Generations(self.objects, PREFIX)
        self.kept: list[tuple[int, dict[str, Any]]] = []
        self.number, self.moves, self.secrets = 0, 0, 0
        self.put(whole=False)

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self.place.cleanup()

    @rule(
        name=st.sampled_from(_NAMES),
        size=st.sampled_from([0, 1, 4_095, 4_096, 4_097, 60_000]),
        random=st.booleans(),
    )
    def change(self, name: str, size: int, random: bool) -> None:  # noqa: FBT001
        content = os.urandom(size - 1) if random and size else b"x" * max(0, size - 1)
        (self.here / name).parent.mkdir(exist_ok=True)
        (self.here / name).write_bytes(content.replace(b"\n", b"x") + b"\n" if size else b"")

    @rule(name=st.sampled_from(_NAMES))
    def remove(self, name: str) -> None:
        (self.here / name).unlink(missing_ok=True)

    @rule(texts=st.lists(st.text(max_size=3000), max_size=3))
    def write(self, texts: list[str]) -> None:
        write_rows(self.here, [text.encode(errors="replace").decode() for text in texts])

    @rule(how=st.sampled_from(["wal_checkpoint(RESTART)", "wal_checkpoint(TRUNCATE)"]))
    def checkpoint(self, how: str) -> None:
        with closing(sqlite3.connect(self.here / STATE)) as connection:
            connection.execute(f"PRAGMA {how}")

    @rule(whole=st.booleans())
    def put(self, whole: bool) -> None:  # noqa: FBT001
        self.number += 1
        assert put(self.generations, self.here, self.number, whole=whole) == self.number
        self.kept = [*self.kept, (self.number, contents(self.here))][-16:]

    @rule()
    def put_and_die(self) -> None:
        """Nobody is told, but whoever takes it next finds it."""
        self.put(whole=False)
        self.move()

    @rule()
    def forget(self) -> None:
        self.secrets += 1
        text = f"secret number {self.secrets};"
        (self.here / "MEMORY.md").write_text(text)
        self.put(whole=False)
        self.put_and_die()
        (self.here / "MEMORY.md").write_text("- tea\n")
        self.put(whole=True)
        self.kept = self.kept[-1:]
        self.generations.sweep(forgotten=True)
        assert not any(text in content for content in everything(self.objects).values())

    @rule()
    def sweep(self) -> None:
        self.generations.sweep()

    @rule(back=st.integers(0, 15))
    def bring_up(self, back: int) -> None:
        number, wanted = self.kept[max(-len(self.kept), -1 - back)]
        bring_up(self.objects, self.root / "there", number)
        assert contents(self.root / "there") == wanted

    @rule()
    def move(self) -> None:
        """Another machine takes it over; the one before commits nothing more."""
        self.moves += 1
        before, self.here = (self.generations, self.here), self.root / f"holder {self.moves}"
        self.generations = Generations(self.objects, PREFIX)
        newest = self.generations.newest(PLACE, self.number)
        assert newest is not None
        assert newest.number == self.number
        self.generations.bring_up(self.here, newest)
        self.put(whole=False)
        with pytest.raises(FencedError):
            put(*before, self.number)


@pytest.mark.full
def test_what_comes_up_is_what_was_put() -> None:
    run_state_machine_as_test(Workspaces, settings=examples(50))


# ------------------------------------------------------------------- what others do meanwhile


@pytest.mark.full
def test_notes_and_rows_beside_it_are_in_it_whole_or_not_at_all(folder_store: Objects, tmp_path: Path) -> None:
    workspace = init_workspace(contained(make_folder(tmp_path / "here", rows=0)))
    for one in (workspace.inbox, workspace.scratch):
        one.unlink()
    grow(workspace.root, 1)
    start, inbox = len(rows(workspace.root / STATE)), NoteInbox(workspace)
    said, done, stop = [0], [0], threading.Event()

    def agent() -> None:
        while not stop.is_set():
            inbox.append(Note(said_as(said[0]), NOW))
            said[0] += 1

    def writer() -> None:
        while not stop.is_set():
            write_rows(workspace.root, [f"{done[0]} one", f"{done[0]} two"])
            done[0] += 1

    threads = [threading.Thread(target=work) for work in (agent, writer)]
    for thread in threads:
        thread.start()
    try:
        generations, there = Generations(folder_store, PREFIX), tmp_path / "there"
        for number in range(1, 16):
            before = said[0], done[0]
            bring_up(folder_store, there, put(generations, workspace.root, number))
            found, written = pending_notes_in(there), len(rows(there / STATE)) - start
            assert found == [said_as(at) for at in range(len(found))]
            assert before[0] <= len(found) <= said[0] + 1
            assert written % 2 == 0
            assert before[1] <= written // 2 <= done[0] + 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert said[0] > 20


def said_as(number: int) -> str:
    return f"note {number} {'x' * (number * 37 % 900)}".strip()


def pending_notes_in(folder: Path) -> list[str]:
    (folder / STATE).rename(folder / "aside")  # its rows are no workspace's
    try:
        return pending(contained(folder))
    finally:
        (folder / "aside").rename(folder / STATE)


def test_a_commit_that_comes_meanwhile_is_noticed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from state.stores.backup.archive import add_log

    def dream(*arguments: Any) -> None:
        (here / "MEMORY.md").write_text("another version")
        add_log(*arguments)

    monkeypatch.setattr(module, "add_log", dream)
    with pytest.raises(BusyError, match="written while it was read"):
        module._read(here, lambda: None)


def test_a_damaged_state_db_is_said_and_damaged_checkpoints_are_left_out(
    folder_store: Objects, here: Path, tmp_path: Path
) -> None:
    (here / ".dreamd" / "checkpoints" / "dreams.db").write_bytes(b"no database " * 1000)
    generations = Generations(folder_store, PREFIX)
    assert ".dreamd/checkpoints/dreams.db" not in generations.version(put(generations, here, 1)).files
    there = make_folder(tmp_path / "there")
    (there / STATE).write_bytes(b"no database " * 1000)
    with pytest.raises(StorageError, match=r"state\.db"):
        put(Generations(folder_store, PREFIX), there, 2)
