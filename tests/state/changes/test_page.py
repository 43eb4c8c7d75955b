"""Laws of a page: text and lines change together, or neither, and every change can be taken back."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from state.changes.change import Change, CurrentLine
from state.changes.page import Page
from state.document.document import SectionName, parse, render
from state.document.editing import edited
from state.document.merge import working
from state.document.operations import Why
from state.text.words import normalise
from state.trust import Trust
from tests.support.documents import memories, new_lines
from tests.support.long_variants import examples

NOW = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
sections = st.sampled_from(SectionName)


def line(section: SectionName, text: str) -> CurrentLine:
    return CurrentLine("", section, text, 0.5, Trust.AGENT, NOW)


def ledger(text: str) -> list[CurrentLine]:
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
    lines = ledger(text)
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


def rows(page: Page) -> Counter[tuple[SectionName, str]]:
    return Counter((one.section, normalise(one.text)) for one in page.lines.values())


def in_text(page: Page) -> Counter[tuple[SectionName, str]]:
    return Counter((name, block.key) for name, block in page.document.lines())


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
        back = replace(change.undone, gone=tuple(one for one in map(page.stands, change.come) if one is not None))
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


def test_a_line_that_stands_in_its_section_does_not_come_again() -> None:
    page = Page("", (), 1)
    tea = line(SectionName.BOND, "Tea.")
    assert page.change(Change(Why.ADDED, (), (tea, tea))) is not None
    assert [one.id for one in page.lines.values()] == ["L1"]
    assert page.change(Change(Why.ADDED, (), (replace(tea, text="TEA."),))) is None
