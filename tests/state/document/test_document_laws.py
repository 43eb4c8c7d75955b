"""Laws of MEMORY.md: nothing is lost in reading, an edit changes only what it names, and the human wins."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from state.document.document import Document, Edit, Part, blank, complete, parse, render, stamped
from state.document.editing import edited
from state.document.markdown import is_stamp, rows_of
from state.document.merge import difference, merged, removed_lines, working
from state.document.sections import SectionName, is_placeholder
from state.document.seed import split_seed
from state.text.words import normalise
from tests.support.documents import any_text, memories, new_lines, sentences, texts
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


@examples(400)
@given(any_text)
@example("## The Bond\r\n- a\n\n---\r\n## The Bond\n")
@example("\ufeff# Working Memory State\n- a")
@example("```\n## The Bond\n")
@example("a\u2028## The Bond\u2028b")
def test_render_undoes_parse(text: str) -> None:
    assert render(parse(text)) == text


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


STAMPED = "## Crystal Pointers\n- a\n_Last dream: never | Mood: calm_\n{}- b\n"

APART = "## The Phenotype\n#hashtag\n_Nothing yet._\n  continued\n"

INSTEAD = Edit(SectionName.POINTERS, ("_Last dream: never | Mood: calm_",), "Anna")


@examples(500)
@given(documents_and_edits())
@example((complete(parse(STAMPED.format(""))), INSTEAD))
@example((complete(parse(STAMPED.format("more\n"))), INSTEAD))
@example((complete(parse(APART)), Edit(SectionName.PHENOTYPE, (), "Anna")))
def test_an_edit_changes_only_what_it_names_and_is_read_as_it_was_written(case: tuple[Document, Edit]) -> None:
    document, edit = case
    after, left_out = edited(document, [edit])
    assert parse(render(after)) == after
    if left_out:
        assert after == document
        return
    assert len(after.parts) == len(document.parts)
    for was, now in zip(document.parts, after.parts, strict=True):
        if was.name is edit.section:
            only_what_is_named_changed(was, now, edit)
        else:
            assert now.raw == was.raw


def only_what_is_named_changed(was: Part, now: Part, edit: Edit) -> None:
    old, new = [normalise(text) for text in edit.old], normalise(edit.new) if edit.new is not None else None
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


MOOD = "energized, alert"


@dataclass(frozen=True)
class Meeting:
    """A version, a dream's edits of it, and what a human made of it meanwhile."""

    before: str
    edits: tuple[Edit, ...]
    human: str


def keys(text: str) -> set[tuple[SectionName, str]]:
    return {(name, block.key) for name, block in parse(text).lines()}


@st.composite
def versions(draw: st.DrawFn) -> str:
    """A committed version: all sections, no line twice."""
    text = render(stamped(complete(parse(draw(memories()))), NOW, "calm"))
    lines = [block.key for _, block in parse(text).lines()]
    assume(len(lines) == len(set(lines)))
    return text


@st.composite
def dreams(draw: st.DrawFn, before: str) -> tuple[Edit, ...]:
    """Edits as a dream makes them: no line is named twice, nothing new says what a standing line says."""
    free = [(name, block.text) for name, block in parse(before).lines()]
    used = {key for _, key in keys(before)}
    edits = []
    for _ in range(draw(st.integers(0, 5))):
        old = draw(st.lists(st.sampled_from(free), max_size=2, unique=True)) if free else []
        old = [one for one in old if one[0] is old[0][0]]
        free = [one for one in free if one not in old]
        new = draw(st.one_of(new_lines, st.none()))
        if (new is None and not old) or (new is not None and normalise(new) in used):
            continue
        used |= {normalise(new)} if new is not None else set()
        section = old[0][0] if old else draw(st.sampled_from(list(SectionName)))
        edits.append(Edit(section, tuple(text for _, text in old), new))
    return tuple(edits)


