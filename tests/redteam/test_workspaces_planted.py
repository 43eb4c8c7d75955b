"""A workspace of one's own into which something is put later (a `git pull` may bring anything): the same holds."""

from pathlib import Path

import pytest

from tests.redteam.house import OUTSIDE, Watch, holding, house, put
from tests.redteam.test_workspaces_adopted import asking
from tests.redteam.trying import ADOPTED, TRUST, chosen, kinds, run
from tests.support.long_variants import spread
from tests.support.scripted_model import ScriptedModel

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("kind", spread(kinds(2, 1), 20))
def test_what_comes_after_the_adoption_stays_in_its_folder(good: Path, model: ScriptedModel, kind: str) -> None:
    with house() as one:
        root = put(good, one)
        watch = Watch(one)
        assert run(one, watch, TRUST) == []
        kinds()[kind](one, root)
        watch, held = Watch(one), holding(root)
        faults = []
        for words in chosen(kind, ADOPTED, 3):
            faults += run(one, watch, words, **asking(model, kind))
        assert faults == []
        assert holding(root) - held == set()
        assert [request for request in model.requests if OUTSIDE in str(request)] == []
