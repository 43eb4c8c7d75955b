"""A database of each earlier version opens with everything that is in it, and takes sessions."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.errors import StorageError
from state.sessions.item import Item, Priority
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import MIGRATIONS, SCHEMA_VERSION, normalised, open_database, to_text
from state.stores.sessions.sessions import Sessions

HERE = Path(__file__).parents[1] / "database"
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _version_1(connection: sqlite3.Connection) -> None:
    connection.executescript((HERE / "version_1.sql").read_text(encoding="utf-8"))
    connection.execute(
        "INSERT INTO crystals (id, text, origin, kind, importance, trust, lifecycle, created_at)"
        " VALUES ('00', 'an old memory', 'scratch', 'fact', .5, 'agent', 'generated', ?)",
        (to_text(AT),),
    )
    connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
    connection.execute("PRAGMA user_version = 1")


def _version_2(connection: sqlite3.Connection) -> None:
    _version_1(connection)
    connection.create_function("faded_at", 5, lambda *_: "2027-01-01T00:00:00.000000+00:00")
    connection.executescript((HERE / "version_2.sql").read_text(encoding="utf-8"))
    connection.execute("INSERT INTO skills VALUES (0, 'deploys', .9, 3, 2)")
    connection.execute("PRAGMA user_version = 2")


def test_the_second_migration_is_what_the_second_version_wrote() -> None:
    assert normalised(MIGRATIONS[1]) == normalised((HERE / "version_2.sql").read_text(encoding="utf-8"))


@pytest.mark.parametrize("stored", [_version_1, _version_2])
def test_an_older_database_keeps_all_and_takes_sessions(
    tmp_path: Path, stored: Callable[[sqlite3.Connection], None]
) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        stored(connection)
    for turn in range(2):  # opened again, nothing is done twice
        with closing(open_database(path)) as connection:
            assert int(connection.execute("PRAGMA user_version").fetchone()[0]) == SCHEMA_VERSION
            assert Crystals(connection).by_keys([1])[1].text == "an old memory"
            sessions = Sessions(connection)
            session = sessions.open("s", "ttl", {}, AT)
            item = Item("", "s", -1, f"turn {turn}", Priority.LOW, 0.25, 1, AT, AT)
            sessions.items.add(session, item, lambda _, turn=turn: f"id {turn}")  # type: ignore[misc]
            assert [one.content for one in sessions.items.held(session)] == [f"turn {n}" for n in range(turn + 1)]
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_a_table_in_the_way_of_a_step_leaves_the_version_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        _version_2(connection)
        connection.execute("CREATE TABLE forgotten (mine TEXT)")  # in the way of the migration's last table
    with pytest.raises(StorageError, match="forgotten already exists"):
        open_database(path)
    with closing(sqlite3.connect(path)) as connection:
        assert int(connection.execute("PRAGMA user_version").fetchone()[0]) == 2
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        assert names.isdisjoint({"sessions", "items", "item_events"})
