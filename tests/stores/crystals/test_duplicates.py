"""Merged crystals as the stores keep and find them."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.duplicates import HiddenDuplicates
from state.stores.crystals.search import Searcher
from state.stores.database.connection import open_database, transaction
from state.trust import Trust
from tests.support.in_memory import BagOfWords, ListIndex

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


def _row(crystals: Crystals, crystal: Crystal) -> sqlite3.Row:
    row = crystals.connection.execute("SELECT * FROM crystals WHERE id = ?", (crystal.id,)).fetchone()
    assert isinstance(row, sqlite3.Row)
    return row


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


def test_merging_again_changes_nothing(crystals: Crystals) -> None:
    assert _merge(crystals, SAID, AGAIN)
    before = list(crystals.connection.iterdump())
    assert not _merge(crystals, SAID, AGAIN)
    assert not _merge(crystals, AGAIN, SAID)
    assert list(crystals.connection.iterdump()) == before


def test_what_contradicts_never_merges(crystals: Crystals) -> None:
    coffee = replace(SAID, text="Ada prefers coffee over tea in the morning")
    assert not _merge(crystals, SAID, coffee)
    assert {crystal.lifecycle for crystal in crystals.get([SAID.id, coffee.id])} == {Lifecycle.GENERATED}


def test_who_stood_for_one_that_steps_back_stands_behind_the_new_survivor(crystals: Crystals) -> None:
    assert _merge(crystals, SAID, AGAIN)
    word = replace(SAID, text="Ada prefers TEA over coffee in the morning", trust=Trust.OWNER)
    assert _merge(crystals, SAID, word)
    assert HiddenDuplicates(crystals).survivors(_keys(crystals).values()) == {1: 3, 2: 3}
    assert not _merge(crystals, AGAIN, word)


def test_what_a_pointer_leads_to_is_not_merged_away_whether_it_stands_or_not(crystals: Crystals) -> None:
    crystals.upsert([SAID, AGAIN])
    _point(crystals, AGAIN, standing=False)
    assert _merge(crystals, SAID, AGAIN)
    assert HiddenDuplicates(crystals).survivors((1, 2)) == {1: 2}


def test_two_that_pointers_lead_to_both_stay(crystals: Crystals) -> None:
    crystals.upsert([SAID, AGAIN])
    _point(crystals, AGAIN, standing=True)
    _point(crystals, SAID, standing=False)
    assert not _merge(crystals, SAID, AGAIN)


def test_a_twin_of_a_transcript_is_no_input_of_its_own_while_its_survivor_is(crystals: Crystals) -> None:
    said, turn = replace(SAID, origin=Origin.SESSION), replace(AGAIN, origin=Origin.SESSION)
    assert _merge(crystals, said, turn)
    assert [crystal.id for crystal in crystals.undreamt()] == [said.id]


def test_what_is_said_again_after_a_dream_is_input_again(crystals: Crystals) -> None:
    crystals.upsert([SAID])
    crystals.mark_dreamt([SAID.id], 1)
    turn = replace(AGAIN, origin=Origin.SESSION)
    assert _merge(crystals, SAID, turn)
    assert [crystal.id for crystal in crystals.undreamt()] == [turn.id]


def test_a_note_that_is_a_twin_is_consumed_by_its_own_dream(crystals: Crystals) -> None:
    assert _merge(crystals, SAID, AGAIN)
    assert _row(crystals, AGAIN)["dreamt_in"] is None


def test_an_archived_survivor_is_of_use_again(crystals: Crystals) -> None:
    crystals.upsert([SAID])
    crystals.set_lifecycle([SAID.id], Lifecycle.ARCHIVED)
    assert _merge(crystals, SAID, AGAIN)
    assert crystals.get([SAID.id])[0].lifecycle is Lifecycle.ACTIVATED


def test_an_access_does_not_bring_a_twin_out(crystals: Crystals) -> None:
    assert _merge(crystals, SAID, AGAIN)
    crystals.touch([AGAIN.id], NOW)
    twin = crystals.get([AGAIN.id])[0]
    assert (twin.accesses, twin.lifecycle) == (1, Lifecycle.ARCHIVED)


def test_who_forgets_the_survivor_forgets_what_says_the_same(crystals: Crystals) -> None:
    assert _merge(crystals, SAID, AGAIN)
    assert set(crystals.remove([SAID.id])) == {SAID.id, AGAIN.id}
    assert crystals.count() == 0


def test_who_forgets_a_twin_keeps_its_survivor(crystals: Crystals) -> None:
    assert _merge(crystals, SAID, AGAIN)
    assert crystals.remove([AGAIN.id]) == [AGAIN.id]
    assert [crystal.id for crystal in crystals.get([SAID.id])] == [SAID.id]


def test_a_search_shows_the_survivor_alone_and_the_twin_for_its_very_words(crystals: Crystals) -> None:
    assert _merge(crystals, SAID, AGAIN)
    embedder = BagOfWords()
    crystals.vectors.embed_pending(embedder)
    searcher = Searcher(crystals, embedder)

    def found(query: str) -> list[str]:
        return [hit.crystal.text for hit in searcher.search(query, NOW).hits]

    assert found("tea or coffee in the morning?") == [SAID.text]
    assert found(f"who said: {AGAIN.text}") == [SAID.text, AGAIN.text]


def test_a_twin_is_found_alone_where_its_survivor_does_not_pass(crystals: Crystals) -> None:
    from state.search.ranking import Filters

    turn = replace(AGAIN, origin=Origin.SESSION, session="s")
    assert _merge(crystals, SAID, turn)
    hits = Searcher(crystals).search("tea coffee morning", NOW, filters=Filters(session="s")).hits
    assert [hit.crystal.id for hit in hits] == [turn.id]


def test_every_vector_waits_to_be_compared_once(crystals: Crystals) -> None:
    twins, embedder = HiddenDuplicates(crystals), BagOfWords()
    crystals.upsert([SAID, AGAIN])
    assert twins.waiting(9) == []
    crystals.vectors.embed_pending(embedder)
    assert twins.waiting(1) == [2]
    with transaction(crystals.connection):
        twins.compared([2])
    assert twins.waiting(9) == [1]
    crystals.vectors.use_model("another")
    assert twins.waiting(9) == []


def test_neighbours_are_the_same_with_and_without_an_index(crystals: Crystals) -> None:
    embedder, index = BagOfWords(), ListIndex()
    words = ("tea", "coffee", "harbour", "morning", "port")
    crystals.upsert(
        replace(SAID, text=f"{one} and {other} and {number}", kind=Kind.FACT)
        for number, (one, other) in enumerate((a, b) for a in words for b in words)
    )
    crystals.vectors.embed_pending(embedder)
    index.tell(crystals, 10)  # the others are compared one by one
    keys = [1, 7, 25, 99]
    told, exact = (crystals.vectors.neighbours(keys, 4, one) for one in (index, None))
    assert told.keys() == exact.keys() == {1, 7, 25}
    for key in told:
        assert key not in told[key]
        assert len(told[key]) == 4
        assert sorted(told[key].values()) == pytest.approx(sorted(exact[key].values()), abs=1e-5)


def test_twins_of_a_task_are_expected_to_be_skills(crystals: Crystals) -> None:
    from state.stores.crystals.skills import Skills

    task = replace(SAID, text="Every release needs a tag", kind=Kind.TASK_PATTERN)
    crystals.upsert([task])
    skills = Skills(crystals.connection, crystals.vectors)
    assert skills.refresh() == 0
    assert skills.refresh() is None
    crystals.vectors.embed_pending(BagOfWords())
    with transaction(crystals.connection):
        HiddenDuplicates(crystals).compared([1])
    assert skills.refresh() == 0
