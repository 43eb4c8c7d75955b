"""A snapshot is of one moment: notes beside it are whole, and what was written before it is in it."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from state.errors import BusyError, StorageError
from state.scratch import Note
from state.stores.disk.workspace import contained, init_workspace
from state.stores.generations import snapshot
from state.stores.generations.generations import Generations
from state.stores.generations.objects import Objects
from state.stores.history.inbox import NoteInbox
from tests.support.generation_folders import NOW, PREFIX, grow, make_folder, put, rows, write_rows
from tests.support.lived import pending


def said_as(number: int) -> str:
    return f"note {number} {'x' * (number * 37 % 900)}".strip()


@pytest.mark.full
def test_notes_beside_it_are_in_it_whole_or_not_at_all(folder_store: Objects, tmp_path: Path) -> None:
    workspace = init_workspace(contained(tmp_path / "here"))
    inbox, said, stop = NoteInbox(workspace), [0], threading.Event()

    def agent() -> None:
        while not stop.is_set():
            inbox.append(Note(said_as(said[0]), NOW))
            said[0] += 1

    thread = threading.Thread(target=agent)
    thread.start()
    try:
        generations, last = Generations(folder_store, PREFIX), None
        for number in range(1, 16):
            before = said[0]
            last = put(generations, workspace.root, last, number)
            after = said[0]
            generations.bring_up(tmp_path / "there", last)
            found = pending(contained(tmp_path / "there"))
            assert before <= len(found) <= after + 1
            assert found == [said_as(at) for at in range(len(found))]
    finally:
        stop.set()
        thread.join()
    assert said[0] > 20


@pytest.mark.full
def test_short_writes_beside_it_are_in_it_whole_or_not_at_all(folder_store: Objects, tmp_path: Path) -> None:
    here = make_folder(tmp_path / "here", rows=0)
    grow(here, 2)
    start = len(rows(here / ".dreamd" / "state.db"))
    done, stop = [0], threading.Event()

    def writer() -> None:
        while not stop.is_set():
            write_rows(here, [f"{done[0]} one", f"{done[0]} two"])
            done[0] += 1

    thread = threading.Thread(target=writer)
    thread.start()
    try:
        generations, last = Generations(folder_store, PREFIX), None
        for number in range(1, 20):
            before = done[0]
            last = put(generations, here, last, number)
            generations.bring_up(tmp_path / "there", last)
            found = len(rows(tmp_path / "there" / ".dreamd" / "state.db")) - start
            assert found % 2 == 0
            assert before <= found // 2 <= done[0] + 1
    finally:
        stop.set()
        thread.join()


@pytest.mark.full
def test_a_write_right_behind_a_put_is_in_the_next(folder_store: Objects, tmp_path: Path) -> None:
    """However little time passes between them: times of files are not that exact."""
    here = make_folder(tmp_path / "here")
    generations, last = Generations(folder_store, PREFIX), None
    for number in range(1, 60):
        (here / "MEMORY.md").write_text(f"{number:09d}")
        with closing(sqlite3.connect(here / ".dreamd" / "state.db")) as connection, connection:
            connection.execute("UPDATE texts SET text = ? WHERE id = 1", (f"{number:09d}",))
        last = put(generations, here, last, number)
        generations.bring_up(tmp_path / "there", last)
        assert (tmp_path / "there" / "MEMORY.md").read_text() == f"{number:09d}"
        assert rows(tmp_path / "there" / ".dreamd" / "state.db")[0] == (1, f"{number:09d}")


def test_a_commit_that_comes_meanwhile_is_noticed(folder_store: Objects, tmp_path: Path) -> None:
    here = make_folder(tmp_path / "here")

    class Dreaming:
        def add(self, *_: object) -> None:
            (here / "MEMORY.md").write_text("another version")

        def repeats(self, *_: object) -> bool:
            return False

        def drop(self, *_: object) -> None:
            pass

    with pytest.raises(BusyError, match="written while it was read"):
        snapshot.take(here, Dreaming())


def test_a_damaged_state_db_is_said_and_damaged_checkpoints_are_left_out(
    folder_store: Objects, tmp_path: Path
) -> None:
    here = make_folder(tmp_path / "here")
    (here / ".dreamd" / "checkpoints" / "dreams.db").write_bytes(b"no database " * 1000)
    manifest = put(Generations(folder_store, PREFIX), here, None, 1)
    assert ".dreamd/checkpoints/dreams.db" not in {file.name for file in manifest.files}
    (here / ".dreamd" / "state.db").write_bytes(b"no database " * 1000)
    with pytest.raises(StorageError, match=r"state\.db"):
        put(Generations(folder_store, PREFIX), here, None, 2)
    assert not list((here / ".dreamd").glob(".*"))
