import pytest

from state.search.answering import answers


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What is known about: deploy keys?", "The deploy keys are in the vault under ops"),
        ("where are the deploy keys?", "The deploy keys are in the vault under ops"),
        ("Why does the cache miss on Mondays?", "The cache misses on Mondays because the cron purges it"),
        ("Which team owns billing?", "Asked around. The payments team owns billing."),
        ("Is the API public?", "The API is not public"),
        ("It is not clear whether the API is public", "The API is public"),
        ("Hosting region: TBD", "The hosting region is eu-west-1"),
        ("How do tokens expire?", "Tokens expire after 24 hours"),
        ("Who owns billing?", "Anna owns billing"),
        ("I wonder why the parser is slow", "The parser is slow because it backtracks"),
        ("What is the staging port?", "The staging port is 9090"),
        ("How many backups are kept?", "We have 7 backups kept at any time"),
        ("When do the backups run?", "The backups run every Monday"),
    ],
)
def test_what_is_asked_for_is_an_answer(question: str, text: str) -> None:
    assert answers(question, text)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What is known about: deploy keys?", "Where are the deploy keys?"),
        ("What is known about: deploy keys?", "deploy keys"),
        ("What is known about: deploy keys?", "We should rotate the deploy keys this week"),
        ("where are the deploy keys?", "where are the deploy keys"),
        ("where are the deploy keys?", "The deploy keys are rotated on Mondays"),
        ("Why does the cache miss on Mondays?", "The cache misses on Mondays again, annoying"),
        ("Why does the cache miss on Mondays?", "The cache misses because the cron purges it"),
        ("Which team owns billing?", "Someone asked which team owns billing"),
        ("Which team owns billing?", "Which team owns billing is unclear"),
        ("Which team owns billing?", "Billing is broken. The payments team is on holiday."),
        ("Is the API public?", "Is the API public?"),
        ("Is the API public?", "Maybe the API is public"),
        ("Hosting region: TBD", "Hosting region: TBD"),
        ("What does the nightly job do?", "The nightly job is broken"),
        ("Who owns billing?", "Somebody must own billing"),
        ("How many backups are kept?", "Old backups are kept"),
        ("为什么部署这么慢？", "因为缓存坏了，部署这么慢。"),
        ("Why?", "Because."),
        ("", "anything"),
    ],
)
def test_questions_doubts_and_other_matters_are_none(question: str, text: str) -> None:
    assert not answers(question, text)
