"""Laws of crystals: an id is the content's, and strength only fades with time and grows with use."""

import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from state.crystals.crystal import Crystal, Lifecycle, Origin, crystal_digest, lifecycle, strength
from state.trust import Trust, least_trust

NOW = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
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
