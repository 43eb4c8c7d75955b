"""The good workspace that is spoiled, and a model: each made once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.redteam.house import grown
from tests.support.scripted_model import ScriptedModel, in_turn


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace that nobody of these tests has adopted under another path."""
    return grown(tmp_path_factory.mktemp("good") / "w").root


@pytest.fixture(scope="session")
def scripted() -> Iterator[ScriptedModel]:
    with ScriptedModel(in_turn("{}")) as server:
        yield server


@pytest.fixture
def model(scripted: ScriptedModel) -> ScriptedModel:
    """A model that answers nothing of use, and remembers what it was told in this test."""
    scripted.requests.clear()
    return scripted
