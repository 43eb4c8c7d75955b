"""The graph of a dream: its loops, and a real run of it over a small world."""

from dataclasses import replace
from typing import Any

import pytest

from graphs import talk
from graphs.dream import UNSAID
from graphs.extractive import EXTRACTIVE
from state.changes.change import CurrentLine
from state.document.seed import appended
from state.dream import Evidence, Kind
from state.errors import CeilingError, ModelError
from state.signals.felt import Felt, feelings_in
from state.signals.hormones import Feeling, Hormones
from state.trust import Trust
from tests.graphs.world import (
    BOND,
    CONTEXT,
    NOW,
    Scripted,
    World,
    add,
    evict,
    memory,
    run,
    said,
    snapshot,
    spoken,
    texts,
)

TEXT = memory(
    bond=["Anna prefers short answers.", "Anna lives in Bonn."],
    context=["The importer fails on empty rows.", "The release is planned for Friday."],
)
READ = snapshot(TEXT, "Anna plays chess.")
CHESS = said(add(BOND, "Anna plays chess.", "N1"))
UNCITED = said(add(BOND, "Anna plays chess."))
CUT_OFF = spoken(CHESS[:40], "length")


# A good dream


def test_a_good_answer_is_committed() -> None:
    here, model = World(), Scripted([CHESS])
    ended = run(READ, model, world=here)
    (dream,) = here.committed
    assert (ended.dream, ended.refused, ended.why) == (dream, (), "")
    assert texts(dream.after, BOND) == ["Anna plays chess.", "Anna prefers short answers.", "Anna lives in Bonn."]
    assert (dream.author, dream.taken, dream.seconds) == ("scripted-1", (1,), 3)
    assert (dream.usage.calls, dream.usage.tokens, dream.usage.usd) == (1, 120, 0.001)
    assert dream.usage.prompts == (talk.prompt().label,)
    assert [crystal.text for crystal in dream.crystals] == ["Anna plays chess."]
    (request,) = model.requests
    assert [role for role, _ in request.messages] == ["system", "user"]


def test_without_a_model_or_news_none_is_asked() -> None:
    ended = run(READ)
    assert ended.dream is not None
    assert (ended.dream.author, ended.dream.usage.calls) == (EXTRACTIVE, 0)
    assert "Anna plays chess." in ended.dream.after
    model = Scripted([CHESS])
    run(snapshot(TEXT), model)
    run(replace(READ, unasked=("N1",)), model)
    assert model.requests == []


def test_a_model_may_say_that_nothing_is_worth_a_line_and_a_note_it_passes_over_comes_again() -> None:
    read = snapshot(TEXT, "Anna plays chess.", "The weather is fine.", "It rains.")
    ended = run(read, Scripted([said(add(BOND, "Anna plays chess.", "N1"), consumed=["N2"])]))
    assert ended.dream is not None
    assert (ended.dream.taken, ended.dream.waiting) == ((1, 2), 1)
    nothing = run(read, Scripted([said(consumed=["N1", "N2", "N3"])])).dream
    assert nothing is not None
    assert (nothing.changes, nothing.taken) == ((), (1, 2, 3))


def test_an_answer_that_takes_nothing_in_ends_the_dream_and_its_notes_stay_pending() -> None:
    here = World()
    ended = run(READ, Scripted([said()]), world=here)
    assert (ended.dream, ended.why, here.committed) == (None, UNSAID, [])
    model = Scripted([UNCITED])
    refused = run(READ, model, world=here)
    assert (refused.dream, here.committed, len(model.requests)) == (None, [], talk.MOST_ANSWERS)
    assert [one.guard for one in refused.refused].count("citation") == 1


def test_important_notes_that_no_model_is_asked_of_any_more_become_lines_of_their_own() -> None:
    read = snapshot(TEXT, "Anna plays chess.", "Anna moved.", "Hm, well.")
    important = [replace(one, importance=0.9) if one.id == "N2" else one for one in read.evidence]
    read = replace(read, evidence=tuple(important), unasked=("N2", "N3"))
    ended = run(read, Scripted([CHESS]))
    assert ended.dream is not None
    assert texts(ended.dream.after, CONTEXT)[0] == "Anna moved."
    assert "Hm" not in ended.dream.after
    assert ended.dream.taken == (1, 2, 3)


# What was felt

FELT = {
    Feeling.ERROR: Felt(((Feeling.ERROR, "the deploy failed"),), Hormones(0.15, 0.9, 0.2, NOW)),
    Feeling.ACHIEVEMENT: Felt(((Feeling.ACHIEVEMENT, "it is live"),), Hormones(0.9, 0.02, 0.2, NOW)),
    Feeling.SOCIAL: Felt(((Feeling.SOCIAL, "thank you"),), Hormones(0.15, 0.02, 0.9, NOW)),
}
TOLD = [
    "The deploy failed with an error.", "Milestone reached: the importer is live.", "Anna said thank you for it.",
    "Pytest crashed on old Python.", "Release 4 is shipped, a success.", "Ben is grateful that logs are short.",
    "CORS is broken again.", "We achieved green builds.", "Carla wrote: I appreciate your help.",
]  # fmt: skip


