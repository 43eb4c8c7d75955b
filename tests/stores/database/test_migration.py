"""A database that an earlier dreamd left is brought to the current schema, with everything that is in it."""

import json
import sqlite3
import tempfile
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.budget import Spend
from state.crystals.crystal import FADED_STRENGTH, Crystal, Lifecycle, Origin, strength
from state.crystals.lifecycle import fades_at
from state.errors import StorageError
from state.forgetting.cutting import Cut
from state.forgetting.known import Target
from state.signals.curiosity import Cause
from state.signals.hormones import Baselines
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.duplicates import HiddenDuplicates
from state.stores.crystals.hormones import Feelings, Questions
from state.stores.database.connection import (
    MIGRATIONS,
    SCHEMA_VERSION,
    from_text,
    make_schema,
    memory_database,
    normalised,
    open_database,
    things,
    to_text,
    unlike_schema,
)
from state.stores.database.former_entries import NO_ENTRIES
from state.stores.erasing.intent import intended
from state.stores.erasing.plan import Erasure
from state.stores.history.ledger import Ledger
from state.stores.history.steps import Finished, Steps
from tests.support.long_variants import examples

HERE = Path(__file__).parent
SCHEMA = (HERE / "version_1.sql").read_text(encoding="utf-8")
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
Row = tuple[float, int, float, datetime | None, str]
moments = st.integers(0, 400).map(lambda days: AT + timedelta(days=days))
stored = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 20),
        st.floats(-1, 1),
        st.none() | moments,
        st.sampled_from([one.value for one in Lifecycle]),
    ),
    max_size=8,
)


def _version_1(path: Path, rows: list[Row]) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(SCHEMA)
        for number, (importance, accesses, valence, accessed, stage) in enumerate(rows):
            connection.execute(
                "INSERT INTO crystals (id, text, origin, kind, importance, trust, lifecycle, accesses, created_at,"
                " last_accessed_at, valence) VALUES (?, ?, 'scratch', 'fact', ?, 'agent', ?, ?, ?, ?, ?)",
                (
                    f"{number:032x}",
                    f"text {number}",
                    importance,
                    stage,
                    accesses,
                    to_text(AT),
                    to_text(accessed) if accessed else None,
                    valence,
                ),
            )
        connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
        connection.execute("INSERT INTO vectors SELECT key, 'm', zeroblob(16) FROM crystals WHERE key % 2 = 1")
        connection.execute("INSERT INTO gaps VALUES ('why', 'Why?', 'miss', 3, ?, ?)", (to_text(AT), to_text(AT)))
        connection.execute("PRAGMA user_version = 1")


def test_the_first_migration_is_what_the_first_release_wrote() -> None:
    assert normalised(MIGRATIONS[0]) == normalised(SCHEMA)
    assert len(MIGRATIONS) == SCHEMA_VERSION


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
def test_a_migrated_database_has_the_schema_of_a_new_one(tmp_path: Path, version: int) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        make_schema(connection, version)
    with closing(open_database(path)) as migrated, closing(memory_database()) as new:
        assert things(migrated) == things(new)
        assert unlike_schema(migrated, SCHEMA_VERSION) == []


@pytest.mark.full
@examples(25)
@given(stored)
def test_a_database_of_version_1_keeps_everything_and_knows_when_its_crystals_fade(
    rows: list[Row],
) -> None:

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        _version_1(path, rows)
        with closing(open_database(path)) as connection:
            crystals = Crystals(connection)
            found = crystals.by_keys(range(1, len(rows) + 1))
            moments = {row["key"]: row["fades_at"] for row in connection.execute("SELECT * FROM crystals")}
            assert len(found) == len(rows)
            for key, crystal in found.items():
                moment = fades_at(crystal)
                assert moment is not None
                assert moments[key] == to_text(moment)
                if crystal.lifecycle is not Lifecycle.FROZEN:
                    assert strength(crystal, from_text(moments[key])) < FADED_STRENGTH
            assert HiddenDuplicates(crystals).waiting(99) == [key for key in reversed(found) if key % 2]
            assert HiddenDuplicates(crystals).survivors(found) == {}
            questions = Questions(connection)
            assert [(gap.question, gap.times) for gap in questions.open(5)] == [("Why?", 3)]
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        with closing(open_database(path)) as connection:
            assert int(connection.execute("PRAGMA user_version").fetchone()[0]) == SCHEMA_VERSION


