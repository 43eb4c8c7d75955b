"""Whatever the owner approves and undoes, in whatever order: no line is lost, none stands twice."""

from collections import Counter
from dataclasses import replace

from graphs.approval import AUTHOR, Wish, carry_out, is_outdated, sort_by_policy, staged_change
from graphs.eviction import evict as fade
from graphs.guard import judge
from graphs.working_copy import WorkingCopy
from hypothesis import given
from hypothesis import strategies as st

from state.document.approval import Approval, Policy
from state.document.document import parse
from state.document.operations import Action, Operation, Why
from state.dream import REVIEW, CurrentLine, Draft, Dream, Snapshot, StagedChange, Usage
from state.text.words import normalise
from state.trust import Trust
from tests.graphs.test_working_copy import proposals
from tests.graphs.world import BOND, NOW, World, add, evict, memory, merge, revise, snapshot, texts
from tests.support.long_variants import examples

ASK = Policy(Approval.ASK, Approval.ASK, Approval.ASK, Approval.ASK)
TEXT = memory(bond=["Anna prefers tea.", "Anna lives in Bonn.", "Anna plays chess. 📌"])


def after(read: Snapshot, dream: Dream) -> Snapshot:
    """What the next dream reads."""
    dead = {death.id for death in dream.deaths}
    born = [CurrentLine(one.id, one.section, one.text, one.importance, one.trust, NOW) for one in dream.births]
    pinned = {block.key for _, block in parse(dream.after).lines() if block.pinned}
    lines = tuple(
        replace(line, pinned=normalise(line.text) in pinned) for line in (*read.lines, *born) if line.id not in dead
    )
    return replace(
        read,
        text=dream.after,
        lines=lines,
        based_on=dream.number,
        next_line=read.next_line + len(dream.births),
        pointers=dream.pointers,
        evidence=(),
        notes=(),
        tombstones=(*read.tombstones, *dream.tombstones),
    )


def staged_by(read: Snapshot, draft: Draft, world: World) -> tuple[Snapshot, Dream]:
    """The dream that stages all that it may, and what the next one reads."""
    asking = replace(read, policy=ASK)
    done = sort_by_policy(asking, judge(asking, draft))
    copy = WorkingCopy(asking, done.verdict.operations, ())
    fade(asking, copy, done.verdict.operations, world)
    dream = replace(copy.dream((), draft.author, Usage(), 0.0), staged=done.staged)
    world.commit(dream)
    return after(asking, dream), dream


@examples(100)
@given(proposals(), st.data())
def test_in_whatever_order_nothing_is_lost_or_doubled(case: tuple[Snapshot, Draft], data: st.DataObject) -> None:
    world = World()
    read, dream = staged_by(*case, world)
    world.upsert(case[0].notes)
    left = list(enumerate(data.draw(st.permutations(dream.staged)), 1))
    known = {line.text for line in (*case[0].lines, *read.lines)}
    while left:
        batch = [left.pop() for _ in range(min(len(left), data.draw(st.integers(1, 3))))]
        carried = carry_out(read, [Wish(number, change) for number, change in batch], world)
        told = [*carried.done, *carried.outdated, *(number for number, _ in carried.refused)]
        assert sorted(told) == sorted(number for number, _ in batch)
        if carried.dream is None:
            continue
        done = world.commit(carried.dream)
        assert (done.cause, done.author, done.dreamt, done.taken) == (REVIEW, AUTHOR, (), ())
        read = after(read, done)
        written = Counter((name, block.key) for name, block in parse(done.after).lines())
        assert written == Counter((line.section, normalise(line.text)) for line in read.lines)
        assert parse(done.after).missing == parse(done.after).doubled == ()
        standing = {normalise(line.text) for line in read.lines}
        kept = {normalise(crystal.text) for crystal in world.crystals.values()}
        known |= {line.text for line in read.lines if parse_is_line(line)}
        assert {normalise(text) for text in known} <= standing | kept
        for number, change in batch:
            if number in carried.done and change.operation.action is not Action.EVICT:
                assert normalise(change.operation.text) in standing | kept


def parse_is_line(line: CurrentLine) -> bool:
    """Whether it is content: a pointer to a crystal retires into it."""
    return line.section.value != "Crystal Pointers"


def waiting(operation: Operation, *notes: str, text: str = TEXT) -> tuple[Snapshot, StagedChange]:
    read = snapshot(text, *notes)
    return read, staged_change(read, operation, "asked")


