"""A home for the daemons of journeys."""

from collections.abc import Iterator

import pytest

from tests.support.serving import Home, at_home


@pytest.fixture
def home() -> Iterator[Home]:
    with at_home() as one:
        yield one
