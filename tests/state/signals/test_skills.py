from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.signals.skills import (
    TaskPattern,
    confidence,
    emerging,
    short_name,
)
from tests.support.cases import cases

CASES = cases(__file__)

NOW = datetime(2026, 3, 12, tzinfo=UTC)


def task(text: str, session: str, day: int, vector: tuple[float, ...] | None = None) -> TaskPattern:
    return TaskPattern(text, session, NOW + timedelta(days=day), vector)


def test_a_task_of_two_sessions_and_three_days_is_an_emerging_skill() -> None:
    skills = emerging(
        [
            task("Refactor TypeScript modules", "a", 1),
            task("refactor  TYPESCRIPT modules", "a", 2),  # the same in one session counts once
            *(task("Rotate the keys", session, day) for day, session in enumerate("ab", 1)),
            task("Rotate the keys again", "b", 3),
            *(task("Restart the broker", session, day) for day, session in enumerate("abc", 1) if day < 3),
            *(task("Restart the broker now", session, 2) for session in "abc"),
            *(task(f"Review {part} of the tutorial", "a", day) for day, part in enumerate(("one", "two", "six"), 1)),
            task("Refactor the TypeScript modules of the API", "b", 2),
            task("Refactor TypeScript modules again", "c", 3),
            task("Write a poem about rain", "c", 4),
        ]
    )
    seldom, skill = skills
    assert (skill.pattern, skill.occurrences, skill.sessions) == ("Refactor TypeScript modules", 3, 3)
    assert 0.4 < skill.confidence < 0.65
    assert (seldom.pattern, seldom.occurrences, seldom.sessions) == ("Rotate the keys", 3, 2)


def test_vectors_find_likeness_that_words_do_not_show() -> None:
    near = [
        task("Tidy imports", "a", 1, (1.0, 0.1)),
        task("Clean up module headers", "b", 2, (2.0, 0.0)),
        task("Order the first rows", "b", 3, (3.0, 0.1)),
    ]
    far = task("Tidy imports", "c", 3, (0.0, 1.0))
    assert [skill.occurrences for skill in emerging([*near, far])] == [3]
    assert emerging([task(one.text, one.session, day) for day, one in enumerate(near)]) == []


def test_confidence_grows_with_occurrences_and_cohesion() -> None:
    assert confidence(7, 0.9) == pytest.approx(0.858, abs=0.001)
    assert confidence(4, 0.9) < confidence(5, 0.9)
    assert confidence(4, 0.6) < confidence(4, 0.9)


def test_a_name_is_the_clause_that_the_like_tasks_share() -> None:
    skills = emerging(
        [
            task("Quick one for Ada: check the invoices against the ledger", "a", 1),
            task("Check the invoices against the ledger", "b", 2),
            task("As agreed with Bo: check the invoices against the ledger", "c", 3),
        ]
    )
    assert [skill.pattern.lower() for skill in skills] == ["check the invoices against the ledger"]


@pytest.mark.parametrize(("text", "said"), CASES["a_skill_is_called_by_what_is_done"])
def test_a_skill_is_called_by_what_is_done(text: str, said: str) -> None:
    assert said in short_name(text)


TEXT = st.lists(
    st.sampled_from(["fix", "lint", "errors", "write", "schema", "notes", "a"]), min_size=1, max_size=4
).map(" ".join)


TASKS = st.lists(
    st.builds(
        TaskPattern,
        TEXT,
        st.sampled_from("abc"),
        st.integers(0, 5).map(lambda days: NOW + timedelta(days=days)),
        st.one_of(st.none(), st.tuples(st.floats(0, 1), st.floats(0, 1))),
    ),
    max_size=10,
)


@given(TASKS)
def test_no_task_is_in_two_skills_and_every_skill_has_two_sessions(tasks: list[TaskPattern]) -> None:
    skills = emerging(tasks)
    assert sum(skill.occurrences for skill in skills) <= len(tasks)
    for skill in skills:
        assert skill.sessions >= 2
        assert skill.occurrences >= skill.sessions
        assert 0.0 <= skill.confidence < 1.0


@given(TASKS.filter(lambda tasks: len({(one.text, one.session) for one in tasks}) == len(tasks)))
def test_the_order_of_the_tasks_does_not_matter(tasks: list[TaskPattern]) -> None:
    assert emerging(tasks) == emerging(tasks[::-1])
