"""The synthesis without a model: deterministic, and it writes nothing that was not said."""

from dataclasses import replace
from datetime import timedelta

import pytest
from graphs.guard import apply, judge
from hypothesis import given
from hypothesis import strategies as st

from graphs.extractive import AUTHOR, condensed, counted_operations, extract, section_for
from state.document.document import render
from state.document.operations import Action
from state.dream import Evidence, Kind, Snapshot
from state.text.line import LINE_CHARACTERS
from state.text.words import content_terms
from state.trust import Trust
from tests.graphs.world import CONTEXT, GAPS, NOW, PHENOTYPE, SKILLS, add, memory, note, snapshot, texts
from tests.support.long_variants import examples

SAID = (
    "Anna prefers short answers",
    "The importer fails on empty rows",
    "The deadline is 20 March",
    "I learned that small commits work better",
    "Why does the cache grow at night?",
    "Die Frist ist der 20. März",
    "用户喜欢简短的回答。",
    "Port 8443 is used by the bridge",
    "Nothing special happened",
    "Release 1.4 was tagged; see the notes",
)
sentences = st.sampled_from(SAID)
notes = st.lists(st.builds(lambda text, more: f"{text}. {more}.", sentences, sentences), max_size=8, unique=True)
importances = st.floats(0, 1)


def evidence(kind: Kind, text: str, about: str = "", importance: float = 0.5) -> Evidence:
    return Evidence(f"{kind.value}1", kind, text, importance, Trust.AGENT, NOW, "c1", about)


@examples(200)
@given(notes, st.lists(sentences, max_size=3, unique=True), importances)
def test_it_writes_nothing_that_was_not_said_and_the_guards_have_nothing_to_say(
    said: list[str], standing: list[str], importance: float
) -> None:
    read = snapshot(memory(context=standing), *(note(n, text, importance) for n, text in enumerate(said, 1)))
    draft = extract(read)
    pieces = {piece.id: piece for piece in read.evidence}
    for operation in draft.operations:
        (cite,) = operation.cites
        assert content_terms(operation.text) <= content_terms(pieces[cite].text)
        assert len(operation.text) <= LINE_CHARACTERS
        assert operation.action is Action.ADD
    verdict = judge(read, draft)
    assert (verdict.refusal, verdict.refused) == (None, ())
    assert set(draft.consumed) == set(pieces)
    assert draft.author == AUTHOR


@given(st.permutations([note(n, text, 0.1 * n) for n, text in enumerate(SAID, 1)]))
def test_the_order_of_its_inputs_does_not_matter(order: list[Evidence]) -> None:
    read = snapshot(memory(bond=["Anna lives in Bonn."]), *order)
    again = extract(replace(read, evidence=tuple(sorted(order, key=lambda piece: piece.id))))
    assert extract(read).operations == again.operations


def test_dreaming_again_with_the_same_notes_adds_nothing() -> None:
    read = snapshot("", *SAID)
    after, _ = apply(read, judge(read, extract(read)).operations)
    again = snapshot(render(after), *SAID)
    assert extract(again).operations == ()


# Sections


def test_a_question_is_a_gap_and_code_files_nothing_else_by_its_topic() -> None:
    assert section_for(note(1, "Why does the cache grow at night?")) is GAPS
    assert section_for(note(1, "夜间缓存为什么会增长？")) is GAPS
    assert section_for(evidence(Kind.GAP, "DNS ownership")) is GAPS
    assert section_for(evidence(Kind.INSIGHT, "steps are small", "skill")) is PHENOTYPE
    assert section_for(note(1, "Anna prefers short answers.")) is CONTEXT
    assert section_for(note(1, "Sold 3 copies on the marketplace for 4 USDC.")) is CONTEXT


