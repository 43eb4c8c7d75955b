"""Laws of MEMORY.md: nothing is lost in reading, and an edit changes only what it names."""

from collections import Counter
from datetime import UTC, datetime

from hypothesis import assume, example, given
from hypothesis import strategies as st

from state.document.document import (
    Document,
    Edit,
    Part,
    SectionName,
    complete,
    is_placeholder,
    parse,
    render,
    stamped,
)
from state.document.editing import edited
from state.text.words import normalise
from tests.support.documents import any_text, memories, new_lines, texts
from tests.support.long_variants import examples

NOW = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
moods = st.sampled_from(["calm", "energized, alert", "deeply connected"])
sections = st.sampled_from(list(SectionName))


def substantial(part: Part) -> list[str]:
    """Everything of a part but blank rows and placeholders; the last row's newline does not count."""
    return [
        block.raw.rstrip("\r\n")
        for block in part.blocks
        if block.raw.strip() and (block.content or not is_placeholder(block.raw))
    ]


def lines_of(document: Document) -> list[tuple[SectionName, str]]:
    return [(name, block.key) for name, block in document.lines()]


def line_rows(document: Document) -> list[tuple[str, list[str]]]:
    """Headings and all that stands under them, blank rows apart."""
    return [(part.heading.rstrip("\r\n"), substantial(part)) for part in document.parts]


@examples(400)
@given(any_text)
@example("## The Bond\r\n- a\n\n---\r\n## The Bond\n")
@example("\ufeff# Working Memory State\n- a")
@example("```\n## The Bond\n")
@example("a\u2028## The Bond\u2028b")
def test_render_undoes_parse(text: str) -> None:
    assert render(parse(text)) == text


@examples(300)
@given(any_text)
def test_every_heading_of_a_section_outside_fences_is_the_section_once(text: str) -> None:
    document = parse(text)
    named = [part.name for part in document.parts if part.name is not None]
    assert len(named) == len(set(named))
    assert set(document.missing) == set(SectionName) - set(named)


@examples(400)
@given(any_text)
@example("## The Phenotype\n- a\n```\nnever closed\n## The Bond\n- b\n")
@example("hello")
@example("<!--\nhidden\n")
def test_complete_yields_every_section_once_and_stays_so(text: str) -> None:
    whole = complete(parse(text))
    named = [part.name for part in whole.parts if part.name is not None]
    assert sorted(named) == sorted(SectionName)
    assert parse(render(whole)) == whole
    assert complete(whole) == whole


@examples(300)
@given(any_text, moods)
@example("# Working Memory State\n_Last dream: never | Mood: calm_\nmy own words\n", "calm")
@example("# Working Memory State\nmy own words\n_Last dream: never | Mood: calm_\n", "calm")
def test_the_stamp_is_one_row_and_stamping_twice_is_stamping_once(text: str, mood: str) -> None:
    document = complete(parse(text))
    once = stamped(document, NOW, mood)
    assert stamped(once, NOW, mood) == once
    assert parse(render(once)) == once
    row = f"_Last dream: 2026-03-12T14:30:00Z | Mood: {mood}_"
    assert [r for r in render(once).splitlines() if r.strip() == row]


@st.composite
def documents_and_edits(draw: st.DrawFn) -> tuple[Document, Edit]:
    """A whole document and one edit of it: an addition, a revision, a removal or a merge."""
    document = complete(parse(draw(st.one_of(memories(), texts()))))
    name = draw(sections)
    part = document.section(name)
    assert part is not None
    there = [block.text for block in part.lines]
    old = tuple(draw(st.lists(st.sampled_from(there), max_size=3, unique_by=normalise))) if there else ()
    new = draw(st.one_of(new_lines, st.none())) if old else draw(new_lines)
    return document, Edit(name, old, new)