@pytest.mark.parametrize("has_model", [True, False])
def test_of_the_same_notes_those_stay_that_tell_what_was_felt_that_day(has_model: bool) -> None:  # noqa: FBT001
    answer = said(*(add(CONTEXT, text, f"N{at}") for at, text in enumerate(TOLD, 1)))
    files = {}
    for feeling, felt in FELT.items():
        dream = run(snapshot("", *TOLD, felt=felt, budget=400), Scripted([answer]) if has_model else None).dream
        assert dream is not None
        files[feeling] = set(texts(dream.after, CONTEXT))
        assert {one for one in TOLD if feeling in feelings_in(one)} <= files[feeling] < set(TOLD)
    assert len(set(map(frozenset, files.values()))) == 3


# Refused, and again


@pytest.mark.parametrize("bad", ["I am sorry.", UNCITED, CUT_OFF, spoken("", "length"), "{}", "# A title\n\nprose"])
def test_a_refused_answer_is_asked_for_again_with_the_reason(bad: str) -> None:
    model = Scripted([bad, CHESS])
    ended = run(READ, model)
    assert ended.dream is not None
    assert "Anna plays chess." in ended.dream.after
    first, second = model.requests
    assert second.messages[:2] == first.messages
    assert [role for role, _ in second.messages[2:]] == ["assistant", "user"]
    assert "These were refused:" in second.messages[-1][1]
    assert (ended.dream.usage.calls, bool(ended.dream.refused)) == (2, True)


@pytest.mark.parametrize("bad", [CUT_OFF, "I am sorry.", spoken("", "stop")])
def test_after_three_answers_that_cannot_be_read_the_old_state_stands_or_code_dreams(bad: str) -> None:
    skill = Evidence("S1", Kind.SKILL, "Testing → Confidence: 90% | Occurrences: 9", 0.9, Trust.AGENT, NOW)
    read = replace(READ, evidence=(*READ.evidence, skill))
    here, model = World(), Scripted([bad])
    ended = run(read, model, world=here)
    assert (ended.dream, here.committed, len(model.requests)) == (None, [], talk.MOST_ANSWERS)
    assert ended.why
    assert len({request.messages[-1][1] for request in model.requests}) == 3
    other = run(read, Scripted([bad]), "extractive")
    assert other.dream is not None
    assert (other.dream.author, other.dream.usage.calls) == (EXTRACTIVE, 3)
    assert "Anna plays chess." in other.dream.after


def test_a_model_that_has_to_choose_who_leaves_is_asked_again_and_its_choice_counts() -> None:
    read = replace(READ, budget=290)
    model = Scripted([CHESS, said(evict(CONTEXT, "L4", "The release"))])
    ended = run(read, model)
    assert "If you choose nothing, these leave, in this order:" in model.requests[1].messages[-1][1]
    assert ended.dream is not None
    assert "The release is planned for Friday." not in texts(ended.dream.after, CONTEXT)


@pytest.mark.parametrize("calls", [0, 1])
def test_a_model_that_fails_ends_the_dream_or_is_replaced(calls: int) -> None:
    answers: list[Any] = [*[CUT_OFF] * calls, ModelError("not there")]
    here = World()
    with pytest.raises(ModelError, match="not there"):
        run(READ, Scripted(answers), world=here)
    assert here.committed == []
    ended = run(READ, Scripted(answers), "extractive")
    assert ended.dream is not None
    assert (ended.dream.author, ended.dream.usage.calls) == (EXTRACTIVE, calls)
    assert ended.dream.problems == ("the model failed, extractive instead: not there",)
    for on_failure in ("keep", "extractive"):
        with pytest.raises(CeilingError):
            run(READ, Scripted([*[CUT_OFF] * calls, CeilingError("5 calls")]), on_failure, here)
    assert here.committed == []


def test_a_model_that_fails_after_it_has_said_something_loses_nothing_it_said() -> None:
    model = Scripted([said(add(BOND, "Anna plays chess.", "N1"), add(BOND, "x")), ModelError("gone")])
    ended = run(READ, model, "extractive")
    assert ended.dream is not None
    assert "Anna plays chess." in ended.dream.after


# Old text


@pytest.mark.parametrize(("repeats", "leaves"), [(5, True), (40, False)])
def test_old_text_leaves_its_place_for_a_line_that_is_not_much_shorter(repeats: int, leaves: bool) -> None:  # noqa: FBT001
    names = ["apollo", "beagle", "cassini", "dragon", "encke"]
    said_once = [f"Chapter {n}: {name}. " + f"Its {name} detail is long. " * repeats for n, name in enumerate(names)]
    text = appended("\n\n".join(said_once) + "\n", memory(bond=["Anna lives in Bonn."]))
    old = [one.strip() for one in said_once]
    lines = tuple(
        CurrentLine(f"T{n}", CONTEXT, one, 0.7, Trust.OWNER, NOW, above=True) for n, one in enumerate(old, 1)
    )
    pieces = [Evidence(f"T{n}", Kind.OLD_TEXT, one, 0.7, Trust.OWNER, NOW, f"c{n}") for n, one in enumerate(old, 1)]
    read = snapshot(text, *pieces, old_text=lines, budget=20_000)
    answer = said(
        *(add(CONTEXT, f"Chapter {n} is about the {name} project and its long {name} detail.", f"T{n + 1}") for
          n, name in enumerate(names))
    )  # fmt: skip
    dream = run(read, Scripted([answer])).dream
    assert dream is not None
    assert len(texts(dream.after, CONTEXT)) == len(names)
    for one in old:
        assert (one not in dream.after) is leaves
        assert (one in {crystal.text for crystal in dream.crystals}) is leaves
