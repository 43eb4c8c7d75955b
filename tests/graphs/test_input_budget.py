"""What reaches the model: everything has a limit, and nothing that is left out is lost."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from graphs.input_budget import (
    CHARACTERS_PER_TOKEN,
    DEFAULT_CONTEXT_TOKENS,
    MAX_CHARACTERS,
    MAX_PIECE_CHARACTERS,
    SHARE_OF_CONTEXT,
    capped,
)
from state.dream import Evidence, Kind, Snapshot
from state.trust import Trust
from tests.graphs.world import NOW, note, snapshot


def piece(kind: Kind, number: int, text: str, importance: float = 0.5) -> Evidence:
    at = NOW - timedelta(hours=number)
    return Evidence(f"{kind.value}{number}", kind, text, importance, Trust.AGENT, at, f"c{number}")


def read(*pieces: Evidence) -> Snapshot:
    return snapshot("", *pieces, notes=())


pieces = st.builds(piece, st.sampled_from(Kind), st.integers(1, 99), st.text(max_size=4_000), st.floats(0, 1))
many = st.lists(pieces, max_size=30, unique_by=lambda one: one.id)


@given(many, st.sampled_from([None, 100, 1_000, 8_000, 128_000]))
def test_inputs_fit_their_share_of_the_context(evidence: list[Evidence], tokens: int | None) -> None:
    kept = capped(read(*evidence), tokens).evidence
    room = min(MAX_CHARACTERS, int((tokens or DEFAULT_CONTEXT_TOKENS) * CHARACTERS_PER_TOKEN * SHARE_OF_CONTEXT))
    assert sum(len(one.text) for one in kept) <= room
    assert all(len(one.text) <= MAX_PIECE_CHARACTERS for one in kept)


@given(many)
def test_inputs_keep_their_ids_and_stand_in_order(evidence: list[Evidence]) -> None:
    kept = capped(read(*evidence), 128_000).evidence
    by_id = {one.id: one for one in evidence}
    places = [(list(Kind).index(one.kind), int(one.id[1:])) for one in kept]
    assert places == sorted(places)
    for one in kept:
        original = by_id[one.id]
        assert one == original or (len(original.text) > MAX_PIECE_CHARACTERS and one.text.endswith("…"))
        assert replace(one, text="") == replace(original, text="")


def test_all_is_kept_when_there_is_room() -> None:
    evidence = tuple(piece(kind, 1, "a short text") for kind in Kind)
    assert set(capped(read(*evidence), 128_000).evidence) == set(evidence)


def test_notes_come_before_crystals_and_the_important_before_the_others() -> None:
    evidence = [
        piece(Kind.CRYSTAL, 1, "x" * 800, 0.9),
        piece(Kind.CRYSTAL, 2, "x" * 800, 0.2),
        piece(Kind.NOTE, 1, "x" * 800, 0.1),
        piece(Kind.NOTE, 2, "x" * 800, 0.8),
        piece(Kind.OLD_TEXT, 1, "x" * 800, 1.0),
    ]
    tokens = [1_600, 2_300, 3_000]
    assert [[one.id for one in capped(read(*evidence), count).evidence] for count in tokens] == [
        ["N1", "N2"],
        ["N1", "N2", "C1"],
        ["N1", "N2", "C1", "C2"],
    ]


def test_a_long_input_does_not_keep_a_short_one_out() -> None:
    evidence = [piece(Kind.NOTE, 1, "x" * 1_900, 0.9), piece(Kind.NOTE, 2, "short", 0.1)]
    assert [one.id for one in capped(read(*evidence), 800).evidence] == ["N2"]


def test_a_long_text_is_cut_at_a_word() -> None:
    (one,) = capped(read(note(1, "word " * 1_000)), 128_000).evidence
    assert one.text.endswith("word…")
    assert len(one.text) <= MAX_PIECE_CHARACTERS