@examples(500)
@given(documents_and_edits())
def test_an_edit_changes_only_what_it_names(case: tuple[Document, Edit]) -> None:
    document, edit = case
    after, left_out = edited(document, [edit])
    if left_out:
        assert after == document
        return
    old, new = [normalise(text) for text in edit.old], normalise(edit.new) if edit.new is not None else None
    assert len(after.parts) == len(document.parts)
    for was, now in zip(document.parts, after.parts, strict=True):
        if was.name is not edit.section:
            assert now.raw == was.raw
            continue
        assert now.heading.rstrip("\r\n") == was.heading.rstrip("\r\n")
        gone = list(old)
        kept = []
        for block in was.blocks:
            if block.content and block.key in gone:
                gone.remove(block.key)
            elif block.raw.strip() and (block.content or not is_placeholder(block.raw)):
                kept.append(block.raw.rstrip("\r\n"))
        assert gone == []
        found = substantial(now)
        standing = Counter(block.key for block in was.lines) - Counter(old)
        if new is not None and new not in standing:
            at = next(i for i, block in enumerate(Part(None, "", now.blocks).lines) if block.key == new)
            found.remove([block.raw for block in now.lines][at].rstrip("\r\n"))
        assert found == kept


STAMPED = "## Crystal Pointers\n- a\n_Last dream: never | Mood: calm_\n{}- b\n"
APART = "## The Phenotype\n#hashtag\n_Nothing yet._\n  continued\n"
INSTEAD = Edit(SectionName.POINTERS, ("_Last dream: never | Mood: calm_",), "Anna")


@examples(500)
@given(documents_and_edits())
@example((complete(parse(STAMPED.format(""))), INSTEAD))
@example((complete(parse(STAMPED.format("more\n"))), INSTEAD))
@example((complete(parse(APART)), Edit(SectionName.PHENOTYPE, (), "Anna")))
def test_an_edited_document_is_read_as_it_was_written(case: tuple[Document, Edit]) -> None:
    document, edit = case
    after, _ = edited(document, [edit])
    assert parse(render(after)) == after


@st.composite
def documents_and_many_edits(draw: st.DrawFn) -> tuple[Document, tuple[Edit, ...]]:
    """A whole document and edits as a dream makes them: no line is named twice, no new line is an old one's text."""
    document = complete(parse(draw(memories())))
    assume(len(set(lines_of(document))) == len(lines_of(document)))
    free = [(name, block.text) for name, block in document.lines()]
    standing = {key for _, key in lines_of(document)}
    edits = []
    for _ in range(draw(st.integers(0, 5))):
        old = draw(st.lists(st.sampled_from(free), max_size=2, unique=True)) if free else []
        old = [one for one in old if one[0] is old[0][0]]
        free = [one for one in free if one not in old]
        new = draw(new_lines.filter(lambda text: normalise(text) not in standing)) if draw(st.booleans()) else None
        if new is None and not old:
            continue
        edits.append(Edit(old[0][0] if old else draw(sections), tuple(text for _, text in old), new))
    return document, tuple(edits)


@examples(300)
@given(documents_and_many_edits())
def test_the_same_edits_twice_are_the_edits_once(case: tuple[Document, tuple[Edit, ...]]) -> None:
    document, edits = case
    once, _ = edited(document, edits)
    twice, _ = edited(once, edits)
    assert twice == once
    assert parse(render(once)) == once


@examples(300)
@given(memories(), sections, new_lines)
def test_a_line_that_is_added_and_removed_leaves_the_same_lines(text: str, name: SectionName, new: str) -> None:
    document = complete(parse(text))
    assume((name, normalise(new)) not in lines_of(document))
    there, left_out = edited(document, [Edit(name, (), new)])
    assert left_out == ()
    assert (name, normalise(new)) in lines_of(there)
    gone, left_out = edited(there, [Edit(name, (new,), None)])
    assert left_out == ()
    assert lines_of(gone) == lines_of(document)
    assert [heading for heading, _ in line_rows(gone)] == [heading for heading, _ in line_rows(document)]


@given(memories(), sections)
def test_a_section_that_loses_its_last_line_says_so(text: str, name: SectionName) -> None:
    document = complete(parse(text))
    part = document.section(name)
    assert part is not None
    edits = [Edit(name, (block.text,), None) for block in part.lines]
    after, left_out = edited(document, edits)
    assert left_out == ()
    emptied = after.section(name)
    assert emptied is not None
    assert emptied.lines == ()
    if edits:
        assert any(not block.raw.startswith(("---", "#", "<!--")) and block.raw.strip() for block in emptied.blocks)
