"""Open questions: what a text asks, what a search missed, and which of them matter most."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.signals.curiosity import Cause, Gap, gap_of_search, questions_in, rank_questions

NOW = datetime(2026, 3, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        ("Why does the cache miss on Mondays?", ("Why does the cache miss on Mondays?",)),
        ("Deployed. Which region holds the backups? Asked Anna.", ("Which region holds the backups?",)),
        ("- [ ] who owns billing?", ("who owns billing?",)),
        ("为什么部署这么慢？", ("为什么部署这么慢？",)),
        ("لماذا فشل البناء؟", ("لماذا فشل البناء؟",)),
        ("Who? Which team owns it?\nWhich team owns it??", ("Which team owns it?",)),
        ("User prefers tabs", ()),
        ("const x = a ? b : c; y?.z", ()),
        ("`SELECT ?`", ()),
        ("```\nis this a question of code?\n```", ()),
        ("<!-- who wrote this comment? -->", ()),
        ("See https://example.org/search?q=what", ()),
        ("GET /users?page=2", ()),
        ("The regex is (?:abc)?", ()),
        ("Ok? Ready? Really?", ()),
        ("", ()),
    ],
)
def test_what_ends_in_a_question_mark_is_asked_unless_it_is_code(text: str, questions: tuple[str, ...]) -> None:
    assert questions_in(text) == questions


@given(st.text(max_size=200).map(lambda text: f"{text}\nWhat about `x and {'very ' * 100} long things?"))
def test_a_question_is_one_harmless_line(text: str) -> None:
    for question in questions_in(text):
        assert question == question.strip()
        assert len(question.splitlines()) == 1
        assert len(question) <= 200


def test_of_one_text_there_are_five_at_most() -> None:
    assert len(questions_in("\n".join(f"What is thing number {i} for?" for i in range(9)))) == 5


def test_a_search_without_an_answer_leaves_a_question() -> None:
    assert gap_of_search("deploy  keys") == "What is known about: deploy keys?"
    assert gap_of_search("where are the deploy keys??") == "where are the deploy keys?"
    assert gap_of_search("the of ?") is None


def test_the_weightiest_question_comes_first_and_each_once_in_whatever_order_they_are() -> None:
    def gap(question: str, cause: Cause = Cause.MISS, times: int = 1, age_days: float = 0.0) -> Gap:
        at = NOW - timedelta(days=age_days)
        return Gap(question, cause, times, at, at)

    explicit, once = gap("Explicit one?", Cause.EXPLICIT), gap("Missed once?")
    often, old = gap("Missed often?", times=40), gap("Explicit, old?", Cause.EXPLICIT, age_days=30)
    twin = replace(once, question="missed ONCE")
    for given_ in ([once, old, explicit, often, twin], [twin, often, explicit, old, once]):
        keys = [one.question.casefold().rstrip("?") for one in rank_questions(given_, NOW)]
        assert keys == ["missed often", "explicit one", "missed once", "explicit, old"]
    assert rank_questions([], NOW) == []
