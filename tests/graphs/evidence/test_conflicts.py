"""A line that an input supersedes does not stay: a model is told, asked once more, and then code settles it."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from graphs.evidence.conflicts import conflicts, settled, unsettled
from graphs.extractive import extract
from graphs.guards import judge, settle
from graphs.synthesis import request
from state.document.operations import Action
from state.dream import Draft, Snapshot
from state.trust import Trust
from tests.graphs.world import BOND, CONTEXT, NOW, add, evict, memory, note, revise, snapshot

OLD, NEW = "The staging database runs on port 5433.", "The staging database runs on port 6000 now."
OTHER = "Ada prefers tea over coffee."


def world(*notes: str, old: str = OLD, **changes: object) -> Snapshot:
    return snapshot(memory(bond=[OTHER], context=[old]), *(notes or (NEW,)), **changes)


def test_an_input_with_another_value_is_in_conflict_with_the_line() -> None:
    (found,) = conflicts(world())
    assert (found.line.text, found.piece.text) == (OLD, NEW)
    assert str(found) == "N1 gives what L2 says another value: revise or merge L2"
    assert conflicts(world("The production cache has port 6000.")) == ()


def test_of_two_inputs_the_later_one_counts() -> None:
    later = replace(note(2, "The staging database runs on port 7000."), at=NOW)
    made = world()
    made = replace(made, evidence=(later, *made.evidence))
    assert [one.piece.text for one in conflicts(made)] == [later.text]


def test_what_the_store_knows_needs_no_words_in_common() -> None:
    made = world("Since Monday it is 6000 there")
    assert conflicts(made) == ()
    assert [one.line.id for one in conflicts(replace(made, superseded=(("L2", "N1"),)))] == ["L2"]


def test_what_was_said_before_the_line_is_no_news() -> None:
    made = world()
    early = replace(made.evidence[0], at=NOW - timedelta(days=30))
    assert conflicts(replace(made, evidence=(early,))) == ()


def test_a_page_and_a_pinned_line_make_no_conflict() -> None:
    assert conflicts(snapshot(memory(context=[OLD]), note(1, NEW, trust=Trust.WEB))) == ()
    made = world()
    pinned = tuple(replace(line, pinned=True) for line in made.lines)
    assert conflicts(replace(made, lines=pinned)) == ()


def test_a_model_is_told_of_the_conflict() -> None:
    assert "N1 gives what L2 says another value" in request(world(), ()).user
    assert "another value" not in request(world("Ada has a cat."), ()).user


@pytest.mark.parametrize("touching", [revise(CONTEXT, "L2", NEW, "N1"), evict(CONTEXT, "L2", "the old port")])
def test_an_operation_on_the_line_settles_it(touching: object) -> None:
    found = conflicts(world())
    assert unsettled(found, ()) == found
    assert unsettled(found, [touching]) == ()  # type: ignore[list-item]


def test_code_settles_what_is_left_in_the_words_of_the_input() -> None:
    made = world()
    (operation,) = settled(made, conflicts(made), (), {"N1": NEW})
    assert operation == revise(CONTEXT, "L2", NEW, "N1")


def test_an_addition_of_the_new_value_takes_the_place_of_the_old_line() -> None:
    made = world()
    operations = [add(BOND, "Ada has a cat.", "N1"), add(BOND, NEW, "N1")]
    found = settled(made, conflicts(made), operations, {"N1": NEW})
    assert found == (operations[0], revise(CONTEXT, "L2", NEW, "N1"))


def test_a_line_that_says_so_already_absorbs_the_old_one() -> None:
    made = snapshot(memory(context=[OLD, NEW]), NEW)
    known = replace(made, superseded=(("L1", "N1"),), evidence=made.evidence)
    (operation,) = settled(known, conflicts(known), (), {"N1": NEW})
    assert (operation.action, set(operation.lines), operation.text) == (Action.MERGE, {"L1", "L2"}, NEW)


def test_without_a_model_no_line_stays_beside_what_supersedes_it() -> None:
    made = replace(world("Since Monday it is 6000 there"), superseded=(("L2", "N1"),))
    verdict = judge(made, extract(made))
    after = settle(made, verdict, conflicts(made))
    assert unsettled(conflicts(made), after.operations) == ()
    assert verdict.refused == after.refused


def test_what_the_guards_refuse_of_it_leaves_the_draft_as_it_was() -> None:
    made = world()
    vetoed = replace(made, tombstones=(NEW,))
    verdict = judge(vetoed, Draft((add(BOND, "Ada has a cat.", "N1"),), author="scripted-1"))
    after = settle(vetoed, verdict, conflicts(vetoed))
    assert after.operations == verdict.operations
    assert [one.guard for one in after.refused[len(verdict.refused) :]] == ["human veto"]


def test_the_prompt_says_what_to_do() -> None:
    assert "What is newer holds" in request(world(), ()).system
    assert json.dumps(NEW) in request(world(), ()).user