def test_a_migration_that_was_cut_off_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    _version_1(path, [(0.5, 0, 0.0, None, "generated")])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ALTER TABLE crystals ADD COLUMN fades_at TEXT")  # and then the process is killed
    with closing(open_database(path)) as connection:
        Questions(connection).raise_("Why?", Cause.MISS, AT)
        assert Questions(connection).open(5)[0].times == 4


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 8, 9, 10])
def test_a_migration_is_what_its_version_wrote(version: int) -> None:
    written = (HERE / f"version_{version}.sql").read_text(encoding="utf-8")
    assert normalised(MIGRATIONS[version - 1]) == normalised(written)


def test_the_entries_of_programs_are_in_a_file_before_their_tables_go(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    moment = to_text(AT)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        make_schema(connection, MIGRATIONS.index(NO_ENTRIES))
        connection.executemany(
            "INSERT INTO entries (namespace, name, value, created_at, updated_at, expires_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            [
                ('["users","ada"]', "tea", '{"drinks": ["Grüße", null]}', moment, moment, None),
                ('["users"]', "gone", "{}", moment, moment, moment),
                ('["users"]', "odd", "{not JSON", moment, moment, None),
            ],
        )
        connection.execute("INSERT INTO entry_vectors (entry, vector) VALUES (1, zeroblob(4))")
    with closing(open_database(path)) as connection:
        assert {"entries", "entry_vectors"}.isdisjoint(things(connection))
        assert connection.execute("SELECT value FROM meta WHERE name = 'entries_written'").fetchone()[0] == "2"
    dates = {"created_at": moment, "updated_at": moment, "expires_at": None}
    assert json.loads((tmp_path / "entries.json").read_text(encoding="utf-8")) == [
        {"namespace": ["users", "ada"], "key": "tea", "value": {"drinks": ["Grüße", None]}, **dates},
        {"namespace": ["users"], "key": "odd", "value": "{not JSON", **dates},
    ]
    assert (tmp_path / "entries.json").stat().st_mode & 0o777 == 0o600


def test_the_crystals_of_version_10_have_heard_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        make_schema(connection, 10)
        connection.execute(
            "INSERT INTO crystals (id, text, origin, kind, importance, trust, lifecycle, created_at)"
            " VALUES ('a', 'Ada moved', 'scratch', 'fact', .7, 'agent', 'generated', ?)",
            (to_text(AT),),
        )
    with closing(open_database(path)) as connection:
        assert [one.heard for one in Crystals(connection).by_keys([1]).values()] == [""]


