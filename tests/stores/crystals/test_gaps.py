"""Open questions, and when they are over."""

from datetime import UTC, datetime, timedelta

from state.signals.curiosity import Cause
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.hormones import Questions

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
BILLING = "Who owns billing?"


def test_a_question_leaves_two_weeks_after_it_was_asked_last_whatever_raised_it(crystals: Crystals) -> None:
    questions = Questions(crystals.connection)
    for cause in Cause:
        questions.raise_(f"{cause}?", cause, AT)
    questions.raise_(BILLING, Cause.QUESTION, AT)
    questions.raise_("who owns billing", Cause.MISS, AT + timedelta(days=10))
    assert questions.sweep(AT + timedelta(days=14), 500) == 0
    assert questions.sweep(AT + timedelta(days=14, seconds=1), 500) == len(Cause)
    assert [(gap.question, gap.times) for gap in questions.open(9)] == [(BILLING, 2)]
    assert questions.sweep(AT + timedelta(days=25), 500) == 1
