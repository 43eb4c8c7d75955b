"""A dream that is walked without LangGraph goes along the same edges, and ends as the compiled graph does."""

from itertools import pairwise

import pytest
from graphs.graph_state import Dreaming

from graphs.dream import FIRST, walk
from state.errors import StorageError
from tests.graphs.test_dream_graph import CHESS, CUT_OFF, UNCITED, drawn_edges, world
from tests.graphs.world import NOW, Scripted, ports, run


@pytest.mark.parametrize(
    "answers",
    [None, [CHESS], [UNCITED, CHESS], [UNCITED, UNCITED, UNCITED], [CUT_OFF, CUT_OFF, CUT_OFF], ["no JSON", CHESS]],
    ids=["no model", "good", "again", "never", "cut off", "unreadable"],
)
def test_a_walk_ends_as_the_compiled_graph_does(answers: list[str] | None) -> None:
    compiled = run(world(), Scripted(answers) if answers else None)
    here, way = ports(world(), Scripted(answers) if answers else None), [FIRST]
    state = Dreaming(dream="20260312T143000Z", reason="manual", now=NOW.isoformat())
    for node, step, following in walk(here, state):
        assert node == way[-1]
        state = {**state, **step}
        way.append(following)
    assert state == compiled
    assert set(pairwise(["__start__", *way])) <= drawn_edges()


def test_a_walk_does_not_begin_at_a_node_that_there_is_not() -> None:
    with pytest.raises(StorageError, match=r"no node 'os\.system'"):
        next(walk(ports(world()), Dreaming(), "os.system"))
