"""Hostile folders that are adopted: what they brought runs nothing, and reads and writes nothing outside."""

from pathlib import Path

import pytest

from tests.redteam.forking import Commands
from tests.redteam.house import OUTSIDE, Watch, holding, house, put
from tests.redteam.trying import ADOPTED, TRUST, chosen, kinds, run
from tests.scripted_model import ScriptedModel

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("kind", kinds())
def test_an_adopted_workspace_stays_in_its_folder(
    forking: Commands, good: Path, model: ScriptedModel, tmp_path: Path, kind: str
) -> None:
    with house(tmp_path) as one:
        root = put(good, one)
        kinds()[kind](one, root)
        watch, held = Watch(one), holding(root)
        faults = run(forking, one, watch, TRUST)
        for words in chosen(kind, ADOPTED):
            faults += run(forking, one, watch, words, **asking(model))
        assert faults == []
        assert holding(root) - held == set()
        assert [request for request in model.requests if OUTSIDE in str(request)] == []


def asking(model: ScriptedModel) -> dict[str, str]:
    return {
        "DREAMD_MODEL__NAME": "openai/gpt-4o-mini",
        "DREAMD_MODEL__API_BASE": model.url,
        "DREAMD_MODEL__ON_FAILURE": "extractive",
    }
