"""Hostile folders that are adopted: what they brought runs nothing, and reads and writes nothing outside."""

from pathlib import Path

import pytest

from tests.redteam.house import OUTSIDE, Watch, holding, house, put
from tests.redteam.trying import ADOPTED, TRUST, chosen, kinds, run
from tests.support.long_variants import spread
from tests.support.scripted_model import ScriptedModel

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("kind", spread(kinds(3), 16))
def test_an_adopted_workspace_stays_in_its_folder(good: Path, model: ScriptedModel, kind: str) -> None:
    with house() as one:
        root = put(good, one)
        kinds()[kind](one, root)
        watch, held = Watch(one), holding(root)
        faults = run(one, watch, TRUST)
        for words in chosen(kind, ADOPTED, 3):
            faults += run(one, watch, words, **asking(model, kind))
        assert faults == []
        assert holding(root) - held == set()
        assert [request for request in model.requests if OUTSIDE in str(request)] == []


_LEADING_OUT = ("outside", "inside", "forged")


def asking(model: ScriptedModel, kind: str) -> dict[str, str]:
    """The model is asked where a text from outside might get into what it is told: that takes a second or two."""
    if not any(word in kind for word in _LEADING_OUT):
        return {}
    return {
        "DREAMD_MODEL__NAME": "openai/gpt-4o-mini",
        "DREAMD_MODEL__API_BASE": model.url,
        "DREAMD_MODEL__ON_FAILURE": "extractive",
    }
