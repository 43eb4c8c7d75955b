"""How much a test does in `make test`, in `make test-rest` and with DREAMD_LONG=1, from least to most."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import settings

IS_LONG = os.environ.get("DREAMD_LONG") == "1"
# The max_examples of Hypothesis' profile `all`, used by `make test-rest`; counts of examples refer to it.
ALL_EXAMPLES = 100
_FEWEST_EXAMPLES = 6
_LONG = (
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not IS_LONG, reason="the long variant runs with DREAMD_LONG=1"),
)


def is_whole() -> bool:
    """Return whether this is `make test-rest`."""
    return settings().max_examples >= ALL_EXAMPLES


def variants(short: object, long: object) -> list[Any]:
    """Return both for `pytest.mark.parametrize`; the long ones take an hour in all, and run with DREAMD_LONG=1."""
    return [pytest.param(short, id="short"), pytest.param(long, id="long", marks=_LONG)]


def fewer(few: int, whole: int) -> int:
    """Return `few` in `make test` and `whole` in `make test-rest`."""
    return whole if is_whole() else few


def spread(cases: Iterable[Any], every_nth: int) -> list[Any]:
    """Return all cases for `pytest.mark.parametrize`; `make test` runs every n-th, `make test-rest` all."""
    return sample(cases, lambda number, _: number % every_nth == 0)


def sample(cases: Iterable[Any], runs: Callable[[int, Any], bool]) -> list[Any]:
    """Return all cases for `parametrize`; `make test` runs those for which `runs(number, case)` is true."""
    return [
        pytest.param(case, marks=() if runs(number, case) else pytest.mark.full) for number, case in enumerate(cases)
    ]


def examples(count: int, **more: Any) -> settings:
    """Return settings for `count` examples in `make test-rest`, and proportionally fewer in `make test`."""
    fewer = count * settings().max_examples // ALL_EXAMPLES
    return settings(max_examples=max(fewer, min(count, _FEWEST_EXAMPLES)), **more)
