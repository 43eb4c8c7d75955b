"""A line that holds what its owner had forgotten is refused alone, and told without the words themselves."""

from dataclasses import replace

import pytest

from graphs import talk
from graphs.checks import FORGOTTEN
from state.codec import encode
from state.document.operations import Action, Operation
from state.dream import Evidence, Kind, Snapshot
from state.trust import Trust
from tests.graphs.lives import buried
from tests.graphs.world import (
    BOND,
    CONTEXT,
    NOW,
    POINTERS,
    Scripted,
    add,
    evict,
    memory,
    merge,
    note,
    revise,
    run,
    said,
    snapshot,
    texts,
)

SECRET = "the harbour crane is 4711"
OLD = memory(bond=["Anna keeps the harbour.", "Anna has the crane."])
NOTES = ("Anna keeps the harbour and its crane since May.", "Anna lives in Bonn.")


def told(operation: Operation, world: Snapshot) -> list[str]:
    """What a model is told of an operation, without the text itself."""
    sheet = talk.heard(world, [{"role": "assistant", "content": said(operation)}])
    further = talk.reply(sheet, 1)
    assert further is None or "4711" not in further["content"]
    return [one.words for one in sheet.told]


@pytest.mark.parametrize(
    "operation",
    [
        add(BOND, "Anna says the harbour crane is 4711.", "N1"),
        revise(BOND, "L1", "Anna keeps the harbour; **The HARBOUR** crane is 4711.", "N1"),
        merge(BOND, ["L1", "L2"], "Anna keeps the harbour: the harbour\u200b crane is 4711.", "N1"),
        Operation(Action.LEARN, CONTEXT, f"In Bergen {SECRET}.", (), ("N1", "N2")),
    ],
)
def test_a_line_that_holds_it_is_refused_and_without_it_none_is(operation: Operation) -> None:
    world = snapshot(OLD, *NOTES)
    assert told(operation, replace(world, forgotten=buried(SECRET))) == [FORGOTTEN]
    (other,) = told(operation, replace(world, forgotten=buried("something else altogether")))
    assert other != FORGOTTEN


def test_the_other_nineteen_apply() -> None:
    facts = [f"Anna's friend number {number} is called {name}." for number, name in enumerate("ABCDEFGHIJKLMNOPQRS")]
    good = [add(BOND, text, f"N{number}") for number, text in enumerate(facts, 1)]
    world = replace(snapshot("", *facts), forgotten=buried(SECRET))
    answer = said(*good[:9], add(BOND, f"Anna says {SECRET}.", "N1"), *good[9:])
    sheet = talk.heard(world, [{"role": "assistant", "content": answer}])
    assert sum(one.applied for one in sheet.told) == 19
    assert [one.words for one in sheet.told if not one.applied] == [FORGOTTEN]


def test_no_other_reason_repeats_the_text() -> None:
    world = replace(snapshot("", NOTES[0]), forgotten=buried(SECRET))
    for operation in (add(BOND, SECRET), add(BOND, SECRET, SECRET), add(BOND, f"{SECRET} " * 40, "N1")):
        (words,) = told(operation, world)
        assert "4711" not in words
    # An operation that cannot be read is told by its beginning.
    answer = said({"op": "add", "section": SECRET, "text": SECRET})
    further = talk.reply(talk.heard(world, [{"role": "assistant", "content": answer}]), 1)
    assert further is not None
    assert "4711" not in further["content"]


def test_a_counted_line_that_holds_it_is_not_written() -> None:
    skill = Evidence("S1", Kind.SKILL, f"{SECRET} → 80 %", 0.8, Trust.AGENT, NOW)
    world = snapshot("", note(1, NOTES[0]), skill)
    assert [line.text for line in talk.begun(world).standing] == [skill.text]
    assert talk.begun(replace(world, forgotten=buried(SECRET))).standing == []


def test_a_line_leaves_under_a_topic_of_its_own() -> None:
    world = replace(snapshot(OLD, NOTES[0]), forgotten=buried(SECRET))
    ended = run(world, Scripted([said(evict(BOND, "L1", f"Anna and the harbour: {SECRET}"), consumed=["N1"])]))
    assert ended.dream is not None
    (pointer,) = texts(ended.dream.after, POINTERS)
    assert pointer.startswith("Anna keeps the harbour → search:")


def test_the_model_is_told_why_and_the_record_of_the_dream_does_not_say_it() -> None:
    bad = add(BOND, f"Anna: {SECRET}.", "N1")
    good = add(CONTEXT, "Anna lives in Bonn.", "N2")
    model = Scripted([said(bad), said(good, consumed=["N1"])])
    ended = run(replace(snapshot(OLD, *NOTES), forgotten=buried(SECRET)), model)
    assert ended.dream is not None
    told_to = [content for request in model.requests for role, content in request.messages if role == "user"]
    assert FORGOTTEN in told_to[-1]
    assert all("4711" not in one for one in told_to)
    assert "Anna lives in Bonn." in texts(ended.dream.after, CONTEXT)
    assert "4711" not in encode(ended.dream)
