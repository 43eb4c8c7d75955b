"""A database that an earlier dreamd left is brought to the current schema, with everything that is in it."""

import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from state.crystal import FADED_STRENGTH, Lifecycle, strength
from state.curiosity import Cause
from state.lifecycle import fades_at
from state.stores.crystals import Crystals
from state.stores.database import MIGRATIONS, SCHEMA_VERSION, from_text, open_database, to_text
from state.stores.feelings import Questions
from state.stores.twins import Twins
from tests.long_variants import examples

SCHEMA = (Path(__file__).parent / "version_1.sql").read_text(encoding="utf-8")
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
    assert MIGRATIONS[0].strip() == SCHEMA.strip()
    assert len(MIGRATIONS) == SCHEMA_VERSION


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
            assert Twins(crystals).waiting(99) == [key for key in found if key % 2]
            assert Twins(crystals).survivors(found) == {}
            questions = Questions(connection)
            assert [(gap.question, gap.times) for gap in questions.open(5)] == [("Why?", 3)]
            assert questions.to_ask(5) == []
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
