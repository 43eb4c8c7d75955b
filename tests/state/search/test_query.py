"""A question is read: its words, its speakers, the times that it names; and the last day that a note names."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.search.dates import FURTHEST, Period, last_day_named, periods_in
from state.search.query import asks_again, cuts_of, names_in, read_question
from tests.support.cases import cases

CASES = cases(__file__)
NOW = datetime(2026, 3, 12, 15, 30, tzinfo=UTC)  # a Thursday
WEDNESDAY = datetime(2026, 3, 18, 12, tzinfo=UTC)
SAID = datetime(2026, 3, 2, 9, 12, tzinfo=UTC)
# By language: a day and its year, a day, a month and its year, yesterday, last month, last year, last week.
NAMED: dict[str, list[str]] = CASES["NAMED"]


@pytest.mark.parametrize(
    ("text", "periods"),
    [
        ("what happened on 2026-03-02?", [Period(2026, 3, 2)]),
        ("in 2026-03", [Period(2026, 3)]),
        ("the 5th of July, 2022 and 8 May", [Period(2022, 7, 5), Period(None, 5, 8)]),
        ("July 4, 2023", [Period(2023, 7, 4)]),
        ("dec 2021 or August 2020", [Period(2021, 12), Period(2020, 8)]),
        ("What did we do in May?", [Period(None, 5)]),
        ("en abril", [Period(None, 4)]),
        ("в апреле", [Period(None, 4)]),
        ("四月", [Period(None, 4)]),
        ("back in 2019", [Period(2019)]),
        ("yesterday or today", [Period(2026, 3, 11), Period(2026, 3, 12)]),
        ("this week", [Period(2026, 3, day) for day in range(9, 16)]),
        ("this month, or in all of this year", [Period(2026, 3), Period(2026)]),
        ("2026-13-40 is no date, but a year", [Period(2026)]),
        ("you may march on", []),
        ("it is 42", []),
        ("march on, jan", []),
        ("ask Jan, not Dec", []),
        ("the mars rover", []),
    ],
)
def test_a_time_is_read_as_it_was_said(text: str, periods: list[Period]) -> None:
    assert list(periods_in(text, NOW)) == periods


@pytest.mark.parametrize("language", NAMED)
def test_periods_are_read_in_nine_languages(language: str) -> None:
    last_week = tuple(Period(2026, 3, day) for day in range(9, 16))
    single = ((2026, 3, 5), (None, 3, 5), (2025, 8), (2026, 3, 17), (2026, 2), (2025,))
    expected = [*((Period(*one),) for one in single), last_week]
    assert [periods_in(said, WEDNESDAY) for said in NAMED[language]] == expected


def test_a_day_fits_best_and_the_rest_of_its_month_half() -> None:
    moments = [datetime(year, 3, day, tzinfo=UTC) for year, day in ((2026, 2), (2026, 20), (2025, 2))]
    assert [Period(2026, 3, 2).fit(moment) for moment in moments] == [1.0, 0.5, 0.0]
    assert Period(None, 5).fit(datetime(1999, 5, 1, tzinfo=UTC)) == 0.5


@pytest.mark.parametrize(
    ("period", "last_day"),
    [
        (Period(2026), (2026, 12, 31)),
        (Period(2026, 2), (2026, 2, 28)),
        (Period(2026, 2, 3), (2026, 2, 3)),
        (Period(None, 2, 3), (2026, 2, 3)),
        (Period(None, 2), (2026, 2, 28)),
    ],
)
def test_a_period_is_over_after_its_last_day(period: Period, last_day: tuple[int, int, int]) -> None:
    evening = datetime(*last_day, 23, 59, tzinfo=UTC)
    over = [period.is_over(evening + timedelta(days=days)) for days in (-27, 0, 1)]
    assert over == [False, False, (evening + timedelta(days=1)).year == 2026 or period.year is not None]


@pytest.mark.parametrize(("text", "day"), CASES["the_last_day_that_a_note_names"])
def test_the_last_day_that_a_note_names(text: str, day: str) -> None:
    assert last_day_named(text, SAID) == day


@pytest.mark.parametrize("text", CASES["what_names_no_last_day"])
def test_what_names_no_last_day(text: str) -> None:
    assert last_day_named(text, SAID) == ""


@given(st.text(max_size=200) | st.from_regex(r"(\d{1,4}[ ./-]){1,4}(March|мая|4月1日|May)? ?\d{0,4}", fullmatch=True))
def test_any_text_names_a_day_of_the_next_year_or_none(text: str) -> None:
    day = last_day_named(text, SAID)
    assert not day or SAID.date() <= datetime.fromisoformat(day).date() <= (SAID + FURTHEST + timedelta(1)).date()


@pytest.mark.parametrize(
    ("text", "speakers", "words", "topic"),
    [
        (
            "When did Mira's replica fail, according to Tom?",
            ["Mira"],
            ("replica", "fail", "according", "tom"),
            "When did replica fail, according to Tom?",
        ),
        ("Mira?", ["Mira"], ("mira",), "Mira?"),
        ("Did Mira or Tom drain it?", ["Mira", "Tom"], ("drain",), "Did or drain it?"),
        ("a\ud83d broken pipe", [], ("broken", "pipe"), "a? broken pipe"),
    ],
    ids=["names are in neither", "a name alone is asked for", "two names", "half a character"],
)
def test_a_question_has_words_and_a_topic(text: str, speakers: list[str], words: tuple[str, ...], topic: str) -> None:
    question = read_question(text, speakers, NOW)
    assert (question.words, question.topic, question.names) == (words, topic, frozenset(speakers))
    assert read_question(f"{text} It was in May", speakers, NOW).periods == (Period(None, 5),)


@given(st.text() | st.just(" ".join(f"word{number}" for number in range(5_000))))
def test_any_string_is_a_question_of_at_most_64_words(text: str) -> None:
    question = read_question(text, names_in(text), NOW)
    question.topic.encode()
    assert len(question.words) == len(set(question.words)) <= 64


@pytest.mark.parametrize(("text", "again"), CASES["what_merely_asks_the_same_is_told_from_what_says_something"])
def test_what_merely_asks_the_same_is_told_from_what_says_something(text: str, *, again: bool) -> None:
    assert asks_again("what is the name of Ada's cat?", text) == again


@pytest.mark.parametrize(("text", "speaks"), CASES["a_question_that_speaks_to_the_agent_asks_for_its_replies"])
def test_a_question_that_speaks_to_the_agent_asks_for_its_replies(text: str, *, speaks: bool) -> None:
    assert read_question(text, (), NOW).asks_reply is speaks


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("who is Ana and when is the deploy?", "who is Ana", "when is the deploy?"),
        ("Where are old backups? Who pays the rent?", "Where are old backups", "Who pays the rent?"),
        ("the port of Postgres, the policy for Redis", "the port of Postgres", "the policy for Redis"),
        ("Wer ist diese Ana und wann ist das Deployment?", "Wer ist diese Ana", "wann ist das Deployment?"),
        ("¿Quién es Ana y cuándo es la entrega?", "¿Quién es Ana", "cuándo es la entrega?"),
        (
            "Qui est notre Ana Silva et quand partent les colis ?",
            "Qui est notre Ana Silva",
            "quand partent les colis ?",
        ),
        ("Chi sarebbe questa Ana e quando si consegna?", "Chi sarebbe questa Ana", "quando si consegna?"),
        ("Quem é essa Ana e quando é a entrega?", "Quem é essa Ana", "quando é a entrega?"),
        ("Кто такая Анна и когда будет выпуск?", "Кто такая Анна", "когда будет выпуск?"),
        ("谁负责部署？数据库端口是多少？", "谁负责部署", "数据库端口是多少？"),
        ("バックアップはどこですか。そしてデプロイはいつ", "バックアップはどこですか", "そしてデプロイはいつ"),
    ],
)
def test_a_question_can_be_cut_where_another_thing_may_begin(text: str, first: str, second: str) -> None:
    assert (first, second) in [tuple(part.strip() for part in cut) for cut in cuts_of(text)]


@pytest.mark.parametrize(
    "text",
    [
        "where do the backups of the north cluster go?",
        "what is the e-mail address of Ana?",
        "which pool size did we choose, and why?",
        "pgbouncer, postgres, redis",
        "quartz gate passphrase",
        "",
        "A page of a wiki is pasted here. It has many sentences. " * 20,
    ],
)
def test_what_asks_one_thing_is_not_cut(text: str) -> None:
    assert not cuts_of(text)
