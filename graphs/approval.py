"""Approval: sorts operations by the owner's policy into what applies, waits or is refused; carries out what waited.

What waits does not stop the rest: each operation stands for itself. Lines that the program counts (The Niche,
Emerging Skills) and what it evicts to fit the budget are no operations of a synthesis, and nobody is asked. Changes
that apply are shown as well, for the owner to undo.

What the owner approves, or undoes, is a small dream of its own. Only the guards that protect are asked then (pins,
vetoes, what is forgotten, a line stands once): the owner has judged the evidence. A change whose lines are gone or
were changed does not apply.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphs.eviction import Archive, evict
from graphs.extractive import counted_operations
from graphs.guard import PROTECTING, SAID_ALREADY, Verdict, check_operations
from graphs.input_budget import numbered
from graphs.working_copy import WorkingCopy
from state.document.approval import Approval, Heard, Rule
from state.document.operations import Action, Birth, Fate, Operation, Refusal
from state.dream import (
    REVIEW,
    CurrentLine,
    Decision,
    Dream,
    EarlierChange,
    Evidence,
    Kind,
    Snapshot,
    StagedChange,
    Usage,
)
from state.text.line import as_line
from state.text.words import normalise
from state.trust import Trust

GUARD = "approval"
AUTHOR = "owner"
OWNERS_IMPORTANCE = 0.8
# So many changes of one dream are shown as applied; `dreamd history` has them all.
MOST_SHOWN = 50

_READ = {"tool": "a tool's output", "web": "a page"}
_HELD = {Decision.WAITING: "waits for the owner", Decision.DECLINED: "was declined by the owner"}


@dataclass(frozen=True, slots=True)
class Sorted:
    """The verdict without what does not apply, the staged changes (those that apply as well), and the refusals."""

    verdict: Verdict
    staged: tuple[StagedChange, ...]
    refused: tuple[Refusal, ...]


def sort_by_policy(snapshot: Snapshot, verdict: Verdict) -> Sorted:
    """Sort the operations of a verdict into those that apply, wait for the owner, or are refused by policy.

    An operation that waits already, or that the owner declined, is not staged again; nor is one whose inputs have
    all waited before and were not decided.
    """
    counted = {replace(one, text=as_line(one.text)) for one in counted_operations(snapshot)}
    asks = dict(verdict.asks)
    applying: list[Operation] = []
    staged: list[StagedChange] = []
    refused: list[Refusal] = []
    for operation in verdict.operations:
        if operation in counted:
            applying.append(operation)
            continue
        rule = _rule(snapshot, operation)
        why = asks.get(operation) or _heard(snapshot, operation) or f"dream.approve.{rule.name}: {rule.approval}"
        if rule.approval is Approval.AUTO and (operation in asks or _heard(snapshot, operation)):
            rule = replace(rule, approval=Approval.ASK)
        figures = _held(snapshot, operation, rule)
        if figures:
            refused.append(Refusal(GUARD, "operation", figures, operation))
        elif rule.approval is Approval.ASK:
            staged.append(staged_change(snapshot, operation, why))
        else:
            applying.append(operation)
    changes = [one for one in applying if one.lines and one not in counted][:MOST_SHOWN]
    shown = [staged_change(snapshot, one, "", applied=True) for one in changes]
    return Sorted(replace(verdict, operations=tuple(applying)), (*staged, *shown), tuple(refused))


def staged_change(snapshot: Snapshot, operation: Operation, figures: str, *, applied: bool = False) -> StagedChange:
    """Return the operation with its lines and evidence as this dream has read them."""
    lines = {line.id: line for line in snapshot.lines}
    return StagedChange(
        operation,
        tuple(lines[name] for name in operation.lines if name in lines),
        tuple(piece for piece in snapshot.evidence if piece.id in operation.cites),
        tuple(lines[name] for name in operation.cites if name in lines and name not in operation.lines),
        figures,
        applied,
    )


def _rule(snapshot: Snapshot, operation: Operation) -> Rule:
    """Return what the policy says of this operation."""
    old = [line for line in snapshot.lines if line.id in operation.lines]
    cited = [piece for piece in snapshot.evidence if piece.id in operation.cites]
    return snapshot.policy.rule_of(
        operation.action,
        (operation.section, *(line.section for line in old)),
        by_hand=any(line.id in snapshot.handwritten for line in old),
        by_owner=any(piece.trust is Trust.OWNER for piece in cited),
    )


def _heard(snapshot: Snapshot, operation: Operation) -> str:
    """Why an operation waits that rests on what was noted after reading a page or a tool's output."""
    heard = {piece.heard for piece in snapshot.evidence if piece.id in operation.cites and piece.heard}
    if not heard or snapshot.policy.heard is not Heard.ASK:
        return ""
    return f"dream.heard: ask; its agent had read {' and '.join(_READ[one] for one in sorted(heard))}"


