"""A line that holds what its owner had forgotten is refused alone, and told without the words themselves."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import pytest
from graphs.eviction import evict as fade
from graphs.guard import FORGOTTEN, judge
from graphs.working_copy import WorkingCopy

from graphs import nodes
from state.codec import decode, encode
from state.document.document import parse
from state.document.operations import Action, Operation
from state.dream import Draft, Evidence, Kind, Snapshot, Usage
from state.forgetting.known import Known, Target, rows_of
from state.trust import Trust
from tests.graphs.world import (
    BOND,
    CONTEXT,
    Scripted,
    World,
    add,
    evict,
    memory,
    merge,
    note,
    ports,
    revise,
    run,
    said,
    snapshot,
    texts,
)

if TYPE_CHECKING:
    from graphs.graph_state import Dreaming

SALT = "5a" * 32
SECRET = "the harbour crane is 4711"
AT = datetime(2026, 3, 12, tzinfo=UTC)


def buried(text: str) -> Known:
    return Known(SALT, frozenset(rows_of(SALT, Target.of(text))))


def told(operation: Operation, world: Snapshot) -> tuple[bool, list[str]]:
    """Whether an operation gets through, and what is said of the others."""
    verdict = judge(world, Draft((operation,), author="scripted-1"))
    assert "4711" not in encode(verdict)
    return operation in verdict.operations, [f"{one.guard} ({one.scope}): {one.figures}" for one in verdict.refused]


OLD = memory(bond=["Anna keeps the harbour.", "Anna has the crane."])
NOTES = ("Anna keeps the harbour and its crane since May.", "Anna lives in Bonn.")


@pytest.mark.parametrize(
    "operation",
    [
        add(BOND, "Anna says the harbour crane is 4711.", "N1"),
        revise(BOND, "L1", "Anna keeps the harbour; **The HARBOUR** crane is 4711.", "N1"),
        merge(BOND, ["L1", "L2"], "Anna keeps the harbour: the harbour\u200b crane is 4711.", "N1"),
    ],
)
def test_a_line_that_holds_it_is_refused_alone_and_without_it_none_is(operation: Operation) -> None:
    notes = [note(number, text) for number, text in enumerate((*NOTES, f"I heard that {SECRET}"), 1)]
    world = snapshot(OLD, *notes[:2])
    veto = f"human veto (operation): {FORGOTTEN}"
    through, refusals = told(operation, replace(world, forgotten=buried(SECRET)))
    assert (through, refusals.count(veto)) == (False, 1)
    cited = replace(operation, cites=(*operation.cites, "N3"))
    other = replace(snapshot(OLD, *notes), forgotten=buried("something else altogether"))
    verdict = judge(other, Draft((cited,), author="scripted-1"))
    assert FORGOTTEN not in [one.figures for one in verdict.refused]


def test_the_other_nineteen_apply() -> None:
    facts = [f"Anna's friend number {number} is called {name}." for number, name in enumerate("ABCDEFGHIJKLMNOPQRS")]
    good = [add(BOND, text, f"N{number}") for number, text in enumerate(facts, 1)]
    bad = add(BOND, f"Anna says {SECRET}.", "N1")
    world = replace(snapshot("", *facts), forgotten=buried(SECRET))
    verdict = judge(world, Draft((*good[:9], bad, *good[9:]), author="scripted-1"))
    assert set(good) <= set(verdict.operations)
    assert [one.figures for one in verdict.refused] == [FORGOTTEN]
    assert verdict.refusal is None


def test_it_comes_first_so_that_no_other_reason_repeats_the_text() -> None:
    world = replace(snapshot("", NOTES[0]), forgotten=buried(SECRET))
    for operation in (add(BOND, SECRET), add(BOND, SECRET, SECRET), add(BOND, f"{SECRET} " * 40, "N1")):
        _, refusals = told(operation, world)
        assert refusals == [f"human veto (operation): {FORGOTTEN}"]
    _, refusals = told(add(BOND, "Anna keeps the harbour.", SECRET), world)
    assert len(refusals) == 1  # the id that does not exist is told without it


def test_a_counted_line_that_holds_it_is_not_written() -> None:
    skill = Evidence("S1", Kind.SKILL, f"{SECRET} → 80 %", 0.8, Trust.AGENT, AT)
    world = snapshot("", NOTES[0], evidence=(note(1, NOTES[0]), skill))
    verdict = judge(world, Draft((), author="scripted-1"))
    assert [one.text for one in verdict.operations] == [skill.text]
    verdict = judge(replace(world, forgotten=buried(SECRET)), Draft((), author="scripted-1"))
    assert [one.text for one in verdict.operations] == []


def test_a_line_leaves_under_a_topic_of_its_own() -> None:
    world = replace(snapshot(OLD, NOTES[0]), forgotten=buried(SECRET))
    operation = evict(BOND, "L1", f"Anna and the harbour: {SECRET}")
    verdict = judge(world, Draft((operation,), author="scripted-1"))
    (evicted,) = (one for one in verdict.operations if one.action is Action.EVICT)
    copy = WorkingCopy(world, verdict.operations, ())
    fade(world, copy, verdict.operations, World())
    assert evicted.lines == ("L1",)
    assert [pointer.topic for pointer in copy.pointers] == ["Anna keeps the harbour"]


def test_the_model_is_told_why_and_the_record_of_the_dream_does_not_say_it() -> None:
    world = World(snapshot=replace(snapshot(OLD, *NOTES), forgotten=buried(SECRET)))
    bad = {"op": "add", "section": "The Bond", "text": f"Anna: {SECRET}.", "cites": ["N1"]}
    good = {"op": "add", "section": "Active Context", "text": "Anna lives in Bonn.", "cites": ["N2"]}
    model = Scripted([said(bad), said(good, consumed=["N1"])])
    final = run(world, model)
    assert final["outcome"] == "committed"
    assert "human veto" in model.requests[1].user
    assert all("4711" not in request.user for request in model.requests)
    (dream,) = world.committed
    assert "Anna lives in Bonn." in texts(parse(dream.after), CONTEXT)
    assert "4711" not in encode(dream)


def test_an_insight_that_holds_it_is_none() -> None:
    secret = buried("The harbour stands in Bergen")
    said_of = [f"The bridge to host{n:02} lost its eigentrust score." for n in range(8)]
    said_of += [f"Anna drinks green tea from garden{n:02} in Japan." for n in range(5)]
    pieces = [note(at, text) for at, text in enumerate(said_of, 1)]
    good = {"text": "Bridges lose their score.", "cites": ["N1", "N2", "N3"]}
    held = {**good, "text": "Bridges lose their score, for the harbour stands in Bergen."}
    for given, forgotten, expected in ((good, secret, 1), (held, Known(), 1), (held, secret, 0)):
        world = snapshot("", *pieces, forgotten=forgotten)
        model = Scripted([json.dumps({"insights": [given]})])
        state = cast("Dreaming", {"snapshot": encode(world), "usage": encode(Usage())})
        step = nodes.reflect(state, ports=ports(World(), model))
        assert len(json.loads(step["insights"])) == expected
        richer = decode(Snapshot, step["snapshot"])
        assert len(richer.evidence) == len(pieces) + expected


def test_the_snapshot_goes_through_a_checkpoint_with_it() -> None:
    world = replace(snapshot(OLD, *NOTES), forgotten=buried(SECRET))
    assert decode(Snapshot, encode(world)) == world
