import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.crystals.crystal import Crystal, Origin
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import open_database
from state.text.words import terms

AT = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = open_database(tmp_path / "state.db")
    yield opened
    opened.close()


def _write(connection: sqlite3.Connection, *texts: str, context: str = "") -> None:
    Crystals(connection).upsert(Crystal(text, Origin.SCRATCH, AT, context=context) for text in texts)


def _found(connection: sqlite3.Connection, *words: str) -> list[int]:
    return list(full_text.nearest(connection, words, 5))


def test_a_word_is_found_in_all_its_forms(connection: sqlite3.Connection) -> None:
    _write(connection, "The replicas were running", "a runner", "nothing")
    assert _found(connection, "run") == [1]
    assert _found(connection, "replica") == [1]
    assert full_text.frequency(connection, ["runs", "nothing", "never"]) == {"runs": 1, "nothing": 1, "never": 0}


@pytest.mark.parametrize("text", ["東京都に行きます", "ภาษาไทยง่ายมาก", "서울에서 만나요"])
def test_a_part_of_a_sentence_without_spaces_is_found(connection: sqlite3.Connection, text: str) -> None:
    _write(connection, "canary", f"Plan: {text}!")
    for word in terms(text):
        assert _found(connection, word) == [2], word


def test_diacritics_and_case_do_not_matter(connection: sqlite3.Connection) -> None:
    _write(connection, "ZÜRICH im Café")
    assert _found(connection, "zürich") == _found(connection, "cafe") == [1]


def test_an_index_that_lost_a_crystal_is_behind_and_torn_until_it_is_rebuilt(connection: sqlite3.Connection) -> None:
    _write(connection, "canary", "cluster")
    assert not full_text.is_behind(connection)
    assert not full_text.is_torn(connection)
    connection.execute(
        "INSERT INTO words (words, rowid, text, context, pairs) VALUES ('delete', 2, 'cluster', '', '')"
    )
    assert full_text.is_behind(connection)
    assert full_text.is_torn(connection)
    full_text.rebuild(connection)
    assert not full_text.is_behind(connection)
    assert not full_text.is_torn(connection)
    assert _found(connection, "cluster") == [2]


@pytest.mark.parametrize("damage", ["UPDATE words_config SET v = 9", "DELETE FROM words_config"])
def test_an_index_whose_version_is_damaged_is_torn_and_rebuilt(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "state.db"
    with closing(open_database(path)) as before:
        _write(before, "cluster")
        before.execute(damage)
    with closing(open_database(path)) as after:
        assert full_text.is_torn(after)
        full_text.rebuild(after)
        assert not full_text.is_torn(after)
        assert _found(after, "cluster") == [1]
