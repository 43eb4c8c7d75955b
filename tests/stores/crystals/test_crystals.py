from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin, Source
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals, Occurrence
from state.stores.database.connection import open_database
from state.trust import Trust
from tests.support.in_memory import BagOfWords

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
FULL = Crystal(
    text="Mira drained the canary",
    origin=Origin.SESSION,
    created_at=AT,
    kind=Kind.EPISODE,
    importance=0.7,
    trust=Trust.OWNER,
    context="Mira, 1 March 2026",
    speaker="Mira",
    session="s1",
    position=4,
    source=Source("log.jsonl", 5, 6, "ab12"),
    parents=("p1", "p2"),
    lifecycle=Lifecycle.CONSOLIDATED,
    accesses=2,
    last_accessed_at=AT + timedelta(hours=1),
    valence=-0.25,
)


@pytest.fixture
def crystals(tmp_path: Path) -> Iterator[Crystals]:
    connection = open_database(tmp_path / "state.db")
    yield Crystals(connection)
    connection.close()


def _note(text: str, **changes: object) -> Crystal:
    made = replace(Crystal(text, Origin.SCRATCH, AT), **changes)  # type: ignore[arg-type]
    return replace(made, id=made.digest)


def _turn(text: str, **changes: object) -> Crystal:
    return _note(text, origin=Origin.SESSION, **changes)


def test_the_same_text_met_twice_is_one_crystal_with_two_occurrences(crystals: Crystals) -> None:
    again = replace(FULL, session="s2", position=0, created_at=AT + timedelta(days=1), source=None)
    assert crystals.upsert([again, FULL]) == 1
    assert crystals.sources(FULL.id) == [
        Occurrence("s1", 4, AT, FULL.source),
        Occurrence("s2", 0, AT + timedelta(days=1), None),
    ]
    assert crystals.get([FULL.id])[0].source == FULL.source
    assert crystals.sources("0" * 32) == []


def test_a_later_occurrence_raises_the_importance_and_never_the_trust(crystals: Crystals) -> None:
    crystals.upsert([_note("x", importance=0.4, trust=Trust.WEB, parents=("a",))])
    crystals.upsert([_note("x", importance=0.9, trust=Trust.OWNER, parents=("b", "a"))])
    crystals.upsert([_note("x", importance=0.1, trust=Trust.TOOL)])
    (known,) = crystals.get([_note("x").id])
    assert (known.importance, known.trust, known.parents) == (0.9, Trust.WEB, ("a", "b"))


def test_crystals_are_written_all_or_none(crystals: Crystals) -> None:
    def broken() -> Iterator[Crystal]:
        yield _note("first")
        raise RuntimeError("no second")

    with pytest.raises(RuntimeError):
        crystals.upsert(broken())
    assert crystals.count() == 0
    assert not full_text.is_torn(crystals.connection)


def test_what_no_dream_has_seen_comes_most_important_first_with_its_kinds_mixed(crystals: Crystals) -> None:
    crystals.upsert(_turn(f"episode {n}", kind=Kind.EPISODE, importance=0.9) for n in range(100))
    crystals.upsert(_turn(f"{kind.value}", kind=kind, importance=0.2) for kind in (Kind.GOAL, Kind.FACT))
    new = crystals.undreamt(50)
    assert len(new) == 50
    assert {crystal.kind for crystal in new} == {Kind.EPISODE, Kind.GOAL, Kind.FACT}
    assert new[0].importance == 0.9
    assert crystals.undreamt_count() == 102


def test_what_a_dream_passed_over_is_no_news_and_comes_along_with_news_when_it_is_important(
    crystals: Crystals,
) -> None:
    crystals.upsert(_turn(f"turn {n}", importance=0.6) for n in range(80))
    crystals.upsert(_turn(f"small talk {n}", importance=0.3) for n in range(80))
    first = crystals.undreamt(50)
    crystals.mark_dreamt([crystal.id for crystal in first], 1, crystals.newest())
    assert crystals.undreamt_count() == 0
    crystals.upsert([_turn("the news", importance=0.2)])
    assert crystals.undreamt_count() == 1
    second = crystals.undreamt(50)
    assert second[0].text == "the news"
    assert len(second) == 1 + 30
    assert {crystal.importance for crystal in second[1:]} == {0.6}


def test_a_pending_note_is_input_as_a_note_alone(crystals: Crystals) -> None:
    crystals.upsert([pending := _note("pending"), _note("of before there were rows of notes, and given back")])
    crystals.connection.execute(
        "INSERT INTO notes (at, importance, auto, replaces, digest, crystal, filed) VALUES ('', .5, 0, '', '', ?, 1)",
        tuple(crystals.keys([pending.id]).values()),
    )
    assert [crystal.text for crystal in crystals.undreamt()] == ["of before there were rows of notes, and given back"]
    assert crystals.undreamt_count() == 1


def test_the_output_of_a_dream_is_not_its_input(crystals: Crystals) -> None:
    crystals.upsert([_note("made", origin=Origin.DREAM), _note("left", origin=Origin.EVICTED)])
    crystals.upsert([_note("seen", origin=origin) for origin in (Origin.SEED, Origin.WORKING, Origin.SESSION)])
    assert {crystal.origin for crystal in crystals.undreamt()} == {Origin.WORKING, Origin.SESSION}
    assert crystals.undreamt_count() == 2


def test_what_is_removed_is_in_no_table_and_its_words_not_in_the_file(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "state.db")
    connection.execute("PRAGMA secure_delete = ON")
    crystals = Crystals(connection)
    secret = _note("the passphrase is xylophonequartz", session="s")
    crystals.upsert([secret, *(_note(f"note {number}") for number in range(300))])
    crystals.vectors.embed_pending(BagOfWords(), 1_000)
    assert crystals.remove([secret.id, "0" * 32]) == [secret.id]
    assert crystals.get([secret.id]) == []
    assert crystals.sources(secret.id) == []
    crystals.vectors.drop()
    assert crystals.vectors.vector_count() == 300
    assert not full_text.is_torn(connection)
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert not any(b"xylophon" in path.read_bytes() for path in tmp_path.iterdir())
    connection.close()


def test_vectors_of_two_models_are_never_mixed(crystals: Crystals) -> None:
    vectors = crystals.vectors
    assert vectors.model() == ""
    crystals.upsert([_note("one"), _note("two")])
    vectors.embed_pending(BagOfWords("old"))
    assert vectors.model() == "old"
    assert vectors.embed_pending(BagOfWords("new"), 1) == 1
    assert vectors.model() == "new"
    assert vectors.waiting() == (1, 1)
    assert vectors.vector_count() == 1
    assert not vectors.use_model("new")
