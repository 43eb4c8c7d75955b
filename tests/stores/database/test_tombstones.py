"""What is forgotten stays out of every table, costs nothing while there is nothing, and can be lifted."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.crystals.crystal import Crystal, Origin
from state.forgetting.known import Target
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import open_database, to_text
from state.stores.database.tombstones import TombstoneStore, tombstones_in
from state.stores.sessions.sessions import Session, Sessions
from tests.state.sessions.items import item
from tests.support.older import older_schema

AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
SECRET = "the vault code is 4711"
HELD = "Miez is a cat. The Vault **code** is 4711! Rex is a dog."
REST = "Miez is a cat. Rex is a dog."


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_database(tmp_path / "state.db")) as connection:
        yield connection


@pytest.fixture
def forgotten(connection: sqlite3.Connection) -> TombstoneStore:
    forgotten = TombstoneStore(connection)
    forgotten.block(Target.of(SECRET), AT)
    return forgotten


def crystal(text: str, origin: Origin = Origin.SESSION) -> Crystal:
    made = Crystal(text, origin, AT)
    return replace(made, id=made.digest)


def texts(connection: sqlite3.Connection) -> list[str]:
    return [row["text"] for row in connection.execute("SELECT text FROM crystals ORDER BY key")]


@pytest.mark.parametrize("origin", list(Origin))
def test_whoever_writes_a_crystal_it_is_written_without(
    connection: sqlite3.Connection, forgotten: TombstoneStore, origin: Origin
) -> None:
    crystals = Crystals(connection)
    assert crystals.upsert([crystal(HELD, origin), crystal(SECRET, origin), crystal("Rex barks", origin)]) == 2
    assert texts(connection) == [REST, "Rex barks"]
    assert crystals.get(crystals.ids_of([crystal(REST, origin).digest]).values())[0].text == REST
    assert forgotten.withheld() == 2
    assert connection.execute("SELECT count(*) FROM words WHERE words MATCH 'vault'").fetchone()[0] == 0


def _session(connection: sqlite3.Connection) -> tuple[Sessions, Session]:
    sessions = Sessions(connection)
    return sessions, sessions.open("s", AT)


def _left(sessions: Sessions, session: Session, content: str) -> None:
    """An item of this content has left the session."""
    new = item(content=content, tags=(SECRET, "pets"), metadata={"why": SECRET, "a": "b"})
    sessions.leave(session, sessions.add(session, new), "full", AT)


def test_an_item_that_leaves_takes_no_more_than_the_rest_into_the_archive(
    connection: sqlite3.Connection, forgotten: TombstoneStore
) -> None:
    sessions, session = _session(connection)
    for content in (SECRET, HELD, "Bello"):
        _left(sessions, session, content)
    cold = sessions.items(session)
    assert [(one.content, one.state) for one in cold] == [
        ("", "purged"),
        (REST, "archived"),
        ("Bello", "archived"),
    ]
    assert (cold[1].tags, cold[1].metadata) == (("pets",), {"a": "b"})
    assert list(sessions.archived(["vault"])) == []
    assert [one.content for one in sessions.archived(["miez"])] == [REST]
    found = [
        value
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for row in connection.execute(f"SELECT * FROM {table}")  # noqa: S608
        for value in row
        if isinstance(value, str) and "4711" in value
    ]
    assert found == []
    assert sessions.fill(session) == (0, 0)
    # A tombstone of its own would outlive the owner's.
    assert forgotten.unblock(SECRET)
    assert not forgotten.any()


def _version_3(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        older_schema(connection, 3)
        connection.execute(
            "INSERT INTO crystals (id, text, origin, kind, importance, trust, lifecycle, created_at)"
            " VALUES ('00', 'an old memory', 'scratch', 'fact', .5, 'agent', 'generated', ?)",
            (to_text(AT),),
        )
        connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
        connection.execute("INSERT INTO meta VALUES ('forgotten_salt', ?)", ("ab" * 32,))
        # As that version buried "never again" with this salt.
        digest = "fce29c459fdc8383d995c48359fe7911ffa112c4bad1608a12f34026643f25a0"
        connection.execute("INSERT INTO forgotten VALUES (?, ?)", (digest, to_text(AT)))


def test_a_database_of_version_3_forgets_on_and_more(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    _version_3(path)
    assert not tombstones_in(path)  # read beside its owner, who has not migrated it: nothing fails
    for _ in range(2):
        with closing(open_database(path)) as connection:
            forgotten = TombstoneStore(connection)
            assert forgotten.holds("never again")
            assert not forgotten.holds("it is never again so")
            forgotten.block(Target.of(SECRET), AT)
            assert forgotten.found(HELD)
            assert Crystals(connection).by_keys([1])[1].text == "an old memory"
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
