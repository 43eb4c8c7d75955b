"""What reaches the model: everything has a limit, and nothing that is left out is lost."""

import random
import string
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.input_budget import (
    CHARACTERS_PER_TOKEN,
    DEFAULT_CONTEXT_TOKENS,
    LEAST_SHOWN,
    MAX_CHARACTERS,
    SHARE_OF_CONTEXT,
    SHARE_OF_ONE,
    as_shown,
    capped,
)
from state.dream import Evidence, Kind, Snapshot
from state.secrets.policy import DEFAULT
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
    assert sum(len(one.shown) for one in kept) <= max(LEAST_SHOWN, room)
    assert all(len(one.shown) <= max(LEAST_SHOWN, SHARE_OF_ONE * room) for one in kept)
    assert bool(kept) == bool(evidence)


@given(many)
def test_inputs_keep_their_ids_and_stand_in_order(evidence: list[Evidence]) -> None:
    kept = capped(read(*evidence), 128_000).evidence
    by_id = {one.id: one for one in evidence}
    places = [(list(Kind).index(one.kind), int(one.id[1:])) for one in kept]
    assert places == sorted(places)
    for one in kept:
        assert replace(one, end=0) == by_id[one.id]


def test_all_is_kept_when_there_is_room() -> None:
    evidence = tuple(piece(kind, 1, "a short text") for kind in Kind)
    assert set(capped(read(*evidence), 128_000).evidence) == set(evidence)


def test_notes_come_before_crystals_and_the_important_before_the_others() -> None:
    evidence = [
        piece(Kind.CRYSTAL, 1, "x" * 200, 0.9),
        piece(Kind.CRYSTAL, 2, "x" * 200, 0.2),
        piece(Kind.NOTE, 1, "x" * 200, 0.1),
        piece(Kind.NOTE, 2, "x" * 200, 0.8),
        piece(Kind.OLD_TEXT, 1, "x" * 200, 1.0),
    ]
    tokens = [600, 750, 1_000]
    assert [[one.id for one in capped(read(*evidence), count).evidence] for count in tokens] == [
        ["N1", "N2"],
        ["N1", "N2", "C1"],
        ["N1", "N2", "C1", "C2"],
    ]


def test_a_long_input_does_not_keep_a_short_one_out() -> None:
    evidence = [piece(Kind.CRYSTAL, number, "x" * 190, 0.9) for number in range(1, 6)]
    short = piece(Kind.CRYSTAL, 9, "short", 0.1)
    assert [one.id for one in capped(read(*evidence, short), 800).evidence] == ["C1", "C2", "C3", "C9"]


LONG = "".join(f"Sentence {number} of the note. " for number in range(550))[: 16 * 1024].strip()


@pytest.mark.parametrize(("tokens", "dreams"), [(None, 3), (100, 95), (2_000, 27), (8_000, 7), (200_000, 1)])
@pytest.mark.parametrize("text", [LONG, "x" * len(LONG), "字" * len(LONG)])
def test_dreams_show_all_of_a_long_note_part_by_part_and_say_so(text: str, tokens: int | None, dreams: int) -> None:
    one, parts = note(1, text), list[str]()
    while True:
        (one,) = capped(read(one), tokens).evidence
        parts.append(one.shown)
        shown, left = as_shown(one, DEFAULT), len(text) - one.end
        assert shown.startswith("continued … ") == (len(parts) > 1)
        assert shown.endswith(f" … {left:,} more characters in the next dream") == one.goes_on
        if not one.goes_on:
            break
        one = replace(one, start=one.end, end=0)
    assert "".join(parts) == text
    assert dreams * 2 / 3 <= len(parts) <= dreams * 3 / 2


def test_of_a_text_longer_than_a_note_can_be_the_rest_is_said_and_left_to_search() -> None:
    (one,) = capped(read(piece(Kind.CRYSTAL, 1, "word " * 10_000)), 200_000).evidence
    assert not one.goes_on
    assert as_shown(one, DEFAULT).endswith("word … 33,616 more characters")


def test_a_secret_is_not_cut_in_half() -> None:
    secret = "ghp_" + "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=36))
    for before in range(80, 130):
        one = note(1, f"{'-' * before} {secret} {'and so on ' * 90}")
        while True:
            (one,) = capped(read(one), 100).evidence
            assert secret[4:12] not in as_shown(one, DEFAULT)
            if not one.goes_on:
                break
            one = replace(one, start=one.end, end=0)