def _held(snapshot: Snapshot, operation: Operation, rule: Rule) -> str:
    """Why the operation neither applies nor waits; empty when it does."""
    if rule.approval is Approval.NEVER:
        return f"dream.approve.{rule.name} is {rule.approval}"
    earlier = next((one for one in snapshot.earlier if _is_same(snapshot, operation, one)), None)
    if earlier is not None and (rule.approval is Approval.ASK or earlier.decision is Decision.DECLINED):
        return f"change {earlier.number} {_HELD[earlier.decision]}"
    cited = {piece.crystal for piece in snapshot.evidence if piece.id in operation.cites and piece.crystal}
    if rule.approval is Approval.ASK and cited and cited <= set(snapshot.undecided):
        return "what it cites has waited before and was not decided"
    return ""


def _is_same(snapshot: Snapshot, operation: Operation, earlier: EarlierChange) -> bool:
    """Whether an operation is the earlier one again: the same of the same lines, on nothing new."""
    known = earlier.operation
    if (known.action, set(known.lines)) != (operation.action, set(operation.lines)):
        return False
    if operation.action is Action.EVICT or normalise(known.text) == normalise(operation.text):
        return True
    return bool(operation.lines) and not any(piece.id in operation.cites for piece in snapshot.evidence)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the owner wants of a staged change: that it applies, with another text perhaps, or that it is undone."""

    number: int
    change: StagedChange
    text: str = ""
    undo: bool = False


@dataclass(frozen=True, slots=True)
class Carried:
    """The dream that carries the wishes out, None when none can be; the numbers of those, and of the others.

    `outdated` are those whose lines are no longer what they were, or that say nothing new; `refused` waits on.
    """

    dream: Dream | None
    done: tuple[int, ...]
    outdated: tuple[int, ...]
    refused: tuple[tuple[int, Refusal], ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    """A wish as operations on today's lines; `removed` is a line that leaves because the owner does not want it."""

    wish: Wish
    operations: tuple[Operation, ...]
    removed: CurrentLine | None = None


def carry_out(snapshot: Snapshot, wishes: Sequence[Wish], archive: Archive) -> Carried:
    """Carry these wishes out as a small dream that takes in no input of its own."""
    snapshot, wishes = _with_evidence(snapshot, wishes)
    plans: list[_Plan] = []
    outdated: list[int] = []
    refused: list[tuple[int, Refusal]] = []
    for wish in wishes:
        plan = _plan(snapshot, wish)
        if plan is None:
            outdated.append(wish.number)
            continue
        before = [one for other in plans for one in other.operations]
        taken = {line for one in before for line in one.lines} | {one.removed.id for one in plans if one.removed}
        if plan.removed is not None and plan.removed.id in taken:
            outdated.append(wish.number)
            continue
        operations, refusals = check_operations(
            snapshot, plan.operations, by_code=True, after=before, checks=PROTECTING
        )
        if any(one.figures.endswith(SAID_ALREADY) for one in refusals):
            outdated.append(wish.number)
        elif refusals:
            refused.append((wish.number, refusals[0]))
        else:
            plans.append(replace(plan, operations=operations))
    dream, unmoved = _dream(snapshot, plans, archive) if plans else (None, [])
    refused += unmoved
    done = tuple(one.wish.number for one in plans if one.wish.number not in {number for number, _ in unmoved})
    return Carried(dream if done else None, done, tuple(outdated), tuple(refused))


def stands(line: CurrentLine, lines: Sequence[CurrentLine]) -> CurrentLine | None:
    """Today's line that this one still is: of the same text, by its id if it can be (a restore gives another one)."""
    same = [one for one in lines if normalise(one.text) == normalise(line.text)]
    ranked = sorted(same, key=lambda one: (one.id != line.id, one.section is not line.section))
    return ranked[0] if ranked else None


def is_outdated(change: StagedChange, lines: Sequence[CurrentLine]) -> bool:
    """Whether the lines that the change is about are no longer what they were, or say it already."""
    if change.applied:
        return _plan_of_undo(change, lines) is None
    if any(stands(line, lines) is None for line in change.lines):
        return True
    is_new = (
        change.operation.action is Action.EVICT or _rewords(change) or _line_of(change.operation.text, lines) is None
    )
    return not is_new


def _rewords(change: StagedChange) -> bool:
    """Whether it only writes one of its lines otherwise: the folded text is the same."""
    return normalise(change.operation.text) in {normalise(line.text) for line in change.lines}


