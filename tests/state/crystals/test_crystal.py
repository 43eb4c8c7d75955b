"""Crystals: the constants and the formula of the specification, how they age, and which of many a dream reads."""

import math
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.crystals.crystal import (
    ACCESS_RATE,
    FADED_STRENGTH,
    HALF_LIFE_DAYS,
    SETTLED_ACCESSES,
    VALENCE_HOLD,
    Crystal,
    Kind,
    Lifecycle,
    Origin,
    Source,
    accessed,
    crystal_digest,
    fades_at,
    id_in,
    lifecycle,
    mix_kinds,
    new_id,
    strength,
)
from state.trust import Trust, least_trust

NOW = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
FRESH = Crystal("Anna lives in Bonn.", Origin.SCRATCH, NOW, importance=1.0)
UNUSED = 1 - math.exp(-0.2)


def later(days: float) -> datetime:
    return NOW + timedelta(days=days)


@pytest.mark.parametrize(
    ("accesses", "age_days", "valence", "expected"),
    [
        (0, 0.0, 0.0, UNUSED),
        (4, 0.0, 0.0, 1 - math.exp(-1.0)),
        (0, 16.0, 0.0, UNUSED / 2),
        (0, 32.0, 0.0, UNUSED / 4),
        (0, 16.0, 1.0, UNUSED / math.sqrt(2)),
        (0, 16.0, -0.5, UNUSED * 2**-0.75),
        (0, 16.0, 9.0, UNUSED / math.sqrt(2)),
        (0, -5.0, 0.0, UNUSED),
    ],
)
def test_strength_follows_the_formula(accesses: int, age_days: float, valence: float, expected: float) -> None:
    assert (ACCESS_RATE, VALENCE_HOLD, HALF_LIFE_DAYS) == (0.2, 0.5, 16.0)
    crystal = replace(FRESH, accesses=accesses, valence=valence)
    assert strength(crystal, later(age_days)) == pytest.approx(expected)


def test_the_indexes_see_the_context_before_the_text_and_a_source_is_file_lines_and_digest() -> None:
    assert FRESH.indexed_text == "Anna lives in Bonn."
    assert replace(FRESH, context="The Bond").indexed_text == "The Bond: Anna lives in Bonn."
    assert str(Source("memory/scratch.md", 3, 5, "0123456789abcdef")) == "memory/scratch.md:3-5@0123456789ab"
    assert str(Source("a.md", 3, 3)) == "a.md:3"


blanks = st.text(" \t\n\r\u00a0\u2003\u2028", max_size=4)
forms = st.sampled_from(["NFC", "NFD"])
ages = st.floats(0, 4000)
crystals = st.builds(
    Crystal,
    text=st.text(max_size=40),
    origin=st.sampled_from(Origin),
    created_at=st.floats(0, 400).map(lambda days: later(-days)),
    importance=st.floats(0, 1),
    lifecycle=st.sampled_from([one for one in Lifecycle if one is not Lifecycle.FROZEN]),
    accesses=st.integers(0, 10_000),
    last_accessed_at=st.none() | st.floats(0, 400).map(lambda days: later(-days)),
    valence=st.floats(-2, 2),
)


@given(crystals, blanks, blanks, forms)
def test_a_digest_is_of_origin_and_text_whatever_their_white_space_and_form(
    crystal: Crystal, before: str, behind: str, form: str
) -> None:
    same = unicodedata.normalize(form, before + crystal.text + behind)  # type: ignore[arg-type]
    assert crystal_digest(crystal.origin, same) == crystal.digest


@given(crystals, ages, ages, st.integers(0, 1000), st.floats(0, 1))
def test_strength_never_grows_with_age_nor_falls_with_use_or_feeling(
    crystal: Crystal, one: float, other: float, more: int, share: float
) -> None:
    younger, older = map(later, sorted((one, other)))
    assert strength(crystal, older) <= strength(crystal, younger)
    assert strength(replace(crystal, accesses=crystal.accesses + more), older) >= strength(crystal, older)
    assert strength(replace(crystal, valence=crystal.valence * share), older) <= strength(crystal, older) + 1e-12
    if lifecycle(crystal, younger) is Lifecycle.ARCHIVED:  # until it is used
        assert lifecycle(crystal, older) is Lifecycle.ARCHIVED


@given(crystals, ages)
def test_what_is_frozen_never_fades_and_a_clock_that_was_set_back_ages_nothing(crystal: Crystal, age: float) -> None:
    frozen = replace(crystal, lifecycle=Lifecycle.FROZEN)
    assert strength(frozen, later(age)) == crystal.importance
    assert lifecycle(frozen, later(age)) is Lifecycle.FROZEN
    since = crystal.last_accessed_at or crystal.created_at
    assert strength(crystal, since - timedelta(days=age)) == strength(crystal, since)


@given(crystals, ages)
def test_the_moment_of_fading_is_the_first_at_which_it_is_too_weak(crystal: Crystal, age: float) -> None:
    moment, since = fades_at(crystal), crystal.last_accessed_at or crystal.created_at
    assert moment is not None
    assert strength(crystal, moment) < FADED_STRENGTH
    assert moment == since or strength(crystal, moment - timedelta.resolution) >= FADED_STRENGTH
    assert (lifecycle(crystal, later(age)) is Lifecycle.ARCHIVED) == (moment <= later(age))


