"""No regular expression has so many ways to read a run that a short text takes it long."""

import random
import re
import time

from tests.state.detectors.regular_expressions import attacks, every_expression

# Repeated characters; with two ways to read each pair, the time grows by half with every one of them.
LENGTHS = (12, 20, 28, 36, 48, 64, 96, 128)
MOST_SECONDS = 0.1


def test_no_expression_takes_exponential_time() -> None:
    found = every_expression()
    assert len(found) > 300
    chance = random.Random(14)
    slow = {}
    for name, expression in found.items():
        for before, part, end in attacks(expression, chance):
            for length in LENGTHS if part else ():
                text = before + part * (length // len(part) + 1) + end
                if min(_seconds(expression, text, times) for times in (1, 2)) > MOST_SECONDS:
                    slow[name] = text
                    break
    assert slow == {}


def test_an_expression_that_takes_exponential_time_is_found_out() -> None:
    expression = re.compile(r"user: (?:[xX*]{2,}[-_]?){2,}")
    assert any(
        _seconds(expression, before + part * (30 // len(part)) + end, 1) > 10 * _seconds(expression, part * 9, 1)
        for before, part, end in attacks(expression, random.Random(1))
        if part
    )


def _seconds(expression: re.Pattern[str], text: str, times: int) -> float:
    """The shortest of several times that the processor took for one look."""
    took = []
    for _ in range(times):
        began = time.process_time()
        expression.fullmatch(text)
        expression.search(text)
        took.append(time.process_time() - began)
        if took[-1] <= MOST_SECONDS:
            break
    return min(took)
