"""What waits for the owner does not stop the rest, is told with its evidence, and is not staged again and again."""

from dataclasses import replace

from graphs.approval import sort_by_policy
from graphs.guard import THIRD, Verdict, judge
from hypothesis import given
from hypothesis import strategies as st

from state.document.approval import Approval, Policy, SectionRule
from state.document.document import parse
from state.document.operations import Action, Operation
from state.dream import Decision, Draft, Dream, EarlierChange, Kind, Snapshot
from state.trust import Trust
from tests.graphs.test_working_copy import proposals
from tests.graphs.world import (
    BOND,
    CONTEXT,
    Scripted,
    World,
    add,
    evict,
    memory,
    merge,
    note,
    revise,
    run,
    snapshot,
    texts,
)
from tests.graphs.world import said as answered
from tests.support.long_variants import examples

TEXT = memory(bond=["Anna prefers tea.", "Anna lives in Bonn."], context=["The importer runs on port 8080."])
TEA, BONN, PORT = "L1", "L2", "L3"
COFFEE = revise(BOND, TEA, "Anna prefers coffee.", "N1")
ASK_BOND = Policy(
    sections=tuple(SectionRule(BOND, action, Approval.ASK) for action in Action if action is not Action.ADD)
)
approvals = st.sampled_from(Approval)


def read(*notes: str, **changes: object) -> Snapshot:
    return snapshot(TEXT, *(notes or ("Anna prefers coffee.",)), **{"policy": ASK_BOND, **changes})


def kinds(snap: Snapshot, *operations: Operation) -> tuple[int, int, int]:
    """How many apply, wait and are refused."""
    done = sort_by_policy(snap, Verdict(operations, ()))
    waiting = [one for one in done.staged if not one.applied]
    return len(done.verdict.operations), len(waiting), len(done.refused)


@examples(100)
@given(proposals(), approvals, approvals, approvals, approvals, approvals)
def test_each_operation_applies_waits_or_is_refused(
    case: tuple[Snapshot, Draft], new: Approval, other: Approval, fewer: Approval, gone: Approval, hand: Approval
) -> None:
    snap, draft = case
    policy = Policy(new, other, fewer, gone, by_hand=hand)
    snap = replace(snap, policy=policy, handwritten=tuple(line.id for line in snap.lines[::2]))
    verdict = judge(snap, draft)
    done = sort_by_policy(snap, verdict)
    refused = [one.operation for one in done.refused if one.operation is not None]
    staged = [one.operation for one in done.staged if not one.applied]
    assert sorted([*done.verdict.operations, *staged, *refused], key=repr) == sorted(verdict.operations, key=repr)
    for operation in done.verdict.operations:
        assert getattr(policy, operation.action.value) is Approval.AUTO
        assert hand is Approval.AUTO or not set(operation.lines) & set(snap.handwritten)
    for one in done.staged:
        assert [line.id for line in one.lines] == [
            line.id for line in snap.lines if line.id in one.operation.lines
        ] or (len(one.lines) == len(one.operation.lines))


def test_what_waits_does_not_stop_the_rest() -> None:
    snap = read("Anna prefers coffee.", "The importer runs on port 9090.")
    model = Scripted(
        [
            answered(
                {"op": "revise", "section": "The Bond", "line": TEA, "text": "Anna prefers coffee.", "cites": ["N1"]},
                {
                    "op": "revise", "section": "Active Context", "line": PORT,
                    "text": "The importer runs on port 9090.", "cites": ["N2"],
                },
            )
        ]
    )  # fmt: skip
    world = World(snapshot=snap)
    assert run(world, model)["outcome"] == "committed"
    (dream,) = world.committed
    assert texts(parse(dream.after), BOND) == ["Anna prefers tea.", "Anna lives in Bonn."]
    assert texts(parse(dream.after), CONTEXT) == ["The importer runs on port 9090."]
    waits, applied = dream.staged
    assert (dream.waiting_changes, applied.applied, applied.operation.lines) == (1, True, (PORT,))
    assert waits.operation.text == "Anna prefers coffee."
    assert [line.text for line in waits.lines] == ["Anna prefers tea."]
    assert [(piece.text, piece.trust) for piece in waits.evidence] == [("Anna prefers coffee.", Trust.AGENT)]
    assert waits.figures == "dream.approve.sections.The Bond: ask"
    # The staged operation holds its input, so it counts as taken in.
    assert {piece.crystal for piece in snap.evidence} <= set(dream.dreamt)


def test_the_owners_word_opens_a_section_and_an_addition_never_waits_for_it() -> None:
    assert kinds(read(), COFFEE) == (0, 1, 0)
    owners = read(policy=ASK_BOND, evidence=(note(1, "I prefer coffee, Anna", trust=Trust.OWNER),))
    assert kinds(owners, COFFEE) == (1, 0, 0)
    assert kinds(read(), add(BOND, "Anna plays chess.", "N1")) == (1, 0, 0)