# Lines


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("One. Two.", "One. Two."),
        ("  spread \n over   rows ", "spread over rows"),
        ("a" * 700, "a" * 599 + "…"),
        ("Short. " + "long " * 130 + ".", "Short."),
        ("", ""),
        ("第一句。 第二句。", "第一句。 第二句。"),
    ],
)
def test_a_text_is_condensed_to_its_first_sentences(text: str, line: str) -> None:
    assert condensed(text) == line


@given(st.text(max_size=400), st.integers(20, 600))
def test_a_condensed_text_fits(text: str, limit: int) -> None:
    line = condensed(text, limit)
    assert len(line) <= limit
    assert "\n" not in line
    assert bool(line) == bool(text.split())


# What is said already, and what changes


def test_a_note_that_repeats_a_line_is_taken_in_silently() -> None:
    draft = extract(snapshot(memory(bond=["Anna prefers short answers."]), "Anna prefers short answers"))
    assert (draft.operations, draft.consumed) == ((), ("N1",))


def test_a_note_that_changes_a_fact_stands_above_the_older_one() -> None:
    old, new = note(1, "The deadline is March 22.", 0.9), note(2, "The deadline is March 25.", 0.5)
    read = snapshot(
        memory(context=["The deadline is March 20."]), replace(old, at=NOW - timedelta(days=1)), replace(new, at=NOW)
    )
    after, _ = apply(read, judge(read, extract(read)).operations)
    assert texts(after, CONTEXT) == [new.text, old.text, "The deadline is March 20."]


def test_two_notes_that_say_the_same_become_one_line() -> None:
    draft = extract(snapshot("", "Anna prefers short answers.", "anna prefers SHORT answers"))
    assert len(draft.operations) == 1
    assert set(draft.consumed) == {"N1", "N2"}


def test_an_automatic_note_is_a_mood_and_no_line() -> None:
    auto = "Hormonal event: dopamine spike (achievement/breakthrough detected). Raised to 0.85 by reward."
    assert extract(snapshot("", auto)).operations == ()


# Turns of a conversation


def test_a_conversation_gives_lines_in_a_dream_without_notes_only() -> None:
    turn = replace(evidence(Kind.CRYSTAL, "Anna plays chess.", importance=0.9), id="C1")
    assert [one.cites for one in extract(snapshot("", turn, notes=())).operations] == [("C1",)]
    assert [one.cites for one in extract(snapshot("", note(1, "The importer works."), turn)).operations] == [("N1",)]


def test_only_important_crystals_become_lines_and_at_most_twelve() -> None:
    crystals = [
        replace(evidence(Kind.CRYSTAL, f"Module{n} was rewritten in Rust by team{n}.", importance=0.9), id=f"C{n}")
        for n in range(1, 20)
    ]
    light = replace(evidence(Kind.CRYSTAL, "Small talk about the weather.", importance=0.3), id="C99")
    operations = extract(snapshot("", *crystals, light, notes=())).operations
    assert len(operations) == 12
    assert all("weather" not in one.text for one in operations)


# Counted lines


def counted(*pieces: Evidence, **sections: list[str]) -> Snapshot:
    return snapshot(memory(**sections), *pieces, notes=())


def test_a_counted_line_takes_the_place_of_the_one_that_it_counted_before() -> None:
    skill = evidence(Kind.SKILL, "Refactoring → Confidence: 85% | Occurrences: 7")
    assert counted_operations(counted(skill)) == (add(SKILLS, skill.text, "S1"),)
    before = counted(skill, skills=["Refactoring → Confidence: 80% | Occurrences: 4", "Testing → Confidence: 1%"])
    assert [(one.action, one.lines) for one in counted_operations(before)] == [(Action.REVISE, ("L1",))]
    assert counted_operations(counted(skill, skills=[skill.text])) == ()


def test_what_is_counted_is_no_input_of_the_extraction() -> None:
    read = counted(evidence(Kind.SKILL, "Refactoring → Confidence: 85%"), evidence(Kind.FEED, "Earned: 3 USDC"))
    assert extract(read).operations == ()