@given(crystals, ages)
def test_an_access_makes_it_fade_later_and_brings_it_back(crystal: Crystal, age: float) -> None:
    used = accessed(crystal, later(age))
    before, after = fades_at(crystal), fades_at(used)
    assert before is not None
    assert after is not None
    assert after >= before
    assert used.accesses == crystal.accesses + 1
    if Lifecycle.ARCHIVED in (lifecycle(crystal, later(age)), crystal.lifecycle):
        assert used.lifecycle is Lifecycle.ACTIVATED
    elif used.accesses >= SETTLED_ACCESSES or crystal.lifecycle is Lifecycle.CONSOLIDATED:
        assert used.lifecycle is Lifecycle.CONSOLIDATED
    else:
        assert used.lifecycle is Lifecycle.ACTIVATED


@pytest.mark.parametrize(
    ("stored", "accesses", "now", "used"),
    [
        (Lifecycle.GENERATED, 0, Lifecycle.GENERATED, Lifecycle.ACTIVATED),
        (Lifecycle.GENERATED, 1, Lifecycle.ACTIVATED, Lifecycle.ACTIVATED),
        (Lifecycle.ACTIVATED, SETTLED_ACCESSES - 2, Lifecycle.ACTIVATED, Lifecycle.ACTIVATED),
        (Lifecycle.ACTIVATED, SETTLED_ACCESSES - 1, Lifecycle.ACTIVATED, Lifecycle.CONSOLIDATED),
        (Lifecycle.CONSOLIDATED, 0, Lifecycle.CONSOLIDATED, Lifecycle.CONSOLIDATED),
        (Lifecycle.ARCHIVED, 9, Lifecycle.ACTIVATED, Lifecycle.ACTIVATED),
        (Lifecycle.FROZEN, 0, Lifecycle.FROZEN, Lifecycle.FROZEN),
    ],
)
def test_what_is_used_settles(stored: Lifecycle, accesses: int, now: Lifecycle, used: Lifecycle) -> None:
    crystal = replace(FRESH, lifecycle=stored, accesses=accesses)
    assert lifecycle(crystal, later(1)) is now
    after = accessed(crystal, later(1))
    assert after == replace(crystal, lifecycle=used, accesses=accesses + 1, last_accessed_at=later(1))
    assert accessed(after, NOW).last_accessed_at == later(1)


def test_an_id_has_32_digits_and_is_the_same_for_what_a_dream_makes_again() -> None:
    ids = [FRESH.id, new_id(), id_in("dream", "L1", "2"), id_in("dream", "L12"), id_in("", "dream", "L12")]
    assert len(set(ids)) == len(ids)
    assert all(len(one) == 32 and int(one, 16) >= 0 for one in ids)
    assert id_in("dream", "L12") == ids[3]


@given(st.lists(st.sampled_from(Trust), max_size=6))
def test_trust_is_the_least_of_the_lineage(trusts: list[Trust]) -> None:
    least = least_trust(trusts)
    assert least in trusts or not trusts
    assert all(least.rank <= trust.rank for trust in trusts)


def _many(kind: Kind, count: int, importance: float) -> list[Crystal]:
    made = (Crystal(f"{kind} {number}", Origin.SESSION, NOW, kind, importance) for number in range(count))
    return [replace(one, importance=importance) for one in made]


def test_beside_a_hundred_important_episodes_goals_facts_and_relationships_still_come_through() -> None:
    rare = (Kind.GOAL, Kind.FACT, Kind.RELATIONSHIP)
    mixed = mix_kinds([*_many(Kind.EPISODE, 100, 0.95), *(one for kind in rare for one in _many(kind, 3, 0.3))], 50)
    assert {kind: sum(one.kind is kind for one in mixed) for kind in (*rare, Kind.EPISODE)} == {
        **dict.fromkeys(rare, 3), Kind.EPISODE: 41,
    }  # fmt: skip


@pytest.mark.parametrize(("limit", "goals"), [(1, 0), (3, 1), (12, 3), (16, 4)])
def test_half_of_the_places_are_divided_among_the_kinds(limit: int, goals: int) -> None:
    mixed = mix_kinds([*_many(Kind.EPISODE, 20, 0.9), *_many(Kind.GOAL, 5, 0.3)], limit)
    assert sum(one.kind is Kind.GOAL for one in mixed) == goals


@given(st.lists(crystals, max_size=120), st.integers(0, 60))
def test_no_more_than_the_limit_most_important_first_and_nothing_twice(several: list[Crystal], limit: int) -> None:
    mixed = mix_kinds(several, limit)
    assert len({one.id for one in mixed}) == len(mixed) == min(limit, len(several))
    assert [one.importance for one in mixed] == sorted((one.importance for one in mixed), reverse=True)
    assert not mixed or mixed[0].importance == max(one.importance for one in several)
