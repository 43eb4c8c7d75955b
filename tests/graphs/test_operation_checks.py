"""One bad operation is refused alone, with its reason; the others apply."""

from dataclasses import replace

import pytest

from graphs.operation_checks import MAX_EVICTIONS, MAX_LINE_CHARACTERS, check_operations, runaway
from state.document.document import PLACEHOLDER
from state.document.operations import Action, Operation, Refusal
from state.dream import Evidence, Kind
from state.trust import Trust
from tests.graphs.judging import PLANNED, TEXT, passes, refusal
from tests.graphs.world import (
    BOND,
    CONTEXT,
    NOW,
    POINTERS,
    SKILLS,
    add,
    evict,
    memory,
    merge,
    note,
    revise,
    snapshot,
)


def test_the_lines_have_the_ids_that_these_tests_use() -> None:
    read = snapshot(TEXT)
    lines = {line.id: line.text for line in read.lines}
    assert lines["L2"] == "Anna prefers short answers."
    assert [line.id for line in read.lines if line.pinned] == ["L4"]
    assert lines[PLANNED] == "The release is planned for Friday."
    assert lines["L7"].startswith("CORS")
    assert len(lines) == 8


# Citations


def test_an_operation_that_cites_an_input_passes() -> None:
    operation = add(BOND, "Anna plays chess on Tuesdays.", "N1")
    assert passes(operation, "Anna told me that she plays chess on Tuesdays.") == operation


@pytest.mark.parametrize("operation", [add(BOND, "Anna plays chess."), Operation(Action.EVICT, BOND, "tea", ("L2",))])
def test_an_operation_that_cites_nothing_is_refused(operation: Operation) -> None:
    assert refusal(operation, "Anna plays chess.") == Refusal("citation", "operation", "it cites nothing", operation)


@pytest.mark.parametrize(
    ("operation", "unknown"),
    [
        (add(BOND, "Anna plays chess.", "N2"), "N2"),
        (add(BOND, "Anna plays chess.", "N1", "C7"), "C7"),
        (revise(BOND, "L99", "Anna plays chess.", "N1"), "L99"),
        (evict(BOND, "L99", "chess"), "L99"),
        (merge(BOND, ["L2", "L99"], "Anna prefers short answers.", "N1"), "L99"),
    ],
)
def test_an_operation_that_names_an_unknown_id_is_refused(operation: Operation, unknown: str) -> None:
    one = refusal(operation, "Anna plays chess.")
    assert one.guard == "citation"
    assert unknown in one.figures


def test_the_figures_of_a_refusal_stay_short() -> None:
    cites = tuple(f"N{number}" for number in range(2, 2_000))
    assert len(refusal(add(BOND, "Anna plays chess.", *cites), "Anna plays chess.").figures) < 200


def test_an_addition_that_cites_a_line_says_what_the_line_says() -> None:
    assert passes(add(CONTEXT, "The importer needs a test with empty rows.", "L5"))


# Pinned lines, and lines that code writes


@pytest.mark.parametrize(
    "operation",
    [
        revise(BOND, "L4", "Anna works on Sundays.", "N1"),
        evict(BOND, "L4", "Sundays"),
        merge(BOND, ["L2", "L4"], "Anna prefers short answers and never works on Sundays."),
    ],
)
def test_a_pinned_line_is_left_alone(operation: Operation) -> None:
    one = refusal(operation, "Anna works on Sundays now.")
    assert (one.guard, one.figures) == ("pinned", "L4 is pinned")


def test_a_new_line_does_not_contradict_a_pinned_one() -> None:
    text = memory(bond=["The deadline is March 20. 📌"])
    operation = add(CONTEXT, "The deadline is March 25.", "N1")
    accepted, (one,), _ = check_operations(snapshot(text, "The deadline is March 25."), [operation], by_code=False)
    assert accepted == ()
    assert (one.guard, one.figures) == ("pinned", "it contradicts the pinned L1")
    free = snapshot(text.replace(" 📌", ""), "The deadline is March 25.")
    assert check_operations(free, [operation], by_code=False) == ((operation,), (), ())


