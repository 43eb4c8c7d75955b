"""Archives: what is in one while everybody writes, and imports that end in the middle."""

import fcntl
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from daemon.upkeep.import_ import import_archive
from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal, Origin
from state.errors import StorageError
from state.stores.backup.archive import add_log, write_archive
from state.stores.database.moments import to_text
from state.stores.disk.workspace import Workspace, contained, init_workspace
from tests.support.faults import Fault, FaultySystem, PowerCut, every_fault, share
from tests.support.lived import everything
from tests.support.long_variants import variants
from tests.support.running import ROOT
from tests.support.working import AT, working

_WRITER = """
import sys
from pathlib import Path
from state.stores.database.connection import transaction
from state.stores.database.opening import open_database
connection = open_database(Path(sys.argv[1]))
for number in range(1_000_000):
    with transaction(connection):
        connection.execute("INSERT INTO meta VALUES (?, 'x')", (f"n{number}",))
        connection.execute("INSERT INTO tombstones VALUES (?, ?)", (f"n{number}", sys.argv[2]))
"""


def written(store: Store, target: Path) -> None:
    """Write an archive of the workspace."""
    write_archive(store.workspace, store.memory.disk, target, "0.1.0", AT)


def rows_of(path: Path, tables: Iterable[str]) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return [row for table in tables for row in connection.execute(f"SELECT * FROM {table}").fetchall()]  # noqa: S608


def test_an_archive_holds_no_word_of_a_full_text_index(tmp_path: Path) -> None:
    """An index keeps the words of what was deleted until it is merged; an archive has none of them."""
    with working(tmp_path / "here") as store:
        note = Crystal("the password of the lighthouse is zwetschgenknoedel", Origin.SCRATCH, AT)
        store.crystals.learn([note])
        store.connection.execute("DELETE FROM crystals WHERE id = ?", (note.id,))
        indexed = [bytes(row[0]) for row in store.connection.execute("SELECT block FROM words_data")]
        assert b"zwetschgenknoedel" in b"".join(indexed)
        written(store, tmp_path / "archive.db")
    assert b"zwetschgenknoedel" not in (tmp_path / "archive.db").read_bytes()


def test_an_archive_is_of_one_moment_while_others_write(tmp_path: Path) -> None:
    """Two tables that are written in one transaction agree in every archive; rows come back as they were."""
    with working(tmp_path / "here") as store:
        database = store.workspace.database
        with subprocess.Popen([sys.executable, "-c", _WRITER, str(database), to_text(AT)], cwd=ROOT) as writer:
            counts: set[int] = set()
            try:
                while len(counts) < 5:
                    assert writer.poll() is None
                    target = tmp_path / "archive.db"
                    written(store, target)
                    names = {row[0] for row in rows_of(target, ["meta"]) if str(row[0])[1:].isdigit()}
                    assert names == {row[0] for row in rows_of(target, ["tombstones"])}
                    counts.add(len(names))
                    target.unlink()
            finally:
                writer.kill()


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    return init_workspace(contained(tmp_path / "here"))


class Taker(dict[str, bytes]):
    """Takes the files of a log in."""

    def add(self, name: str, source: BinaryIO, size: int, mtime_ns: int) -> None:
        assert mtime_ns > 0
        self[name] = source.read(size)


def taken(workspace: Workspace) -> dict[str, bytes]:
    """The log as an archive has it."""
    taker = Taker()
    add_log(taker.add, workspace, workspace.disk())
    return taker


@contextmanager
def meanwhile(act: "threading.Thread") -> Iterator[None]:
    act.start()
    try:
        yield
    finally:
        act.join()


def test_a_line_that_is_being_written_is_waited_for(here: Workspace, tmp_path: Path) -> None:
    with here.scratch.open("ab", buffering=0) as file:
        file.write(b"- whole\n- half")

        def finish() -> None:
            time.sleep(0.2)
            file.write(b" a line\n- and the next")

        with meanwhile(threading.Thread(target=finish)):
            assert taken(here)["memory/scratch.md"] == b"- whole\n- half a line\n"


def test_a_writer_that_holds_the_log_is_waited_for(here: Workspace, tmp_path: Path) -> None:
    here.scratch.write_bytes(b"- one\n")
    with here.scratch.open("ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(b"- a note of\n")

        def finish() -> None:
            time.sleep(0.2)
            file.write(b"  two lines\n")
            fcntl.flock(file, fcntl.LOCK_UN)

        with meanwhile(threading.Thread(target=finish)):
            assert taken(here)["memory/scratch.md"] == b"- one\n- a note of\n  two lines\n"


def test_a_pipe_and_a_link_that_leads_out_are_refused_in_words(here: Workspace, tmp_path: Path) -> None:
    here.scratch.unlink(missing_ok=True)
    os.mkfifo(here.scratch)
    with pytest.raises(StorageError, match="no regular file; move it away"):
        taken(here)
    here.scratch.unlink()
    (tmp_path / "outside").write_text("secret")
    here.scratch.symlink_to(tmp_path / "outside")
    with pytest.raises(StorageError, match="replace the link by the file itself"):
        taken(here)
    here.scratch.unlink()
    (here.root / "mine.md").write_text("inside")
    here.scratch.symlink_to("../mine.md")
    assert taken(here)["memory/scratch.md"] == b"inside"


class Moving(FaultySystem):
    """One that may rename a folder: what is in it moves along."""

    def _rename(self, source: Path, target: Path, call: Any, name: str) -> None:
        if not source.is_dir():
            super()._rename(source, target, call, name)
            return
        self._meet(f"{name} {target.name}", lambda: call(source, target))
        call(source, target)


@pytest.mark.parametrize("faults", variants((Fault.TORN_CRASH,), (Fault.ERROR, Fault.TORN_CRASH)))
def test_an_import_that_is_cut_off_anywhere_leaves_nothing_or_a_whole_workspace(
    archive: Path, tmp_path: Path, faults: tuple[Fault, ...]
) -> None:
    import_archive(archive, tmp_path / "honest")
    whole = everything(tmp_path / "honest")
    places = {False: 0, True: 0}

    def prepare(folder: Path) -> Path:
        folder.mkdir()
        return folder

    def scenario(system: Moving) -> None:
        folder = system.root
        try:
            import_archive(archive, folder / "there", system)
        except (PowerCut, StorageError):
            assert system.met
        there = (folder / "there").exists()
        places[there] += 1
        assert list(folder.iterdir()) == ([folder / "there"] if there else [])
        if there:
            assert everything(folder / "there") == whole

    runs = every_fault(faults, prepare, scenario, Moving)
    assert runs > share(20)
    assert all(places.values())


def test_everything_is_synced_before_it_is_there(archive: Path, tmp_path: Path) -> None:
    folder = tmp_path / "alone"
    folder.mkdir()
    system = Moving(folder)
    import_archive(archive, folder / "there", system)
    rename = system.calls.index("rename there")
    assert "fsync" not in system.calls[rename + 2 :]
    assert system.calls[rename + 1] == "fsync"
    files = [call for call in system.calls[:rename] if call.startswith("create ")]
    folders = [call for call in system.calls[:rename] if call.startswith("mkdir ")]
    # Each file, state.db once more after it was made anew, and each folder.
    assert system.calls[:rename].count("fsync") == len(files) + 1 + len(folders)
