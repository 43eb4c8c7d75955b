"""What a text tells of, clause by clause."""

import pytest

from state.signals.felt import feelings_in
from state.signals.hormones import Feeling
from tests.support.cases import cases

CASES = cases(__file__)

R, E, S, A, U = Feeling.REWARD, Feeling.ERROR, Feeling.SOCIAL, Feeling.ACHIEVEMENT, Feeling.URGENCY


@pytest.mark.parametrize(
    ("text", "feelings"),
    [
        ("The migration works now!", (R,)),
        ("Finally fixed the CORS bug", (R,)),
        ("All tests pass", (R, A)),
        ("The user loves it", (R,)),
        ("Das Skript funktioniert", (R,)),
        ("The deploy failed with a traceback", (E,)),
        ("The build is broken", (E,)),
        ("We are stuck on the parser", (E,)),
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
        ("No reply\n\nIt is broken", (E,)),
    ],
)
def test_an_event_is_felt(text: str, feelings: tuple[Feeling, ...]) -> None:
    assert feelings_in(text) == feelings


@pytest.mark.parametrize(
    ("text", "feelings"),
    [
        *((text, (E,)) for text in CASES["what_does_not_work_is_an_error_and_no_reward"]),
        *((text, ()) for text in CASES["what_is_denied_is_not_felt"]),
        *((text, ()) for text in CASES["what_only_looks_like_an_event_is_not_felt"]),
    ],
)
def test_what_is_denied_asked_planned_or_only_looks_like_an_event_is_none(
    text: str, feelings: tuple[Feeling, ...]
) -> None:
    assert feelings_in(text) == feelings


@pytest.mark.parametrize(("works", "fails", "thanks", "hurry"), CASES["events_are_felt_in_nine_languages"])
def test_events_are_felt_in_nine_languages(works: str, fails: str, thanks: str, hurry: str) -> None:
    assert [feelings_in(text) for text in (works, fails, thanks, hurry)] == [(R,), (E,), (S,), (U,)]
