"""Rows that an earlier version kept of forgotten texts are recognised and lifted as they were."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from state.stores.database.connection import open_database
from state.stores.database.meta import Meta
from state.stores.database.tombstones import SALT, TombstoneStore

ROWS = json.loads(Path(__file__).with_name("old_rows.json").read_text(encoding="utf-8"))
LONG = "we sell the Hamburg office to Orbit Holding in March and tell nobody before the board has met"
TEXTS = ("Ada's vault code is 4711", "the café in 東京 is closed", LONG)


@pytest.fixture
def forgotten(tmp_path: Path) -> Iterator[TombstoneStore]:
    with closing(open_database(tmp_path / "state.db")) as connection:
        kept(connection)
        yield TombstoneStore(connection)


def kept(connection: sqlite3.Connection) -> None:
    Meta(connection).put(SALT, "5a" * 32)
    connection.executemany("INSERT INTO forgotten (digest, length, mark, at) VALUES (?, ?, ?, '2026')", ROWS)


@pytest.mark.parametrize(
    "text",
    [
        "ADA'S **vault** code is 4711",
        "vault code is 4711",
        "AdasVaultCodeIs4711",
        "Ada's old vault code is 4711",
        "Ada's vault code is still 4711",
        "The CAFÉ\nin 東京 is closed",
        f"He said: {LONG.upper()}!",
        "WeSellTheHamburgOfficeToOrbitHoldingInMarchAndTellNobodyBeforeTheBoardHasMet",
        "office to Orbit Holding in March and tell",
        "and tell nobody before the board has met, he said",
    ],
)
def test_it_is_found_as_before(forgotten: TombstoneStore, text: str) -> None:
    assert forgotten.holds(text)
    left = forgotten.tombstones().without(f"Miez is a cat.\n{text}\nRex is a dog.")
    assert left.splitlines()[::-1][0] == "Rex is a dog."
    assert not forgotten.holds(left)
    assert forgotten.unblock_all_of(text)
    assert not forgotten.holds(text)


@pytest.mark.parametrize(
    "text",
    ["Ada's vault", "4711", "the café is open", "Rule: sell the Hamburg office to Orbit Holding in May"],
)
def test_another_text_is_not(forgotten: TombstoneStore, text: str) -> None:
    assert not forgotten.holds(text)


def test_all_of_it_is_lifted(forgotten: TombstoneStore) -> None:
    for text in TEXTS:
        assert forgotten.unblock(text)
    assert not forgotten.tombstones()
