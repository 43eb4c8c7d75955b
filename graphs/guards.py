"""Guards: decide which operations of a draft may be written, and refuse what would make memory collapse.

They look at whatever is about to be written, an extractive synthesis included. A guard refuses the smallest thing
it can: an operation (`operation_checks`), else a section, which keeps its old text, else the dream. Every refusal
carries its figures. All functions are pure.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from graphs.evidence.conflicts import Conflict, settled
from graphs.extractive import AUTHOR, condensed, counted_operations, folded_in
from graphs.operation_checks import LAUNDERED, SETTLING, check_operations, runaway
from graphs.ports import Cosine, unknown
from state.document.document import Document, Edit, SectionName, parse, render
from state.document.editing import edited
from state.document.merge import working
from state.document.operations import Action, Doubt, Operation, Refusal, edits_of
from state.dream import Draft, Kind, PastLine, Snapshot
from state.forgetting.tombstones import Tombstones
from state.injection.defang import attributed, defang, spoken_trust
from state.text.words import content_terms, normalise

MATURE_CHARACTERS = 2_000
LEAST_MASS = 0.5
LEAST_SUBSTANCE = 50
BOND_CHARACTERS = 100
LEAST_BOND = 0.3
MOST_EROSION = 0.2
# One line of so many may be left out.
LEFT_OUT_OF = 3
ALL_REFUSED = "all refused"
OMISSION = "omission"
_WRITTEN_BY_CODE = {SectionName.POINTERS, SectionName.SKILLS}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the guards let through, and of these operations the doubtful ones.

    `refusal` is set when the whole dream is refused.
    """

    operations: tuple[Operation, ...]
    refused: tuple[Refusal, ...]
    consumed: tuple[str, ...] = ()
    author: str = ""
    refusal: Refusal | None = None
    doubts: tuple[Doubt, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """What to tell the model, the weightiest first."""
        every = (*((self.refusal,) if self.refusal else ()), *self.refused)
        return tuple(dict.fromkeys(f"{one.guard}: {one.figures}{_named(one.operation)}" for one in every))[:12]


def _named(operation: Operation | None) -> str:
    if operation is None:
        return ""
    return f" ({operation.action} {', '.join(operation.lines[:5]) or repr(operation.text[:60])})"


def apply(snapshot: Snapshot, operations: Sequence[Operation]) -> tuple[Document, tuple[Edit, ...]]:
    """The document after these operations, and the edits that made it so."""
    texts = {line.id: (line.section, line.text) for line in snapshot.lines}
    edits = edits_of(operations, texts)
    after, left_out = edited(working(snapshot.text), edits)
    return after, tuple(edit for edit in edits if edit not in left_out)


def judge(snapshot: Snapshot, draft: Draft, near: Cosine = unknown) -> Verdict:
    """Let through what may be written of a draft.

    The answer of a model is completed with the important notes that it left unsaid and with the counted lines. An
    extractive draft would be the same in the next dream: what it takes away stays, what it adds is written.
    """
    verdict = _judged(snapshot, draft, near)
    if snapshot.forgotten:
        masked = tuple(_masked(snapshot.forgotten, one) for one in verdict.refused)
        doubts = tuple(replace(one, figures=snapshot.forgotten.masked(one.figures)) for one in verdict.doubts)
        verdict = replace(verdict, refused=masked, doubts=doubts)
    if verdict.refusal is None or draft.author != AUTHOR:
        return verdict
    added = tuple(one for one in verdict.operations if not one.removes)
    held = replace(verdict.refusal, scope="operation")
    doubts = tuple(one for one in verdict.doubts if one.operation in added)
    return replace(verdict, operations=added, refused=(held, *verdict.refused), refusal=None, doubts=doubts)


def settle(snapshot: Snapshot, verdict: Verdict, found: Sequence[Conflict]) -> Verdict:
    """The verdict with what settles these conflicts, as far as the guards let that through."""
    texts = {
        conflict.piece.id: attributed(
            defang(condensed(conflict.piece.text)), spoken_trust(conflict.piece.text, conflict.piece.trust)
        )
        for conflict in found
    }
    before = verdict.operations
    after = settled(snapshot, found, before, texts)
    same = {at for at, operation in enumerate(before) if operation == after[at]}
    kept = [before[at] for at in sorted(same)]
    changed = [operation for at, operation in enumerate(after) if at not in same]
    accepted, refused, _ = check_operations(snapshot, changed, by_code=False, after=kept, checks=SETTLING)
    denied = {one.operation for one in refused}
    left = [before[at] for at in range(len(before)) if at not in same and after[at] in denied]
    operations = (*kept, *left, *accepted)
    doubts = tuple(one for one in verdict.doubts if one.operation in operations)
    return replace(verdict, operations=operations, refused=(*verdict.refused, *refused), doubts=doubts)


def _masked(forgotten: Tombstones, refusal: Refusal) -> Refusal:
    """The refusal as it may be told and written down: without the very words that are forgotten."""
    operation = refusal.operation
    if operation is not None:
        cites = tuple(map(forgotten.masked, operation.cites))
        operation = replace(operation, text=forgotten.masked(operation.text), cites=cites)
    return replace(refusal, figures=forgotten.masked(refusal.figures), operation=operation)


def _judged(snapshot: Snapshot, draft: Draft, near: Cosine) -> Verdict:
    refused = [one for one in draft.refused if one.scope != "dream"]
    unread = next((one for one in draft.refused if one.scope == "dream"), None)
    unusable = unread or _cut_off(draft) or _unusable(draft)
    if unusable is not None:
        return Verdict((), tuple(refused), draft.consumed, draft.author, unusable)
    operations, too_many = runaway(_without_omissions(snapshot, draft, _whole_sections(draft, refused), refused))
    counted, worse, _ = check_operations(snapshot, counted_operations(snapshot), by_code=True)
    accepted, more, doubts = check_operations(snapshot, operations, by_code=False, after=counted, near=near)
    refused += (*too_many, *more)
    nothing_left = _nothing_left(draft, accepted, refused)
    # An input whose operation was refused is not taken in by being named.
    unheard = {cite for one in (*too_many, *more) if one.operation for cite in one.operation.cites}
    consumed = tuple(name for name in draft.consumed if name not in unheard)
    # Whom it was laid in the mouth of is heard all the same.
    misquoted = {cite for one in more if one.guard == LAUNDERED and one.operation for cite in one.operation.cites}
    said = folded_in(snapshot, Draft(accepted, consumed, author=draft.author), misquoted)
    new = said.operations[len(accepted) :]
    folded, more, _ = check_operations(snapshot, new, by_code=False, after=(*counted, *accepted), near=near)
    refused += (*more, *worse)
    accepted = (*accepted, *folded, *counted)
    accepted, drifted = _without_bond_drift(snapshot, accepted)
    refused += drifted
    after, _ = apply(snapshot, accepted)
    evicted = [one.lines[0] for one in accepted if one.action is Action.EVICT]
    kept = sum(len(line.text) for line in snapshot.lines if line.id in evicted)
    moved = [name for one in accepted if one.action in {Action.EVICT, Action.MERGE} for name in one.lines]
    held = sum(len(line.text) for line in snapshot.lines if line.id in moved)
    if nothing_left is not None and _left_out(refused) and not _heard(snapshot, said):
        # Nothing of this document is written and a note of it nowhere: the note is to be offered again.
        nothing_left = replace(nothing_left, guard=OMISSION)
    refusal = nothing_left or mass_drop(snapshot, after, kept) or empty_synthesis(snapshot, after, held)
    doubts = tuple(one for one in doubts if one.operation in accepted)
    return Verdict(accepted, tuple(refused), said.consumed, draft.author, refusal, doubts)


def mass_drop(snapshot: Snapshot, after: Document, kept: int) -> Refusal | None:
    """A state of more than 2,000 characters may not fall under half; `kept` counts what resolving pointers hold."""
    before = len(snapshot.text)
    now = len(render(after)) + kept
    if before <= MATURE_CHARACTERS or now >= LEAST_MASS * before:
        return None
    return Refusal(
        "mass drop", "dream", f"{now:,} of {before:,} characters are left, at least {LEAST_MASS:.0%} wanted"
    )


def empty_synthesis(snapshot: Snapshot, after: Document, kept: int = 0) -> Refusal | None:
    """Seven headings and under 50 characters of substance, although there was more to say.

    A young memory that grows from nothing, or has hardly more than that, may be shorter; `kept` counts what became
    pointers or was merged.
    """
    if after.substance >= LEAST_SUBSTANCE:
        return None
    before = parse(snapshot.text).substance
    notes = sum(len(piece.text) for piece in snapshot.evidence if piece.kind is Kind.NOTE)
    young = before < LEAST_SUBSTANCE and after.substance >= LEAST_MASS * before
    small = before < 2 * LEAST_SUBSTANCE and after.substance + kept >= LEAST_MASS * before
    if (after.substance and (young or small)) or before + notes < LEAST_SUBSTANCE:
        return None
    figures = f"{after.substance} characters of substance, at least {LEAST_SUBSTANCE} wanted"
    return Refusal("empty synthesis", "dream", figures)


def erosion(
    best: Sequence[PastLine], after: Document, leaving: Collection[str], resolving: Collection[str]
) -> Refusal | None:
    """More than 20 % of the best of the last ten versions is gone.

    A line counts as kept when it stands, was revised with evidence, was deleted by the owner, or lies behind
    keywords that still resolve. `leaving` holds the lines that this dream moves behind pointers or revises.
    """
    standing = {block.key for _, block in after.lines()} | {normalise(text) for text in leaving}
    gone = [
        line
        for line in best
        if not (line.revised or line.deleted or line.pointer in resolving or normalise(line.text) in standing)
    ]
    if len(gone) <= MOST_EROSION * len(best):
        return None
    figures = f"{len(gone)} of {len(best)} lines of the best earlier version are gone, at most {MOST_EROSION:.0%}"
    return Refusal("slow erosion", "dream", figures)


def bond_drift(before: Sequence[str], after: Sequence[str]) -> Refusal | None:
    """The lines of The Bond keep less than 30 % of their terms."""
    if sum(map(len, before)) <= BOND_CHARACTERS:
        return None
    old = frozenset().union(*map(content_terms, before))
    kept = len(old.intersection(frozenset().union(*map(content_terms, after))))
    if not old or kept >= LEAST_BOND * len(old):
        return None
    figures = f"The Bond keeps {kept} of {len(old)} terms, at least {LEAST_BOND:.0%} wanted"
    return Refusal("bond drift", "section", figures)


def bond_of(document: Document) -> list[str]:
    """The lines of The Bond."""
    bond = document.section(SectionName.BOND)
    return [block.text for block in bond.lines] if bond else []


def _cut_off(draft: Draft) -> Refusal | None:
    if draft.complete:
        return None
    figures = "the model stopped at its token limit; answer with fewer operations (or raise model.max_output_tokens)"
    return Refusal("truncation", "dream", figures)


def _unusable(draft: Draft) -> Refusal | None:
    """A whole document in which no section can be read as itself."""
    if not draft.whole or len(set(draft.missing) | set(draft.doubled)) < len(SectionName):
        return None
    return Refusal("schema", "dream", f"{len(draft.missing)} sections are missing, {len(draft.doubled)} doubled")


def _whole_sections(draft: Draft, refused: list[Refusal]) -> tuple[Operation, ...]:
    """The operations on sections that stand once in a whole document; the others keep their old text."""
    bad = dict.fromkeys(draft.missing, "missing") | dict.fromkeys(draft.doubled, "doubled")
    if not draft.whole or not bad:
        return draft.operations
    refused += [Refusal("schema", "section", f"{name.value} is {how}") for name, how in bad.items()]
    return tuple(one for one in draft.operations if one.section not in bad)


def _without_omissions(
    snapshot: Snapshot, draft: Draft, operations: tuple[Operation, ...], refused: list[Refusal]
) -> tuple[Operation, ...]:
    """The operations without the evictions of a whole document that leaves out more than a third of the lines.

    So much is left out by a model that lost the thread; what it is done with it may evict in so many words. One line
    may always make room for a new one: that is how a document says a thing in quite other words.
    """
    lines = [line for line in snapshot.lines if line.section not in _WRITTEN_BY_CODE]
    left_out = [one for one in operations if one.action is Action.EVICT]
    replaced = any(one.action is Action.ADD for one in operations)
    if not draft.whole or len(left_out) <= max(len(lines) // LEFT_OUT_OF, int(replaced)):
        return operations
    figures = f"the document leaves out {len(left_out)} of {len(lines)} lines, at most a third may leave so"
    refused.append(Refusal(OMISSION, "operation", figures))
    return tuple(one for one in operations if one.action is not Action.EVICT)


def _left_out(refused: Sequence[Refusal]) -> bool:
    return any(one.guard == OMISSION for one in refused)


def _heard(snapshot: Snapshot, said: Draft) -> bool:
    """Whether each note is named, or cited by what will be written."""
    taken = {*said.consumed, *(cite for one in said.operations for cite in one.cites)}
    return all(piece.id in taken for piece in snapshot.evidence if piece.kind is Kind.NOTE)


def _without_bond_drift(
    snapshot: Snapshot, operations: tuple[Operation, ...]
) -> tuple[tuple[Operation, ...], list[Refusal]]:
    before = [line.text for line in snapshot.lines if line.section is SectionName.BOND]
    after, _ = apply(snapshot, operations)
    drift = bond_drift(before, bond_of(after))
    if drift is None:
        return operations, []
    here = {line.id for line in snapshot.lines if line.section is SectionName.BOND}
    left = tuple(one for one in operations if not here & set(one.lines))
    return left, [drift]


def _nothing_left(draft: Draft, accepted: Sequence[Operation], refused: Sequence[Refusal]) -> Refusal | None:
    """Everything that the model said was refused: it should hear why. A repetition is no fault."""
    faults = [one for one in refused if not (one.operation is not None and one.figures.endswith("says so already"))]
    if accepted or not faults:
        return None
    if not draft.operations:
        return replace(faults[0], scope="dream", operation=None)
    said = len(draft.operations) + len(draft.refused)
    return Refusal(ALL_REFUSED, "dream", f"none of the {said} operations can be applied")
