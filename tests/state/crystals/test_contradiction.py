from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from state.crystals.contradiction import contradicts, disagree, other_number, violates
from state.crystals.crystal import Crystal, Kind, Origin
from state.trust import Trust

OPPOSED = [
    ("User prefers tabs", "User prefers spaces"),
    ("User prefers tabs over spaces", "User prefers spaces over tabs"),
    ("User prefers tabs over spaces", "User prefers spaces"),
    ("Project deadline is March 20th for the API migration", "API migration deadline is March 25"),
    ("deadline is March 20", "deadline is March 25"),
    ("The deadline is March 20", "The deadline is now April 3"),
    ("The deadline is 2026-03-20", "The deadline moved to 2026-03-25"),
    ("User likes coffee", "User does not like coffee"),
    ("User likes coffee", "User doesn’t like coffee any more"),
    ("User likes coffee", "User hates coffee"),
    ("User's name is Douglas", "User's name is Peter"),
    ("User lives in Berlin", "User lives in New York"),
    ("The server runs on port 8080", "The server runs on port 9090"),
    ("The build is passing", "The build is failing"),
    ("Always squash commits", "Never squash commits"),
    ("Feature flags are enabled in staging", "Feature flags are disabled in staging"),
    ("User prefers dark mode", "User prefers light mode"),
    ("Standup is on Monday", "Standup is on Friday"),
    ("The API works", "The API does not work"),
    ("The default branch is main", "The default branch is trunk"),
    ("User has 2 cats", "User has 3 cats"),
    ("The migration is done", "The migration is not done"),
    ("截止日期是3月20日", "截止日期是3月25日"),
    ("用户喜欢咖啡", "用户不喜欢咖啡"),
    ("Der Nutzer mag Kaffee", "Der Nutzer mag keinen Kaffee"),
    ("Die Frist ist der 20. März", "Die Frist ist der 25. März"),
    ("L'utilisateur aime le café", "L'utilisateur n'aime pas le café"),
    ("Пользователь любит кофе", "Пользователь не любит кофе"),
    ("The timeout is 30 seconds", "The timeout is 60 seconds"),
    ("Node version: 18", "Node version: 20"),
    ("Deploys are allowed on Fridays", "Deploys are forbidden on Fridays"),
    ("The project uses PostgreSQL 14", "The project uses PostgreSQL 16"),
    ("User wants short answers", "User wants long answers"),
    ("User no longer works at Acme", "User works at Acme"),
    ("User prefers Vue.js over React", "User prefers React over Vue.js"),
    ("User prefers tabs, not spaces", "User prefers spaces, not tabs"),
    ("Telemetry is turned on in production", "Telemetry is turned off in production"),
    ("Der Alarm im Keller ist an", "Der Alarm im Keller ist aus"),
]
COMPATIBLE = [
    ("User prefers tabs", "User prefers tabs"),
    ("User prefers tabs", "User prefers  TABS."),
    ("Anna is not taller than Bob", "Bob is taller than Anna"),
    ("User prefers tabs", "User prefers dark mode"),
    ("User prefers tabs", "User prefers short answers"),
    ("User likes coffee", "User likes tea"),
    ("User likes coffee", "User likes coffee in the morning"),
    ("deadline is March 20", "deadline is March 20 at 17:00"),
    ("deadline is March 20", "The deadline is March 20, 2026"),
    ("Deadline for the API is March 20", "Deadline for the blog is March 25"),
    ("Fixed bug 12", "Fixed bug 13"),
    ("Issue 12 is open", "Issue 13 is open"),
    ("Chapter 3 is done", "Chapter 4 is done"),
    ("Server A uses port 80", "Server B uses port 80"),
    ("The build passes", "The build does not pass without Redis"),
    ("User is a developer", "User is a father"),
    ("User is a developer", "User is tired"),
    ("The project uses vim", "The team uses emacs"),
    ("User does not like tea", "User does not drink coffee"),
    ("User speaks German", "User speaks French fluently"),
    ("The API works", "The CLI does not work"),
    ("Deployed version 1.2", "Deployed version 1.3"),
    ("User met Anna on Monday", "User met Anna on Friday"),
    ("The first test is slow", "The second test is slow"),
    ("User has a cat", "User has a dog"),
    ("User has 2 cats", "User has 3 dogs"),
    ("Alice's birthday is in May", "Bob's birthday is in June"),
    ("User's name is Douglas", "User's name is Douglas Adams"),
    ("User lives in Berlin", "User lives in Berlin, Germany"),
    ("The service is written in Python", "The service is hosted in Frankfurt"),
    ("Redis is used for caching", "Postgres is used for storage"),
    ("Never deploy on Fridays", "Always run the tests"),
    ("Tests must not hit the network", "Tests must be fast"),
    ("用户喜欢咖啡", "用户喜欢茶"),
    ("用户喜欢咖啡", "用户喜欢咖啡和茶"),
    ("这个方案不错", "这个方案很好"),
    ("The user does not only like tea", "The user likes tea"),
    ("User prefers tabs over spaces", "User prefers tabs"),
    ("User prefers tabs, not spaces", "User prefers tabs over spaces"),
    ("User is not tall", "User is not rich"),
    ("The port is open", "The port is 8080"),
    ("The meeting with Anna is on Monday", "The meeting with Bob is on Tuesday"),
    ("Runs at 10:00 daily", "Runs at 10:00 weekly in summer"),
    ("User finished chapter 3 on Monday", "User finished chapter 4 on Tuesday"),
    ("The release has 12 fixes", "The release has 3 features"),
    ("Release 1.2 is out", "Release 1.3 is out"),
    ("Release 1.2 shipped", "Release 1.3 shipped"),
    ("The test is flaky on Python 3.11", "The test is flaky on Python 3.12"),
    ("User is busy on Monday", "User is busy on Tuesday"),
    ("Deploys are allowed on Monday", "Deploys are allowed on Friday"),
    ("User works on the API", "User works on the CLI"),
    ("The meeting is over now", "The meeting is not over the budget"),
    ("User likes vim", "User likes emacs"),
    ("The bug is in parser.py", "The bug is in lexer.py"),
    ("The API is fast", "The API is slow on Windows"),
    ("User's wife is called Anna", "User's son is called Ben"),
    ("Anna owns the billing service", "Ben owns the search service"),
    ("The answer to question 3 is 42", "The answer to question 4 is 42"),
    ("Project Alpha deadline is May 3", "Project Beta deadline is May 9"),
    ("It does not rain", "It rains in Hamburg"),
    ("We did not use Redis", "We use Redis for sessions"),
    ("The user's main goal is speed", "The user's main language is German"),
    ("Line 40 is too long", "Line 80 is too long"),
]