@pytest.mark.parametrize(
    "operation",
    [
        add(SKILLS, "Testing → Confidence: 90% | Occurrences: 9", "N1"),
        add(POINTERS, "Testing → search: `testing`", "N1"),
        evict(SKILLS, "L8", "refactoring"),
        revise(POINTERS, "L7", "CORS → search: `other`", "N1"),
        merge(BOND, ["L2", "L8"], "Anna prefers short answers and refactoring.", "N1"),
    ],
)
def test_what_code_writes_no_model_touches(operation: Operation) -> None:
    one = refusal(operation, "Testing was done nine times.")
    assert one.guard == "shape"
    assert "written by the program" in one.figures


def test_code_writes_its_own_sections() -> None:
    counted = Evidence("S1", Kind.SKILL, "Refactoring → Confidence: 90% | Occurrences: 9", 0.9, Trust.AGENT, NOW)
    passes(revise(SKILLS, "L8", counted.text, "S1"), counted, by_code=True)


# One line, once


def test_a_line_is_changed_by_one_operation_of_an_answer() -> None:
    first = revise(CONTEXT, PLANNED, "The release is planned for Monday.", "N1")
    second = evict(CONTEXT, PLANNED, "the release")
    accepted, (one,), _ = check_operations(
        snapshot(TEXT, "The release is planned for Monday."), [first, second], by_code=False
    )
    assert accepted == (first,)
    assert one.figures == "L6 is changed by an earlier operation"


def test_what_stands_there_is_not_added_again() -> None:
    one = refusal(add(CONTEXT, "anna  lives in BONN.", "N1"), "Anna lives in Bonn.")
    assert (one.guard, one.figures) == ("shape", "L3 says so already")


def test_what_an_answer_says_twice_is_written_once() -> None:
    first = add(BOND, "Anna plays chess.", "N1")
    again = add(BOND, "anna plays CHESS.", "N1")
    elsewhere = add(CONTEXT, "Anna plays chess.", "N1")
    accepted, refused, _ = check_operations(
        snapshot(TEXT, "Anna plays chess."), [first, again, elsewhere], by_code=False
    )
    assert accepted == (first,)
    assert [one.guard for one in refused] == ["shape", "shape"]


@pytest.mark.parametrize(
    "operation",
    [
        revise(BOND, "L2", "Anna lives in Bonn.", "N1"),
        merge(BOND, ["L1", "L2"], "Anna lives in Bonn.", "N1", "L3"),
    ],
)
def test_a_line_does_not_become_another_standing_line(operation: Operation) -> None:
    assert (
        "says so already" in refusal(operation, "Anna lives in Bonn, prefers short answers, small commits.").figures
    )


def test_a_merge_may_keep_the_words_of_one_of_its_lines() -> None:
    text = memory(bond=["Anna lives in Bonn.", "Anna lives in Bonn"])
    operation = merge(BOND, ["L1", "L2"], "Anna lives in Bonn.")
    assert check_operations(snapshot(text), [operation], by_code=False)[0] == (operation,)


def test_a_revision_that_changes_nothing_is_none() -> None:
    assert (
        "says so already" in refusal(revise(BOND, "L3", "Anna lives in Bonn.", "N1"), "Anna lives in Bonn.").figures
    )
    assert passes(revise(BOND, "L3", "Anna lives in BONN.", "N1"), "Anna lives in BONN.")


# Content


@pytest.mark.parametrize("text", ["", "   ", PLACEHOLDER, "TBD", "- ", "\u200b", "n/a", "…"])
def test_a_line_without_content_is_refused(text: str) -> None:
    assert refusal(add(BOND, text, "N1"), "Anna plays chess.").guard == "empty synthesis"


def test_a_line_has_at_most_600_characters() -> None:
    words = "chess " * 99
    assert len(words) == 594
    passes(add(BOND, words + "chesse", "N1"), "Anna plays chess.")
    assert len(passes(add(BOND, words + "chess and more", "N1"), "Anna plays chess.").text) <= MAX_LINE_CHARACTERS


def test_a_line_becomes_one_row_without_structure() -> None:
    dirty = "# Anna plays chess\n## The Bond\n- [x] <!-- pinned --> 📌 `tea\u202e"
    text = passes(add(BOND, dirty, "N1"), note(1, "Anna plays chess and drinks tea", trust=Trust.OWNER)).text
    assert "\n" not in text
    assert not text.startswith("#")
    assert not {"📌", "\u202e"} & set(text)
    assert "<!--" not in text


# Evidence


