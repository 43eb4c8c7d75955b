"""Hormones: the figures of the specification, and what holds of them whatever happens."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.signals.hormones import (
    BASELINES,
    Feeling,
    Hormone,
    Hormones,
    decayed,
    felt,
    mood,
    resting,
    spike_note,
    spikes,
)

NOW = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
LEVEL, MINUTES = st.floats(0, 1), st.floats(0, 10_000)
HORMONES = st.builds(Hormones, LEVEL, LEVEL, LEVEL, st.just(NOW))
FEELINGS = st.lists(st.sampled_from(Feeling), max_size=6)


def after(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("feelings", "levels"),
    [
        ([Feeling.REWARD], (0.45, 0.02, 0.20)),
        ([Feeling.ERROR], (0.15, 0.32, 0.20)),
        ([Feeling.SOCIAL], (0.15, 0.02, 0.50)),
        ([Feeling.ACHIEVEMENT], (0.55, 0.02, 0.40)),
        ([Feeling.URGENCY], (0.15, 0.42, 0.20)),
        ([Feeling.REWARD] * 5, (1.0, 0.02, 0.20)),
    ],
)
def test_a_feeling_raises_its_levels_up_to_one(feelings: list[Feeling], levels: tuple[float, float, float]) -> None:
    raised = felt(resting(NOW), feelings, NOW)
    assert raised.levels == pytest.approx(levels)
    assert decayed(raised, after(-30)).levels == raised.levels  # the clock was set back
    half = decayed(raised, after(30)).dopamine  # of what is above the baseline
    assert half == pytest.approx((levels[0] + 0.15) / 2)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ((0.1, 0.1, 0.1), "calm"),
        ((0.31, 0.0, 0.31), "motivated, socially engaged"),
        ((0.61, 0.61, 0.61), "energized, stressed, deeply connected"),
        ((0.3, 0.6, 0.3), "alert"),
    ],
)
def test_the_levels_are_a_mood(levels: tuple[float, float, float], words: str) -> None:
    assert mood(Hormones(*levels, NOW)) == words


def test_the_note_of_a_spike_names_what_raised_it() -> None:
    feelings = [Feeling.ACHIEVEMENT, Feeling.ERROR, Feeling.REWARD, Feeling.REWARD]
    assert spike_note(Hormone.DOPAMINE, 0.85, feelings, 'shipped "v2"\n## at last') == (
        "Hormonal event: dopamine spike (achievement/breakthrough detected). "
        "Raised to 0.85 by achievement and reward ×2: \"shipped 'v2' \\## at last\""
    )
    assert spike_note(Hormone.CORTISOL, 0.72, []) == (
        "Hormonal event: cortisol spike (friction/urgency detected). Raised to 0.72."
    )


@given(HORMONES, MINUTES, MINUTES)
def test_decay_brings_levels_nearer_to_their_baselines_in_one_step_or_two(
    hormones: Hormones, one: float, other: float
) -> None:
    sooner, later = (decayed(hormones, after(minutes)) for minutes in sorted((one, other)))
    for base, start, mid, end in zip(BASELINES, hormones.levels, sooner.levels, later.levels, strict=True):
        assert abs(end - base) <= abs(mid - base) + 1e-12 <= abs(start - base) + 2e-12
        assert (end - base) * (start - base) >= 0 or end == pytest.approx(base)
    assert decayed(sooner, later.at).levels == pytest.approx(later.levels, abs=1e-6)


@given(HORMONES, st.lists(st.tuples(FEELINGS, st.floats(0, 60)), max_size=12))
def test_a_rise_above_the_line_spikes_once_until_it_has_fallen_again(
    hormones: Hormones, events: list[tuple[list[Feeling], float]]
) -> None:
    now, fallen = NOW, {hormone: hormones.level(hormone) < 0.7 for hormone in Hormone}
    for feelings, wait in events:
        now += timedelta(minutes=wait)
        before = decayed(hormones, now)
        hormones = felt(hormones, feelings, now)
        spiked = spikes(before, hormones)
        for hormone in Hormone:
            fallen[hormone] |= before.level(hormone) < 0.7
            assert (hormone in spiked) == (hormones.level(hormone) > 0.7 and fallen[hormone])
            fallen[hormone] &= hormone not in spiked
