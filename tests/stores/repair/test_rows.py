"""Rows out of a damaged database, without SQLite: all of them, or those that can be read."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from state.crystals.crystal import Crystal, Origin
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import SCHEMA_VERSION, make_schema, open_database, transaction
from state.stores.repair.btree import LEAF_TABLE, Cell, Node, carve, read_node
from state.stores.repair.check import damage_of, faults, log_of
from state.stores.repair.pages import Pages, open_pages, read_pages
from state.stores.repair.rebuild import Rebuilt, build
from state.stores.repair.refill import Known
from state.stores.repair.rows import catalogue
from tests.support.long_variants import examples

AT = datetime(2026, 3, 1, tzinfo=UTC)
NOTHING_ELSE = Known((), every=False, consumed=(), pending=(), lines=(), unread="{}")


def crystal(text: str) -> Crystal:
    return Crystal(text, Origin.SESSION, AT, session="a talk")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    filled(path, [f"{n} ships came in from the north, and {n + 1} went" for n in range(400)])
    return path


def filled(path: Path, texts: list[str]) -> None:
    with closing(open_database(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        Crystals(connection).upsert(map(crystal, texts))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def salvaged(path: Path) -> tuple[Path, Rebuilt]:
    return build(read_pages(path, log_of(path)), path, lambda _: NOTHING_ELSE, AT)


def texts(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {row[0] for row in connection.execute("SELECT text FROM crystals")}


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        names = [
            row[0]
            for row in connection.execute(
                "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
            )
        ]
        return {name: sorted(connection.execute(f'SELECT * FROM "{name}"'), key=repr) for name in names}  # noqa: S608


# --------------------------------------------------------------------- what is whole

_VALUES = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=9_000),
    st.binary(max_size=9_000),
)  # fmt: skip


@examples(40)
@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), _VALUES, _VALUES), unique_by=lambda row: row[0], max_size=30)
)
def test_every_record_of_every_kind_is_read_as_sqlite_wrote_it(records: list[tuple[int, object, object]]) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (key INTEGER PRIMARY KEY, one, other)")
        sound = [(key, *map(_storable, values)) for key, *values in records]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", sound)
        pages = open_pages(connection.serialize(), b"")
    found = {cell.rowid: cell.values[1:] for cell in _cells(pages, catalogue(pages)[0]["t"].root)}
    assert found == {key: tuple(values) for key, *values in sound}


def _storable(value: object) -> object:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _cells(pages: Pages, root: int) -> Iterator[Cell]:
    node = read_node(pages, root)
    assert node is not None
    assert node.faults == 0
    yield from node.cells if node.kind == LEAF_TABLE else ()
    for child in node.children:
        yield from _cells(pages, child)


def test_of_a_whole_database_every_row_is_there_again(database: Path) -> None:
    new, rebuilt = salvaged(database)
    before, after = rows(database), rows(new)
    # FTS5's own tables may be cut otherwise.
    assert {name: found for name, found in after.items() if not name.startswith(("words_", "cold_words_"))} == {
        name: found for name, found in before.items() if not name.startswith(("words_", "cold_words_"))
    }
    assert rebuilt.torn == frozenset()
    assert damage_of(new, expected=True) == []


@pytest.mark.full
@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_a_database_of_an_older_schema_is_salvaged_as_such_and_brought_to_ours(tmp_path: Path, version: int) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        make_schema(connection, version)
        with transaction(connection):
            connection.executemany(
                "INSERT INTO crystals (id, text, origin, kind, importance, trust, lifecycle, created_at)"
                " VALUES (?, ?, 'session', 'general', .5, 'owner', 'generated', '2026-03-01T00:00:00.000000+00:00')",
                [(one.id, one.text) for one in (crystal(f"{n} old ships" * 9) for n in range(300))],
            )
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET rootpage = 3 WHERE name = 'crystals_by_kind'")
    assert damage_of(path, expected=True) != []
    new, _ = salvaged(path)
    assert len(texts(new)) == 300
    with closing(open_database(new)) as connection:
        assert list(faults(connection)) == []
        fading = connection.execute("SELECT count(*) FROM crystals WHERE fades_at IS NOT NULL").fetchone()[0]
        assert fading == (300 if version == 1 else 0)  # the step to the second schema says when


# ----------------------------------------------------------------- what is damaged


def overwritten(path: Path, number: int, content: bytes, offset: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek((number - 1) * 4096 + offset)
        file.write(content)


def tree_of(path: Path, name: str) -> list[Node]:
    """The pages of a table or an index, its root first."""
    pages = read_pages(path, log_of(path))
    waiting, found = [catalogue(pages)[0][name].root], list[Node]()
    while waiting:
        node = read_node(pages, waiting.pop(0))
        assert node is not None
        found.append(node)
        waiting += node.children
    return found


def leaves_of(path: Path, table: str) -> list[int]:
    return [node.number for node in tree_of(path, table) if not node.children]


@pytest.mark.full
def test_a_lost_root_a_lost_header_and_a_lost_catalogue_cost_no_row(database: Path) -> None:
    everything = texts(database)
    root = tree_of(database, "crystals")[0]
    assert root.children
    said = catalogue(read_pages(database, log_of(database)))[1]
    for number in (root.number, *said):
        overwritten(database, number, bytes(4096))
    new, rebuilt = salvaged(database)
    assert texts(new) == everything
    assert rebuilt.lost == 0


def test_a_lost_leaf_costs_its_own_rows_and_they_are_counted(database: Path) -> None:
    everything = texts(database)
    overwritten(database, leaves_of(database, "crystals")[3], bytes(4096))
    new, rebuilt = salvaged(database)
    gone = everything - texts(new)
    assert 0 < len(gone) < 20
    assert rebuilt.lost == len(gone)


def test_the_rows_of_a_page_without_its_head_are_found_by_looking_everywhere(database: Path) -> None:
    everything = texts(database)
    for number in leaves_of(database, "crystals")[:5]:
        overwritten(database, number, bytes(64))
    new, _ = salvaged(database)
    assert texts(new) == everything


def test_of_a_long_text_whose_end_is_lost_the_beginning_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    long = "In the beginning was the harbour. " + "The rest is long. " * 900
    filled(path, [long, "short"])
    overflow = [number for node in tree_of(path, "crystals") for number in node.chains]
    overwritten(path, sorted(overflow)[1], bytes(4096))
    new, rebuilt = salvaged(path)
    (kept,) = texts(new) - {"short"}
    assert kept.startswith("In the beginning was the harbour. The rest is long.")
    assert kept.endswith("[…]")
    assert rebuilt.damaged == 1


def test_a_text_that_is_not_its_ids_any_more_stays_under_its_own(database: Path) -> None:
    content = database.read_bytes()
    place = content.index(b"17 ships came in")
    overwritten(database, 1, b"19", place)
    assert damage_of(database, expected=True) == ["1 rows of crystals hold what they cannot hold"]
    new, rebuilt = salvaged(database)
    assert rebuilt.damaged == 1
    changed = crystal("19 ships came in from the north, and 18 went")
    with closing(open_database(new)) as connection:
        assert Crystals(connection).get([changed.id])[0].text == changed.text


def test_rows_that_were_deleted_do_not_come_back(database: Path) -> None:
    gone = [crystal(f"{n} ships came in from the north, and {n + 1} went").id for n in range(350)]
    with closing(open_database(database)) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        Crystals(connection).remove(gone)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    left = texts(database)
    assert len(left) == 50
    assert b"17 ships came in" in database.read_bytes()
    overwritten(database, leaves_of(database, "crystals_by_session")[0], bytes(8))
    overwritten(database, leaves_of(database, "item_events")[0], bytes(8))
    new, _ = salvaged(database)
    assert texts(new) == left


def test_a_page_is_taken_from_the_log_and_one_whose_last_image_is_bad_as_it_was_before(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    filled(path, ["the first ship"])
    with closing(open_database(path)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        for n in range(5):
            Crystals(connection).upsert([crystal(f"ship {n} of the log")])
        main, log = path.read_bytes(), log_of(path).read_bytes()
    whole = open_pages(main, log)
    assert whole.damage == []
    assert whole.stale == set()
    frames = (len(log) - 32) // 4120
    for bad in random.Random(1).sample(range(frames - 3), 12):
        torn = bytearray(log)
        torn[32 + bad * 4120 + 24 + 2000] ^= 1
        pages = open_pages(main, bytes(torn))
        assert pages.damage == [f"1 of {frames} frames of its log are damaged"]
        page = int.from_bytes(torn[32 + bad * 4120 : 36 + bad * 4120], "big")
        for number in range(1, whole.count + 1):
            if number != page:
                assert pages.get(number) == whole.get(number)
    cut = open_pages(main, log[:-2000])
    assert cut.damage == []  # as every process leaves it that is killed while it writes


@examples(60)
@given(st.binary(min_size=0, max_size=3 * 4096), st.binary(max_size=5_000))
@example(bytes(8) + b"\x0b" * 2, b"")  # reads as a whole record that nobody knows
def test_no_bytes_whatever_stop_the_reader(main: bytes, log: bytes) -> None:
    pages = open_pages(main, log)
    for number in range(1, pages.count + 1):
        node = read_node(pages, number)
        assert node is None or node.number == number
        assert list(carve(pages, number, lambda _, __: None)) == []
        assert all(cell.whole for _, cell in carve(pages, number, lambda _, __: True))


def test_counts_of_sessions_that_are_not_those_of_their_items_are_damage(database: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("INSERT INTO item_counts VALUES (9, 'low', 0, 0, 1, 3, 0)")
        assert list(faults(connection)) == ["the counts of sessions are not those of their items"]
    new, _ = salvaged(database)
    assert damage_of(new, expected=True) == []