def _line_of(text: str, lines: Sequence[CurrentLine]) -> CurrentLine | None:
    return next((line for line in lines if normalise(line.text) == normalise(text)), None)


def _with_evidence(snapshot: Snapshot, wishes: Sequence[Wish]) -> tuple[Snapshot, list[Wish]]:
    """Put the evidence of the changes in the place of what is new, each piece with an id of its own."""
    pieces: list[Evidence] = []
    renamed: list[Wish] = []
    for wish in wishes:
        names: dict[str, str] = {}
        for piece in wish.change.evidence:
            # The letter of old text names lines above the rule.
            kind = Kind.CRYSTAL if piece.kind is Kind.OLD_TEXT else piece.kind
            (new,) = numbered(kind, [replace(piece, kind=kind)], sum(one.kind is kind for one in pieces) + 1)
            names[piece.id] = new.id
            pieces.append(new)
        operation = wish.change.operation
        cites = tuple(names.get(cite, cite) for cite in operation.cites)
        renamed.append(replace(wish, change=replace(wish.change, operation=replace(operation, cites=cites))))
    return replace(snapshot, evidence=tuple(pieces), seeds=(), notes=(), taken=()), renamed


def _plan(snapshot: Snapshot, wish: Wish) -> _Plan | None:
    """Plan the wish on today's lines; None when they are no longer what they were."""
    if wish.undo:
        plan = _plan_of_undo(wish.change, snapshot.lines)
        return replace(plan, wish=wish) if plan else None
    lines = [stands(line, snapshot.lines) for line in wish.change.lines]
    found = tuple(line.id for line in lines if line is not None)
    if len(found) < len(lines) or len(set(found)) < len(found):
        return None
    operation = wish.change.operation
    return _Plan(wish, (replace(operation, lines=found, text=wish.text or operation.text),))


def _plan_of_undo(change: StagedChange, lines: Sequence[CurrentLine]) -> _Plan | None:
    """Plan to put the old lines back in the place of the new one; None when that is gone."""
    wish, operation = Wish(0, change, undo=True), change.operation
    if operation.action is Action.EVICT:
        (gone,) = change.lines[:1] or (None,)
        if gone is None or stands(gone, lines) is not None:
            return None
        return _Plan(wish, (Operation(Action.ADD, gone.section, gone.text),))
    new = _line_of(operation.text, lines)
    if new is None:
        return None
    back = [line for line in change.lines if stands(line, lines) is None or _rewords(change)]
    if not back:
        return _Plan(wish, (), new)
    first, *others = back
    operations = [Operation(Action.REVISE, first.section, first.text, (new.id,))]
    operations += [Operation(Action.ADD, line.section, line.text) for line in others]
    return _Plan(wish, tuple(operations))


def _dream(snapshot: Snapshot, plans: Sequence[_Plan], archive: Archive) -> tuple[Dream, list[tuple[int, Refusal]]]:
    """Return the dream of these plans, and the evictions among them that found no pointer."""
    operations = [one for plan in plans for one in plan.operations]
    copy = WorkingCopy(snapshot, operations, ())
    owners = {one.text for plan in plans if plan.wish.undo or plan.wish.text for one in plan.operations}
    copy.births = [_by_owner(birth) if birth.text in owners else birth for birth in copy.births]
    unwanted = [plan.removed for plan in plans if plan.removed is not None]
    for line in unwanted:
        copy.remove(line, Fate.EVICTED, copy.crystal_of(line))
    evict(snapshot, copy, operations, archive)
    numbers = [f"{plan.wish.number}" for plan in plans]
    dream = replace(
        copy.dream((), AUTHOR, Usage(), 0.0),
        cause=REVIEW,
        reason=f"change{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}",
        dreamt=(),
        notes=0,
    )
    gone = {line.id for line in unwanted}
    deaths = tuple(replace(one, fate=Fate.DELETED) if one.id in gone else one for one in dream.deaths)
    dream = replace(dream, deaths=deaths, tombstones=(*dream.tombstones, *(line.text for line in unwanted)))
    left = {death.id for death in dream.deaths}
    unmoved = [
        (plan.wish.number, next((one for one in copy.refused), Refusal("pointer", "operation", "it stays")))
        for plan in plans
        for one in plan.operations
        if one.action is Action.EVICT and not left & set(one.lines)
    ]
    return dream, unmoved


def _by_owner(birth: Birth) -> Birth:
    """Make the line the owner's word, which rests on nothing else."""
    return replace(birth, trust=Trust.OWNER, evidence=(), importance=max(birth.importance, OWNERS_IMPORTANCE))
