"""What applies, what its owner is asked, and what is refused in words that say what would be accepted."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs import talk
from graphs.sheet import ASKED_ALREADY, CHANGED, EVICTIONS, THIRD, TIDIED, Sheet, Told
from state.crystals.crystal import Crystal, Origin
from state.document.asking import Ask, Heard
from state.document.document import parse, render
from state.document.operations import Action, Operation, Why
from state.dream import Evidence, Kind, Snapshot, Usage
from state.trust import Trust
from tests.graphs.world import (
    BOND,
    CONTEXT,
    GAPS,
    NICHE,
    NOW,
    POINTERS,
    SKILLS,
    add,
    evict,
    memory,
    merge,
    note,
    revise,
    said,
    snapshot,
    standing,
    texts,
)
from tests.support.long_variants import examples

TEXT = memory(
    phenotype=["The agent prefers small commits."],
    bond=["Anna prefers short answers.", "Anna lives in Bonn.", "Anna never works on Sundays. 📌"],
    context=["The importer fails on empty rows.", "The release is planned for Friday."],
    pointers=["CORS debugging → search: `cors eigentrust`"],
    gaps=["Who owns the DNS zone?"],
    skills=["Refactoring → Confidence: 80% | Occurrences: 4"],
)
ANSWERS, BONN, PINNED, IMPORTER, PLANNED, POINTER, DNS, SKILL = (f"L{number}" for number in range(2, 10))
MANY = memory(context=[f"Service number{n} runs on host{n}." for n in range(60)])
CORS = Crystal("CORS fails since eigentrust is asked first.", Origin.LINE, NOW, importance=0.7)
COFFEE = revise(BOND, ANSWERS, "Anna prefers long answers.", "N1")


def read(text: str = TEXT, *notes: str | Evidence, **changes: Any) -> Snapshot:
    lines = tuple(replace(one, crystal=CORS.id) if one.section is POINTERS else one for one in standing(parse(text)))
    return snapshot(text, *(notes or ("Anna plays chess.",)), **{"lines": lines, "pointed": (CORS,)} | changes)


def heard(world: Snapshot, *operations: Operation, consumed: tuple[str, ...] = ()) -> Sheet:
    """The sheet after one answer with these operations."""
    return talk.heard(world, [{"role": "assistant", "content": said(*operations, consumed=consumed)}])


def told(operation: Operation, *notes: str | Evidence, **changes: Any) -> Told:
    (one,) = heard(read(TEXT, *notes, **changes), operation).told
    return one


def of(action: Action, *lines: str, section: Any = BOND, text: str = "", cites: tuple[str, ...] = ()) -> Operation:
    return Operation(action, section, text, lines, cites)


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (
            add(BOND, "Anna plays chess."),
            "a new line cites at least one input, or the line that it is a part of; cite the one that says so",
        ),
        (add(BOND, "Anna plays chess.", "N9"), "there is no N9"),
        (add(BOND, "Anna lives with Ben.", BONN), "no line of it says 'Ben'; cite the input that does"),
        (revise(BOND, "L99", "Anna plays chess.", "N1"), "there is no L99"),
        (of(Action.LEARN, text="Anna thinks.", cites=("N1",)), "an insight cites at least two inputs"),
        (revise(BOND, PINNED, "Anna works.", PINNED), "L4 is pinned by the owner; leave it as it is"),
        (evict(BOND, PINNED, "Sundays"), "L4 is pinned by the owner; leave it as it is"),
        (of(Action.MOVE, PINNED, section=CONTEXT), "L4 is pinned by the owner; leave it as it is"),
        (add(POINTERS, "Chess is found.", "N1"), "Crystal Pointers is written by the program; leave it"),
        (add(NICHE, "Anna sold a board.", "N1"), "The Niche is written by the program; leave it"),
        (evict(SKILLS, SKILL, "skills"), "Emerging Skills is written by the program; leave it"),
        (of(Action.MOVE, POINTER, section=CONTEXT), "Crystal Pointers is written by the program; leave it"),
        (of(Action.MOVE, BONN, section=SKILLS), "Emerging Skills is written by the program; leave it"),
        (of(Action.MOVE, BONN, section=BOND), "L3 stands there already"),
        (of(Action.RECALL, BONN, section=CONTEXT), "L3 is no pointer; recall names a line of Crystal Pointers"),
        (of(Action.MERGE, BONN, text="Anna lives in Bonn!"), "merge names two lines or more, not 1"),
        (add(BOND, "TBD", "N1"), "no content; say something or leave it out"),
        (add(BOND, "\u200b", "N1"), "no content; say something or leave it out"),
        (add(BOND, "Anna says so. " * 60, "N1"), "839 characters, at most 600; say it shorter, or in two lines"),
        (
            revise(BOND, BONN, "Anna lives in Cologne.", BONN),
            "no line of it says 'Cologne'; cite the input that does",
        ),
        (merge(CONTEXT, [IMPORTER, PLANNED], "12 rows fail."), "no line of it says '12'; cite the input that does"),
    ],
)
def test_a_refusal_says_what_would_be_accepted(operation: Operation, words: str) -> None:
    one = told(operation)
    assert (one.words, one.mend, one.applied, one.asks) == (words, True, False, False)


def test_what_stands_already_is_no_fault_and_its_note_is_taken_in() -> None:
    sheet = heard(read(), add(BOND, "anna prefers SHORT answers", "N1"))
    assert [(one.words, one.mend) for one in sheet.told] == [("L2 says so already", False)]
    assert sheet.heard == {"N1"}


def test_what_the_owner_deleted_is_not_written_again_unless_it_is_nearer_to_what_the_owner_wrote() -> None:
    deleted = "Anna's birthday is on the 3 May."
    again = add(BOND, "Anna's birthday is on 3 May.", "N1")
    assert told(again, tombstones=(deleted,)).words == "the owner deleted this line; leave it out"
    assert told(add(BOND, "Anna's birthday is on 4 May.", "N1"), tombstones=(deleted,)).applied
    own = memory(bond=["Anna's birthday is 3 May, she says."])
    nearer = add(BOND, "Anna's birthday is 3 May, says she!", "N1")
    assert heard(read(own, tombstones=(deleted,), handwritten=("L1",)), nearer).told[0].applied


# What each operation does


def test_each_kind_of_operation_does_what_it_says() -> None:
    world = read(TEXT, "Anna moved to Köln.", "Ben owns the zone.")
    sheet = heard(
        world,
        replace(add(CONTEXT, "Anna is away until Friday.", "N1"), until="2026-03-20", importance=0.8),
        revise(BOND, BONN, "Anna lives in Köln.", "N1"),
        of(Action.MOVE, ANSWERS, section=CONTEXT),
        of(Action.CLOSE, DNS, cites=("N2",)),
        of(Action.RECALL, POINTER, section=CONTEXT),
        of(Action.LEARN, text="Moves cost a week.", cites=("N1", "N2")),
        replace(evict(CONTEXT, IMPORTER, ""), pointer=False),
    )
    assert [one.applied for one in sheet.told] == [True] * 7
    after = render(sheet.document)
    assert texts(after, BOND) == ["Anna lives in Köln.", "Anna never works on Sundays."]
    assert texts(after, CONTEXT) == [
        "Anna prefers short answers.", CORS.text, "Anna is away until Friday.", "The release is planned for Friday.",
    ]  # fmt: skip
    assert texts(after, GAPS) == texts(after, POINTERS) == []
    away = sheet.find("Anna is away until Friday.")
    assert away is not None
    assert (away.until, away.importance, away.trust) == ("2026-03-20", 0.8, Trust.AGENT)
    dream = sheet.dream("scripted", Usage(), 0.0)
    (insight,) = [one for one in dream.crystals if one.origin is Origin.DREAM]
    assert (insight.text, len(insight.parents)) == ("Moves cost a week.", 2)
    assert dream.taken == (1, 2)


def test_a_line_is_moved_with_another_text_and_a_pointer_reworded_in_one_operation() -> None:
    moved = replace(revise(CONTEXT, BONN, "Anna lives in Bonn, for now."), cites=())
    reworded = replace(of(Action.REVISE, POINTER, section=POINTERS, text="CORS"), keywords="cors fails")
    sheet = heard(read(), moved, reworded)
    assert [one.applied for one in sheet.told] == [True, True]
    after = render(sheet.document)
    assert texts(after, BOND) == ["Anna prefers short answers.", "Anna never works on Sundays."]
    assert texts(after, CONTEXT)[0] == "Anna lives in Bonn, for now."
    assert texts(after, POINTERS) == ["CORS → search: `cors fails`"]
    (pointer,) = [one for one in sheet.standing if one.section is POINTERS]
    assert pointer.crystal == CORS.id
    for action in (Action.EVICT, Action.CLOSE):
        assert texts(render(heard(read(), of(action, POINTER, section=POINTERS)).document), POINTERS) == []


def test_to_weigh_a_line_changes_neither_its_words_nor_its_birth() -> None:
    before = read().lines[1]
    sheet = heard(read(), replace(of(Action.WEIGH, ANSWERS), importance=0.9, until="2026-04-02"))
    (line,) = [one for one in sheet.standing if one.text == before.text]
    assert line == replace(before, id=line.id, importance=0.9, until="2026-04-02")
    assert render(sheet.document) == TEXT
    again = heard(read(), replace(of(Action.WEIGH, ANSWERS), until="2026-04-02"))
    assert [one.importance for one in again.standing if one.until] == [before.importance]


@pytest.mark.parametrize(
    ("came_from", "asked", "section"),
    [("The Bond", POINTERS, BOND), ("", POINTERS, CONTEXT), ("Crystal Pointers", POINTERS, CONTEXT),
     ("The Bond", CONTEXT, CONTEXT)],
)  # fmt: skip
def test_what_is_recalled_goes_back_to_its_section(came_from: str, asked: Any, section: Any) -> None:
    sheet = heard(read(pointed=(replace(CORS, context=came_from),)), of(Action.RECALL, POINTER, section=asked))
    line = sheet.find(CORS.text)
    assert line is not None
    assert (line.section, line.importance) == (section, CORS.importance)


HALVES = [
    (f"Server{n} runs nginx with brotli on Debian.", f"Ben pays 1{n} euros monthly for it, by card.")
    for n in range(9)
]


@pytest.mark.parametrize("count", [7, 8, 9])
def test_a_line_that_is_split_in_two_loses_nothing(count: int) -> None:
    text = memory(context=[" ".join(one) for one in HALVES[:count]])
    lines = tuple(replace(one, trust=Trust.OWNER, crystal=f"c{one.id}") for one in standing(parse(text), 0.8))
    firsts = [replace(revise(CONTEXT, f"L{n}", first), cites=()) for n, (first, _) in enumerate(HALVES[:count], 1)]
    parts = [add(BOND, second, f"L{n}") for n, (_, second) in enumerate(HALVES[:count], 1)]
    sheet = heard(read(text, lines=lines), *firsts, *parts)
    beyond = max(0, count - TIDIED)
    assert [one.applied for one in sheet.told] == [True] * (2 * count - beyond) + [False] * beyond
    said_so = [one for one in sheet.standing if one.section is BOND]
    assert {(one.text, one.trust, one.importance) for one in said_so} == {
        (second, Trust.OWNER, 0.8) for _, second in HALVES[:count]
    }
    assert {change.evidence for change in sheet.changes if change.why is Why.ADDED} == {
        (one.crystal,) for one in lines
    }
    alone = heard(read(text, lines=lines), *firsts)
    assert sum(not one.applied for one in alone.told) == count - CHANGED


@st.composite
def unlike(draw: st.DrawFn) -> list[Operation]:
    """An answer in which no two operations of a kind concern the same lines or say the same."""
    found = list[Operation]()
    names = st.integers(1, 24).map(lambda n: f"L{n}")
    for action in Action:
        free = draw(st.lists(names, max_size=2, unique=True))
        if action in (Action.ADD, Action.LEARN):
            cites = draw(st.sampled_from([("N1",), ("N1", "N2"), ("L3",), ("L99",), ()]))
            new = [f"{text} of {action}." for text in ("Tea", "Cake")[: len(free)]]
            found += [Operation(action, BOND, text, (), cites) for text in new]
        elif action is Action.MERGE:
            found += [merge(CONTEXT, free, " ".join(f"Merged {one}." for one in free))] if free else []
        else:
            cites = draw(st.sampled_from([(), ("N2",), ("N9",)]))
            section = draw(st.sampled_from([BOND, CONTEXT, POINTERS]))
            asked = [Operation(action, section, f"The {action} of {one}.", (one,), cites, 0.7) for one in free]
            found += [replace(one, pointer=False) for one in asked]
    return found


@examples(200)
@given(unlike(), st.data())
def test_the_order_of_an_answer_decides_nothing(answer: list[Operation], data: st.DataObject) -> None:
    text = memory(
        bond=["Anna never works on Sundays. 📌", "Anna lives in Bonn."],
        context=[f"Service number{n} runs on host{n}." for n in range(21)],
        pointers=["CORS debugging → search: `cors eigentrust`"],
    )
    ask = data.draw(st.sampled_from(Ask))

    def came_of(operations: Sequence[Operation]) -> tuple[object, ...]:
        sheet = heard(read(text, "Anna has tea.", "Ben has cake.", ask=ask), *operations)
        stand = {(one.section, one.text, one.importance, one.until, one.trust, one.pinned) for one in sheet.standing}
        told = {(one.operation, one.applied, one.asks, one.mend) for one in sheet.told}
        return stand, told, len(sheet.told), {one.text for one in sheet.learnt}, sheet.heard

    assert came_of(data.draw(st.permutations(answer))) == came_of(answer)


def test_a_pointer_that_leads_to_nothing_is_not_recalled() -> None:
    one = told(of(Action.RECALL, POINTER, section=CONTEXT), pointed=())
    assert (one.words, one.mend) == ("what it leads to is no longer there", True)


def test_a_line_that_is_recalled_comes_without_its_secret() -> None:
    key = "sk-ant-api03-" + "a1B2" * 20
    one = told(of(Action.RECALL, POINTER, section=CONTEXT), pointed=(replace(CORS, text=f"The key is {key}."),))
    assert one.applied
    assert key not in one.operation.text


def test_a_line_rests_on_the_least_trusted_of_what_it_cites() -> None:
    pieces = [note(1, "Anna moved.", trust=Trust.OWNER), note(2, "Anna moved, it says.")]
    sheet = heard(read(TEXT, *pieces), revise(BOND, BONN, "Anna moved.", "N1", "N2"))
    line = sheet.find("Anna moved.")
    assert line is not None
    assert line.trust is Trust.AGENT
    assert sheet.changes[-1].evidence == tuple(one.crystal for one in pieces)


def test_a_line_changes_once_and_is_named_by_its_new_id_afterwards() -> None:
    sheet = heard(
        read(), revise(BOND, BONN, "Anna lives in Köln.", "N1"), revise(BOND, BONN, "Anna lives in Ulm.", "N1"),
        evict(BOND, BONN, "Bonn"), revise(BOND, "L10", "Anna lived in Köln.", "N1"),
    )  # fmt: skip
    changed = "L3 is changed by an earlier operation; {} stands in its place"
    assert [one.words for one in sheet.told] == ["L10", changed.format("L10"), "L11", changed.format("L11")]


# Bounds


def services(count: int, first: int = 1) -> list[Operation]:
    return [revise(CONTEXT, f"L{n}", f"Service number{n} moved.", f"N{n}") for n in range(first, first + count)]


def test_an_input_changes_at_most_eight_lines() -> None:
    changes = [replace(one, cites=("N1",)) for one in services(9)]
    sheet = heard(read(MANY, "All moved.", "So did number9."), *changes)
    assert [one.applied for one in sheet.told] == [True] * 8 + [False]
    assert sheet.told[-1].words == "N1 is cited for more than 8 changed lines"
    more = heard(read(MANY, "All moved.", "So did number9."), *changes[:8], replace(changes[8], cites=("N1", "N2")))
    assert more.told[-1].applied


def test_at_most_twenty_lines_are_evicted_and_merges_leave_twenty_fewer() -> None:
    large = memory(context=[f"Service number{n} runs on host{n}." for n in range(120)])
    gone = heard(read(large), *(evict(CONTEXT, f"L{n}", "x") for n in range(1, 30)))
    assert sum(one.applied for one in gone.told) == EVICTIONS
    assert gone.told[-1].words == "at most 20 lines are evicted in one dream"
    merged = [merge(CONTEXT, [f"L{n + m}" for m in range(8)], f"Eight, {n}.", f"N{n}") for n in (1, 9, 17)]
    few = heard(read(large, *(note(n, "x") for n in (1, 9, 17))), *merged)
    assert [one.words for one in few.told if one.mend] == ["merges leave at most 20 lines fewer in one dream"]


def test_more_than_a_third_of_the_memory_is_refused_in_words_and_additions_apply() -> None:
    pieces = [f"Service number{n} moved." for n in range(1, 25)]
    sheet = heard(read(MANY, *pieces), *services(21), add(BOND, "They all moved.", "N22"))
    assert [one.applied for one in sheet.told] == [True] * 21 + [False]
    assert (sheet.told[-1].words, sheet.told[-1].mend) == (f"{THIRD}; leave the rest as it is", False)
    assert "N21" not in sheet.heard  # its note is input again
    small = memory(context=[f"Fact number {n}." for n in range(6)])
    facts = [revise(CONTEXT, f"L{n}", f"It is {n}.", f"N{n}") for n in range(1, 7)]
    few = heard(read(small, *(f"It is {n}." for n in range(1, 7))), *facts)
    assert [one.applied for one in few.told] == [True] * 5 + [False]


def test_tidying_of_more_lines_than_usual_is_refused_in_words() -> None:
    merges = [merge(CONTEXT, [f"L{n}", f"L{n + 1}"], f"Service number{n - 1} runs, and its neighbour.") for n in
              (1, 3, 5, 7, 9)]  # fmt: skip
    sheet = heard(read(MANY), *merges)
    assert [one.applied for one in sheet.told] == [True] * 4 + [False]
    words = "enough lines are tidied in one dream; leave the rest as it is"
    assert (sheet.told[-1].words, sheet.told[-1].mend, sheet.proposed) == (words, False, [])


# What its owner is asked

OWN: dict[str, Any] = {"handwritten": (ANSWERS, BONN)}
ALL: dict[str, Any] = {"ask": Ask.ALL}


def test_what_its_owner_is_asked_does_not_stop_the_rest_and_holds_its_input() -> None:
    world = read(TEXT, "Anna prefers long answers.", "The release is on Monday.", **OWN)
    sheet = heard(world, COFFEE, revise(CONTEXT, PLANNED, "The release is planned for Monday.", "N2"))
    assert [(one.asks, one.applied) for one in sheet.told] == [(True, False), (False, True)]
    dream = sheet.dream("scripted", Usage(), 0.0)
    (asked,) = dream.proposed
    assert asked.why == "L2 was written by hand"
    assert (asked.operation.lines, asked.operation.cites) == ((ANSWERS,), (world.evidence[0].crystal,))
    assert dream.taken == (1, 2)


@pytest.mark.parametrize(
    ("operation", "changes", "became"),
    [
        (COFFEE, {}, "applied"),
        (COFFEE, OWN, "asks"),
        (replace(COFFEE, lines=(PINNED,)), {}, "asks"),
        (replace(evict(BOND, ANSWERS, "x"), cites=("N1",)), OWN, "asks"),
        (evict(BOND, ANSWERS, "x"), OWN, "refused"),  # no input says so
        (of(Action.MOVE, ANSWERS, section=CONTEXT), OWN, "refused"),
        (merge(BOND, [ANSWERS, BONN], "Anna lives in Bonn and prefers short answers."), OWN, "refused"),
        (COFFEE, ALL, "asks"),
        (add(BOND, "Anna plays chess.", "N1"), ALL, "asks"),
        (of(Action.MOVE, ANSWERS, section=CONTEXT), ALL, "asks"),
        (of(Action.CLOSE, DNS), ALL, "asks"),
        (of(Action.RECALL, POINTER, section=BOND), ALL, "asks"),
        (COFFEE, OWN | {"proposed": (COFFEE,)}, "refused"),
        (add(BOND, "Anna plays chess.", "N1"), ALL | {"proposed": (add(BOND, "anna plays chess."),)}, "refused"),
        (evict(BOND, ANSWERS, "x"), ALL | {"proposed": (evict(BOND, ANSWERS, "y"),)}, "refused"),
        (replace(COFFEE, text="Anna prefers none."), OWN | {"proposed": (COFFEE,)}, "asks"),
    ],
)
def test_its_owner_is_asked_once_about_what_is_theirs(
    operation: Operation, changes: dict[str, Any], became: str
) -> None:
    one = told(operation, **changes)
    assert became == ("applied" if one.applied else "asks" if one.asks else "refused")
    assert not one.mend  # it is not the model's to mend


def test_what_its_owner_is_asked_already_has_taken_its_input_in() -> None:
    sheet = heard(read(TEXT, proposed=(COFFEE,), **OWN), COFFEE)
    assert ([one.words for one in sheet.told], sheet.heard) == ([ASKED_ALREADY], {"N1"})


def test_what_an_agent_noted_after_reading_a_page_may_ask() -> None:
    piece = replace(note(1, "Anna plays chess."), heard="web")
    asks = told(add(BOND, "Anna plays chess.", "N1"), piece, heard=Heard.ASK)
    assert asks.words == "its owner is asked: dream.heard: ask; its agent had read a page"
    assert told(add(BOND, "Anna plays chess.", "N1"), piece).applied


def test_lines_that_the_program_counts_ask_nobody_and_are_not_told() -> None:
    skill = Evidence("S1", Kind.SKILL, "Refactoring → Confidence: 85% | Occurrences: 5", 0.8, Trust.AGENT, NOW)
    sheet = talk.begun(read(TEXT, skill, **ALL))
    assert texts(render(sheet.document), SKILLS) == [skill.text]
    assert (len(sheet.told), sheet.proposed, sheet.refused) == (1, [], [])


def test_a_line_that_is_said_otherwise_keeps_its_last_day() -> None:
    world = read(TEXT, "The release moves.", "It is on 2026-03-20.")
    line = replace(world.lines[0], until="2026-03-20")
    dated = replace(world, lines=(line, *world.lines[1:]))
    kept = heard(dated, revise(line.section, line.id, "The agent prefers small commits, always.", "N1"))
    assert [one.until for one in kept.standing if "always" in one.text] == ["2026-03-20"]
