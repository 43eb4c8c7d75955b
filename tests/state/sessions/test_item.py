"""What is computed of an item: its score, its importance in any scale, its ids and its tokens."""

from datetime import timedelta

import pytest

from state.errors import UsageError
from state.sessions.checks import checked_importance
from state.sessions.item import promoted_id, score, tokens_of, working_id
from tests.state.sessions.items import HOUR, START


def scored(
    content: str = "",
    priority: str = "medium",
    accesses: int = 1,
    age: timedelta = timedelta(),
    ttl: float | None = None,
) -> float:
    return score(accesses, age.total_seconds(), priority, len(content), ttl)


def test_the_published_example_scores_what_its_formula_gives() -> None:
    assert scored("Meeting notes from today's standup", "high") == 0.4934  # .04 + .3 + .15 + .0034


def test_freshness_is_measured_in_the_time_that_the_priority_gives() -> None:
    # .04 of one access, .15 of half the time, .2 of the weight, nothing of length
    halves = {"low": HOUR / 2, "medium": 2 * HOUR, "high": 6 * HOUR, "critical": 12 * HOUR}
    assert [scored(priority=one, age=age) for one, age in halves.items()] == [0.24, 0.29, 0.34, 0.39]


def test_each_term_stops_at_its_end() -> None:
    assert scored("x" * 1000, "critical", 10) == 1.0
    assert scored("x" * 1000, "critical", 9) == 0.96
    assert scored("x" * 50_000, "critical", 10_000) == 1.0
    assert scored("x" * 1000, "critical", 10, 1000 * HOUR) == 0.7
    assert scored("x" * 1000, "critical", 10, -HOUR) == 1.0, (
        "a clock that was set back makes nothing fresher than new"
    )


@pytest.mark.parametrize(
    "importance", [-0.01, 1.01, float("nan"), float("inf"), "0.5", "★★★★", "11/10", "7.5/100", "", True, [1]]
)
def test_an_importance_outside_0_to_1_or_in_no_scale_is_refused(importance: object) -> None:
    told = r"importance: .*(input should be (greater|less) than or equal to [01]|neither a number|a valid number)"
    with pytest.raises(UsageError, match=told):
        checked_importance("low", importance)  # type: ignore[arg-type]


def test_other_scales_become_ours() -> None:
    given: dict[float | str, float] = {"1/10": 0.1, "0/10": 0.0, "7.5/10": 0.75, "10/10": 1.0, 0.4: 0.4}
    given |= {"★": 0.3, "★★": 0.6, "★★★": 0.9}
    for importance, ours in given.items():
        assert checked_importance("low", importance) == ours


@pytest.mark.parametrize(
    ("session", "content", "expected"),
    [
        (
            "user-session-123",
            "Meeting notes from today's standup",
            "working_memory_user-session-123-Meeting notes from t_20260312-143000",
        ),
        ("s", "Important info that needs", "working_memory_s-Important info that_20260312-143000"),
        ("../../etc", "a/b\\c\n\td\x00e\u202e", "working_memory_../../etc-a b c de_20260312-143000"),
        ("", "\ud800", "working_memory_-_20260312-143000"),
        ("s", "🙂" * 25, "working_memory_s-" + "🙂" * 20 + "_20260312-143000"),
    ],
)
def test_an_id_says_where_how_it_begins_and_when(session: str, content: str, expected: str) -> None:
    assert working_id(session, content, START) == expected
    assert promoted_id(expected, START) == f"memory_promoted_{expected}_20260312-143000"


def test_tokens_are_about_those_of_a_model_and_never_none() -> None:
    texts = {"Anna lives in Bonn.": 6, "internationalization": 5, "東京都": 3, " ": 1, "\x00": 1}
    assert {text: tokens_of(text) for text in texts} == texts
