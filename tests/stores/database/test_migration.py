"""A database that an earlier dreamd left is brought to the current schema, with everything that is in it."""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from state.budget import Spend
from state.crystals.crystal import Crystal, Lifecycle, Origin, fades_at
from state.errors import StorageError
from state.forgetting.cutting import Cut
from state.forgetting.known import Target
from state.sessions.item import Related
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.hormones import Questions
from state.stores.database.connection import (
    memory_database,
    open_database,
    things,
    to_text,
    unlike_schema,
)
from state.stores.database.schema import SCHEMA_VERSION
from state.stores.erasing.intent import intended
from state.stores.erasing.plan import Erasure
from state.stores.history.ledger import Finished, Ledger
from state.stores.history.lineage import Lineage
from state.stores.repair.check import faults
from state.stores.sessions.sessions import Sessions
from tests.state.sessions.items import item
from tests.support.long_variants import examples
from tests.support.older import OLDER, older_schema

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
Fill = Callable[[sqlite3.Connection], object]


def _crystal(key: int, text: str, id_: str = "", /, **more: object) -> tuple[str, tuple[object, ...]]:
    crystal = Crystal(text, Origin.SCRATCH, AT)
    values = {
        "key": key, "id": id_ or crystal.digest, "text": text, "origin": "scratch", "kind": "fact", "importance": 0.5,
        "trust": "agent", "lifecycle": "generated", "created_at": to_text(AT), **more,
    }  # fmt: skip
    places = ", ".join("?" * len(values))
    return f"INSERT INTO crystals ({', '.join(values)}) VALUES ({places})", tuple(values.values())  # noqa: S608


@pytest.fixture
def migrated(tmp_path: Path) -> Callable[[int, Fill], "closing[sqlite3.Connection]"]:
    path = tmp_path / "state.db"

    def opened(version: int, fill: Fill) -> "closing[sqlite3.Connection]":
        for left in tmp_path.glob("state.db*"):
            left.unlink()
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            older_schema(connection, version)
            fill(connection)
        open_database(path).close()
        return closing(open_database(path))  # opened again, nothing is done twice

    return opened


Migrated = Callable[[int, Fill], "closing[sqlite3.Connection]"]


@pytest.mark.parametrize("version", OLDER)
def test_every_older_database_gets_the_schema_of_a_new_one_and_keeps_its_crystals(
    migrated: Migrated, version: int
) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        more: dict[str, object] = {"digest": Crystal("an old memory", Origin.SCRATCH, AT).digest}
        connection.execute(*_crystal(1, "an old memory", **(more if version > 16 else {})))
        connection.execute("INSERT INTO meta VALUES ('swept_at', ?)", (to_text(AT),))
        connection.execute(
            "INSERT INTO gaps (folded, question, cause, times, first_at, last_at)"
            " VALUES ('why', 'Why?', 'miss', 3, ?1, ?1)",
            (to_text(AT),),
        )
        connection.execute(
            "INSERT INTO versions (number, at, cause, digest, characters) VALUES (1, '', 'dream', 'd', 5)"
        )

        if version > 13:
            connection.execute("UPDATE versions SET text = '# Memory'")

    with migrated(version, fill) as connection, closing(memory_database()) as new:
        assert things(connection) == things(new)
        assert unlike_schema(connection) == []
        assert connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert not full_text.is_torn(connection)
        crystals = Crystals(connection)
        (old,) = crystals.by_keys([1]).values()
        assert (old.text, old.heard) == ("an old memory", "")
        assert crystals.upsert([Crystal("an old memory", Origin.SCRATCH, AT)]) == 0  # it is known again
        assert connection.execute("SELECT rowid FROM words WHERE words MATCH 'memories'").fetchall()
        assert [(gap.question, gap.times) for gap in Questions(connection).open(5)] == [("Why?", 3)]
        assert Lineage(connection).text(1) == ("# Memory" if version > 13 else "")
        sessions = Sessions(connection)
        session = sessions.open("s", AT)
        sessions.add(session, item(content="a turn"))
        assert [one.content for one in sessions.held(session)] == ["a turn"]