def test_of_the_relations_of_version_10_those_stay_that_somebody_named(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    texts = ("a", "b", "The port is 80", "the PORT  is 80", "The port is 81")
    pairs = (
        (1, 2, "consolidation", None), (2, 1, "owner", None), (1, 3, "session", None), (1, 4, "dream", 1),
        (1, 5, "dream", 2), (2, 3, "dream", 9),
    )  # fmt: skip
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        make_schema(connection, 10)
        for key, text in enumerate(texts, 1):
            connection.execute(
                "INSERT INTO crystals (key, id, text, origin, kind, importance, trust, lifecycle, created_at)"
                " VALUES (?, ?, ?, 'scratch', 'fact', .5, 'agent', 'generated', ?)",
                (key, f"{key:032x}", text, to_text(AT)),
            )
        hide = "UPDATE crystals SET merged_into = 3, lifecycle = 'archived', dreamt_in = 0 WHERE key IN (4, 5)"
        connection.execute(hide)
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
    with closing(open_database(path)) as connection:
        left = connection.execute("SELECT older, newer, cause FROM supersessions ORDER BY cause").fetchall()
        assert list(map(tuple, left)) == [(1, 5, "dream"), (2, 1, "owner"), (1, 3, "session")]
        hidden = connection.execute("SELECT key, merged_into, lifecycle, dreamt_in FROM crystals WHERE key > 3")
        assert list(map(tuple, hidden)) == [(4, 3, "archived", 0), (5, None, "activated", None)]
        assert [gap.question for gap in Questions(connection).all()] == ["B?"]
        (dropped,) = connection.execute("SELECT value FROM meta WHERE name = 'relations_dropped'").fetchone()
        assert dropped == "4"
        assert unlike_schema(connection, SCHEMA_VERSION) == []


def test_what_version_8_paid_is_paid_still_and_its_dreams_have_no_steps(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        make_schema(connection, 8)
        connection.execute("INSERT INTO dreams (id, started_at, reason) VALUES ('d', ?, 'manual')", (to_text(AT),))
        statement = "INSERT INTO calls (dream, digest, at, model, usable, reply, tokens, usd) VALUES"
        connection.execute(f"{statement} ('d', 'x', ?, 'm', 1, '{{}}', 7, 0.5)", (to_text(AT),))
    with closing(open_database(path)) as connection:
        ledger, steps = Ledger(connection), Steps(connection)
        assert ledger.replay("d", "x") == "{}"
        assert ledger.spent(dream="d") == Spend(1, 7, 0.5)
        assert [tuple(row) for row in connection.execute("SELECT request FROM calls")] == [("",)]
        assert steps.of("d", 9) == []
        steps.add("d", [Finished("gather", AT, 0.5, "1 notes")])
        assert [(one.calls, one.tokens) for one in steps.of("d", 9)] == [(1, 7)]


@pytest.mark.parametrize(("stored", "armed"), [("{}", "[]"), ('["cortisol"]', '["cortisol"]')])
def test_a_database_of_version_4_keeps_its_levels_and_drops_what_nobody_read(
    tmp_path: Path, stored: str, armed: str
) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.create_function("faded_at", 5, lambda *_: "2027-01-01T00:00:00.000000+00:00")
        for number in (1, 2, 3, 4):
            connection.executescript((HERE / f"version_{number}.sql").read_text(encoding="utf-8"))
        connection.execute("INSERT INTO hormones VALUES (1, .5, .25, .125, ?, ?)", (to_text(AT), stored))
        connection.execute("INSERT INTO operations VALUES (1, 0, '{}')")
        connection.execute("PRAGMA user_version = 4")
    for _ in range(2):
        with closing(open_database(path)) as connection:
            assert tuple(connection.execute("SELECT * FROM hormones").fetchone()) == (
                1, .5, .25, .125, to_text(AT), armed,
            )  # fmt: skip
            names = set(things(connection))
            assert names.isdisjoint({"operations", "vocabulary"})
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_levels_are_ready_to_fire_by_default(tmp_path: Path) -> None:
    with closing(open_database(tmp_path / "state.db")) as connection:
        connection.execute(
            "INSERT INTO hormones (one, dopamine, cortisol, oxytocin, at) VALUES (1, 0, 0, 0, ?)", (to_text(AT),)
        )
        feelings = Feelings(connection, Baselines(0.15, 0.02, 0.2))
        assert feelings.feel([], "", AT)[1] == ()
        assert connection.execute("SELECT armed FROM hormones").fetchone()[0].startswith("[")


def test_a_database_that_is_refused_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = len(list(Path("/proc/self/fd").iterdir()))
    error = None
    try:
        open_database(path)
    except StorageError as refused:
        error = refused  # whose traceback keeps the connection alive
    assert error is not None
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_database_in_memory_makes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    memory_database().close()
    with pytest.raises(ValueError, match="names no file"):
        open_database(Path(":memory:"))
    assert list(tmp_path.iterdir()) == []


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


def test_a_crystal_of_version_16_keeps_its_id_and_is_known_again(tmp_path: Path) -> None:
    path, crystal = tmp_path / "state.db", Crystal("Ada drinks tea", Origin.SCRATCH, AT)
    begun = '{"targets": [["tea"]], "kept": [], "cut": "sentences", "renamed": {"a": ""}, "keywords": [], "rows": []}'
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        make_schema(connection, 16)
        connection.execute(
            "INSERT INTO crystals (id, text, origin, kind, importance, trust, lifecycle, created_at)"
            " VALUES (?, ?, 'scratch', 'general', .5, 'agent', 'generated', ?)",
            (crystal.digest, crystal.text, to_text(AT)),
        )
        connection.execute("INSERT INTO meta VALUES ('forgetting', ?)", (begun,))
    with closing(open_database(path)) as connection:
        crystals = Crystals(connection)
        assert crystals.upsert([crystal]) == 0
        assert crystals.known([crystal])[0].id == crystal.digest
        assert intended(connection) == Erasure((Target(("tea",)),), Cut.SENTENCES, frozenset("a"))
