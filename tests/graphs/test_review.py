"""Whatever the owner approves, undoes, or wants of single lines: nothing is lost or doubled, and each is told."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from state.document.approval import Approval, Policy

from graphs import extractive, talk
from graphs.review import (
    AUTHOR,
    Carried,
    LineAction,
    Wish,
    carry_out,
    change_lines,
    is_outdated,
)
from graphs.room import fit
from state.document.document import parse
from state.document.operations import Operation, Why
from state.document.sections import SectionName
from state.dream import EDIT, REVIEW, Dream, Snapshot, StagedChange, Usage
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

ASK = Policy(Approval.ASK, Approval.ASK, Approval.ASK, Approval.ASK)
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


def carried(read: Snapshot, *approved: StagedChange) -> Carried:
    return carry_out(read, {number: (one, "") for number, one in enumerate(approved, 1)}, {}, World(), {})


# Staged changes


@examples(150)
@given(lives(), st.data())
def test_in_whatever_order_nothing_is_lost_or_doubled(life: Life, data: st.DataObject) -> None:
    world, read = World(), replace(life.read, policy=data.draw(st.sampled_from([ASK, life.read.policy])))
    dream = dreamt(read, world, *life.answers)
    known = {line.text for line in read.lines if line.section is not POINTERS}
    world.upsert([*read.notes, *read.pointed])
    read = after(read, dream)
    left = list(enumerate(data.draw(st.permutations(dream.staged)), 1))
    while left:
        batch = [left.pop() for _ in range(min(len(left), data.draw(st.integers(1, 3))))]
        approved = {number: (one, "") for number, one in batch if not one.applied}
        result = carry_out(read, approved, {number: one for number, one in batch if one.applied}, world, {})
        told = [*result.done, *result.outdated, *result.refused]
        assert sorted(told) == sorted(number for number, _ in batch)
        if result.dream is None:
            continue
        done = world.commit(result.dream)
        assert (done.cause, done.author, done.dreamt, done.taken) == (REVIEW, AUTHOR, (), ())
        read = after(read, done)
        written = Counter((name, block.key) for name, block in parse(done.after).lines())
        assert written == Counter((line.section, normalise(line.text)) for line in read.lines)
        assert parse(done.after).missing == parse(done.after).doubled == ()
        standing = {normalise(line.text) for line in read.lines}
        kept = {normalise(crystal.text) for crystal in world.crystals.values()}
        known |= {line.text for line in read.lines if line.section is not POINTERS}
        assert {normalise(text) for text in known if read.redaction.of(text) == text} <= standing | kept


def waiting(operation: Operation, *notes: str) -> tuple[Snapshot, StagedChange]:
    """What a dream staged since its owner is asked about everything."""
    read = snapshot(TEXT, *notes, policy=ASK)
    (staged,) = talk.heard(read, [{"role": "assistant", "content": said(operation)}]).staged
    return replace(read, evidence=(), notes=(), taken=(), policy=Policy()), staged


COFFEE = revise(BOND, "L1", "Anna prefers coffee.", "N1")


def test_an_approved_change_keeps_its_evidence_and_its_trust() -> None:
    read, change = waiting(COFFEE, "Anna prefers coffee now.")
    result = carry_out(read, {7: (change, "")}, {}, World(), {})
    assert result.dream is not None
    (made,) = result.dream.changes
    (line,) = made.come
    assert (line.text, line.trust, [one.text for one in made.gone]) == ("Anna prefers coffee.", Trust.AGENT, [TEA])
    assert made.evidence == (change.evidence[0].crystal,)
    assert (result.done, result.dream.reason) == ((7,), "change 7")
    assert is_outdated(change, after(read, result.dream).lines)


def test_an_approved_part_of_a_line_counts_as_much_as_the_line() -> None:
    read, change = waiting(add(BOND, "She lives in Bonn.", "L2"))
    read = replace(read, lines=tuple(replace(one, importance=0.9, trust=Trust.OWNER) for one in read.lines))
    result = carried(read, change)
    assert result.dream is not None
    assert [(one.importance, one.trust) for one in result.dream.came] == [(0.9, Trust.OWNER)]


def test_pins_and_vetoes_hold_against_an_approval() -> None:
    read, change = waiting(COFFEE, "Anna smokes.")
    unwanted = replace(change, operation=add(BOND, "Anna smokes.", "N1"), lines=())
    lines = tuple(replace(line, pinned=line.id == "L1") for line in read.lines)
    read = replace(read, lines=lines, tombstones=("Anna smokes.",))
    result = carried(read, change, unwanted)
    assert result.dream is None
    assert [(number, one.guard) for number, one in result.refused.items()] == [(1, "pinned"), (2, "human veto")]


def test_a_line_that_a_restore_gave_another_id_is_the_same_line_and_one_that_changed_is_not() -> None:
    read, change = waiting(COFFEE, "Anna prefers coffee now.")
    moved = replace(read, lines=tuple(replace(line, id=f"L{9 - at}") for at, line in enumerate(read.lines)))
    assert carried(moved, change).done == (1,)
    changed = replace(read, lines=tuple(replace(line, text=f"{line.text} So far.") for line in read.lines))
    assert carried(changed, change).outdated == (1,)
    assert is_outdated(change, changed.lines)
    assert not is_outdated(change, moved.lines)


def test_what_says_nothing_new_any_more_is_outdated() -> None:
    read, change = waiting(add(BOND, "Anna sails.", "N1"), "Anna sails.")
    said_since = replace(read, text=memory(bond=["Anna sails!"]), lines=snapshot(memory(bond=["Anna sails!"])).lines)
    assert carried(said_since, change).outdated == (1,)


def test_a_line_that_came_back_rests_on_what_it_rested_on_if_it_is_not_the_owners() -> None:
    world, read = World(), snapshot(TEXT, "Anna prefers coffee.")
    done = dreamt(read, world, said(add(BOND, "Anna has a boat.", "N1")))
    addition = StagedChange(add(BOND, "Anna has a boat.", "N1"), (), read.evidence, (), "", applied=True)
    result = carry_out(after(read, done), {}, {1: addition}, world, {})
    assert result.dream is not None
    assert "Anna has a boat." not in result.dream.after
    assert [change.why for change in result.dream.changes] == [Why.DELETED]
    assert result.dream.tombstones == ("Anna has a boat.",)
    assert "Anna has a boat." in {crystal.text for crystal in result.dream.crystals}


def test_an_approved_eviction_whose_line_no_search_finds_waits_on() -> None:
    read, change = waiting(evict(BOND, "L2", "Bonn"), "Anna moved.")
    result = carry_out(read, {1: (change, "")}, {}, World(least_words=99), {})
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
        writes = action is LineAction.EDIT or (action is LineAction.WRONG and draw(st.booleans()))
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
        (Wish(LineAction.WRONG, "L4"), "L4 is a pointer, which the program writes; delete it"),
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
