"""Crystals by example: the constants are the specification's."""

import math
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.crystals import crystal as module
from state.crystals.crystal import Crystal, Lifecycle, Origin, Source, crystal_digest, lifecycle, strength
from state.trust import Trust, least_trust

NOW = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
FRESH = Crystal("Anna lives in Bonn.", Origin.SCRATCH, NOW, importance=1.0)


def test_the_constants_are_those_of_the_specification() -> None:
    assert (module.ACCESS_RATE, module.VALENCE_HOLD, module.HALF_LIFE_DAYS) == (0.2, 0.5, 16.0)


@pytest.mark.parametrize(
    ("accesses", "age_days", "valence", "expected"),
    [
        (0, 0.0, 0.0, 1 - math.exp(-0.2)),
        (4, 0.0, 0.0, 1 - math.exp(-1.0)),
        (0, 16.0, 0.0, (1 - math.exp(-0.2)) / 2),
        (0, 32.0, 0.0, (1 - math.exp(-0.2)) / 4),
        (0, 16.0, 1.0, (1 - math.exp(-0.2)) / math.sqrt(2)),
        (0, 16.0, -0.5, (1 - math.exp(-0.2)) * 2**-0.75),
        (0, 16.0, 9.0, (1 - math.exp(-0.2)) / math.sqrt(2)),
        (0, -5.0, 0.0, 1 - math.exp(-0.2)),
    ],
)
def test_strength_follows_the_formula(accesses: int, age_days: float, valence: float, expected: float) -> None:
    crystal = replace(FRESH, accesses=accesses, valence=valence)
    assert strength(crystal, NOW + timedelta(days=age_days)) == pytest.approx(expected)


def test_nothing_but_origin_and_text_makes_the_digest() -> None:
    other = replace(FRESH, importance=0.1, context="Anna, in May", session="s", position=3, accesses=9, valence=0.3)
    assert other.digest == FRESH.digest


def test_the_indexes_see_the_context_before_the_text() -> None:
    assert FRESH.indexed_text == "Anna lives in Bonn."
    assert replace(FRESH, context="The Bond").indexed_text == "The Bond: Anna lives in Bonn."


def test_a_source_is_written_as_file_lines_and_digest() -> None:
    assert str(Source("memory/scratch.md", 3, 5, "0123456789abcdef")) == "memory/scratch.md:3-5@0123456789ab"
    assert str(Source("a.md", 3, 3)) == "a.md:3"


texts = st.text(max_size=40)


blanks = st.text(" \t\n\r\u00a0\u2003\u2028", max_size=4)


ages = st.floats(0, 4000)


crystals = st.builds(
    Crystal,
    text=texts,
    origin=st.sampled_from(Origin),
    created_at=st.just(NOW),
    importance=st.floats(0, 1),
    lifecycle=st.sampled_from([one for one in Lifecycle if one is not Lifecycle.FROZEN]),
    accesses=st.integers(0, 10_000),
    valence=st.floats(-0.5, 1),
)


@given(st.sampled_from(Origin), texts, blanks, blanks, st.sampled_from(["NFC", "NFD"]))
def test_an_id_is_stable_under_white_space_and_unicode_form(
    origin: Origin, text: str, before: str, behind: str, form: str
) -> None:
    same = unicodedata.normalize(form, before + text + behind)  # type: ignore[arg-type]
    assert crystal_digest(origin, same) == crystal_digest(origin, text)


@given(crystals, ages, ages)
def test_strength_never_grows_with_age(crystal: Crystal, one: float, other: float) -> None:
    younger, older = sorted((one, other))
    assert strength(crystal, NOW + timedelta(days=older)) <= strength(crystal, NOW + timedelta(days=younger))


@given(crystals, ages, st.integers(0, 1000))
def test_strength_never_falls_with_use(crystal: Crystal, age: float, more: int) -> None:
    used = replace(crystal, accesses=crystal.accesses + more)
    now = NOW + timedelta(days=age)
    assert strength(used, now) >= strength(crystal, now)


@given(crystals, ages, st.floats(0, 1))
def test_a_stronger_feeling_fades_more_slowly(crystal: Crystal, age: float, share: float) -> None:
    weaker = replace(crystal, valence=crystal.valence * share)
    now = NOW + timedelta(days=age)
    assert strength(weaker, now) <= strength(crystal, now)


@given(crystals, ages)
def test_a_frozen_crystal_never_fades(crystal: Crystal, age: float) -> None:
    frozen = replace(crystal, lifecycle=Lifecycle.FROZEN)
    assert strength(frozen, NOW + timedelta(days=age)) == crystal.importance
    assert lifecycle(frozen, NOW + timedelta(days=age)) is Lifecycle.FROZEN


@given(crystals, ages)
def test_a_clock_that_was_set_back_ages_nothing(crystal: Crystal, age: float) -> None:
    assert strength(crystal, NOW - timedelta(days=age)) == strength(crystal, NOW)


@given(crystals, ages, ages)
def test_what_is_archived_stays_so_until_it_is_used(crystal: Crystal, one: float, other: float) -> None:
    younger, older = sorted((one, other))
    if lifecycle(crystal, NOW + timedelta(days=younger)) is Lifecycle.ARCHIVED:
        assert lifecycle(crystal, NOW + timedelta(days=older)) is Lifecycle.ARCHIVED


@given(st.lists(st.sampled_from(Trust), max_size=6))
def test_trust_is_the_least_of_the_lineage(trusts: list[Trust]) -> None:
    least = least_trust(trusts)
    assert least in trusts or not trusts
    assert all(least.rank <= trust.rank for trust in trusts)