@st.composite
def meetings(draw: st.DrawFn) -> Meeting:
    """The human deletes, adds and rewrites rows anywhere, the same lines as the dream among them."""
    before = draw(versions())
    edits = draw(dreams(before))
    rows = []
    for row in rows_of(before):
        choice = draw(st.integers(0, 9))
        heading = row.startswith("#")
        if choice == 0 and not heading:
            continue
        if choice == 1 and not heading and row.strip():
            row = row.rstrip("\r\n") + " " + draw(sentences) + "\n"  # noqa: PLW2901
        rows.append(row)
        if choice == 2:
            rows.append(draw(st.sampled_from(["- ", "* ", "", "## Mine\n\n"])) + "mine: " + draw(sentences) + "\n")
    return Meeting(before, edits, "".join(rows))


@examples(500)
@given(meetings())
def test_a_dream_and_a_human_meet_and_the_human_wins(case: Meeting) -> None:
    own, left_out = edited(working(case.before), case.edits)
    assert merged(case.before, case.before, case.edits, NOW, MOOD) == (render(stamped(own, NOW, MOOD)), left_out)
    result, gave_way = merged(case.before, case.human, case.edits, NOW, MOOD)
    there = {key for _, key in keys(result)}
    every_row_that_the_human_wrote_stands(case, result, there)
    gone = {normalise(text) for text in removed_lines(case.before, case.human)}
    assert not gone & there, "what the human removed came back"
    assert set(gave_way) <= set(case.edits)
    assert {normalise(edit.new) for edit in case.edits if edit not in gave_way and edit.new is not None} <= there
    assert merged(case.before, result, case.edits, NOW, MOOD)[0] == result, "merging again changed something"


def every_row_that_the_human_wrote_stands(case: Meeting, result: str, there: set[str]) -> None:
    before = {row.strip() for row in rows_of(case.before)}
    stand = {row.strip() for row in rows_of(result)}
    for row in rows_of(case.human):
        assert row.strip() in before | stand or is_placeholder(row) or is_stamp(row), row
    named = {normalise(text) for edit in case.edits for text in edit.old}
    assert {key for _, key in keys(case.human)} - named <= there


@examples(200)
@given(any_text.filter(lambda text: bool(text.strip()) and not parse(text).has_schema), versions().flatmap(dreams))
@example("```\nnever closed", (Edit(SectionName.BOND, (), "a"),))
@example("## The Bond\n- mine", (Edit(SectionName.BOND, (), "a"),))
def test_a_text_without_the_schema_stays_byte_for_byte(human: str, edits: tuple[Edit, ...]) -> None:
    result, _ = merged("", human, edits, NOW, MOOD)
    assert result.startswith(human)
    assert parse(result).missing == ()


@examples(300)
@given(memories(), memories())
def test_the_difference_applied_to_one_text_gives_the_lines_of_the_other(one: str, other: str) -> None:
    after, _ = edited(working(one), difference(one, other))
    assert keys(render(after)) == keys(other)


def test_a_line_that_the_human_removed_is_not_written_again_where_the_dream_moved_it() -> None:
    document, _ = edited(working(""), [Edit(SectionName.BOND, (), "Anna deploys")])
    before = render(stamped(document, NOW, MOOD))
    moved = (Edit(SectionName.BOND, ("Anna deploys",), None), Edit(SectionName.CONTEXT, (), "Anna deploys"))
    assert keys(merged(before, before, moved, NOW, MOOD)[0]) == {(SectionName.CONTEXT, "anna deploys")}
    result, gave_way = merged(before, before.replace("- Anna deploys\n", ""), moved, NOW, MOOD)
    assert set(gave_way) == set(moved)
    assert "Anna deploys" not in result


def test_a_line_that_the_human_wrote_once_more_stays() -> None:
    document, _ = edited(working(""), [Edit(SectionName.BOND, (), "Anna deploys")])
    before = render(stamped(document, NOW, MOOD))
    human = before.replace("- Anna deploys\n", "- Anna deploys\n- Anna deploys\n")
    for edit in (Edit(SectionName.BOND, ("Anna deploys",), None), Edit(SectionName.BOND, ("Anna deploys",), "Bo")):
        result, gave_way = merged(before, human, (edit,), NOW, MOOD)
        assert gave_way == (edit,)
        assert result.count("Anna deploys") == 2


