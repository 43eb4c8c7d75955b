"""A database of each earlier version opens with everything that is in it, and takes sessions."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.errors import StorageError
from state.sessions.item import Related
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import (
    MIGRATIONS,
    SCHEMA_VERSION,
    make_schema,
    open_database,
    to_text,
)
from state.stores.database.session_schema import ITEM_ROWS
from state.stores.repair.check import faults
from state.stores.sessions.sessions import Sessions
from tests.state.sessions.items import item

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
            session = sessions.open("s", AT)
            sessions.add(session, item(content=f"turn {turn}"))
            assert [one.content for one in sessions.held(session)] == [f"turn {n}" for n in range(turn + 1)]
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


def test_items_relations_and_promotions_of_version_14_become_one_row_each(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        make_schema(connection, MIGRATIONS.index(ITEM_ROWS))
        connection.executescript(Path(__file__).with_name("version_14.sql").read_text(encoding="utf-8"))
        connection.execute("INSERT INTO cold_words (cold_words) VALUES ('rebuild')")
        before = connection.execute("SELECT key, id FROM items ORDER BY key").fetchall()
    with closing(open_database(path)) as connection:
        assert list(map(tuple, connection.execute("SELECT key, id FROM items ORDER BY key"))) == before
        assert list(faults(connection)) == []
        assert not full_text.is_torn(connection, "cold_words")
        sessions = Sessions(connection)
        ttl, budget, other = (found for id_ in "sbt" if (found := sessions.find(id_)))
        assert [sessions.fill(session) for session in (ttl, budget, other)] == [(2, 12), (1, 4), (1, 6)]
        ferry, archived, hidden, purged = sessions.items(ttl)
        assert (ferry.agent_id, ferry.source, ferry.tags, ferry.metadata) == (
            "ada",
            "chat",
            ("travel", "hafen"),
            {"k": "v"},
        )
        assert ferry.relations == (Related("about", "ferry", {"why": "timetable"}), Related("after", "dinner", {}))
        assert ferry.promoted_to_id == f"memory_promoted_{ferry.id}_20241222-150100"
        assert sessions.record(ttl, ferry)["working_memory_id"] == ferry.id
        assert [one.state for one in (archived, hidden, purged)] == ["archived", "hidden", "purged"]
        assert [one.promoted_to_id for one in (archived, hidden, purged)] == [None] * 3
        assert list(sessions.archived(["東京"])) == list(sessions.archived(["zoo"], ttl)) == [archived]
        # What waited to be a crystal and had left is the next dream's; what had not has still earned it.
        assert [one.content for one, _ in sessions.undreamt(9)] == ["Waits to become a crystal"]
        assert [one.promoted_to_id for one in sessions.held(other)] == [None]
        assert [event.action for event in sessions.events(ttl, ferry)][-2:] == ["promoted", "delivered"]
        assert sessions.add(ttl, item(content="next")).seq == 4
