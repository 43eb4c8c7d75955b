"""Open questions, and when they are over."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.crystals.crystal import Crystal, Lifecycle, Origin
from state.signals.curiosity import Cause
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.hormones import Questions
from state.stores.database.connection import open_database

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
ONE = Crystal("Ada's office is in room 14", Origin.SCRATCH, AT)
OTHER = replace(ONE, text="Ada's office is in room 15")


@pytest.fixture
def crystals(tmp_path: Path) -> Iterator[Crystals]:
    connection = open_database(tmp_path / "state.db")
    found = Crystals(connection)
    found.upsert([ONE, OTHER])
    yield found
    connection.close()


@pytest.fixture
def questions(crystals: Crystals) -> Questions:
    return Questions(crystals.connection)


def _line(crystals: Crystals, id_: str, crystal: Crystal, fate: str = "") -> None:
    crystals.connection.execute(
        "INSERT INTO lines (id, section, text, crystal, importance, trust, born_in, born_at, died_in, fate)"
        " VALUES (?, 'The Bond', ?, '', .5, 'agent', 1, '', ?, ?)",
        (id_, crystal.text, 2 if fate else None, fate),
    )
    crystals.connection.execute("INSERT INTO evidence VALUES (?, 1, ?)", (id_, crystal.id))


def test_a_question_is_asked_again_only_when_something_was_written_since(
    crystals: Crystals, questions: Questions
) -> None:
    questions.raise_("Who owns billing?", Cause.QUESTION, AT)
    questions.raise_("What is known about: keys?", Cause.MISS, AT)
    questions.raise_("What next?", Cause.EXPLICIT, AT)
    assert questions.to_ask(5) == []
    crystals.upsert([replace(ONE, text="news")])
    asked = questions.to_ask(5)
    assert {(gap.question, after) for gap, after in asked} == {
        ("Who owns billing?", 2),
        ("What is known about: keys?", 2),
    }
    questions.asked(["Who owns billing?"], 3)
    assert [gap.question for gap, _ in questions.to_ask(5)] == ["What is known about: keys?"]
    questions.settle("what is known about: KEYS")
    assert questions.to_ask(5) == []
    assert len(questions.open(5)) == 2


def test_a_question_that_comes_up_again_was_not_answered_until_then(crystals: Crystals, questions: Questions) -> None:
    questions.raise_("Who owns billing?", Cause.QUESTION, AT)
    crystals.upsert([replace(ONE, text="news")])
    questions.raise_("who owns billing", Cause.MISS, AT)
    assert questions.to_ask(5) == []
    assert questions.open(5)[0].times == 2


def test_a_contradiction_is_raised_once_and_stays_while_both_stand(questions: Questions) -> None:
    assert questions.dispute("Which holds?", ONE.id, OTHER.id, AT)
    assert not questions.dispute("Which holds?", ONE.id, OTHER.id, AT)
    assert questions.settle_disputes() == 0
    (gap,) = questions.open(5)
    assert (gap.times, gap.cause) == (1, Cause.CONTRADICTION)
    assert questions.to_ask(5) == []


@pytest.mark.parametrize("gone", [ONE, OTHER])
def test_a_contradiction_with_what_was_forgotten_or_has_faded_is_over(
    crystals: Crystals, questions: Questions, gone: Crystal
) -> None:
    questions.dispute("Which holds?", ONE.id, OTHER.id, AT)
    crystals.set_lifecycle([gone.id], Lifecycle.ARCHIVED)
    assert questions.settle_disputes() == 1
    questions.dispute("Which holds?", ONE.id, OTHER.id, AT)
    crystals.remove([gone.id])
    assert questions.settle_disputes() == 1
    assert questions.open(5) == []


@pytest.mark.parametrize(("gone", "stands"), [(ONE, OTHER), (OTHER, ONE)])
def test_a_contradiction_is_over_when_a_dream_put_one_in_the_place_of_the_other(
    crystals: Crystals, questions: Questions, gone: Crystal, stands: Crystal
) -> None:
    questions.dispute("Which holds?", ONE.id, OTHER.id, AT)
    _line(crystals, "L1", gone, "revised")
    assert questions.settle_disputes() == 0
    _line(crystals, "L2", stands)
    assert questions.settle_disputes() == 1


def test_a_line_that_was_evicted_settles_nothing(crystals: Crystals, questions: Questions) -> None:
    questions.dispute("Which holds?", ONE.id, OTHER.id, AT)
    _line(crystals, "L1", ONE, "evicted")
    _line(crystals, "L2", OTHER)
    assert questions.settle_disputes() == 0
