"""Somebody with a home, a project, and the agents that are installed."""

from collections.abc import Iterator

import pytest

from tests.support.native_clients import Person, person
from tests.support.serving import at_home


@pytest.fixture
def ada() -> Iterator[Person]:
    """With a workspace that no agent is connected to, and that the next daemon keeps."""
    with at_home() as home:
        yield person(home)
