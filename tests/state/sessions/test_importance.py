import pytest

from state.errors import UsageError
from state.sessions.importance import assigned, score
from state.sessions.item import Priority
from tests.state.sessions.shelves import HOUR, MINUTE, START, item


def test_the_published_example_scores_what_its_formula_gives() -> None:
    notes = item(content="Meeting notes from today's standup", priority=Priority.HIGH)
    assert len(notes.content) == 34
    assert score(notes, START) == 0.4934  # .04 + .3 + .15 + .0034


@pytest.mark.parametrize(
    ("priority", "half_of_it", "expected"),
    [
        (Priority.LOW, 30 * MINUTE, 0.24),
        (Priority.MEDIUM, 2 * HOUR, 0.29),
        (Priority.HIGH, 6 * HOUR, 0.34),
        (Priority.CRITICAL, 12 * HOUR, 0.39),
    ],
)
def test_freshness_is_measured_in_the_time_that_the_priority_gives(
    priority: Priority, half_of_it: object, expected: float
) -> None:
    # .04 of one access, .15 of half the time, .2 of the weight, nothing of length
    assert score(item(priority=priority, content=""), START + half_of_it) == expected  # type: ignore[operator]


def test_each_term_stops_at_its_end() -> None:
    full = item(access_count=10, content="x" * 1000, priority=Priority.CRITICAL)
    assert score(full, START) == 1.0
    assert score(item(access_count=9, content="x" * 1000, priority=Priority.CRITICAL), START) == 0.96
    assert score(item(access_count=10_000, content="x" * 50_000, priority=Priority.CRITICAL), START) == 1.0
    assert score(full, START + 1000 * HOUR) == 0.7
    assert score(full, START - HOUR) == 1.0, "a clock that was set back makes nothing fresher than new"


def test_length_is_in_code_points() -> None:
    assert score(item(content="é" * 500), START) == score(item(content="🙂" * 500), START)
    assert score(item(content="🙂" * 500), START) == score(item(content="x" * 500), START)


def test_the_time_to_live_may_be_configured() -> None:
    assert score(item(content=""), START + HOUR, ttl_seconds=7200) == 0.29


def test_what_is_not_assigned_comes_from_the_priority() -> None:
    assert [assigned(priority, None) for priority in Priority] == [0.25, 0.5, 0.75, 1.0]
    assert assigned(Priority.LOW, 0.9) == 0.9
    assert assigned(Priority.LOW, 0) == 0.0


@pytest.mark.parametrize("importance", [-0.01, 1.01, float("nan"), float("inf")])
def test_an_importance_outside_0_to_1_is_refused(importance: float) -> None:
    with pytest.raises(UsageError, match=r"importance: .*: input should be (greater|less) than or equal to [01]"):
        assigned(Priority.LOW, importance)


def test_an_importance_that_is_no_number_is_refused() -> None:
    for importance in ("0.5", "★★★★", "11/10", "7.5/100", "", True, [1]):
        with pytest.raises(UsageError, match=r"importance: .* (is neither a number|input should be a valid number)"):
            assigned(Priority.LOW, importance)  # type: ignore[arg-type]


def test_other_scales_become_ours() -> None:
    given: dict[float | str, float] = {"1/10": 0.1, "0/10": 0.0, "7.5/10": 0.75, "10/10": 1.0, 0.4: 0.4}
    given |= {"★": 0.3, "★★": 0.6, "★★★": 0.9}
    for importance, ours in given.items():
        assert assigned(Priority.LOW, importance) == ours
