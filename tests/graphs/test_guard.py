"""What the guards let through: structure, ownership and bounds; nothing is read."""

import pytest
from graphs.guard import BOUNDS, THIRD, TIDYING, Verdict, apply, check_operations, erosion, judge, within_bounds
from hypothesis import given
from hypothesis import strategies as st

from graphs.extractive import extract
from state.document.document import blank, parse, render
from state.document.operations import Action, Operation, Refusal
from state.dream import Draft, Evidence, Kind, PastLine, Snapshot
from state.text.words import normalise
from tests.graphs.world import (
    BOND,
    CONTEXT,
    PHENOTYPE,
    POINTERS,
    SKILLS,
    add,
    evict,
    memory,
    merge,
    note,
    revise,
    snapshot,
    texts,
)

TEXT = memory(
    phenotype=["The agent prefers small commits."],
    bond=["Anna prefers short answers.", "Anna lives in Bonn.", "Anna never works on Sundays. 📌"],
    context=["The importer fails on empty rows.", "The release is planned for Friday."],
    pointers=["CORS debugging → search: `cors eigentrust`"],
    skills=["Refactoring → Confidence: 80% | Occurrences: 4"],
)
ANSWERS, BONN, PINNED, PLANNED, POINTER, SKILL = "L2", "L3", "L4", "L6", "L7", "L8"
MANY = memory(context=[f"Service number{n} runs on host{n}." for n in range(60)])


def refusal(operation: Operation, *notes: str, **changes: object) -> Refusal:
    accepted, refused = check_operations(snapshot(TEXT, *notes, **changes), [operation], by_code=False)
    assert accepted == ()
    (one,) = refused
    assert (one.scope, one.operation and one.operation.action) == ("operation", operation.action)
    return one


def passes(operation: Operation, *notes: str, **changes: object) -> Operation:
    accepted, refused = check_operations(snapshot(TEXT, *notes, **changes), [operation], by_code=False)
    assert refused == ()
    return accepted[0]


def judged(text: str, operations: list[Operation], *notes: str | Evidence, **changes: object) -> Verdict:
    consumed = tuple(f"N{n}" for n in range(1, len(notes) + 1))
    return judge(snapshot(text, *notes, **changes), Draft(tuple(operations), consumed, author="scripted-1"))


@pytest.mark.parametrize(
    ("operation", "guard", "figures"),
    [
        (add(BOND, "Anna plays chess."), "citation", "it cites nothing"),
        (add(BOND, "Anna plays chess.", "N9"), "citation", "there is no N9"),
        (add(BOND, "Anna plays chess.", BONN), "citation", "a new line cites at least one input"),
        (revise(BOND, "L99", "Anna plays chess.", "N1"), "citation", "there is no L99"),
        (revise(BOND, PINNED, "Anna works on Sundays.", "N1"), "pinned", f"{PINNED} is pinned"),
        (evict(BOND, PINNED, "Sundays"), "pinned", f"{PINNED} is pinned"),
        (add(POINTERS, "Chess → search: `chess`", "N1"), "shape", "Crystal Pointers is written by the program"),
        (evict(SKILLS, SKILL, "skills"), "shape", "Emerging Skills is written by the program"),
        (add(BOND, "TBD", "N1"), "empty synthesis", "no content"),
        (add(BOND, "\u200b", "N1"), "empty synthesis", "no content"),
        (add(BOND, "anna prefers SHORT answers", "N1"), "shape", f"{ANSWERS} says so already"),
    ],
)
def test_structure_and_ownership_are_refused_with_their_figures(
    operation: Operation, guard: str, figures: str
) -> None:
    one = refusal(operation, "Anna plays chess.")
    assert (one.guard, one.figures) == (guard, figures)


def test_what_the_owner_deleted_is_not_written_again_unless_it_is_nearer_to_what_the_owner_wrote() -> None:
    deleted = "Anna's birthday is on the 3 May."
    again = add(BOND, "Anna's birthday is on 3 May.", "N1")
    assert refusal(again, again.text, tombstones=(deleted,)).guard == "human veto"
    assert passes(add(BOND, "Anna's birthday is on 4 May.", "N1"), "4 May.", tombstones=(deleted,))


def test_whatever_is_said_of_a_subject_in_other_words_passes() -> None:
    """No guard reads: honest changes in quite other words are as good as any."""
    for text in ("Sie wohnt jetzt in Köln.", "Anna moved to Cologne.", "Anna never lived in Bonn."):
        assert passes(revise(BOND, BONN, text, "N1"), "Anna moved to Cologne.").text == text


