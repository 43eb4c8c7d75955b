"""What a `git pull` or a clone brings into a folder runs nothing, and reads and writes nothing outside of it."""

from pathlib import Path

import pytest

from daemon.workspace.adoption import open_workspace
from tests.redteam.house import OUTSIDE, Watch, holding, house, put
from tests.redteam.places import TEXTS
from tests.redteam.trying import ALWAYS, chosen, kinds, run
from tests.support.long_variants import spread
from tests.support.scripted_model import ScriptedModel

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("kind", spread(kinds(), 30))
def test_a_workspace_stays_in_its_folder_whatever_is_put_there(good: Path, model: ScriptedModel, kind: str) -> None:
    with house() as one:
        root = put(good, one)
        kinds()[kind](one, root)
        watch, held = Watch(one), holding(root)
        faults = []
        for words in chosen(kind, ALWAYS, 3):
            faults += run(one, watch, words, **asking(model, kind))
        assert faults == []
        assert holding(root) - held == set()
        assert holding(one.folder / "data") == set()
        assert [request for request in model.requests if OUTSIDE in str(request)] == []


@pytest.mark.parametrize("kind", spread(TEXTS, 6))
def test_of_somebody_else_s_folder_nothing_is_used_before_init(good: Path, kind: str) -> None:
    with house() as one:
        root = put(good, one)
        for name in (one.folder / "data").glob("dreamd/*"):  # nothing is known of this folder
            name.rename(one.folder / f"old-{name.name}")
        kinds()[kind](one, root)
        watch = Watch(one)
        faults = []
        for words in (*ALWAYS, ("init", "{w}", "--no-daemon"), *ALWAYS):
            faults += run(one, watch, words)
        assert faults == []
        assert open_workspace(root, one.environment()).state.is_relative_to(one.folder / "data")


def asking(model: ScriptedModel, kind: str) -> dict[str, str]:
    """The model is asked where a text from outside might get into what it is told: that takes a second or two."""
    if not any(word in kind for word in ("outside", "inside", "earlier")):
        return {}
    return {
        "DREAMD_MODEL__NAME": "openai/gpt-4o-mini",
        "DREAMD_MODEL__API_BASE": model.url,
        "DREAMD_MODEL__ON_FAILURE": "extractive",
    }
