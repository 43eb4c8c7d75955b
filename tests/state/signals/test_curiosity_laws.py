from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from state.signals.curiosity import Cause, Gap, question_key, questions_in, rank_questions

NOW = datetime(2026, 3, 12, tzinfo=UTC)
GAPS = st.lists(
    st.builds(
        Gap,
        st.sampled_from(["Who?", "who", "Where is it?", "WHERE IS IT", "Why"]),
        st.sampled_from(Cause),
        st.integers(1, 50),
        st.just(NOW - timedelta(days=90)),
        st.integers(0, 80).map(lambda days: NOW - timedelta(days=days)),
    ),
    max_size=8,
    unique_by=lambda gap: question_key(gap.question),
)


@given(GAPS)
def test_ranking_does_not_depend_on_the_order_of_the_input(gaps: list[Gap]) -> None:
    ranked = rank_questions(gaps, NOW)
    assert sorted(map(repr, ranked)) == sorted(map(repr, gaps))
    backwards = rank_questions(gaps[::-1], NOW)
    assert backwards == ranked


@given(st.text(max_size=200))
def test_questions_are_lines(text: str) -> None:
    for question in questions_in(text):
        assert question == question.strip()
        assert len(question.splitlines()) == 1