def test_a_line_changes_once_in_an_answer_and_a_text_is_said_once() -> None:
    verdict = judged(
        TEXT,
        [
            revise(BOND, BONN, "Anna lives in Cologne.", "N1"),
            evict(BOND, BONN, "Bonn"),
            add(CONTEXT, "Anna lives in Cologne", "N1"),
        ],
        "Anna lives in Cologne.",
    )
    assert [one.action for one in verdict.operations] == [Action.REVISE]
    assert [one.guard for one in verdict.refused] == ["shape", "shape"]


# Bounds


def test_tidying_brings_no_new_number_or_name() -> None:
    parts = ["L5", PLANNED]
    merged = "The importer fails on empty rows, and the release is planned for Friday."
    assert passes(merge(CONTEXT, parts, merged)).text == merged
    for new, text in (
        ("'Carla'", "The importer of Carla fails on empty rows; the release is planned for Friday."),
        ("'12'", "The importer fails on 12 empty rows; the release is planned for Friday."),
    ):
        one = refusal(merge(CONTEXT, parts, text))
        assert (one.guard, new in one.figures) == ("bounds", True)
        assert passes(merge(CONTEXT, parts, text, "N1"), "Carla found 12 empty rows.").text == text
    assert refusal(revise(BOND, BONN, "Anna lives in Cologne.", BONN)).guard == "bounds"


def test_an_input_changes_at_most_eight_lines() -> None:
    changes = [revise(CONTEXT, f"L{n}", f"Service number{n} is down.", "N1") for n in range(1, 10)]
    few = judged(MANY, changes[:8], "All services are down.")
    assert (len(few.operations), few.refused) == (8, ())
    many = judged(MANY, changes, "All services are down.")
    assert [one.figures for one in many.refused] == ["N1 is cited for 9 changed lines, at most 8"] * 9
    another = [*changes[:8], revise(CONTEXT, "L9", "Service number9 is down.", "N1", "N2")]
    assert len(judged(MANY, another, "All services are down.", "So is number9.").operations) == 1


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 12))
def test_no_answer_removes_more_than_its_bounds(evictions: int, pointers: int, merges: int) -> None:
    operations = [evict(CONTEXT, f"L{n}", "x") for n in range(evictions)]
    operations += [add(POINTERS, f"x{n} → search: `x`", "N1") for n in range(pointers)]
    operations += [merge(CONTEXT, [f"L{100 + 4 * n + m}" for m in range(4)], f"merged {n}") for n in range(merges)]
    accepted, refused = within_bounds(operations)
    assert len(accepted) + len(refused) == len(operations)
    left = [one.action for one in accepted]
    assert left.count(Action.EVICT) in ({evictions} if max(evictions, pointers) <= BOUNDS.evictions else {0})
    assert sum(len(one.lines) - 1 for one in accepted if one.action is Action.MERGE) <= BOUNDS.evictions


def test_more_than_a_third_of_the_memory_asks_the_owner_and_additions_apply() -> None:
    notes = [f"Service number{n} moved." for n in range(1, 22)]
    changes = [revise(CONTEXT, f"L{n}", f"Service number{n} moved.", f"N{n}") for n in range(1, 21)]
    assert judged(MANY, changes, *notes).asks == ()
    more = [*changes, revise(CONTEXT, "L21", "Service number21 moved.", "N21")]
    verdict = judged(MANY, [*more, add(BOND, "They all moved.", "N1")], *notes)
    assert [one for one, _ in verdict.asks] == more
    assert {why for _, why in verdict.asks} == {THIRD}
    assert len(verdict.operations) == 22


def test_in_a_small_memory_five_lines_may_change_without_asking() -> None:
    small = memory(context=[f"Fact number {n}." for n in range(6)])
    notes = [f"Fact number {n} is different." for n in range(1, 7)]
    changes = [revise(CONTEXT, f"L{n}", notes[n - 1], f"N{n}") for n in range(1, 7)]
    assert judged(small, changes[:5], *notes).asks == ()
    assert len(judged(small, changes, *notes).asks) == 6


def test_tidying_of_more_lines_than_usual_asks() -> None:
    merges = [
        merge(CONTEXT, [f"L{n}", f"L{n + 1}"], f"Service number{n - 1} and its neighbour run.")
        for n in (1, 3, 5, 7, 9)
    ]
    verdict = judged(MANY, merges, "x")
    assert [(one, why) for one, why in verdict.asks] == [(verdict.operations[4], TIDYING)]


# The whole


