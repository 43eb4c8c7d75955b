from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from state.crystals.crystal import (
    FADED_STRENGTH,
    SETTLED_ACCESSES,
    Crystal,
    Lifecycle,
    Origin,
    accessed,
    fades_at,
    lifecycle,
    strength,
)

NOW = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
ages = st.floats(0.0, 400.0)
crystals = st.builds(
    Crystal,
    text=st.just("Anna lives in Bonn."),
    origin=st.just(Origin.SCRATCH),
    created_at=ages.map(lambda days: NOW - timedelta(days=days)),
    importance=st.floats(0.0, 1.0),
    accesses=st.integers(0, 30),
    valence=st.floats(-2.0, 2.0),
    last_accessed_at=st.none() | ages.map(lambda days: NOW - timedelta(days=days)),
    lifecycle=st.sampled_from([one for one in Lifecycle if one is not Lifecycle.FROZEN]),
)


@given(crystals)
def test_the_moment_of_fading_is_the_first_at_which_the_strength_is_below_the_threshold(crystal: Crystal) -> None:
    moment = fades_at(crystal)
    assert moment is not None
    assert strength(crystal, moment) < FADED_STRENGTH
    since = crystal.last_accessed_at or crystal.created_at
    assert moment == since or strength(crystal, moment - MICROSECOND) >= FADED_STRENGTH


@given(crystals, ages)
def test_what_has_faded_by_its_moment_reads_as_archived_and_nothing_else_does(crystal: Crystal, age: float) -> None:
    now = NOW + timedelta(days=age)
    moment = fades_at(crystal)
    assert moment is not None
    assert (lifecycle(crystal, now) is Lifecycle.ARCHIVED) == (moment <= now)


@given(crystals, ages)
def test_an_access_makes_it_fade_later_and_brings_it_back(crystal: Crystal, age: float) -> None:
    now = NOW + timedelta(days=age)
    used = accessed(crystal, now)
    before, after = fades_at(crystal), fades_at(used)
    assert before is not None
    assert after is not None
    assert after >= before
    assert used.accesses == crystal.accesses + 1
    assert used.lifecycle in (Lifecycle.ACTIVATED, Lifecycle.CONSOLIDATED)
    if lifecycle(crystal, now) is Lifecycle.ARCHIVED or crystal.lifecycle is Lifecycle.ARCHIVED:
        assert used.lifecycle is Lifecycle.ACTIVATED
    elif used.accesses >= SETTLED_ACCESSES or crystal.lifecycle is Lifecycle.CONSOLIDATED:
        assert used.lifecycle is Lifecycle.CONSOLIDATED