@pytest.mark.full
@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.floats(0, 1),
            st.integers(0, 20),
            st.floats(-1, 1),
            st.none() | st.integers(0, 400).map(lambda days: to_text(AT + timedelta(days=days))),
            st.sampled_from([one.value for one in Lifecycle]),
        ),
        max_size=8,
    )
)
def test_a_database_of_version_1_knows_when_its_crystals_fade(
    migrated: Migrated, rows: list[tuple[float, int, float, str | None, str]]
) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        names = ("importance", "accesses", "valence", "last_accessed_at", "lifecycle")
        for key, row in enumerate(rows, 1):
            more: dict[str, object] = dict(zip(names, row, strict=True))
            connection.execute(*_crystal(key, f"text {key}", f"{key:032x}", **more))

    with migrated(1, fill) as connection:
        found = Crystals(connection).by_keys(range(1, len(rows) + 1))
        moments = {row["key"]: row["fades_at"] for row in connection.execute("SELECT * FROM crystals")}
        assert moments == {key: to_text(moment) for key, one in found.items() if (moment := fades_at(one))}
        assert len(moments) == len(rows)


def test_a_migration_that_was_cut_off_begins_again_and_one_that_fails_leaves_all(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        older_schema(connection, 4)
        connection.execute(*_crystal(1, "kept", "x"))
        connection.execute("INSERT INTO hormones VALUES (1, .5, .25, .125, ?, ?)", (to_text(AT), "{}"))
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("INSERT INTO hormones VALUES (2, .5, .25, .125, ?, ?)", (to_text(AT), '["cortisol"]'))
    with pytest.raises(StorageError, match="CHECK constraint"):
        open_database(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == 4
        assert connection.execute("SELECT text FROM crystals").fetchall() == [("kept",)]
        connection.execute("DELETE FROM hormones WHERE one = 2")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DROP TABLE crystals")  # and then the process is killed
    with closing(open_database(path)) as connection:
        assert connection.execute("SELECT text FROM crystals").fetchone()[0] == "kept"
        assert connection.execute("SELECT dopamine, armed FROM hormones").fetchone()["armed"] == "[]"


def test_the_entries_of_programs_are_in_a_file_before_their_tables_go(migrated: Migrated, tmp_path: Path) -> None:
    moment = to_text(AT)
    rows = [
        ('["users","ada"]', "tea", '{"drinks": ["Grüße", null]}', moment, moment, None),
        ('["users"]', "gone", "{}", moment, moment, moment),
        ('["users"]', "odd", "{not JSON", moment, moment, None),
    ]
    insert = (
        "INSERT INTO entries (namespace, name, value, created_at, updated_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)"
    )
    with migrated(18, lambda connection: connection.executemany(insert, rows)) as connection:
        assert connection.execute("SELECT value FROM meta WHERE name = 'entries_written'").fetchone()[0] == "2"
    dates = {"created_at": moment, "updated_at": moment, "expires_at": None}
    assert json.loads((tmp_path / "entries.json").read_text(encoding="utf-8")) == [
        {"namespace": ["users", "ada"], "key": "tea", "value": {"drinks": ["Grüße", None]}, **dates},
        {"namespace": ["users"], "key": "odd", "value": "{not JSON", **dates},
    ]
    assert (tmp_path / "entries.json").stat().st_mode & 0o777 == 0o600


def test_of_the_relations_of_version_10_those_stay_that_somebody_named(migrated: Migrated) -> None:
    pairs = (
        (1, 2, "consolidation", None), (2, 1, "owner", None), (1, 3, "session", None), (1, 4, "dream", 1),
        (1, 5, "dream", 2), (2, 3, "dream", 9),
    )  # fmt: skip

    def fill(connection: sqlite3.Connection) -> None:
        for key, text in enumerate(("a", "b", "The port is 80", "the PORT  is 80", "The port is 81"), 1):
            hidden: dict[str, object] = {"merged_into": 3, "lifecycle": "archived", "dreamt_in": 0}
            connection.execute(*_crystal(key, text, f"{key:032x}", **(hidden if key > 3 else {})))
        for number, author in ((1, "extractive"), (2, "openai/gpt")):
            connection.execute(
                "INSERT INTO versions (number, at, cause, digest, characters, model)"
                " VALUES (?, ?, 'dream', '', 0, ?)",
                (number, to_text(AT), author),
            )
        connection.executemany(
            "INSERT INTO supersessions (older, newer, sureness, trust, cause, version, at)"
            " VALUES (?, ?, .9, 'agent', ?, ?, '2026-03-01T12:00:00.000000+00:00')",
            pairs,
        )
        connection.execute(
            "INSERT INTO gaps (folded, question, cause, first_at, last_at, one, other)"
            " VALUES ('a', 'A?', 'contradiction', ?1, ?1, '1', '2'), ('b', 'B?', 'miss', ?1, ?1, '', '')",
            (to_text(AT),),
        )

    with migrated(10, fill) as connection:
        left = connection.execute("SELECT older, newer, cause FROM supersessions ORDER BY cause").fetchall()
        assert list(map(tuple, left)) == [(1, 5, "dream"), (2, 1, "owner"), (1, 3, "session")]
        hidden = connection.execute("SELECT key, merged_into, lifecycle, dreamt_in FROM crystals WHERE key > 3")
        assert list(map(tuple, hidden)) == [(4, 3, "archived", 0), (5, None, "activated", None)]
        assert [gap.question for gap in Questions(connection).all()] == ["B?"]


def test_what_version_8_paid_is_paid_still_and_its_dreams_have_no_steps(migrated: Migrated) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO dreams (id, started_at, reason) VALUES ('d', ?, 'manual')", (to_text(AT),))
        statement = "INSERT INTO calls (dream, digest, at, model, usable, reply, tokens, usd) VALUES"
        connection.execute(f"{statement} ('d', 'x', ?, 'm', 1, '{{}}', 7, 0.5)", (to_text(AT),))

    with migrated(8, fill) as connection:
        ledger = Ledger(connection)
        assert ledger.replay("d", "x") == "{}"
        assert ledger.spent(dream="d") == Spend(1, 7, 0.5)
        assert [one.request for one in ledger.calls("d", 9)] == [""]
        assert ledger.steps("d", 9) == []
        ledger.add_steps("d", [Finished("gather", AT, 0.5, "1 notes")])
        assert [(one.calls, one.tokens) for one in ledger.steps("d", 9)] == [(1, 7)]


def test_a_forgetting_that_was_begun_goes_on_with_the_ids_that_were_meant(migrated: Migrated) -> None:
    begun = '{"targets": [["tea"]], "kept": [], "cut": "sentences", "renamed": {"a": ""}, "keywords": [], "rows": []}'
    insert = "INSERT INTO meta VALUES ('forgetting', ?)"
    with migrated(16, lambda connection: connection.execute(insert, (begun,))) as connection:
        assert intended(connection) == Erasure((Target(("tea",)),), Cut.SENTENCES, frozenset("a"))


def test_items_relations_and_promotions_of_version_15_become_one_row_each(migrated: Migrated) -> None:
    before = list[tuple[object, ...]]()

    def fill(connection: sqlite3.Connection) -> None:
        folder = Path(__file__).parents[1] / "sessions"
        connection.executescript((folder / "version_14.sql").read_text(encoding="utf-8"))
        before.extend(connection.execute("SELECT key, id FROM items ORDER BY key").fetchall())

    with migrated(15, fill) as connection:
        assert list(map(tuple, connection.execute("SELECT key, id FROM items ORDER BY key"))) == before
        assert list(faults(connection)) == []
        assert not full_text.is_torn(connection, "cold_words")
        sessions = Sessions(connection)
        ttl, budget, other = (found for id_ in "sbt" if (found := sessions.find(id_)))
        assert [sessions.fill(session) for session in (ttl, budget, other)] == [(2, 12), (1, 4), (1, 6)]
        ferry, archived, hidden, purged = sessions.items(ttl)
        assert (ferry.agent_id, ferry.source, ferry.tags, ferry.metadata) == (
            "ada", "chat", ("travel", "hafen"), {"k": "v"},
        )  # fmt: skip
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
            assert connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
