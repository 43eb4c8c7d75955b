"""Whatever the owner accepts, undoes, or wants of single lines: nothing is lost or doubled, and each is told."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs import extractive, talk
from graphs.review import (
    AUTHOR,
    Asked,
    Carried,
    LineAction,
    Wish,
    change_lines,
    settle_proposals,
    still_applies,
    undo_changes,
)
from graphs.room import fit
from state.changes.change import Change
from state.changes.page import Page
from state.document.asking import Ask
from state.document.document import parse
from state.document.operations import Action, Operation
from state.document.sections import SectionName
from state.dream import EDIT, REVIEW, UNDO, Answer, Dream, Proposed, Snapshot, Usage
from state.text.words import normalise
from state.trust import Trust
from tests.graphs.lives import Life, lives, sentences, snapshots
from tests.graphs.world import (
    BOND,
    CONTEXT,
    POINTERS,
    World,
    add,
    evict,
    memory,
    revise,
    said,
    snapshot,
)
from tests.support.long_variants import examples

TEA, BONN, CHESS = "Anna prefers tea.", "Anna lives in Bonn.", "Anna plays chess."
TEXT = memory(bond=[TEA, BONN, f"{CHESS} 📌"], pointers=["Go → search: `anna go`"])


def after(read: Snapshot, dream: Dream) -> Snapshot:
    """What the next dream reads."""
    lines = {line.id: line for line in (*read.lines, *read.old_text)}
    for change in dream.changes:
        above = {line.text for line in change.gone if line.above}
        gone = {line.id for line in change.gone} | {
            line.id for line in lines.values() if line.above and line.text in above
        }
        lines = {name: line for name, line in lines.items() if name not in gone}
        lines |= {line.id: line for line in change.come}
    ids = [int(line.id[1:]) for line in lines.values()]
    return replace(
        read, text=dream.after, based_on=dream.number, next_line=max([read.next_line, *ids]) + 100,
        lines=tuple(line for line in lines.values() if not line.above),
        old_text=tuple(line for line in lines.values() if line.above),
        evidence=(), notes=(), taken=(), tombstones=(*read.tombstones, *dream.tombstones),
    )  # fmt: skip


def dreamt(read: Snapshot, world: World, *answers: str) -> Dream:
    """A dream with a model, committed."""
    sheet = talk.heard(read, [{"role": "assistant", "content": one} for one in answers])
    extractive.finish(sheet)
    fit(sheet, world)
    return world.commit(sheet.dream("scripted", Usage(), 0.0))


def asked(read: Snapshot, one: Proposed) -> Asked:
    """A proposal as the owner answers it: with its lines as they stood, and what it rests on."""
    lines = tuple(line for line in read.lines if line.id in one.operation.lines)
    evidence = tuple(piece for piece in read.evidence if piece.crystal in one.operation.cites)
    return Asked(one.operation, lines, evidence)


def accepted(read: Snapshot, *proposals: Asked, world: World | None = None) -> Carried:
    return settle_proposals(read, dict(enumerate(proposals, 1)), {}, world or World())


# Proposals and undoing


@examples(150)
@given(lives(), st.data())
def test_in_whatever_order_nothing_is_lost_or_doubled(life: Life, data: st.DataObject) -> None:
    world, read = World(), replace(life.read, ask=data.draw(st.sampled_from(Ask)))
    dream = dreamt(read, world, *life.answers)
    known = {line.text for line in read.lines if line.section is not POINTERS}
    world.upsert([*read.notes, *read.pointed])
    wishes: list[Asked | Change] = [*(asked(read, one) for one in dream.proposed), *dream.changes]
    read = after(read, dream)
    left = dict(enumerate(data.draw(st.permutations(wishes)), 1))
    while left:
        batch = dict([left.popitem() for _ in range(min(len(left), data.draw(st.integers(1, 3))))])
        proposals = {number: one for number, one in batch.items() if isinstance(one, Asked)}
        changes = {str(number): one for number, one in batch.items() if isinstance(one, Change)}
        if proposals:
            result = settle_proposals(read, proposals, {}, world)
            assert sorted([*result.done, *result.outdated, *result.refused]) == sorted(proposals)
            read = committed(read, world, result.dream, known)
        undone = undo_changes(read, changes, world, {})
        assert sorted([*undone.done, *undone.outdated]) == sorted(changes)
        read = committed(read, world, undone.dream, known)


def committed(read: Snapshot, world: World, dream: Dream | None, known: set[str]) -> Snapshot:
    """What the next dream reads; `known` is every line that ever stood."""
    if dream is None:
        return read
    done = world.commit(dream)
    assert (done.author, done.dreamt, done.taken) == (AUTHOR, (), ())
    assert done.cause in (REVIEW, UNDO)
    read = after(read, done)
    written = Counter((name, block.key) for name, block in parse(done.after).lines())
    assert written == Counter((line.section, normalise(line.text)) for line in read.lines)
    assert parse(done.after).missing == parse(done.after).doubled == ()
    standing = {normalise(line.text) for line in read.lines}
    kept = {normalise(crystal.text) for crystal in world.crystals.values()}
    known |= {line.text for line in read.lines if line.section is not POINTERS}
    assert {normalise(text) for text in known if read.redaction.of(text) == text} <= standing | kept
    return read


def waiting(operation: Operation, *notes: str) -> tuple[Snapshot, Asked]:
    """What a dream proposes since its owner is asked about everything."""
    read = snapshot(TEXT, *notes, ask=Ask.ALL)
    (one,) = talk.heard(read, [{"role": "assistant", "content": said(operation)}]).proposed
    return replace(read, evidence=(), notes=(), taken=(), ask=Ask.OWN), asked(read, one)


COFFEE = revise(BOND, "L1", "Anna prefers coffee.", "N1")


def page(read: Snapshot) -> Page:
    return Page(read.text, read.lines, read.next_line)


def test_an_accepted_one_keeps_its_evidence_and_its_trust() -> None:
    read, one = waiting(COFFEE, "Anna prefers coffee now.")
    result = settle_proposals(read, {7: one}, {}, World())
    assert result.dream is not None
    (made,) = result.dream.changes
    (line,) = made.come
    assert (line.text, line.trust, [one.text for one in made.gone]) == ("Anna prefers coffee.", Trust.AGENT, [TEA])
    assert made.evidence == (one.evidence[0].crystal,)
    assert (result.done, result.dream.reason, result.dream.answers) == ((7,), "accepted 7", (Answer(7, "accepted"),))
    assert still_applies(one.operation, one.lines, page(read))
    assert not still_applies(one.operation, one.lines, page(after(read, result.dream)))


def test_an_accepted_part_of_a_line_counts_as_much_as_the_line() -> None:
    read, one = waiting(add(BOND, "She lives in Bonn.", "L2"))
    read = replace(read, lines=tuple(replace(line, importance=0.9, trust=Trust.OWNER) for line in read.lines))
    result = accepted(read, one)
    assert result.dream is not None
    assert [(line.importance, line.trust) for line in result.dream.came] == [(0.9, Trust.OWNER)]


def test_pins_and_vetoes_hold_against_a_yes_and_a_pinned_line_that_is_revised_stays_pinned() -> None:
    read, one = waiting(COFFEE, "Anna smokes.")
    written = replace(one.operation, action=Action.ADD, text="Anna smokes.", lines=())
    evicted = replace(one, operation=evict(BOND, "L1", "Tea"))
    pinned = replace(
        read,
        lines=tuple(replace(line, pinned=line.id == "L1") for line in read.lines),
        tombstones=("Anna smokes.",),
    )
    result = accepted(pinned, evicted, replace(one, operation=written, lines=()))
    assert result.dream is None
    assert [(number, one.guard) for number, one in result.refused.items()] == [(1, "pinned"), (2, "human veto")]
    chess, about_chess = waiting(revise(BOND, "L3", "Anna plays go.", "N1"), "Anna plays go now.")
    done = accepted(chess, about_chess).dream
    assert done is not None
    assert [(line.text, line.pinned) for line in done.came] == [("Anna plays go.", True)]


def test_a_line_that_a_restore_gave_another_id_is_the_same_line_and_one_that_changed_is_not() -> None:
    read, one = waiting(COFFEE, "Anna prefers coffee now.")
    moved = replace(read, lines=tuple(replace(line, id=f"L{9 - at}") for at, line in enumerate(read.lines)))
    assert accepted(moved, one).done == (1,)
    changed = replace(read, lines=tuple(replace(line, text=f"{line.text} So far.") for line in read.lines))
    assert accepted(changed, one).outdated == (1,)
    assert not still_applies(one.operation, one.lines, page(changed))
    assert still_applies(one.operation, one.lines, page(moved))


def test_what_says_nothing_new_any_more_is_outdated() -> None:
    read, one = waiting(add(BOND, "Anna sails.", "N1"), "Anna sails.")
    said_since = replace(read, text=memory(bond=["Anna sails!"]), lines=snapshot(memory(bond=["Anna sails!"])).lines)
    assert accepted(said_since, one).outdated == (1,)


def test_an_accepted_eviction_whose_line_no_search_finds_waits_on() -> None:
    read, one = waiting(evict(BOND, "L2", "Bonn"), "Anna moved.")
    result = accepted(read, one, world=World(least_words=99))
    assert (result.dream, result.done, result.refused[1].guard) == (None, (), "pointer")


# Single lines


@st.composite
def wanted(draw: st.DrawFn) -> tuple[Snapshot, list[Wish]]:
    """A memory, and changes of its lines, possible ones and others."""
    read = draw(snapshots())
    changes = []
    texts_of = st.one_of(sentences, st.sampled_from([line.text for line in read.lines])) if read.lines else sentences
    for action in draw(st.lists(st.sampled_from(LineAction), min_size=1, max_size=4)):
        if action is LineAction.ADD or not read.lines:
            section = draw(st.sampled_from(SectionName))
            changes.append(Wish(LineAction.ADD, section=section, text=draw(texts_of)))
            continue
        line = draw(st.sampled_from(read.lines))
        writes = action is LineAction.EDIT
        text = draw(texts_of) if writes else ""
        changes.append(Wish(action, line.id, None, line.text, text, draw(st.booleans())))
    return replace(read, budget=8_000), changes


@examples(200)
@given(wanted())
def test_it_is_done_as_wanted_or_nothing_is_done(case: tuple[Snapshot, list[Wish]]) -> None:
    read, changes = case
    done = change_lines(read, changes)
    assert (done.dream is None) is bool(done.refused)
    assert all(one.figures for one in done.refused.values())
    if done.dream is None:
        assert done.texts == {}
        return
    dream, now = done.dream, after(read, done.dream)
    assert (dream.cause, dream.dreamt, dream.taken) == (EDIT, (), ())
    written = list(parse(dream.after).lines())
    assert Counter((name, block.key) for name, block in written) == Counter(
        (line.section, normalise(line.text)) for line in now.lines
    )
    assert all(line.trust is Trust.OWNER for line in dream.came)
    crystals = {crystal.id: crystal.text for crystal in (*dream.crystals, *read.pointed)}
    assert all(line.section is POINTERS or crystals[line.crystal] == line.text for line, _ in dream.left)
    pinned = {line.text for line in read.lines if line.pinned}
    pinned |= {one.expected for one in changes if one.action is LineAction.PIN}
    pinned -= {one.expected for one in changes if one.action is LineAction.UNPIN}
    assert {block.key for _, block in written if block.pinned} == set(map(normalise, pinned))
    assert {line.text for line in now.lines if line.pinned} == pinned
    section_of = {line.id: line.section for line in read.lines}
    for place, text in done.texts.items():
        section = section_of.get(changes[place].line, changes[place].section)
        assert (section, normalise(text)) in {(name, block.key) for name, block in written}
    standing = {normalise(line.text) for line in now.lines}
    assert not standing & {normalise(one) for one in dream.tombstones}


def test_what_is_deleted_here_and_added_there_may_be_written_again() -> None:
    wishes = [Wish(LineAction.DELETE, "L1", expected=TEA), Wish(LineAction.ADD, section=CONTEXT, text=TEA)]
    done = change_lines(snapshot(TEXT), wishes)
    assert done.dream is not None
    assert done.dream.tombstones == ()


EVICTED = Wish(LineAction.DELETE, "L2", expected=BONN)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Wish(LineAction.ADD, section=POINTERS, text="Tea"), "Crystal Pointers is written by the program"),
        (Wish(LineAction.EDIT, "L4", text="Go"), "L4 is a pointer, which the program writes; delete it"),
        (Wish(LineAction.DELETE, "L3"), "L3 is pinned; unpin it first"),
        (Wish(LineAction.PIN, "L3"), "L3 is pinned already"),
        (Wish(LineAction.UNPIN, "L1"), "L1 is not pinned"),
        (Wish(LineAction.EDIT, "L1", text="anna plays CHESS."), "L3 says so already"),
        (Wish(LineAction.EDIT, "L2", text="Anna lives in Ulm."), "L2 is changed by an earlier change"),
        (Wish(LineAction.ADD, section=BOND, text="TBD"), "no content; say something or leave it out"),
        (Wish(LineAction.DELETE, "L9"), "L9 does not stand in MEMORY.md any more"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_each_refusal_says_what_stands_against_it_and_then_nothing_is_done(wish: Wish, words: str) -> None:
    read = snapshot(TEXT)
    expected = next((line.text for line in read.lines if line.id == wish.line), "")
    done = change_lines(read, [EVICTED, replace(wish, expected=expected)])
    assert (done.dream, done.texts) == (None, {})
    assert [one.figures for one in done.refused.values()] == [words]
