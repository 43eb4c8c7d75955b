"""What a person did to a memory is taken in exactly; text and lines change together, and can be taken back."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.changes.change import Change, CurrentLine
from state.changes.owner import (
    LEAST_ACCIDENT,
    OwnersText,
    lines_in,
    match,
    owners_text,
    restored_text,
    same_as_deleted,
)
from state.changes.page import Page
from state.document.document import Edit, blank, parse, render
from state.document.editing import edited
from state.document.merge import working
from state.document.operations import Why
from state.document.sections import SectionName
from state.text.words import normalise
from state.trust import Trust
from tests.support.documents import any_text, memories, new_lines
from tests.support.long_variants import examples

NOW = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)

BOND, CONTEXT = SectionName.BOND, SectionName.CONTEXT


def memory(*lines: str, section: SectionName = BOND) -> str:
    return render(edited(blank(), [Edit(section, (), one) for one in lines])[0])


def ledger(text: str) -> tuple[CurrentLine, ...]:
    return tuple(
        CurrentLine(f"L{n}", name, block.text, 0.5, Trust.AGENT, NOW, block.pinned)
        for n, (name, block) in enumerate(parse(text).lines(), 1)
    )


def left(before: str, after: str, **more: object) -> OwnersText:
    return owners_text(ledger(before), after, NOW, **more)  # type: ignore[arg-type]


def keys(text: str) -> Counter[tuple[SectionName, str, bool]]:
    return Counter((name, block.key, block.pinned) for name, block in parse(text).lines())


@pytest.mark.parametrize(("above", "at"), [(None, 0), ("Two.", 1), ("Three.", 2), ("", 3), ("It left.", 0)])
def test_a_new_line_goes_above_the_one_that_is_named(above: str | None, at: int) -> None:
    text, new = memory("One.", "Two.", "Three."), CurrentLine("L9", BOND, "New.", 0.5, Trust.AGENT, NOW)
    page = Page(text, ledger(text), 10)
    assert page.change(Change(Why.ADDED, (), (new,), above=above)) is not None
    stand = [block.text for _, block in parse(page.text(NOW, "calm")).lines()]
    assert stand.index("New.") == at
    assert [one for one in stand if one != "New."] == ["One.", "Two.", "Three."]


@examples(400)
@given(memories(), st.one_of(memories(), any_text))
def test_what_a_person_left_is_taken_in_exactly(before: str, after: str) -> None:
    """The lines that stay where they are, moved or not, and those that come are the lines of the text."""
    standing, done = ledger(before), left(before, after)
    gone = [line.id for change in done.changes for line in change.gone]
    assert len(gone) == len(set(gone))
    stay = [line for line in standing if line.id not in gone]
    found = lines_in(parse(after), stay)
    assert {line.id for line in found} == {line.id for line in stay}
    come = [line for change in done.changes for line in change.come]
    texts = Counter((line.section, normalise(line.text), line.pinned) for line in (*found, *come))
    assert texts == keys(after)
    assert all(line.trust is Trust.OWNER for line in come)
    there = {key for _, key, _ in keys(after)}
    assert not there & {normalise(one) for one in done.deleted}


@examples(200)
@given(memories(), memories())
def test_a_restore_gives_the_lines_of_the_older_text(older: str, newer: str) -> None:
    standing = ledger(newer)
    changes = restored_text(
        standing, older, NOW, lambda one: (replace(one, trust=Trust.AGENT, importance=0.7), ("c1",))
    )
    gone = {line.id for change in changes for line in change.gone}
    come = [line for change in changes for line in change.come]
    stay = lines_in(parse(older), [line for line in standing if line.id not in gone])
    assert Counter((line.section, normalise(line.text), line.pinned) for line in (*stay, *come)) == keys(older)
    assert {change.why for change in changes} <= {Why.EVICTED, Why.ADDED}
    assert all((line.trust, line.importance) == (Trust.AGENT, 0.7) for line in come)
    assert all(change.evidence == ("c1",) for change in changes if change.come)


FACTS = [
    f"Fact number {n} about {word}." for n, word in enumerate(["tea", "chess", "Bonn", "ports", "DNS", "cats"], 1)
]


def test_a_few_lines_gone_are_deleted_and_most_of_them_at_once_an_accident() -> None:
    few = left(memory(*FACTS), memory(*FACTS[2:]))
    assert (few.deleted, few.problems) == (tuple(FACTS[:2]), ())
    assert [change.why for change in few.changes] == [Why.DELETED] * 2
    lost = left(memory(*FACTS), memory(*FACTS[LEAST_ACCIDENT:]))
    assert lost.deleted == ()
    assert lost.problems[0].startswith("5 of 6 lines are gone from MEMORY.md: taken as an accident")
    assert left(memory(*FACTS), "").deleted == ()
    # Ten of thirty are a wish.
    many = [f"Fact number {n} is a fact." for n in range(30)]
    assert len(left(memory(*many), memory(*many[10:])).deleted) == 10


def test_a_line_that_is_worded_otherwise_is_revised_and_a_corrected_number_is_not_written_again() -> None:
    before = memory("The deadline of the report is March 20.")
    for after, unwanted in (
        ("The deadline of the report is March 25.", ("The deadline of the report is March 20.",)),
        ("The deadline of our report is March 20.", ()),
    ):
        done = left(before, memory(after))
        (change,) = done.changes
        assert (change.why, [one.text for one in change.come]) == (Why.REVISED, [after])
        assert done.deleted == unwanted
    other = left(before, memory("Anna plays chess."))
    assert [change.why for change in other.changes] == [Why.DELETED, Why.ADDED]
    assert other.deleted == ("The deadline of the report is March 20.",)


@pytest.mark.parametrize(
    ("text", "is_same"),
    [
        ("the deadline of the report  is MARCH 20", True),
        ("By now the deadline of the report is March 20.", True),
        ("The deadline of the report is March 25.", False),
        ("The deadline of the report is March.", False),
        ("The deadline of the report is March 20, not 25.", False),
        ("The deadline of the tax return is March 20.", False),
    ],
)
def test_a_deleted_line_is_known_by_three_quarters_of_its_words_and_by_its_numbers(
    text: str, *, is_same: bool
) -> None:
    assert same_as_deleted(text, "The deadline of the report is March 20.") is is_same


def test_what_stands_again_is_wanted_again() -> None:
    done = left(memory("Tea."), memory("Tea.", "Anna smokes."), unwanted=("anna SMOKES.", "Anna drinks."))
    assert done.lifted == ("anna SMOKES.",)


def test_a_line_that_moved_or_is_pinned_is_the_same_line() -> None:
    line = ledger(memory("Tea."))
    assert owners_text(line, memory("Tea.", section=CONTEXT), NOW).changes == ()
    (moved,) = lines_in(parse(memory("Tea. 📌", section=CONTEXT)), line)
    assert moved == replace(line[0], section=CONTEXT, pinned=True)
    assert match(line, [(CONTEXT, "tea"), (BOND, "Tea."), (BOND, "Tea.")]) == [None, line[0], None]


def test_a_person_did_not_delete_what_they_never_saw_nor_keep_what_they_took_out() -> None:
    standing = memory("Tea.", "Anna plays chess.")
    seen, after = memory("Tea.", "Ben sails."), memory("Tea.")
    done = left(standing, after, seen=seen)
    assert [(change.why, change.gone[0].text) for change in done.changes] == [(Why.EVICTED, "Anna plays chess.")]
    assert done.deleted == ("Ben sails.",)


sections = st.sampled_from(SectionName)


def line(section: SectionName, text: str) -> CurrentLine:
    return CurrentLine("", section, text, 0.5, Trust.AGENT, NOW)


def first_of_each(text: str) -> list[CurrentLine]:
    """The lines of a text; of those that say the same in one section the first."""
    seen = dict[tuple[SectionName, str], CurrentLine]()
    for number, (name, block) in enumerate(working(text).lines(), 1):
        made = replace(line(name, block.text), id=f"L{number}", pinned=block.pinned)
        seen.setdefault((name, block.key), made)
    return list(seen.values())


@st.composite
def pages(draw: st.DrawFn) -> Page:
    """A page of a memory that says nothing twice in a section."""
    text = draw(memories())
    keys = Counter((name, block.key) for name, block in working(text).lines())
    if max(keys.values(), default=1) > 1:
        text = ""
    lines = first_of_each(text)
    return Page(text, lines, len(list(working(text).lines())) + 1)


@st.composite
def changes(draw: st.DrawFn, page: Page) -> Change:
    """A change of lines that stand and some that do not, to new lines and old ones."""
    standing = list(page.lines.values())
    stand = st.sampled_from(standing) if standing else st.nothing()
    gone = draw(st.lists(stand | st.just(replace(line(SectionName.BOND, "x"), id="L999")), max_size=3, unique=True))
    if len(gone) == 1 and gone[0].id != "L999" and draw(st.booleans()):
        return Change(Why.PINNED, tuple(gone), (replace(gone[0], pinned=not gone[0].pinned),))
    come = draw(st.lists(st.builds(line, sections, new_lines) | stand, max_size=2))
    return Change(draw(st.sampled_from([Why.ADDED, Why.MERGED, Why.MOVED])), tuple(gone), tuple(come))


def rows(page: Page) -> Counter[tuple[SectionName, str, bool]]:
    return Counter((one.section, normalise(one.text), one.pinned) for one in page.lines.values())


def in_text(page: Page) -> Counter[tuple[SectionName, str, bool]]:
    return Counter((name, block.key, block.pinned) for name, block in page.document.lines())


@examples(300)
@given(pages(), st.data())
def test_text_and_lines_stay_one_and_every_change_can_be_taken_back(page: Page, data: st.DataObject) -> None:
    before, text = rows(page), render(page.document)
    assert before == in_text(page)
    for _ in range(data.draw(st.integers(1, 5))):
        change, was = data.draw(changes(page)), (rows(page), render(page.document), len(page.changes))
        done = page.change(change)
        assert rows(page) == in_text(page)
        assert parse(render(page.document)).missing == ()
        if done is None:
            assert (rows(page), render(page.document), len(page.changes)) == was
            continue
        assert not {one.id for one in done.gone} - {one.id for one in done.come} & page.lines.keys()
        assert all(page.lines[one.id] == one for one in done.come)
        assert done == page.changes[-1]
    # The same edits on the text of before come to the same text.
    document, left_out = edited(working(text), [edit for one in page.changes for edit in one.edits])
    assert (left_out, render(document)) == ((), render(page.document))
    for change in reversed(list(page.changes)):
        back = replace(change.inverse, gone=tuple(one for one in map(page.stands, change.come) if one is not None))
        assert page.change(back) is not None
        assert rows(page) == in_text(page)
    assert rows(page) == before


@examples(100)
@given(pages(), st.data())
def test_lines_that_are_taken_back_stand_where_they_stood(page: Page, data: st.DataObject) -> None:
    standing = list(page.lines.values())
    leave = data.draw(st.lists(st.sampled_from(standing), max_size=3, unique=True)) if standing else []
    text = render(page.document)
    for one in leave:
        page.change(Change(Why.EVICTED, (one,)))
    page.take_back(leave)
    assert (render(page.document), list(page.changes)) == (text, [])
    assert rows(page) == in_text(page)


def test_a_line_is_found_by_its_text_and_best_by_its_id_and_its_section() -> None:
    lines = [replace(line(name, "Tea."), id=f"L{n}") for n, name in enumerate(SectionName, 1)]
    page = Page("", lines, 9)
    assert page.stands(replace(lines[2], id="L9")) == lines[2]
    assert page.stands(replace(lines[2], section=SectionName.BOND)) == lines[2]
    assert page.stands(replace(lines[2], text="Coffee.")) is None


def test_a_pinned_line_that_moves_or_comes_back_has_its_pin() -> None:
    text = memory("Tea. 📌")
    (tea,) = ledger(text)
    for come in ((replace(tea, section=CONTEXT),), ()):
        page = Page(text, [tea], 2)
        done = page.change(Change(Why.MOVED, (tea,), come))
        assert done is not None
        assert rows(page) == in_text(page) == Counter((one.section, "tea.", True) for one in come)
        page.change(done.inverse)
        assert rows(page) == in_text(page) == Counter([(BOND, "tea.", True)])


def test_a_line_that_stands_in_its_section_does_not_come_again() -> None:
    page = Page("", (), 1)
    tea = line(SectionName.BOND, "Tea.")
    assert page.change(Change(Why.ADDED, (), (tea, tea))) is not None
    assert [one.id for one in page.lines.values()] == ["L1"]
    assert page.change(Change(Why.ADDED, (), (replace(tea, text="TEA."),))) is None