def test_an_approved_change_keeps_its_evidence_and_its_trust() -> None:
    read, change = waiting(revise(BOND, "L1", "Anna prefers coffee.", "N1"), "Anna prefers coffee now.")
    carried = carry_out(replace(read, evidence=()), [Wish(7, change)], World())
    assert carried.dream is not None
    (birth,) = carried.dream.births
    assert (birth.text, birth.trust, birth.replaces) == ("Anna prefers coffee.", Trust.AGENT, ("L1",))
    assert birth.evidence == (read.evidence[0].crystal,)
    assert carried.dream.reason == "change 7"


def test_the_owners_own_text_is_the_owners_word() -> None:
    read, change = waiting(revise(BOND, "L1", "Anna prefers coffee.", "N1"), "Anna prefers coffee now.")
    carried = carry_out(read, [Wish(7, change, "Anna prefers cocoa.")], World())
    assert carried.dream is not None
    (birth,) = carried.dream.births
    assert (birth.text, birth.trust, birth.evidence) == ("Anna prefers cocoa.", Trust.OWNER, ())


def test_two_changes_of_one_line_do_not_both_apply() -> None:
    read, change = waiting(revise(BOND, "L1", "Anna prefers coffee.", "N1"), "Anna prefers coffee now.")
    other = replace(change, operation=revise(BOND, "L1", "Anna prefers cocoa.", "N1"))
    carried = carry_out(read, [Wish(1, change), Wish(2, other)], World())
    assert carried.done == (1,)
    assert [number for number, _ in carried.refused] == [2]


def test_pins_and_vetoes_hold_against_an_approval() -> None:
    read, pinned = waiting(revise(BOND, "L3", "Anna plays go.", "N1"), "Anna plays go.")
    unwanted = staged_change(read, add(BOND, "Anna smokes.", "N1"), "asked")
    read = replace(read, tombstones=("Anna smokes.",))
    carried = carry_out(read, [Wish(1, pinned), Wish(2, unwanted)], World())
    assert carried.dream is None
    assert [(number, one.guard) for number, one in carried.refused] == [(1, "pinned"), (2, "human veto")]


def test_a_line_that_a_restore_gave_another_id_is_the_same_line() -> None:
    read, change = waiting(revise(BOND, "L1", "Anna prefers coffee.", "N1"), "Anna prefers coffee now.")
    moved = replace(read, lines=tuple(replace(line, id=f"L{9 - at}") for at, line in enumerate(read.lines)))
    assert carry_out(moved, [Wish(1, change)], World()).done == (1,)
    changed = replace(read, lines=tuple(replace(line, text=f"{line.text} So far.") for line in read.lines))
    assert carry_out(changed, [Wish(1, change)], World()).outdated == (1,)
    assert is_outdated(change, changed.lines)
    assert not is_outdated(change, moved.lines)


def undone(operation: Operation, *notes: str) -> Dream:
    """The dream that undoes what an operation did."""
    read, change = waiting(operation, *notes)
    world = World()
    copy = WorkingCopy(read, [operation], ())
    fade(read, copy, [operation], world)
    done = world.commit(copy.dream((), "scripted", Usage(), 0.0))
    applied = replace(change, applied=True)
    assert not is_outdated(applied, after(read, done).lines)
    carried = carry_out(after(read, done), [Wish(1, applied, undo=True)], world)
    assert carried.dream is not None
    assert carry_out(after(after(read, done), carried.dream), [Wish(1, applied, undo=True)], world).outdated == (1,)
    return carried.dream


def test_what_applied_is_undone_and_the_old_text_is_the_owners_word() -> None:
    before = sorted(texts(parse(TEXT), BOND))
    for operation in (
        revise(BOND, "L1", "Anna prefers coffee.", "N1"),
        merge(BOND, ["L1", "L2"], "Anna prefers tea, and lives in Bonn.", "N1"),
        evict(BOND, "L2", "Bonn"),
    ):
        dream = undone(operation, "Anna prefers coffee, she said in Bonn.")
        assert sorted(texts(parse(dream.after), BOND)) == before
        assert {(birth.trust, birth.evidence) for birth in dream.births} == {(Trust.OWNER, ())}


def test_an_addition_that_is_undone_is_deleted_by_the_owner() -> None:
    dream = undone(add(BOND, "Anna has a boat.", "N1"), "Anna has a boat?")
    assert "Anna has a boat." not in texts(parse(dream.after), BOND)
    assert [death.fate for death in dream.deaths] == [Why.DELETED]
    assert dream.tombstones == ("Anna has a boat.",)
    assert "Anna has a boat." in {crystal.text for crystal in dream.crystals}
