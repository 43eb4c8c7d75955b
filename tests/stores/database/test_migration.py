"""A database of the first release is brought to the schema of a later one, and one from before it is refused."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.ingest.notes import absorb_notes
from daemon.workspace.status import status
from daemon.workspace.stores import utc_now
from state.errors import StorageError
from state.scratch import Note
from state.stores.crystals import full_text
from state.stores.database import schema
from state.stores.database.copies import copies_of
from state.stores.database.opening import memory_database, open_database, open_reading, things
from state.stores.disk.workspace import Workspace
from state.stores.repair.check import damage_of, faults
from tests.support import forked
from tests.support.upgrade import SECOND, UPGRADES, made_older
from tests.support.working import AT, working

TEXT = "the harbour wall is of granite"
KILLED = 9


@pytest.fixture
def older(tmp_path: Path) -> Workspace:
    """A workspace as a dreamd of the first release left it."""
    with working(tmp_path / "w") as store:
        store.notes.inbox.append(Note(TEXT, AT))
        absorb_notes(store, AT)
        workspace = store.workspace
    with closing(sqlite3.connect(workspace.database, isolation_level=None)) as connection:
        made_older(connection)
    return workspace


def _version(workspace: Workspace) -> int:
    with closing(sqlite3.connect(workspace.database)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        texts = connection.execute("SELECT text FROM crystals").fetchall()
        assert texts == [(TEXT,)]
        (has_former,) = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'moods'").fetchone()
        assert bool(has_former) is (version == schema.FIRST_SCHEMA)
    return int(version)


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "SCHEMA_VERSION", SECOND)
    monkeypatch.setattr(schema, "UPGRADES", UPGRADES)


@pytest.mark.usefixtures("second")
def test_a_database_of_an_earlier_release_gets_the_schema_of_a_new_one_and_keeps_its_rows(older: Workspace) -> None:
    with pytest.raises(StorageError, match="of an earlier release; run 'dreamd history' where it may be written"):
        open_reading(older.database)
    for _ in range(2):  # opened again, nothing is done twice
        with closing(open_database(older.database)) as connection, closing(memory_database()) as new:
            assert things(connection) == things(new)
            assert list(faults(connection)) == []
            assert not full_text.is_torn(connection)
            assert connection.execute("SELECT rowid FROM words WHERE words MATCH 'walls'").fetchall()
            assert connection.execute("SELECT text, heard FROM crystals").fetchall()[0][:] == (TEXT, "web")
            assert connection.execute("SELECT value FROM meta WHERE name = 'had'").fetchone()[0] == "1"
        assert _version(older) == SECOND
    (copy,) = copies_of(older.database)  # made before
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == schema.FIRST_SCHEMA


@pytest.mark.parametrize("stride", [37, pytest.param(1, marks=pytest.mark.full)])
def test_an_upgrade_that_is_killed_begins_again_and_loses_nothing(older: Workspace, stride: int) -> None:
    for statement in range(1, 1_000, stride):
        ended = forked.run(
            ["history", "-w", older.root],
            environment=os.environ,
            before=("tests.support.upgrade:upgraded_until", [statement]),
        )
        if ended.returncode == 0:
            break
        assert ended.returncode == KILLED, ended.stderr
        assert _version(older) == schema.FIRST_SCHEMA
    assert statement > 100
    assert _version(older) == SECOND


@pytest.mark.usefixtures("second")
def test_an_upgrade_that_fails_leaves_all(older: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "UPGRADES", (("UPDATE crystals SET text = NULL",),))
    with pytest.raises(StorageError, match="NOT NULL"):
        open_database(older.database)
    assert _version(older) == schema.FIRST_SCHEMA


def test_a_database_from_before_the_first_release_is_refused_and_left_alone(older: Workspace) -> None:
    with closing(sqlite3.connect(older.database)) as connection:
        connection.execute(f"PRAGMA user_version = {schema.FIRST_SCHEMA - 1}")
    before = older.database.read_bytes()
    for reads in (
        open_database,
        open_reading,
        lambda path: damage_of(path, expected=True),
        lambda _: status(older, Config(), utc_now()),
    ):
        with pytest.raises(StorageError, match=r"made by a dreamd before 0\.2\.0, which was never released"):
            reads(older.database)
    assert older.database.read_bytes() == before
    assert copies_of(older.database) == []


@contextmanager
def _no_more_files() -> Iterator[None]:
    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_database_that_is_refused_is_closed_and_one_in_memory_makes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    memory_database().close()
    with pytest.raises(ValueError, match="names no file"):
        open_database(Path(":memory:"))
    assert list(tmp_path.iterdir()) == []
    with closing(sqlite3.connect("state.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with _no_more_files(), pytest.raises(StorageError, match="newer"):
        open_database(Path("state.db"))


def test_a_database_that_another_one_is_making_at_this_moment_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        made = threading.Timer(0.2, other.execute, ["COMMIT"])
        made.start()
        with closing(open_database(path)) as connection:
            made.join()
            assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
            assert connection.execute("PRAGMA user_version").fetchone()[0] == schema.SCHEMA_VERSION
