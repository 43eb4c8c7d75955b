"""A whole document that leaves out most lines: nothing leaves for it, and a note that it leaves out stays pending."""

import pytest

from tests.graphs.test_dream_graph import refusals, world
from tests.graphs.world import Scripted, memory, run


@pytest.mark.parametrize("left", [0, 1])
def test_a_note_that_a_document_of_few_lines_leaves_out_stays_pending(left: int) -> None:
    kept = memory(bond=["Anna prefers short answers.", "Anna lives in Bonn."][:left])
    here, model = world("Anna plays chess."), Scripted([kept])
    state = run(here, model)
    assert state["outcome"] == "refused"
    assert here.committed == []
    assert len(model.requests) == 3
    assert {one.guard for one in refusals(state)} == {"omission"}
    assert "leaves out" in model.requests[1].user


def test_a_document_of_few_lines_that_takes_in_the_note_adds_it_and_nothing_leaves() -> None:
    here = world("Anna plays chess.")
    run(here, Scripted([memory(bond=["Anna plays chess."])]))
    (dream,) = here.committed
    assert dream.deaths == ()
    assert "Anna plays chess." in dream.after
