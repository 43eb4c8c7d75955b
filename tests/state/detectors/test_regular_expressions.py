"""No regular expression has so many ways to read a run that a short text takes it long."""

import random
import re

import pytest

from tests.state.detectors.regular_expressions import attacks, every_expression
from tests.state.detectors.timing import seconds

# Repeated characters; with two ways to read each pair, the time grows by half with every one of them.
LENGTHS: tuple[int, ...] = (*range(12, 48, 4), 48, 64, 96, 128)
MOST_SECONDS = 0.1
TRIES = 3


def test_no_expression_takes_exponential_time() -> None:
    found = every_expression()
    assert len(found) > 300
    chance = random.Random(14)
    slow = {name: text for name, expression in found.items() if (text := slow_text(expression, chance))}
    assert slow == {}


@pytest.mark.full
@pytest.mark.parametrize(
    "source",
    [
        r"user: (?:[xX*]{2,}[-_]?){2,}",
        r"\w+(?:[./_-]\w+)+",
        r"(?:[a-z]{2,12}|[㐀-鿿])(?:(?:[ ,.]|\d{1,2}[.:]?){1,6}(?:[a-z]{2,12}|[㐀-鿿])){10,25};",
    ],
)
def test_an_expression_that_takes_exponential_time_is_found_out(source: str) -> None:
    assert slow_text(re.compile(source), random.Random(14))


def slow_text(expression: re.Pattern[str], chance: random.Random) -> str:
    """A short text that takes the expression long; "" when none is found."""
    for before, part, end in attacks(expression, chance):
        for length in LENGTHS if part else ():
            text = before + part * (length // len(part) + 1) + end
            if all(
                seconds(lambda one: _looked(expression, one), text, forget=False) > MOST_SECONDS for _ in range(TRIES)
            ):
                return text
    return ""


def _looked(expression: re.Pattern[str], text: str) -> None:
    expression.fullmatch(text)
    expression.search(text)
