from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.signals.curiosity import (
    Cause,
    Gap,
    gap_of_search,
    question_key,
    questions_in,
    rank_questions,
)
from tests.support.cases import cases

CASES = cases(__file__)

NOW = datetime(2026, 3, 12, tzinfo=UTC)


def gap(question: str, cause: Cause = Cause.MISS, times: int = 1, age_days: float = 0.0) -> Gap:
    at = NOW - timedelta(days=age_days)
    return Gap(question, cause, times, at, at)


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        ("Why does the cache miss on Mondays?", ("Why does the cache miss on Mondays?",)),
        ("Deployed. Which region holds the backups? Asked Anna.", ("Which region holds the backups?",)),
        ("- [ ] Open question: who owns billing?", ("who owns billing?",)),
        ("I wonder why the parser is slow", ("I wonder why the parser is slow",)),
        ("Need to find out how tokens expire.", ("Need to find out how tokens expire.",)),
        ("Hosting region: TBD", ("Hosting region: TBD",)),
        ("It is not clear whether the API is public", ("It is not clear whether the API is public",)),
        ("We don't know yet", ()),
        ("Unklar, warum der Build hängt", ("Unklar, warum der Build hängt",)),
        ("为什么部署这么慢？", ("为什么部署这么慢？",)),
        ("لماذا فشل البناء؟", ("لماذا فشل البناء؟",)),
        ("Who? Which team owns it?\nWhich team owns it??", ("Which team owns it?",)),
    ],
)
def test_open_questions_are_found(text: str, questions: tuple[str, ...]) -> None:
    assert questions_in(text) == questions


@pytest.mark.parametrize("text", CASES["what_asks_memory_nothing_is_no_question"])
def test_what_asks_memory_nothing_is_no_question(text: str) -> None:
    assert questions_in(text) == ()


def test_a_question_is_one_harmless_line_and_there_are_five_at_most() -> None:
    (line,) = questions_in(f"What about `x and {'very ' * 100} long things?")
    assert len(line) <= 200
    assert "`" not in line
    assert len(questions_in("\n".join(f"What is thing number {i} for?" for i in range(9)))) == 5


def test_a_search_without_an_answer_leaves_a_question() -> None:
    assert gap_of_search("deploy  keys") == "What is known about: deploy keys?"
    assert gap_of_search("where are the deploy keys??") == "where are the deploy keys?"
    assert gap_of_search("the of ?") is None


def test_the_weightiest_question_comes_first_and_each_once() -> None:
    explicit, once = gap("Explicit one?", Cause.EXPLICIT), gap("Missed once?")
    often, old = gap("Missed often?", times=40), gap("Explicit, old?", Cause.EXPLICIT, age_days=30)
    twin = replace(once, question="missed ONCE")
    ranked = rank_questions([once, old, explicit, often, twin], NOW)
    assert [one.question for one in ranked] == ["Missed often?", "Explicit one?", "Missed once?", "Explicit, old?"]
    assert rank_questions([], NOW) == []


@pytest.mark.parametrize(("asked", "said"), CASES["open_questions_are_seen_in_nine_languages"])
def test_open_questions_are_seen_in_nine_languages(asked: str, said: str) -> None:
    assert questions_in(asked) == (asked,)
    assert questions_in(said) == ()


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


@pytest.mark.parametrize(
    "asked", ["Kannst du das prüfen?", "Peux-tu vérifier ça ?", "¿Puedes revisarlo?", "Можешь это проверить?"]
)
def test_what_is_asked_of_the_other_person_is_no_open_question(asked: str) -> None:
    assert questions_in(asked) == ()
