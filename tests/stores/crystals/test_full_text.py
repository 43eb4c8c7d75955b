import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.crystals.crystal import Crystal, Origin
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals
from state.stores.database.opening import open_database
from state.text.words import terms

AT = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def connection(crystals: Crystals) -> sqlite3.Connection:
    return crystals.connection


def _write(connection: sqlite3.Connection, *texts: str) -> None:
    Crystals(connection).learn(Crystal(text, Origin.SCRATCH, AT) for text in texts)


def _found(connection: sqlite3.Connection, *words: str) -> list[int]:
    return list(full_text.nearest(connection, words, 5))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("The replicas were running", "run"),
        ("The replicas were running", "replica"),
        ("ZÜRICH im Café", "zürich"),
        ("ZÜRICH im Café", "cafe"),
        *(
            (f"Plan: {text}!", word)
            for text in ("東京都に行きます", "ภาษาไทยง่ายมาก", "서울에서 만나요")
            for word in terms(text)
        ),
    ],
)
def test_a_word_is_found_in_all_its_forms_and_as_a_part_of_an_unspaced_sentence(
    connection: sqlite3.Connection, text: str, word: str
) -> None:
    _write(connection, "nothing", text)
    assert _found(connection, word) == [2]
    assert full_text.frequency(connection, [word, "never"]) == {word: 1, "never": 0}


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
