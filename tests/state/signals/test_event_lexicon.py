import pytest

from state.signals.event_lexicon import feelings_in
from state.signals.hormones import Feeling

R, E, S, A, U = Feeling.REWARD, Feeling.ERROR, Feeling.SOCIAL, Feeling.ACHIEVEMENT, Feeling.URGENCY


@pytest.mark.parametrize(
    ("text", "feelings"),
    [
        ("The migration works now!", (R,)),
        ("Finally fixed the CORS bug", (R,)),
        ("All tests pass", (R, A)),
        ("The user loves it", (R,)),
        ("Das Skript funktioniert", (R,)),
        ("Le script fonctionne", (R,)),
        ("El script funciona", (R,)),
        ("部署成功", (R,)),
        ("Скрипт работает", (R,)),
        ("The deploy failed with a traceback", (E,)),
        ("The build is broken", (E,)),
        ("We are stuck on the parser", (E,)),
        ("部署失败", (E,)),
        ("Thanks, that helped", (S,)),
        ("Vielen Dank, danke!", (S,)),
        ("谢谢你", (S,)),
        ("We shipped v2 today", (A,)),
        ("The page went live", (A,)),
        ("This is urgent", (U,)),
        ("Report due tomorrow", (U,)),
        ("Bitte dringend prüfen", (U,)),
        ("Thanks! Shipped it, but the docs build failed: urgent.", (E, S, A, U)),
        ("It works, but the tests fail: errors everywhere", (R, E)),
    ],
)
def test_an_event_is_felt(text: str, feelings: tuple[Feeling, ...]) -> None:
    assert feelings_in(text) == feelings


@pytest.mark.parametrize(
    "text",
    [
        "This does not work",
        "It doesn’t work any more",
        "It isn't fixed",
        "I can't get it to work",
        "Nothing works",
        "It no longer works",
        "The bug is not solved",
        "The tests do not pass",
        "Das funktioniert nicht",
        "Ça ne marche pas",
        "Esto no funciona",
        "Это не работает",
        "没有成功",
    ],
)
def test_what_does_not_work_is_an_error_and_no_reward(text: str) -> None:
    assert feelings_in(text) == (E,)


@pytest.mark.parametrize(
    "text",
    [
        "no errors",
        "The run ended without any errors",
        "not urgent",
        "There is no hurry",
        "It isn't broken any more",
        "It never fails",
        "0 failures",
        "The crash is gone",
        "keine Fehler",
        "没有错误",
        "不紧急",
        "Not shipped yet",
        "No thanks",
    ],
)
def test_what_is_denied_is_not_felt(text: str) -> None:
    assert feelings_in(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "An errorless thanksgiving",
        "error-free since March",
        "User works at Acme",
        "User does not work on Fridays",
        "Do not work around the linter",
        "The error handling lives in errors.py",
        "Set `failed = true` in the config",
        "See https://example.org/urgent/failed",
        "If it fails, retry",
        "Does it work?",
        "Is the build broken?",
        "It will be released on Monday",
        "Retry until it works",
        "Meetings have a fixed length, a fixed slot",
        "Thanks to the cache the page loads",
        "The response passes the key to the worker",
        "如果失败就重试",
        "User prefers tabs",
        "",
    ],
)
def test_what_only_looks_like_an_event_is_not_felt(text: str) -> None:
    assert feelings_in(text) == ()


@pytest.mark.parametrize(
    ("works", "fails", "thanks", "hurry"),
    [
        ("The script works", "The script does not work", "Thanks", "This is urgent"),
        ("Das Skript klappt", "Das Skript klappt nicht", "Danke", "Das ist dringend"),
        ("Le script fonctionne", "Le script ne fonctionne plus, pas du tout", "Merci", "C'est urgent"),
        ("El script funciona", "El script no funciona", "Gracias", "Es urgente"),
        ("O script funciona", "O script não funciona", "Obrigado", "É urgente"),
        ("Lo script funziona", "Lo script non funziona", "Grazie", "È urgente"),
        ("Скрипт работает", "Скрипт не работает", "Спасибо", "Это срочно"),
        ("部署成功", "部署失败", "谢谢", "这很紧急"),
        ("デプロイが直った", "デプロイが失敗した", "ありがとう", "至急です"),
    ],
)
def test_events_are_felt_in_nine_languages(works: str, fails: str, thanks: str, hurry: str) -> None:
    assert [feelings_in(text) for text in (works, fails, thanks, hurry)] == [(R,), (E,), (S,), (U,)]
