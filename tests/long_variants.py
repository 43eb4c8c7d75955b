"""Tests that have a short and a long variant; the long one runs with DREAMD_LONG=1."""

import os
from typing import Any

import pytest

_LONG = (
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.environ.get("DREAMD_LONG") != "1", reason="the long variant runs with DREAMD_LONG=1"),
)


def variants(short: object, long: object) -> list[Any]:
    """Both, for `pytest.mark.parametrize`."""
    return [pytest.param(short, id="short"), pytest.param(long, id="long", marks=_LONG)]