def test_a_line_shares_a_word_with_what_it_cites() -> None:
    one = refusal(add(BOND, "Volcanoes erupt.", "N1"), "Anna plays chess.")
    assert (one.guard, one.figures) == ("evidence", "none of its 2 terms is in what it cites")


@pytest.mark.parametrize("text", ["Port 9090 is used by the bridge.", "The bridge was set up in 2024.", "5 bridges"])
def test_an_invented_number_is_refused(text: str) -> None:
    one = refusal(add(CONTEXT, text, "N1"), "The bridge uses port 8080; bridges")
    assert one.guard == "evidence"
    assert "is in nothing that it cites" in one.figures


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("The bridge uses port 8080.", "The bridge listens on port 8080."),
        ("Memory costs 8,000 dollars.", "Memory costs 8000 dollars."),
        ("The bridge fell today.", "The bridge fell on 2026-03-12."),
        ("The bridge fell.", "The bridge fell on 12 March 2026."),
        ("端口是 ８０８０", "端口 8080"),
    ],
)
def test_a_number_of_the_evidence_or_of_its_date_is_none_that_is_invented(said: str, line: str) -> None:
    passes(add(CONTEXT, line, "N1"), replace(note(1, said), at=NOW))


def test_a_revision_cites_an_input() -> None:
    one = refusal(revise(CONTEXT, PLANNED, "The release is planned for the Friday.", "L6", "L5"))
    assert (one.guard, one.figures) == ("evidence", "a revision cites at least one input")


def test_a_revision_that_keeps_less_than_a_quarter_of_its_line_is_in_doubt() -> None:
    text = memory(context=["alpha beta gamma delta epsilon zeta eta theta"])
    for new, doubts in (("omega psi chi alpha beta", 0), ("omega psi chi alpha", 1)):
        checked = check_operations(snapshot(text, new), [revise(CONTEXT, "L1", new, "N1")], by_code=False)
        assert (len(checked.accepted), len(checked.doubts)) == (1, doubts)


def test_a_merge_forgets_none_of_its_lines() -> None:
    text = memory(context=["alpha beta gamma delta epsilon zeta eta theta iota kappa", "one two three four five"])
    kept = "alpha beta gamma iota one two three"
    accepted, *_ = check_operations(snapshot(text), [merge(CONTEXT, ["L1", "L2"], kept)], by_code=False)
    assert len(accepted) == 1
    (one,) = check_operations(snapshot(text), [merge(CONTEXT, ["L1", "L2"], "alpha beta one two")], by_code=False)[1]
    assert (
        one.figures == "it keeps 2 of the 10 words of 'alpha beta gamma delta epsilon zeta eta ', at least 25% wanted"
    )


# Together


def test_one_bad_operation_among_twenty_is_refused_and_nineteen_apply() -> None:
    names = [f"project{number:02}" for number in range(20)]
    for bad in (0, 10, 19):
        operations = [add(CONTEXT, f"The {name} is green.", f"N{at}") for at, name in enumerate(names, 1)]
        operations[bad] = add(CONTEXT, "Nothing supports this.", "N999")
        accepted, refused, _ = check_operations(
            snapshot(TEXT, *(f"The {name} is green." for name in names)), operations, by_code=False
        )
        assert len(accepted) == 19
        assert [one.guard for one in refused] == ["citation"]


def test_twenty_evictions_pass_and_twenty_one_are_all_refused() -> None:
    twenty = [evict(CONTEXT, f"L{number}", "x") for number in range(MAX_EVICTIONS)]
    other = add(BOND, "Anna plays chess.", "N1")
    assert runaway([*twenty, other]) == ((*twenty, other), ())
    kept, refused = runaway([*twenty, evict(CONTEXT, "L20", "x"), other])
    assert kept == (other,)
    assert len(refused) == 21
    assert {one.figures for one in refused} == {"21 evictions and 0 new pointers in one answer, at most 20"}


def test_twenty_one_new_pointers_are_all_refused() -> None:
    pointers = [add(POINTERS, f"Topic {number} → search: `topic`", "N1") for number in range(21)]
    other = add(BOND, "Anna plays chess.", "N1")
    assert runaway([*pointers[:20], other]) == ((*pointers[:20], other), ())
    kept, refused = runaway([*pointers, other])
    assert kept == (other,)
    assert {one.guard for one in refused} == {"eviction runaway"}
