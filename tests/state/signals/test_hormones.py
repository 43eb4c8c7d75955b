from datetime import UTC, datetime, timedelta

import pytest

from state.signals.hormones import (
    ALL_ARMED,
    Feeling,
    Hormone,
    Hormones,
    attention,
    decayed,
    felt,
    mood,
    resting,
    spike_note,
    spikes,
)

NOW = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)


def levels(dopamine: float, cortisol: float, oxytocin: float) -> Hormones:
    return Hormones(dopamine, cortisol, oxytocin, NOW)


def minutes(count: float) -> datetime:
    return NOW + timedelta(minutes=count)


def test_each_level_halves_its_distance_in_its_own_half_life() -> None:
    start = levels(0.95, 0.82, 0.80)
    assert decayed(start, minutes(30)).dopamine == pytest.approx(0.15 + 0.40)
    assert decayed(start, minutes(60)).cortisol == pytest.approx(0.02 + 0.40)
    assert decayed(start, minutes(45)).oxytocin == pytest.approx(0.20 + 0.30)
    assert decayed(start, minutes(30)).at == minutes(30)


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


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ((0.15, 0.02, 0.20), "calm"),
        ((0.3, 0.3, 0.3), "calm"),
        ((0.31, 0.02, 0.2), "motivated"),
        ((0.6, 0.6, 0.6), "motivated, alert, socially engaged"),
        ((0.61, 0.7, 0.9), "energized, stressed, deeply connected"),
        ((0.1, 0.4, 0.2), "alert"),
    ],
)
def test_mood_is_said_in_words(state: tuple[float, float, float], text: str) -> None:
    assert mood(levels(*state)) == text


@pytest.mark.parametrize(
    ("state", "dominant"),
    [
        ((0.70, 0.85, 0.75), ()),  # within .15 of each other
        ((0.15, 0.02, 0.20), ()),
        ((0.15, 0.59, 0.20), ()),  # uneven, yet none reaches .6
        ((0.15, 0.60, 0.20), (Hormone.CORTISOL,)),
        ((0.80, 0.90, 0.20), (Hormone.CORTISOL, Hormone.DOPAMINE)),
        ((0.79, 0.90, 0.20), (Hormone.CORTISOL,)),
    ],
)
def test_attention_goes_to_what_leads(state: tuple[float, float, float], dominant: tuple[Hormone, ...]) -> None:
    assert attention(levels(*state)).dominant == dominant
    assert attention(levels(*state)).balanced == (dominant == ())


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
