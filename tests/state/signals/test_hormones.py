from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.signals.hormones import (
    ALL_ARMED,
    BASELINES,
    Feeling,
    Hormone,
    Hormones,
    decayed,
    felt,
    resting,
    spike_note,
    spikes,
)

NOW = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)


def levels(dopamine: float, cortisol: float, oxytocin: float) -> Hormones:
    return Hormones(dopamine, cortisol, oxytocin, NOW)


def minutes(count: float) -> datetime:
    return NOW + timedelta(minutes=count)


@pytest.mark.parametrize(
    ("feeling", "rise"),
    [
        (Feeling.REWARD, (0.3, 0, 0)),
        (Feeling.ERROR, (0, 0.3, 0)),
        (Feeling.SOCIAL, (0, 0, 0.3)),
        (Feeling.ACHIEVEMENT, (0.4, 0, 0.2)),
        (Feeling.URGENCY, (0, 0.4, 0)),
    ],
)
def test_a_feeling_raises_its_levels(feeling: Feeling, rise: tuple[float, float, float]) -> None:
    after = felt(resting(NOW), [feeling], NOW)
    expected = [base + up for base, up in zip((0.15, 0.02, 0.20), rise, strict=True)]
    assert after.levels == pytest.approx(expected)


def test_feelings_add_up_from_what_is_left_of_the_earlier_ones_and_stop_at_one() -> None:
    first = felt(resting(NOW), [Feeling.ACHIEVEMENT], NOW)
    later = felt(first, [Feeling.REWARD], minutes(30))
    assert later.dopamine == pytest.approx(0.15 + 0.2 + 0.3)
    assert felt(resting(NOW), [Feeling.REWARD] * 5, NOW).dopamine == 1.0


def test_a_rise_above_the_line_spikes_once_until_it_has_fallen_again() -> None:
    calm = resting(NOW)
    high = felt(calm, [Feeling.ACHIEVEMENT, Feeling.REWARD], NOW)
    spiked, armed = spikes(calm, high, ALL_ARMED)
    assert spiked == (Hormone.DOPAMINE,)
    higher = felt(high, [Feeling.REWARD], minutes(1))
    assert spikes(decayed(high, minutes(1)), higher, armed) == ((), armed)
    fallen = decayed(higher, minutes(60))
    assert fallen.dopamine < 0.7
    again = felt(higher, [Feeling.ACHIEVEMENT, Feeling.REWARD], minutes(60))
    assert spikes(fallen, again, armed)[0] == (Hormone.DOPAMINE,)


def test_the_note_of_a_spike_names_what_raised_it() -> None:
    feelings = [Feeling.ACHIEVEMENT, Feeling.ERROR, Feeling.REWARD, Feeling.REWARD]
    assert spike_note(Hormone.DOPAMINE, 0.85, feelings, 'shipped "v2"\n## at last') == (
        "Hormonal event: dopamine spike (achievement/breakthrough detected). "
        "Raised to 0.85 by achievement and reward ×2: \"shipped 'v2' \\## at last\""
    )
    assert spike_note(Hormone.CORTISOL, 0.72, []) == (
        "Hormonal event: cortisol spike (friction/urgency detected). Raised to 0.72."
    )


START = datetime(2026, 1, 1, tzinfo=UTC)


LEVEL = st.floats(0, 1)


HORMONES = st.builds(Hormones, LEVEL, LEVEL, LEVEL, st.just(START))


MINUTES = st.floats(0, 10_000)


FEELINGS = st.lists(st.sampled_from(Feeling), max_size=6)


def after(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


@given(HORMONES, MINUTES, MINUTES)
def test_decay_only_brings_levels_nearer_to_their_baselines(hormones: Hormones, one: float, other: float) -> None:
    sooner, later = (decayed(hormones, after(minutes)) for minutes in sorted((one, other)))
    for base, start, mid, end in zip(BASELINES.levels, hormones.levels, sooner.levels, later.levels, strict=True):
        assert abs(end - base) <= abs(mid - base) + 1e-12 <= abs(start - base) + 2e-12
        assert (end - base) * (start - base) >= 0 or end == pytest.approx(base)


@given(HORMONES, MINUTES, MINUTES)
def test_decay_in_two_steps_is_decay_in_one(hormones: Hormones, first: float, second: float) -> None:
    stepped = decayed(decayed(hormones, after(first)), after(first) + timedelta(minutes=second))
    assert stepped.levels == pytest.approx(decayed(hormones, stepped.at).levels, abs=1e-6)


@given(HORMONES, FEELINGS, st.floats(-100, 1000))
def test_levels_stay_between_nought_and_one_and_no_feeling_lowers_them(
    hormones: Hormones, feelings: list[Feeling], minutes: float
) -> None:
    before = decayed(hormones, after(minutes))
    raised = felt(hormones, feelings, after(minutes))
    for low, high in zip(before.levels, raised.levels, strict=True):
        assert 0.0 <= low <= high <= 1.0


@given(HORMONES, st.lists(st.tuples(FEELINGS, st.floats(0, 60)), max_size=12))
def test_between_two_spikes_of_a_hormone_it_has_been_below_the_line(
    start: Hormones, events: list[tuple[list[Feeling], float]]
) -> None:
    hormones, armed, now = start, ALL_ARMED, START
    fallen_since = dict.fromkeys(Hormone, True)
    for feelings, wait in events:
        now += timedelta(minutes=wait)
        before = decayed(hormones, now)
        for hormone in Hormone:
            fallen_since[hormone] |= before.level(hormone) < 0.7
        hormones = felt(hormones, feelings, now)
        spiked, armed = spikes(before, hormones, armed)
        for hormone in Hormone:
            assert (hormone in spiked) == (hormones.level(hormone) > 0.7 and fallen_since[hormone])
            if hormone in spiked:
                fallen_since[hormone] = False