OWNERS = (
    "# Mine\n\n## People\n\n- Ada runs the lab.\n- Bert is away.\n\n"
    "### Guests\n\n* Cleo\n\n## Empty\n\n## Build\n- make check\n"
)


def above(text: str, *leaving: str) -> str:
    document, left_out = edited(working(text), [Edit(None, (one,), None) for one in leaving])
    assert left_out == ()
    parts = split_seed(render(document))
    assert parts is not None
    assert render(parse(render(document))) == render(document)
    return parts[0]


@pytest.mark.parametrize(
    ("leaving", "left"),
    [
        (["Bert is away."], OWNERS.replace("- Bert is away.\n", "")),
        (["Cleo"], OWNERS.replace("### Guests\n\n* Cleo\n\n", "")),
        (["make check"], OWNERS.replace("## Build\n- make check\n", "")),
        (["Ada runs the lab.", "Bert is away."], OWNERS.replace("- Ada runs the lab.\n- Bert is away.\n\n", "")),
        (["Ada runs the lab.", "Cleo", "Bert is away."], "# Mine\n\n## Empty\n\n## Build\n- make check\n"),
    ],
)
def test_a_heading_above_the_rule_goes_with_the_last_text_under_it(leaving: list[str], left: str) -> None:
    assert above(OWNERS, *leaving).rstrip("\n") == left.rstrip("\n")


def test_an_addition_may_stand_first_but_under_no_heading_of_the_owners() -> None:
    document, _ = edited(blank(), [Edit(SectionName.CONTEXT, (), text, first=True) for text in ("one", "two")])
    assert "## Active Context\n\n- two\n- one\n" in render(document)
    mine = render(document).replace("- two", "### Mine\n\n- two")
    after = render(edited(parse(mine), [Edit(SectionName.CONTEXT, (), "three", first=True)])[0])
    assert "### Mine\n\n- two\n- one\n- three\n" in after


@examples(200)
@given(any_text)
def test_a_pin_changes_the_bytes_of_its_line_alone_and_is_taken_back(text: str) -> None:
    document = parse(text)
    for name, block in document.lines():
        twins = sum(other.key == block.key for _, other in document.lines())
        pin = Edit(name, (block.text,), pinned=not block.pinned)
        after, left_out = edited(document, [pin])
        if left_out or twins > 1:
            continue
        read = parse(render(after))
        assert [(where, one.text) for where, one in read.lines()] == [
            (where, one.text) for where, one in document.lines()
        ]
        changed = [
            (one, other) for (_, one), (_, other) in zip(document.lines(), read.lines(), strict=True) if one != other
        ]
        assert [(one.pinned, other.pinned) for one, other in changed] == [(block.pinned, not block.pinned)]
        assert edited(after, [pin])[1] == (pin,)
        if not block.pinned:
            back, _ = edited(after, [Edit(name, (block.text,), pinned=False)])
            assert render(back) == render(document)


@pytest.mark.parametrize(
    ("row", "pinned"),
    [
        ("- Ada plays chess\n", "- Ada plays chess 📌\n"),
        ("Ada plays\nchess\n", "Ada plays 📌\nchess\n"),
        ("* Ada plays  \r\n  chess\r\n", "* Ada plays 📌  \r\n  chess\r\n"),
        ("```python\nchess()\n```\n", "```python 📌\nchess()\n```\n"),
    ],
)
def test_a_pin_stands_at_the_end_of_the_first_row(row: str, pinned: str) -> None:
    document = parse(f"## The Bond\n\n{row}")
    ((name, block),) = document.lines()
    after, _ = edited(document, [Edit(name, (block.text,), pinned=True)])
    assert render(after) == f"## The Bond\n\n{pinned}"
