"""What a test does in `make test`, in `make test-all` and with DREAMD_LONG=1: each does more than the one before."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import settings

IS_LONG = os.environ.get("DREAMD_LONG") == "1"
# Of Hypothesis' profile `all`, which `make test-all` asks for: what the counts of examples are meant for.
ALL_EXAMPLES = 100
_FEWEST_EXAMPLES = 6
_LONG = (
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not IS_LONG, reason="the long variant runs with DREAMD_LONG=1"),
)


def is_whole() -> bool:
    """Whether this is `make test-all`."""
    return settings().max_examples >= ALL_EXAMPLES


def variants(short: object, long: object) -> list[Any]:
    """Both, for `pytest.mark.parametrize`: the long one takes an hour or so in sum, and runs with DREAMD_LONG=1."""
    return [pytest.param(short, id="short"), pytest.param(long, id="long", marks=_LONG)]


def fewer(few: int, whole: int) -> int:
    """What a test does in `make test`, and in `make test-all`."""
    return whole if is_whole() else few


def spread(cases: Iterable[Any], every_nth: int) -> list[Any]:
    """All of them, for `pytest.mark.parametrize`: `make test` runs every n-th, `make test-all` the others too."""
    return sample(cases, lambda number, _: number % every_nth == 0)


def sample(cases: Iterable[Any], runs: Callable[[int, Any], bool]) -> list[Any]:
    """The same, where the number and the case say what `make test` runs."""
    return [
        pytest.param(case, marks=() if runs(number, case) else pytest.mark.full) for number, case in enumerate(cases)
    ]


def examples(count: int, **more: Any) -> settings:
    """So many examples of a law in `make test-all`; in `make test` fewer, in the measure of Hypothesis' profile."""
    fewer = count * settings().max_examples // ALL_EXAMPLES
    return settings(max_examples=max(fewer, min(count, _FEWEST_EXAMPLES)), **more)
