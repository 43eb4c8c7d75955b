"""Tests that have a short and a long variant; the long one runs with DREAMD_LONG=1."""

import os
from typing import Any

import pytest
from hypothesis import settings

_IS_LONG = os.environ.get("DREAMD_LONG") == "1"
_SHORTER = 3
_LONG = (
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not _IS_LONG, reason="the long variant runs with DREAMD_LONG=1"),
)


def variants(short: object, long: object) -> list[Any]:
    """Both, for `pytest.mark.parametrize`."""
    return [pytest.param(short, id="short"), pytest.param(long, id="long", marks=_LONG)]


def examples(count: int) -> settings:
    """So many examples of a law whose examples are costly in the long variant, a third of them in the short one."""
    return settings(max_examples=count if _IS_LONG else count // _SHORTER)