def test_what_the_owner_wrote_by_hand_waits_whoever_says_otherwise() -> None:
    snap = snapshot(
        TEXT, note(1, "Move it to 9090", trust=Trust.OWNER), policy=Policy(by_hand=Approval.ASK), handwritten=(PORT,)
    )
    operations = (
        revise(CONTEXT, PORT, "The importer runs on port 9090.", "N1"),
        evict(CONTEXT, PORT, "importer"),
        merge(CONTEXT, [PORT, BONN], "The importer runs on port 8080, in Bonn.", "N1"),
    )
    for operation in operations:
        assert kinds(snap, operation) == (0, 1, 0)
    assert kinds(snap, revise(BOND, TEA, "Anna prefers coffee.", "N1")) == (1, 0, 0)


def test_never_is_a_refusal_that_names_its_key() -> None:
    snap = read(policy=Policy(evict=Approval.NEVER))
    done = sort_by_policy(snap, Verdict((evict(CONTEXT, PORT, "importer"),), ()))
    assert done.staged == ()
    (refusal,) = done.refused
    assert (refusal.guard, refusal.scope, refusal.figures) == (
        "approval",
        "operation",
        "dream.approve.evict is never",
    )


def test_an_operation_that_waits_or_was_declined_is_not_staged_again() -> None:
    for decision in (Decision.WAITING, Decision.DECLINED):
        snap = read(earlier=(EarlierChange(4, COFFEE, decision),))
        assert kinds(snap, COFFEE) == (0, 0, 1)
        assert kinds(snap, revise(BOND, TEA, "Anna prefers cocoa.", "N1")) == (0, 1, 0)
        # A merge in other words, on nothing but the lines themselves, is the same merge.
        held = read(earlier=(EarlierChange(5, merge(BOND, [TEA, BONN], "Anna: tea, Bonn."), decision),))
        assert kinds(held, merge(BOND, [BONN, TEA], "Tea and Bonn are Anna's.")) == (0, 0, 1)
        assert kinds(held, merge(BOND, [BONN, TEA], "Tea and Bonn are Anna's.", "N1")) == (0, 1, 0)


def test_a_declined_operation_stays_declined_when_nobody_is_asked_any_more() -> None:
    assert kinds(read(policy=Policy(), earlier=(EarlierChange(4, COFFEE, Decision.DECLINED),)), COFFEE) == (0, 0, 1)
    assert kinds(read(policy=Policy(), earlier=(EarlierChange(4, COFFEE, Decision.WAITING),)), COFFEE) == (1, 0, 0)


def test_what_has_waited_once_in_vain_is_not_asked_again_without_anything_new() -> None:
    snap = read("Anna prefers coffee.", "Anna had three coffees today.")
    snap = replace(snap, undecided=(snap.evidence[0].crystal,))
    assert kinds(snap, COFFEE) == (0, 0, 1)
    assert kinds(snap, replace(COFFEE, cites=("N1", "N2"))) == (0, 1, 0)
    assert kinds(replace(snap, policy=Policy()), COFFEE) == (1, 0, 0)


def test_changes_that_apply_are_shown_to_be_undone_and_additions_are_not() -> None:
    done = sort_by_policy(read(policy=Policy()), Verdict((COFFEE, add(BOND, "Anna plays chess.", "N1")), ()))
    (shown,) = done.staged
    assert (shown.operation, shown.applied, shown.figures) == (COFFEE, True, "")
    assert [line.text for line in shown.lines] == ["Anna prefers tea."]
    assert len(done.verdict.operations) == 2


def test_too_much_at_once_waits_whatever_the_policy_says() -> None:
    done = sort_by_policy(read(policy=Policy()), Verdict((COFFEE,), (), asks=((COFFEE, THIRD),)))
    assert done.verdict.operations == ()
    assert [(one.applied, one.figures) for one in done.staged] == [(False, THIRD)]
    never = sort_by_policy(
        read(policy=Policy(revise=Approval.NEVER)), Verdict((COFFEE,), (), asks=((COFFEE, THIRD),))
    )
    assert (never.staged, len(never.refused)) == ((), 1)


def test_lines_that_the_program_counts_ask_nobody() -> None:
    ask = Policy(Approval.ASK, Approval.ASK, Approval.ASK, Approval.NEVER)
    skill = replace(note(1, "Refactoring → Confidence: 80% | Occurrences: 4"), id="S1", kind=Kind.SKILL)
    world = World(snapshot=snapshot(TEXT, policy=ask, evidence=(skill,)))
    run(world)
    dream: Dream = world.committed[0]
    assert "Refactoring → Confidence: 80% | Occurrences: 4" in dream.after
    assert dream.staged == ()


def test_what_the_owner_wrote_leaves_last_for_want_of_room() -> None:
    lines = [f"Note {number} of the owner, about nothing in particular at all." for number in range(4)]
    text = memory(
        context=[*lines, *(f"Line {number} that a dream has written some time ago." for number in range(8))]
    )
    world = World(snapshot=snapshot(text, handwritten=("L1", "L2", "L3", "L4"), budget=900))
    run(world)
    left = texts(parse(world.committed[0].after), CONTEXT)
    assert set(lines) <= set(left)
    assert len(left) < 12