@pytest.mark.parametrize(("one", "other"), OPPOSED)
def test_these_two_cannot_both_hold(one: str, other: str) -> None:
    assert contradicts(one, other)
    assert contradicts(other, one)


@pytest.mark.parametrize(("one", "other"), COMPATIBLE)
def test_these_two_can_both_hold(one: str, other: str) -> None:
    assert not contradicts(one, other)
    assert not contradicts(other, one)


@pytest.mark.parametrize("form", ["{}.", "{}!", "“{}.”", "*{}.*"])
@pytest.mark.parametrize(("one", "other"), OPPOSED)
def test_a_full_stop_changes_nothing(form: str, one: str, other: str) -> None:
    assert contradicts(form.format(one), form.format(other))
    assert contradicts(form.format(one), other)
    assert contradicts(one, form.format(other))


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        ("Never push to main.", "I push to main when it is urgent."),
        ("Do not deploy on Fridays.", "I deploy on Fridays if the tests pass."),
        ("Never speak about customers by name.", "I like to speak about customers by name in jokes."),
        ("2FA must stay on.", "2FA must stay off."),
        ("The agent prefers tabs over spaces.", "The agent prefers spaces over tabs."),
    ],
)
def test_a_constraint_is_violated_by_what_does_the_contrary_in_any_detail(constraint: str, text: str) -> None:
    assert violates(text, constraint)


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        ("Never push to main.", "I avoid pushing to main."),
        ("Never push to main.", "I never push to main, not even at night."),
        ("Never push to main.", "I push to feature branches."),
        ("Never delete files unasked.", "I ask before I delete files."),
        ("Answer in English.", "I answer in English, and briefly."),
    ],
)
def test_a_constraint_is_not_violated_by_what_keeps_it_or_is_about_something_else(constraint: str, text: str) -> None:
    assert not violates(text, constraint)


def test_one_sentence_among_several_is_enough() -> None:
    assert (
        contradicts("Kick-off went well. The deadline is March 20.", "Good news: the deadline is March 25.") is False
    )
    assert contradicts("Kick-off went well. The deadline is March 20.", "Anna called. The deadline is March 25.")


