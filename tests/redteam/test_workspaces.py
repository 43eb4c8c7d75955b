"""Hostile folders, not adopted: no command changes a byte of one, runs a thing of it, or shows what lies outside."""

from pathlib import Path

import pytest

from tests.redteam.house import Watch, changes, everything, house, put
from tests.redteam.trying import READING, chosen, kinds, run
from tests.support.long_variants import spread

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("kind", spread(kinds(), 40))
def test_a_foreign_workspace_is_read_at_most(good: Path, kind: str) -> None:
    with house() as one:
        root = put(good, one)
        kinds()[kind](one, root)
        watch, before = Watch(one), everything(root)
        faults = []
        for words in chosen(kind, READING):
            faults += run(one, watch, words)
        assert faults == []
        assert changes(before, root) == []
