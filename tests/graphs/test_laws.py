"""Laws of a dream: whatever a model answers, in however many answers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given

from graphs import extractive, talk
from graphs.dream import Dreamer
from graphs.places import arrange
from graphs.room import A_LITTLE, fit
from graphs.sheet import CHANGED, EVICTIONS, WRITTEN_BY_CODE, Sheet
from state.changes.change import CurrentLine
from state.changes.owner import same_as_deleted
from state.changes.page import Page
from state.codec import decode, encode
from state.document.document import parse, render
from state.document.operations import Why
from state.dream import Dream, Kind, Snapshot, Usage, encode_record
from state.reading import length_given
from state.text.words import content_terms, normalise, numbers, repeat_key
from tests.graphs.lives import Life, lives, snapshots
from tests.graphs.world import POINTERS, World, ports
from tests.support.long_variants import examples

REFUSED = "These were refused:"


@examples(800)
@given(lives())
def test_whatever_is_answered_a_dream_keeps_its_laws(life: Life) -> None:
    """A life is costly to draw and to play: each law looks at the same ones, as the dream comes to them."""
    sheet = talk.heard(life.read, life.messages())
    the_lines_of_the_text_are_the_lines_of_the_sheet(sheet, render(sheet.document))
    a_third_of_the_memory_at_most_changes_without_asking(life, sheet)
    extractive.finish(sheet)
    the_lines_of_the_text_are_the_lines_of_the_sheet(sheet, render(sheet.document))
    nothing_of_the_owners_leaves_without_asking(life, sheet)
    fit(sheet, World())
    arrange(sheet, World())
    dream = sheet.dream("scripted", Usage(), 0.0)
    the_lines_of_the_text_are_the_lines_of_the_sheet(sheet, dream.after)
    no_section_is_missing_and_no_line_stands_twice(sheet, dream)
    each_line_that_left_is_a_crystal_of_the_dream(life, dream)
    the_changes_are_the_dream_and_undoing_them_gives_the_old_lines_back(life, dream)
    the_file_fits_its_budget_or_says_why_not(life, sheet, dream)
    what_the_owner_deleted_or_had_forgotten_never_comes(life, dream)
    a_note_that_no_answer_names_is_not_taken_in(life, dream)
    it_is_a_value_that_can_be_kept_without_what_is_secret_or_forgotten(life, dream)
    the_same_conversation_comes_to_the_same_sheet(life, sheet, dream)


def rows_of(sheet: Page) -> Counter[tuple[object, str, bool]]:
    return Counter(
        (line.section, normalise(line.text), line.pinned) for line in sheet.lines.values() if not line.above
    )


def the_lines_of_the_text_are_the_lines_of_the_sheet(sheet: Sheet, text: str) -> None:
    assert rows_of(sheet) == Counter((name, block.key, block.pinned) for name, block in parse(text).lines())


def a_third_of_the_memory_at_most_changes_without_asking(life: Life, sheet: Sheet) -> None:
    today = life.read.now.date().isoformat()
    began = [line for line in life.read.lines if line.section not in WRITTEN_BY_CODE]
    stand = [(content_terms(line.text), set(numbers(line.text))) for line in sheet.standing]

    def is_said(text: str) -> bool:
        words, counted = content_terms(text), set(numbers(text))
        return any(counted <= figures and 3 * len(words & said) >= 2 * len(words) for said, figures in stand)

    gone = [line for line in began if not is_said(line.text) and not ("" < line.until < today)]
    assert len(gone) <= max(CHANGED, len(began) // 3)
    evicted = [change for change in sheet.changes if change.why in (Why.EVICTED, Why.ANSWERED)]
    assert len(evicted) <= EVICTIONS


def nothing_of_the_owners_leaves_without_asking(life: Life, sheet: Sheet) -> None:
    theirs = {line.id: line for line in life.read.lines if line.pinned or line.id in life.read.handwritten}
    assert {name: sheet.lines.get(name) for name in theirs} == theirs


def no_section_is_missing_and_no_line_stands_twice(sheet: Sheet, dream: Dream) -> None:
    assert parse(dream.after).missing == parse(dream.after).doubled == ()
    stand = Counter(normalise(line.text) for line in sheet.standing)
    assert max(stand.values(), default=1) == 1


def each_line_that_left_is_a_crystal_of_the_dream(life: Life, dream: Dream) -> None:
    redact = life.read.redaction.of
    said = {one.id: redact(one.text) for one in life.read.notes}  # as notes come in
    known = {one.id: one.text for one in (*dream.crystals, *life.read.twins, *life.read.pointed)} | said
    for line, _ in dream.left:
        assert line.crystal in known
        if line.section is not POINTERS:
            assert normalise(known[line.crystal]) == normalise(redact(line.text))


def the_changes_are_the_dream_and_undoing_them_gives_the_old_lines_back(life: Life, dream: Dream) -> None:
    page = Page(life.read.text, (*life.read.lines, *life.read.old_text), life.read.next_line)
    before = rows_of(page)
    for change in dream.changes:
        assert page.change(replace(change, gone=today(page, change.gone))) is not None
    assert page.text(dream.at, dream.mood) == dream.after
    for change in reversed(dream.changes):
        # Text from before the first dream does not come back above the title.
        back = tuple(line for line in change.gone if not line.above)
        undone = replace(change.inverse, gone=today(page, change.come), come=back)
        assert not (undone.gone or undone.come) or page.change(undone) is not None
    assert rows_of(page) == before


def today(page: Page, lines: Sequence[CurrentLine]) -> tuple[CurrentLine, ...]:
    """The lines as the page has them; a line above the title has no id of a version."""
    above = {normalise(one.text): one for one in page.lines.values() if one.above}
    found = [above.get(normalise(line.text)) if line.above else page.stands(line) for line in lines]
    return tuple(line for line in found if line is not None)


def the_file_fits_its_budget_or_says_why_not(life: Life, sheet: Sheet, dream: Dream) -> None:
    assert length_given(dream.after) <= life.read.budget or "budget" in {one.guard for one in sheet.refused}
    pinned = {line.id for line in life.read.lines if line.pinned}
    assert pinned <= sheet.lines.keys()


def what_the_owner_deleted_or_had_forgotten_never_comes(life: Life, dream: Dream) -> None:
    for line in dream.came:
        assert not life.read.forgotten.found(line.text), line.text
        assert not any(same_as_deleted(line.text, one) for one in life.read.tombstones), line.text
    for crystal in dream.crystals:
        assert crystal in life.read.notes or not life.read.forgotten.found(crystal.text)


def a_note_that_no_answer_names_is_not_taken_in(life: Life, dream: Dream) -> None:
    for piece in life.read.evidence:
        if piece.kind is Kind.NOTE and not piece.replaces and not any(f'"{piece.id}"' in one for one in life.answers):
            taken = int(piece.id[1:]) in dream.taken
            said = any(piece.crystal in change.evidence for change in dream.changes)
            assert not taken
            assert not said
            assert piece.crystal not in dream.dreamt


def it_is_a_value_that_can_be_kept_without_what_is_secret_or_forgotten(life: Life, dream: Dream) -> None:
    changes = tuple(replace(one, above=None) for one in dream.changes)
    kept = replace(dream, before="", after="", joined=False, crystals=(), changes=changes)
    assert decode(Dream, encode_record(dream)) == kept
    assert "sk-ant-api03" not in encode(dream.refused)
    assert not life.read.forgotten.found(encode(dream.refused) + encode(dream.operations))


def the_same_conversation_comes_to_the_same_sheet(life: Life, sheet: Sheet, dream: Dream) -> None:
    again = talk.heard(life.read, life.messages())
    extractive.finish(again)
    fit(again, World())
    arrange(again, World())
    assert again.dream("scripted", Usage(), 0.0) == dream
    assert (again.told, again.refused, again.lines) == (sheet.told, sheet.refused, sheet.lines)


@examples(400)
@given(lives())
def test_a_model_is_told_of_every_refusal_and_never_asked_again_for_what_applied(life: Life) -> None:
    for count in range(1, len(life.answers) + 1):
        sheet = talk.heard(life.read, life.messages(count))
        for one in sheet.told:
            assert one.words
            assert len(one.words.splitlines()) == 1
        further = talk.reply(sheet, count)
        wrong = [one for one in sheet.told if one.mend]
        if further is None:
            much = sheet.length > (1 + A_LITTLE) * life.read.budget
            assert count == talk.MOST_ANSWERS or not (wrong or sheet.unread or much)
            continue
        assert "sk-ant-api03" not in further["content"]
        assert not life.read.forgotten.found(further["content"])
        said = further["content"].splitlines()
        refused = said[said.index(REFUSED) + 1 :] if REFUSED in said else []
        masked = life.read.forgotten.masked
        assert [one for one in wrong[:20] if not any(masked(one.words) in row for row in refused)] == []
        stands = said[: said.index(REFUSED)] if REFUSED in said else said
        applied = [one for one in sheet.told if one.applied]
        assert [one for one in applied[-20:] if not any(masked(one.words) in row for row in stands)] == []


@examples(200)
@given(snapshots())
def test_without_a_model_no_line_leaves_but_for_room_or_by_a_note_that_names_it(read: Snapshot) -> None:
    assert "sk-ant-api03" not in talk.opening(read)[1]["content"]
    ended = Dreamer(ports(World()), read).without_model()
    assert ended.dream is not None
    named = {name for piece in read.evidence for name in piece.replaces}
    for change in ended.dream.changes:
        if change.why is Why.EVICTED:
            continue
        assert {line.id for line in change.gone if not line.above} <= named | repeats(read, named)
    assert set(ended.dream.taken) == {row for row, _ in read.taken}


def repeats(read: Snapshot, named: set[str]) -> set[str]:
    """The lines that say already what a note says which names others."""
    said = {repeat_key(piece.text) for piece in read.evidence if piece.replaces}
    return {line.id for line in read.lines if repeat_key(line.text) in said} if named else set()