def test_a_very_long_sentence_is_not_judged() -> None:
    padding = " and so on" * 20
    assert not contradicts(f"User likes coffee{padding}", f"User does not like coffee{padding}")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada's office is in room 14", "Ada's office is in room 15"),
        ("The staging port is 8443", "The staging port is 9443"),
        ("The bug is in line 40", "The bug is in line 52"),
    ],
)
def test_another_number_of_what_something_is_is_worth_a_question(one: str, other: str) -> None:
    assert other_number(one, other)
    assert other_number(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Release 1.3 is out", "Release 1.4 is out"),
        ("Ship 3 lies at pier 3", "Ship 4 lies at pier 4"),
        ("The tests are green again on Python 3.11", "The tests are green again on Python 3.12"),
        ("We were in room 14", "We were in room 15"),
        ("The port is 80", "The port is 80"),
        ("The port is 80", "The host is 81"),
        ("The office is in room 14", "The office is not in room 15"),
        ("is 4", "is 5"),
    ],
)
def test_a_number_that_names_one_of_many_is_none(one: str, other: str) -> None:
    assert not other_number(one, other)


AT = datetime(2026, 3, 1, tzinfo=UTC)
CLAIM = Crystal("The staging port is 8443", Origin.SCRATCH, AT)
DENIAL = replace(CLAIM, text="The staging port is 9443", created_at=AT + timedelta(days=1))


@pytest.mark.parametrize(
    "change",
    [
        {"trust": Trust.WEB},
        {"trust": Trust.TOOL},
        {"origin": Origin.EVICTED},
        {"origin": Origin.DREAM},
        {"kind": Kind.EPISODE},
        {"text": "Is the staging port 9443?"},
        {"context": "Production"},
        {"text": CLAIM.text},
        {"text": f"{DENIAL.text}. " + "More about it. " * 50},
    ],
)
def test_crystals_disagree_only_when_both_are_claims_about_the_same(change: dict[str, Any]) -> None:
    assert disagree(CLAIM, DENIAL)
    assert disagree(DENIAL, CLAIM)
    assert not disagree(CLAIM, replace(DENIAL, **change))
    assert not disagree(replace(DENIAL, **change), CLAIM)


def test_what_one_likes_is_no_matter_of_another() -> None:
    mine = replace(CLAIM, text="I like tea", speaker="Ada")
    assert not disagree(mine, replace(mine, text="I hate tea", speaker="Bob"))
    assert disagree(mine, replace(mine, text="I hate tea"))


# By language: what is so, what is so no longer, and what is another thing.
NO_LONGER = {
    "en": ("I drink tea.", "I no longer drink tea.", "I no longer drink coffee."),
    "de": ("Ich trinke Tee.", "Ich trinke keinen Tee mehr.", "Ich trinke keinen Kaffee mehr."),
    "fr": ("Je bois du thé.", "Je ne bois plus du thé.", "Je ne bois plus du café."),
    "es": ("Bebo té.", "Ya no bebo té.", "Ya no bebo café."),
    "pt": ("Eu bebo chá.", "Eu já não bebo chá.", "Eu já não bebo café."),
    "it": ("Bevo tè.", "Non bevo più tè.", "Non bevo più caffè."),
    "ru": ("Я пью чай.", "Я больше не пью чай.", "Я больше не пью кофе."),
    "zh": ("我喝茶。", "我不再喝茶。", "我不再喝咖啡。"),
    "ja": ("私はお茶を飲みます。", "私はもうお茶を飲みません。", "私はもうコーヒーを飲みません。"),
}


@pytest.mark.parametrize("language", NO_LONGER)
def test_what_is_so_no_longer_contradicts_in_nine_languages(language: str) -> None:
    before, now, other = NO_LONGER[language]
    assert contradicts(before, now)
    assert not contradicts(before, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Срок отчёта: 5 марта", "Срок отчёта: 7 марта"),
        ("Servidor de produção ligado", "Servidor de produção desligado"),
        ("Il server di prova è acceso", "Il server di prova è spento"),
        ("La fecha de entrega es el 5 de mayo", "La fecha de entrega es el 9 de mayo"),
    ],
)
def test_dates_and_switches_of_other_languages_contradict(one: str, other: str) -> None:
    assert contradicts(one, other)


def test_a_comparison_denies_nothing() -> None:
    assert not contradicts("Ich esse nicht mehr als zwei Äpfel", "Ich esse zwei Äpfel")
