"""Merged crystals as the stores keep and find them."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from state.crystals.crystal import Crystal, Lifecycle, Origin
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.duplicates import HiddenDuplicates
from state.stores.crystals.search import Searcher
from state.stores.database.connection import open_database, transaction
from tests.support.in_memory import BagOfWords

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW = AT + timedelta(days=3)
SAID = Crystal("Ada prefers tea over coffee in the morning", Origin.SCRATCH, AT, importance=0.8)
AGAIN = Crystal("ADA prefers tea over  coffee in the morning", Origin.SCRATCH, AT + timedelta(hours=1))


@pytest.fixture
def crystals(tmp_path: Path) -> Iterator[Crystals]:
    connection = open_database(tmp_path / "state.db")
    yield Crystals(connection)
    connection.close()


def _keys(crystals: Crystals) -> dict[str, int]:
    return {row["text"]: row["key"] for row in crystals.connection.execute("SELECT key, text FROM crystals")}


def _merge(crystals: Crystals, one: Crystal, other: Crystal) -> bool:
    crystals.upsert([one, other])
    keys = _keys(crystals)
    with transaction(crystals.connection):
        return HiddenDuplicates(crystals).merge(keys[one.text], keys[other.text])


def _point(crystals: Crystals, crystal: Crystal, *, standing: bool) -> None:
    crystals.connection.execute(
        "INSERT INTO pointers (keywords, topic, crystal, made_in, standing) VALUES (?, 'x', ?, 1, ?)",
        (crystal.text, crystal.id, standing),
    )


def test_the_twin_stays_as_it_is_and_names_its_survivor(crystals: Crystals) -> None:
    assert _merge(crystals, SAID, AGAIN)
    survivor, twin = crystals.get([SAID.id, AGAIN.id])
    assert survivor == replace(SAID, parents=(AGAIN.id,), last_accessed_at=AGAIN.created_at)
    assert twin == replace(AGAIN, lifecycle=Lifecycle.ARCHIVED)
    assert HiddenDuplicates(crystals).survivors(_keys(crystals).values()) == {2: 1}
    assert crystals.count() == 2


def test_what_a_pointer_leads_to_is_not_merged_away_whether_it_stands_or_not(crystals: Crystals) -> None:
    crystals.upsert([SAID, AGAIN])
    _point(crystals, AGAIN, standing=False)
    assert _merge(crystals, SAID, AGAIN)
    assert HiddenDuplicates(crystals).survivors((1, 2)) == {1: 2}


def test_who_forgets_the_survivor_forgets_what_says_the_same(crystals: Crystals) -> None:
    assert _merge(crystals, SAID, AGAIN)
    assert set(crystals.remove([SAID.id])) == {SAID.id, AGAIN.id}
    assert crystals.count() == 0


def test_a_search_shows_the_survivor_alone_and_the_twin_for_its_very_words(crystals: Crystals) -> None:
    assert _merge(crystals, SAID, AGAIN)
    embedder = BagOfWords()
    crystals.vectors.embed_pending(embedder)
    searcher = Searcher(crystals, embedder)

    def found(query: str) -> list[str]:
        return [hit.crystal.text for hit in searcher.search(query, NOW).hits]

    assert found("tea or coffee in the morning?") == [SAID.text]
    assert found(f"who said: {AGAIN.text}") == [SAID.text, AGAIN.text]
