"""An answer becomes operations: as said, or found by comparing a whole document line by line."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from graphs.guard import apply, judge
from graphs.synthesis import compared, label, read, request
from hypothesis import given
from hypothesis import strategies as st

from state.document.document import SectionName, blank, parse, render
from state.document.operations import Action, Operation
from state.dream import Draft, Evidence, Kind, Snapshot
from state.errors import ReplyError
from state.signals.hormones import Hormones
from state.text.words import normalise
from state.trust import Trust
from tests.graphs.world import BOND, GAPS, NOW, POINTERS, add, memory, note, said, snapshot, texts
from tests.support.documents import any_text, memories
from tests.support.long_variants import examples

BEFORE = {
    "phenotype": ["The agent works in small, tested steps."],
    "bond": ["Anna prefers short answers.", "Anna lives in Bonn."],
    "context": ["The importer fails on empty rows.", "The release is planned for Friday. 📌"],
    "gaps": ["Who owns the DNS zone?"],
    "pointers": ["CORS debugging → search: `cors eigentrust`"],
    "skills": ["Refactoring → Confidence: 80% | Occurrences: 4"],
}
TEXT = memory(**BEFORE)
NOTES = ("Anna plays chess on Tuesdays.", "Anna moved to Köln.")
SNAPSHOT = snapshot(TEXT, *NOTES)


def answer(**changes: list[str]) -> str:
    return memory(**(BEFORE | changes))


def drafted(text: str, snap: Snapshot = SNAPSHOT) -> Draft:
    return read(text, snap, "scripted-1", complete=True)


# Operations


def test_operations_are_taken_as_said() -> None:
    draft = drafted(said({"op": "add", "section": "The Bond", "text": "Chess.", "cites": ["N1"]}, consumed=["N2"]))
    assert draft == Draft((add(BOND, "Chess.", "N1"),), ("N2",), author="scripted-1")


def test_an_answer_is_complete_when_the_model_and_the_json_say_so() -> None:
    whole = said({"op": "add", "section": "The Bond", "text": "Chess.", "cites": ["N1"]})
    assert drafted(whole).complete
    assert not drafted(whole[:60]).complete
    assert not read(whole, SNAPSHOT, "scripted-1", complete=False).complete
    assert not read(answer(), SNAPSHOT, "scripted-1", complete=False).complete


def test_an_answer_that_says_nothing_is_a_reply_error() -> None:
    with pytest.raises(ReplyError):
        drafted("I am sorry.")


# Whole documents


def test_the_same_document_is_no_change() -> None:
    draft = drafted(TEXT)
    assert (draft.operations, draft.whole, draft.missing, draft.doubled) == ((), True, (), ())


FORMS: dict[str, Callable[[str], str]] = {
    "bare": lambda text: text,
    "fenced": lambda text: f"```markdown\n{text}```",
    "prose": lambda text: f"Here is the file:\n\n```\n{text}\n```\n\nDone.",
    "stars": lambda text: text.replace("\n- ", "\n* "),
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "weights": lambda text: text.replace("## The Bond", "## The Bond (Oxytocin-Weighted)"),
    "loose": lambda text: text.replace("\n- ", "\n\n- "),
    "no title": lambda text: text[text.index("## The Phenotype") :],
    "numbered": lambda text: text.replace("\n- ", "\n1. "),
    "shouting": lambda text: text.replace("## The Bond", "## THE BOND"),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_a_document_is_no_change(form: str) -> None:
    assert drafted(FORMS[form](TEXT)).operations == ()
    added = FORMS[form](answer(bond=[*BEFORE["bond"], "Anna plays chess on Tuesdays."]))
    assert drafted(added).operations == (add(BOND, "Anna plays chess on Tuesdays.", "N1"),)


def test_a_line_that_is_left_out_is_an_eviction_never_a_loss() -> None:
    draft = drafted(answer(bond=["Anna lives in Bonn."]))
    assert draft.operations == (Operation(Action.EVICT, BOND, "Anna prefers short answers", ("L2",), ("L2",)),)


def test_a_pinned_line_that_is_left_out_stays() -> None:
    assert drafted(answer(context=["The importer fails on empty rows."])).operations == ()


def test_a_pointer_of_the_answer_gives_the_eviction_its_topic_and_is_not_written_itself() -> None:
    pointers = [*BEFORE["pointers"], "How Anna likes her answers → search: `anna short answers`"]
    draft = drafted(answer(bond=["Anna lives in Bonn."], pointers=pointers))
    eviction, pointer = draft.operations
    assert (eviction.action, eviction.text) == (Action.EVICT, "How Anna likes her answers")
    assert (pointer.section, pointer.cites) == (POINTERS, ())
    assert judge(SNAPSHOT, draft).operations == (eviction,)


def test_a_reworded_line_is_a_revision_with_the_input_that_supports_it() -> None:
    draft = drafted(answer(bond=["Anna prefers short answers.", "Anna lives in Köln."]))
    assert draft.operations == (Operation(Action.REVISE, BOND, "Anna lives in Köln.", ("L3",), ("N2",)),)


def test_a_line_that_only_changes_its_words_cites_nothing_and_stays_as_it_was() -> None:
    draft = drafted(answer(bond=["Anna prefers really short answers always.", "Anna lives in Bonn."]))
    (operation,) = draft.operations
    assert (operation.action, operation.lines, operation.cites) == (Action.REVISE, ("L2",), ())
    verdict = judge(SNAPSHOT, draft)
    after, _ = apply(SNAPSHOT, verdict.operations)
    assert texts(after, BOND) == BEFORE["bond"]


def test_lines_that_become_one_are_a_merge() -> None:
    draft = drafted(answer(bond=["Anna lives in Bonn and prefers short answers."]))
    (operation,) = draft.operations
    assert (operation.action, operation.lines) == (Action.MERGE, ("L2", "L3"))
    assert judge(SNAPSHOT, draft).operations == (operation,)


def test_a_new_line_that_no_input_supports_is_refused() -> None:
    draft = drafted(answer(bond=[*BEFORE["bond"], "Anna owns a volcano in Iceland."]))
    assert draft.operations == (add(BOND, "Anna owns a volcano in Iceland."),)
    verdict = judge(SNAPSHOT, draft)
    assert verdict.operations == ()
    assert verdict.refused[0].guard == "citation"


def test_a_line_that_moves_to_another_section_is_no_change() -> None:
    draft = drafted(
        answer(bond=["Anna lives in Bonn."], phenotype=[*BEFORE["phenotype"], "Anna prefers short answers."])
    )
    assert draft.operations == ()


def test_a_section_that_is_missing_loses_no_line() -> None:
    text = TEXT.replace("## The Bond\n", "### The Bond\n")
    draft = drafted(text)
    assert draft.missing == (BOND,)
    verdict = judge(SNAPSHOT, draft)
    assert verdict.operations == ()
    assert [(one.guard, one.scope) for one in verdict.refused] == [("schema", "section")]


def test_what_code_writes_may_be_missing_or_changed() -> None:
    text = answer(skills=["Testing → Confidence: 10% | Occurrences: 1"], pointers=[])
    assert drafted(text).operations == ()
    cut = text[: text.index("## Crystal Pointers")]
    assert GAPS in drafted(cut).missing
    assert POINTERS not in drafted(cut).missing


def test_an_answer_of_ten_thousand_lines_is_read_as_far_as_two_hundred() -> None:
    many = "".join(f"- Anna owns volcano number{n}.\n" for n in range(4_000))
    text = TEXT.replace("- Anna prefers short answers.\n", many)
    assert len(drafted(text).operations) <= 200 + len(SNAPSHOT.lines)


@examples(200)
@given(st.one_of(memories(), any_text))
def test_no_document_makes_a_line_unfindable(text: str) -> None:
    """Whatever the answer is: a line is kept, revised, merged or evicted, once."""
    operations = compared(SNAPSHOT, parse(text))
    touched = [line for one in operations for line in one.lines]
    assert len(set(touched)) == len(touched)
    written = {normalise(block.text) for _, block in parse(text).lines()}
    for line in SNAPSHOT.lines:
        if normalise(line.text) in written:
            assert line.id not in touched
    verdict = judge(SNAPSHOT, Draft(operations, author="scripted-1", whole=True))
    after, _ = apply(SNAPSHOT, verdict.operations)
    there = {block.key for _, block in after.lines()}
    gone = {line for one in verdict.operations for line in one.lines}
    assert all(normalise(line.text) in there or line.id in gone for line in SNAPSHOT.lines)


# Requests


def test_counted_inputs_are_not_shown() -> None:
    counted = Evidence("S1", Kind.SKILL, "Refactoring → Confidence: 90% | Occurrences: 9", 0.9, Trust.AGENT, NOW)
    assert "Occurrences: 9" not in request(snapshot(TEXT, counted), []).user


def test_the_request_says_the_budget_the_mood_and_the_attention() -> None:
    loving = snapshot(TEXT, budget=3_200, hormones=Hormones(0.1, 0.02, 0.9, NOW))
    user = request(loving, []).user
    assert "The file may have 3200 characters" in user
    assert "Mood: deeply connected. Attention: oxytocin." in user


@pytest.mark.parametrize(
    ("hours", "age"), [(0, "0 h ago"), (1.4, "1 h ago"), (47.4, "47 h ago"), (48, "2 days ago"), (240, "10 days ago")]
)
def test_a_label_says_how_long_ago(hours: float, age: str) -> None:
    piece = note(1, "a", 0.9, Trust.TOOL)
    assert label(piece, piece.at + timedelta(hours=hours)) == f"note, importance 0.9, from tool, {age}"


def test_a_label_says_what_an_input_replaces_and_what_its_session_had_read() -> None:
    piece = replace(note(1, "a"), replaces=("L4", "L7"), heard="web")
    assert label(piece, piece.at) == "note, importance 0.5, from agent, 0 h ago, replaces L4, L7, heard web"


def test_a_label_of_the_future_is_now() -> None:
    piece = note(1, "a")
    assert label(piece, NOW.replace(year=2020)).endswith("0 h ago")


def test_at_most_thirty_deleted_lines_are_shown_the_latest() -> None:
    user = request(snapshot(TEXT, tombstones=tuple(f"deleted {n}." for n in range(40))), []).user
    assert "deleted 9." not in user
    assert user.count("deleted ") >= 30
    assert '"deleted 39."' in user


def test_an_empty_memory_is_a_request_too() -> None:
    user = request(snapshot(""), []).user
    assert user.count("(nothing yet)") == len(SectionName)
    assert "(none)" in user
    assert str(len(render(blank()))) in user
