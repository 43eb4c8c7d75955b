import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_the_context_is_found_with_the_text(connection: sqlite3.Connection) -> None:
    _write(connection, "The build is red", context="Mira, 8 May 2023")
    assert _found(connection, "mira") == _found(connection, "may") == [1]


def test_one_word_of_several_is_enough_and_more_are_better(connection: sqlite3.Connection) -> None:
    _write(connection, "canary", "canary in the cluster", "cluster drained", "nothing of it")
    assert _found(connection, "canary", "cluster")[0] == 2
    assert set(_found(connection, "canary", "cluster")) == {1, 2, 3}


def test_bm25_falls_from_first_to_last_and_no_more_than_k_are_found(connection: sqlite3.Connection) -> None:
    _write(
        connection, *(f"canary {'and more ' * number}" for number in range(9)), *(f"filler {n}" for n in range(30))
    )
    found = full_text.nearest(connection, ["canary"], 4)
    assert list(found) == [1, 2, 3, 4]
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert min(found.values()) > 0


def test_no_words_find_nothing(connection: sqlite3.Connection) -> None:
    _write(connection, "canary")
    assert _found(connection) == []


@pytest.mark.parametrize("text", ["東京都に行きます", "ภาษาไทยง่ายมาก", "서울에서 만나요"])
def test_a_part_of_a_sentence_without_spaces_is_found(connection: sqlite3.Connection, text: str) -> None:
    _write(connection, "canary", f"Plan: {text}!")
    for word in terms(text):
        assert _found(connection, word) == [2], word


def test_words_with_spaces_about_them_are_indexed_once() -> None:
    assert full_text.pairs("plain English") == ""
    assert full_text.pairs("l'été à Zürich") == ""


def test_diacritics_and_case_do_not_matter(connection: sqlite3.Connection) -> None:
    _write(connection, "ZÜRICH im Café")
    assert _found(connection, "zürich") == _found(connection, "cafe") == [1]


@given(word=st.text(min_size=1))
def test_no_string_is_read_as_syntax(word: str) -> None:
    with sqlite3.connect(":memory:") as memory:
        memory.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")
        memory.execute("INSERT INTO words (text) VALUES ('and or not near')")
        full_text.frequency(memory, [word.encode("utf-8", "replace").decode()])
    memory.close()


@pytest.mark.parametrize("word", ['"', '" OR "', "text:", "NEAR(", "a*", "^a", "-a", "(", "a\0b", "words MATCH"])
def test_hostile_words_are_text(connection: sqlite3.Connection, word: str) -> None:
    _write(connection, "text words or near", "a")
    full_text.nearest(connection, [word, "near"], 5)
    full_text.matching_words(connection, [word], [1, 2])
    assert full_text.frequency(connection, [word])[word] in (0, 1)


def test_the_words_held_are_bits_in_the_order_in_which_they_were_asked(connection: sqlite3.Connection) -> None:
    _write(connection, "canary", "canary cluster", "cluster", "neither")
    assert full_text.matching_words(connection, ["canary", "cluster"], [1, 2, 4]) == {1: 0b01, 2: 0b11}


def test_a_condition_is_a_condition_on_crystals(connection: sqlite3.Connection) -> None:
    _write(connection, "canary one", "canary two")
    assert list(full_text.nearest(connection, ["canary"], 5, "crystals.text LIKE ?", ["%two"])) == [2]


def test_frequent_words_are_left_out_once_the_rarer_ones_cost_enough() -> None:
    many = full_text.MAX_POSTINGS
    assert full_text.within_budget({"common": many, "rare": 1, "nowhere": 0}) == ["rare"]
    assert full_text.within_budget({"some": many // 2, "rare": 1}) == ["rare", "some"]


def test_the_rarest_word_is_asked_for_however_frequent_it_is() -> None:
    assert full_text.within_budget({"very common": 10**6, "common": 10**5}) == ["common"]
    assert full_text.within_budget({"nowhere": 0}) == []


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


def test_an_index_with_other_words_than_the_crystals_is_torn(connection: sqlite3.Connection) -> None:
    _write(connection, "canary")
    connection.execute("UPDATE crystals SET text = 'cluster'")
    assert not full_text.is_behind(connection)
    assert full_text.is_torn(connection)


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


def test_a_fault_that_is_no_tear_is_not_called_one(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TABLE words")
    with pytest.raises(sqlite3.OperationalError):
        full_text.is_torn(connection)