def test_an_answer_that_is_refused_as_a_whole_takes_nothing_in() -> None:
    cut = judge(snapshot(TEXT, "x y z"), Draft((), ("N1",), author="m", complete=False))
    assert (cut.refusal and cut.refusal.guard, cut.operations) == ("truncation", ())
    bad = judged(TEXT, [add(BOND, "Anna plays chess.", "N9")], "Anna plays chess.")
    assert bad.refusal is not None
    assert bad.refusal.guard == "all refused"


def test_a_young_memory_is_no_collapse() -> None:
    young = memory(context=["Tom owns Grafana; ask him."])
    verdict = judged(young, [revise(CONTEXT, "L1", "Ines owns it.", "N1")], "Tom left; Ines owns Grafana now.")
    assert (verdict.refusal, verdict.refused, len(verdict.operations)) == (None, (), 1)


def test_an_important_note_that_an_answer_passes_over_gets_its_own_line_and_replaces_nothing() -> None:
    heard, passed, chatter = note(1, "Anna plays chess.", 0.9), note(2, "Anna moved.", 0.7), note(3, "Hm.", 0.6)
    read = snapshot(TEXT, heard, passed, chatter)
    verdict = judge(read, Draft((add(BOND, heard.text, "N1"),), author="m"))
    assert [(one.action, one.text) for one in verdict.operations] == [
        (Action.ADD, heard.text), (Action.ADD, "Anna moved."),
    ]  # fmt: skip
    assert set(verdict.consumed) == {"N2"}
    assert judge(read, Draft((), author="m")).operations == ()


def named(number: int, text: str, *lines: str) -> Evidence:
    return Evidence(f"N{number}", Kind.NOTE, text, 0.7, note(1, text).trust, note(1, text).at, "c", "", lines)


def test_a_note_that_names_a_line_replaces_it_with_or_without_a_model() -> None:
    moved = named(1, "Anna lives in Cologne.", BONN)
    read = snapshot(TEXT, moved)
    for draft in (extract(read), Draft((), ("N1",), author="m")):
        (one,) = judge(read, draft).operations
        assert (one.action, one.lines, one.text) == (Action.REVISE, (BONN,), moved.text)
    by_model = Draft((revise(BOND, BONN, "Anna lives in Cologne now.", "N1"),), author="m")
    assert [one.text for one in judge(read, by_model).operations] == ["Anna lives in Cologne now."]
    gone = snapshot(TEXT, named(1, "Anna lives in Cologne.", "L99"))
    assert [one.action for one in judge(gone, extract(gone)).operations] == [Action.ADD]
    pinned = snapshot(TEXT, named(1, "Anna works on Sundays.", PINNED))
    assert [one.guard for one in judge(pinned, extract(pinned)).refused] == ["pinned"]


NOTES = st.lists(
    st.sampled_from(
        ["Anna lives in Cologne.", "The release is planned for Monday.", "Anna prefers long answers.", "Why?", "TBD",
         "# Heading", "Anna prefers short answers", "The importer works.", "→ search: `x`"]
    ),
    max_size=8,
)  # fmt: skip


@given(NOTES)
def test_without_a_model_no_line_leaves_unless_a_note_names_it(said: list[str]) -> None:
    read: Snapshot = snapshot(TEXT, *said)
    verdict = judge(read, extract(read))
    assert {one.action for one in verdict.operations} <= {Action.ADD}
    after, _ = apply(read, verdict.operations)
    keys = [block.key for _, block in after.lines()]
    assert {block.key for _, block in parse(TEXT).lines()} <= set(keys)
    assert len(keys) == len(set(keys))


def test_slow_erosion_is_refused() -> None:
    best = [PastLine(f"Fact number {n}.", pointer=f"fact{n}" if n < 2 else "") for n in range(10)]
    document = parse(memory(context=[f"Fact number {n}." for n in range(5, 10)]))
    one = erosion(best, document, (), {"fact0", "fact1"})
    assert one is not None
    assert one.figures.startswith("3 of 10 lines")
    assert erosion(best, document, ["Fact number 2."], {"fact0", "fact1"}) is None
    assert erosion((), parse(render(blank())), (), ()) is None


def test_a_new_line_stands_above_the_older_ones_of_its_section() -> None:
    read = snapshot(TEXT, "The importer works.", "The agent likes tests.")
    operations = [add(CONTEXT, "The importer works.", "N1"), add(PHENOTYPE, "The agent likes tests.", "N2")]
    after, _ = apply(read, judge(read, Draft(tuple(operations), author="m")).operations)
    assert texts(after, CONTEXT)[0] == "The importer works."
    assert normalise(texts(after, PHENOTYPE)[0]) == normalise("The agent likes tests.")
