from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from state.signals.skills import TaskPattern, emerging

NOW = datetime(2026, 3, 12, tzinfo=UTC)
TEXT = st.lists(
    st.sampled_from(["fix", "lint", "errors", "write", "schema", "notes", "a"]), min_size=1, max_size=4
).map(" ".join)
TASKS = st.lists(
    st.builds(
        TaskPattern,
        TEXT,
        st.sampled_from("abc"),
        st.integers(0, 5).map(lambda hours: NOW + timedelta(hours=hours)),
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
