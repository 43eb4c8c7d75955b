"""Laws of merging: the human wins, line by line, and nothing that a human wrote is lost."""

from dataclasses import dataclass
from datetime import UTC, datetime

from hypothesis import assume, example, given
from hypothesis import strategies as st

from state.document.document import Edit, SectionName, complete, is_placeholder, parse, render, stamped
from state.document.editing import edited
from state.document.markdown import is_stamp, rows_of
from state.document.merge import difference, merged, removed_lines, working
from state.text.words import normalise
from tests.support.documents import any_text, memories, new_lines, sentences
from tests.support.long_variants import examples

NOW = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
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


@examples(300)
@given(meetings())
def test_without_a_human_merging_is_the_dreams_own_result(case: Meeting) -> None:
    own, left_out = edited(working(case.before), case.edits)
    assert merged(case.before, case.before, case.edits, NOW, MOOD) == (render(stamped(own, NOW, MOOD)), left_out)


@examples(400)
@given(meetings())
def test_every_row_that_the_human_wrote_stands_in_the_result(case: Meeting) -> None:
    result, _ = merged(case.before, case.human, case.edits, NOW, MOOD)
    before = {row.strip() for row in rows_of(case.before)}
    for row in rows_of(case.human):
        if row.strip() in before or is_placeholder(row) or is_stamp(row):
            continue
        assert row.strip() in [other.strip() for other in rows_of(result)], row
    there = {key for _, key in keys(result)}
    named = {normalise(text) for edit in case.edits for text in edit.old}
    assert {key for _, key in keys(case.human)} - named <= there


@examples(400)
@given(meetings())
def test_a_line_that_the_human_removed_does_not_come_back(case: Meeting) -> None:
    gone = {normalise(text) for text in removed_lines(case.before, case.human)}
    result, _ = merged(case.before, case.human, case.edits, NOW, MOOD)
    assert not gone & {key for _, key in keys(result)}


@examples(300)
@given(meetings())
def test_an_edit_applies_or_is_reported(case: Meeting) -> None:
    result, gave_way = merged(case.before, case.human, case.edits, NOW, MOOD)
    assert set(gave_way) <= set(case.edits)
    there = {key for _, key in keys(result)}
    for edit in case.edits:
        if edit in gave_way:
            continue
        if edit.new is not None:
            assert normalise(edit.new) in there


@examples(300)
@given(meetings())
def test_merging_again_changes_nothing(case: Meeting) -> None:
    result, _ = merged(case.before, case.human, case.edits, NOW, MOOD)
    assert merged(case.before, result, case.edits, NOW, MOOD)[0] == result


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


def test_a_line_that_the_human_wrote_once_more_stays() -> None:
    document, _ = edited(working(""), [Edit(SectionName.BOND, (), "Anna deploys")])
    before = render(stamped(document, NOW, MOOD))
    human = before.replace("- Anna deploys\n", "- Anna deploys\n- Anna deploys\n")
    for edit in (Edit(SectionName.BOND, ("Anna deploys",), None), Edit(SectionName.BOND, ("Anna deploys",), "Bo")):
        result, gave_way = merged(before, human, (edit,), NOW, MOOD)
        assert gave_way == (edit,)
        assert result.count("Anna deploys") == 2
