"""Operation checks: the guards on single operations; a bad one is refused alone, the rest applies.

Each check takes an operation in its case (the snapshot, what it cites, what it touches) and answers with a
refusal, or None. `CHECKS` is the order in which they are asked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from graphs.evidence.claim import Claim
from graphs.evidence.support import Weight, weigh
from graphs.evidence.voices import strangers, trust_of_line, vouchers
from graphs.ports import Cosine, unknown
from state.attribution.sources import Foreign, foreign
from state.crystals.contradiction import contradicts, violates
from state.document.document import SectionName, is_placeholder
from state.document.operations import Action, Doubt, Operation, Refusal
from state.dream import CurrentLine, Evidence, Snapshot
from state.injection.defang import attributed, defang, reads_as_instruction, spoken_trust, unquoted
from state.text.words import content_terms, jaccard, normalise, numbers
from state.trust import Trust, least_trust

MAX_LINE_CHARACTERS = 600
SAME_AS_DELETED = 0.75
MAX_EVICTIONS = 20
LAUNDERED = "attribution"
FORGOTTEN = "the owner had this forgotten"

_WRITTEN_BY_CODE = {SectionName.POINTERS, SectionName.SKILLS}


@dataclass(frozen=True)
class OperationContext:
    """One operation with all that a check may look at."""

    operation: Operation
    snapshot: Snapshot
    cited: tuple[Evidence, ...]
    cited_lines: tuple[CurrentLine, ...]
    touched: tuple[CurrentLine, ...]
    unknown: tuple[str, ...]
    taken: frozenset[str]
    said: frozenset[str]
    by_code: bool
    foreign: Foreign | None
    cosine: Cosine

    @property
    def sources(self) -> tuple[Trust, ...]:
        """The trust of everything that is cited or touched."""
        said: tuple[Evidence | CurrentLine, ...] = (*self.cited, *self.cited_lines, *self.touched)
        return tuple(spoken_trust(one.text, one.trust) for one in said)

    @property
    def trust(self) -> Trust:
        """The least trust of what its words come from."""
        return least_trust([self.foreign.trust, *self.sources]) if self.foreign else trust_of_line("", self.sources)

    @cached_property
    def weight(self) -> Weight:
        """How much what it cites bears it out."""
        lines = [line for line in self.snapshot.lines if line.section not in _WRITTEN_BY_CODE]
        return weigh(
            Claim(
                self.operation.action,
                self.operation.text,
                tuple((line.text, line.born_at) for line in self.touched),
                tuple((piece.text, piece.at) for piece in self.cited),
                tuple((line.text, line.born_at) for line in self.cited_lines if line not in self.touched),
                (
                    *(line.text for line in lines),
                    *(piece.text for piece in self.snapshot.evidence),
                    *(name.value for name in SectionName),
                ),
                self.cosine,
            )
        )

    @property
    def grounds(self) -> frozenset[str]:
        """The terms and numbers of everything that is cited or touched."""
        texts = [piece.text for piece in self.cited] + [line.text for line in (*self.cited_lines, *self.touched)]
        return frozenset().union(*(content_terms(text) for text in texts), *(numbers(text) for text in texts))


class Checked(NamedTuple):
    """The operations that may apply, their texts made safe; a refusal for each of the others; whom one doubts."""

    accepted: tuple[Operation, ...]
    refused: tuple[Refusal, ...]
    doubts: tuple[Doubt, ...]


def check_operations(
    snapshot: Snapshot,
    operations: Sequence[Operation],
    *,
    by_code: bool,
    after: Sequence[Operation] = (),
    checks: "Sequence[Check] | None" = None,
    near: Cosine = unknown,
) -> Checked:
    """Which of the operations may apply, and which of these are doubtful; by all checks, or by these alone.

    `after` are operations that were let through before: what they change and say is not changed and said again.
    """
    accepted: list[Operation] = []
    refused: list[Refusal] = []
    doubts: list[Doubt] = []
    pieces = {piece.id: piece for piece in snapshot.evidence}
    lines = {line.id: line for line in snapshot.lines}
    taken = {line for operation in after for line in operation.lines}
    said = {normalise(operation.text) for operation in after if operation.action is not Action.EVICT}
    for operation in operations:
        if operation.action is Action.EVICT and snapshot.forgotten.found(operation.text):
            operation = replace(operation, text="")  # noqa: PLW2901 - the line gives its pointer another topic
        operation = replace(operation, text=defang(operation.text))  # noqa: PLW2901 - the raw text must not be used
        case = OperationContext(
            operation,
            snapshot,
            tuple(pieces[cite] for cite in operation.cites if cite in pieces),
            tuple(lines[cite] for cite in operation.cites if cite in lines),
            tuple(lines[line] for line in operation.lines if line in lines),
            tuple(name for name in operation.cites if name not in pieces and name not in lines)
            + tuple(line for line in operation.lines if line not in lines),
            frozenset(taken),
            frozenset(said),
            by_code,
            None if by_code else _foreign(snapshot, operation),
            near,
        )
        refusal = next((found for check in checks or CHECKS if (found := check(case)) is not None), None)
        if refusal is not None:
            refused.append(replace(refusal, operation=operation))
            continue
        taken |= set(operation.lines)
        accepted.append(_quoted(case))
        if checks is None and not by_code and case.weight.doubted:
            doubts.append(Doubt(accepted[-1], case.weight.doubted))
        said |= {normalise(accepted[-1].text)} if operation.action is not Action.EVICT else set()
    return Checked(tuple(accepted), tuple(refused), tuple(doubts))


def runaway(operations: Sequence[Operation]) -> tuple[tuple[Operation, ...], tuple[Refusal, ...]]:
    """Refuse every eviction of an answer that evicts more than 20 lines, or adds more than 20 pointers.

    Of merges those are refused after which more than 20 lines would be fewer; the ones before apply.
    """
    pointers = [one for one in operations if one.action is not Action.EVICT and one.section is SectionName.POINTERS]
    evictions = [one for one in operations if one.action is Action.EVICT]
    too_many = [*evictions, *pointers] if max(len(pointers), len(evictions)) > MAX_EVICTIONS else []
    figures = f"{len(evictions)} evictions and {len(pointers)} new pointers in one answer, at most {MAX_EVICTIONS}"
    refused = [Refusal("eviction runaway", "operation", figures, one) for one in too_many]
    merges = [one for one in operations if one.action is Action.MERGE and one not in too_many]
    fewer = {id(one): max(0, len(one.lines) - 1) for one in merges}
    figures = f"merges leave {sum(fewer.values())} lines fewer in one answer, at most {MAX_EVICTIONS}"
    over, room = list[Operation](), MAX_EVICTIONS
    for one in merges:
        if fewer[id(one)] > room:
            over.append(one)
        else:
            room -= fewer[id(one)]
    refused += [Refusal("eviction runaway", "operation", figures, one) for one in over]
    without = {id(one) for one in (*too_many, *over)}
    return tuple(one for one in operations if id(one) not in without), tuple(refused)


def _foreign(snapshot: Snapshot, operation: Operation) -> Foreign | None:
    if operation.action is Action.EVICT:
        return None
    named = {*operation.cites, *operation.lines}
    return foreign(unquoted(operation.text)[0], vouchers(snapshot, named), strangers(snapshot, named))


def _uncited(case: OperationContext) -> Refusal | None:
    if not case.operation.cites:
        return Refusal("citation", "operation", "it cites nothing")
    if case.unknown:
        more = f" and {len(case.unknown) - 5} more" if len(case.unknown) > 5 else ""
        named = ", ".join(name[:20] for name in case.unknown[:5])
        return Refusal("citation", "operation", f"there is no {named}{more}")
    return None


def _untouchable(case: OperationContext) -> Refusal | None:
    operation = case.operation
    pinned = [line.id for line in case.touched if line.pinned]
    if pinned:
        return Refusal("pinned", "operation", f"{', '.join(pinned)} is pinned")
    twice = [line for line in operation.lines if line in case.taken]
    if twice:
        return Refusal("shape", "operation", f"{', '.join(twice)} is changed by an earlier operation")
    if not case.by_code:
        theirs = {line.section for line in case.touched} | {operation.section}
        if theirs & _WRITTEN_BY_CODE:
            return Refusal("shape", "operation", f"{operation.section.value} is written by the program")
    return None


def _empty(case: OperationContext) -> Refusal | None:
    text = case.operation.text
    if case.operation.action is Action.EVICT:
        return None
    if len(text) > MAX_LINE_CHARACTERS:
        return Refusal("shape", "operation", f"{len(text):,} characters in one line, at most {MAX_LINE_CHARACTERS}")
    if not text.strip() or is_placeholder(text):
        return Refusal("empty synthesis", "operation", "no content")
    return None


def _ungrounded(case: OperationContext) -> Refusal | None:
    """A line says nothing of what it cites: another language, another topic, an invention."""
    operation = case.operation
    if operation.action is Action.EVICT or case.by_code:
        return None
    new = content_terms(operation.text) | frozenset(numbers(operation.text))
    if new and not new & case.grounds:
        return Refusal("evidence", "operation", f"none of its {len(new)} terms is in what it cites")
    return None


def _unsupported(case: OperationContext) -> Refusal | None:
    """A change that what is cited rules out; or of which it is not sure, where a stranger is cited."""
    if case.operation.action is Action.REVISE and not case.cited:
        return Refusal("evidence", "operation", "a revision cites at least one input")
    if case.by_code or (case.foreign and case.foreign.all_of_it and not case.touched):
        return None  # what is all a stranger's is quoted
    if case.weight.refused:
        return Refusal("evidence", "operation", case.weight.refused)
    voices = [spoken_trust(piece.text, piece.trust) for piece in case.cited]
    strange = bool(voices) and all(trust.rank < Trust.AGENT.rank for trust in voices)
    if case.operation.action is Action.REVISE and voices and all(trust is Trust.WEB for trust in voices):
        known = [line.id for line in case.touched if spoken_trust(line.text, line.trust).rank >= Trust.AGENT.rank]
        if known:
            return Refusal("evidence", "operation", f"a page alone does not change {', '.join(known)}")
    if case.weight.doubted and strange and case.operation.action is not Action.MERGE:
        return Refusal("evidence", "operation", f"{case.weight.doubted}; a page or a program said it")
    return None


def vetoed(case: OperationContext) -> Refusal | None:
    """A line that the owner deleted, or put right; what is nearer to a line of the owner's own is that line."""
    if case.operation.action is Action.EVICT:
        return None
    text, snapshot = case.operation.text, case.snapshot
    own = [line.text for line in snapshot.lines if line.id in snapshot.handwritten]
    for deleted in snapshot.tombstones:
        if same_as_deleted(text, deleted) and not any(_likeness(text, one) > _likeness(text, deleted) for one in own):
            return Refusal("human veto", "operation", "the owner deleted this line")
    return None


def _forgotten(case: OperationContext) -> Refusal | None:
    """A text that the owner had erased for good."""
    if case.operation.action is Action.EVICT or not case.snapshot.forgotten.found(case.operation.text):
        return None
    return Refusal("human veto", "operation", FORGOTTEN)


def _contradictory(case: OperationContext) -> Refusal | None:
    if case.operation.action is Action.EVICT:
        return None
    text = case.operation.text
    for line in case.snapshot.lines:
        if line.pinned and contradicts(line.text, text):
            return Refusal("pinned", "operation", f"it contradicts the pinned {line.id}")
    if case.operation.section is SectionName.PHENOTYPE:
        for constraint in case.snapshot.genome:
            if violates(text, constraint):
                return Refusal("genome", "operation", f"it contradicts GENOME.md: {constraint[:80]}")
    return None


def _injected(case: OperationContext) -> Refusal | None:
    """An order that is not the owner's; in a counted line, which is not quoted, whoever said it."""
    trust = least_trust([case.trust, *case.sources])
    if case.operation.action is Action.EVICT or (not case.by_code and trust.rank >= Trust.AGENT.rank):
        return None
    text = case.operation.text.partition("→")[0] if case.by_code else case.operation.text
    found = reads_as_instruction(text)
    if found is None:
        return None
    return Refusal("injection", "operation", f"{found.kind}, from {trust.value}")


def _laundered(case: OperationContext) -> Refusal | None:
    """Words of a page or a program, cited by nobody, among others or in the place of a line of the agent's.

    Quoted as a whole it would put the agent's own words into a stranger's mouth; the inputs are taken in without it.
    """
    if case.foreign is None or any(trust.rank < Trust.AGENT.rank for trust in case.sources):
        return None
    if case.foreign.all_of_it and not case.touched:
        return None
    figures = f"{case.foreign.words!r} is not in what it cites; a page or a program said something in this dream"
    return Refusal(LAUNDERED, "operation", figures)


def _repeated(case: OperationContext) -> Refusal | None:
    """A text that stands there already, or that this answer has said: each line stands once."""
    operation = _quoted(case)
    if operation.action is Action.EVICT:
        return None
    key = normalise(operation.text)
    twin = next((line for line in case.snapshot.lines if normalise(line.text) == key), None)
    unchanged = operation.action is Action.REVISE and twin is not None and twin.text == operation.text
    if twin is not None and (twin not in case.touched or unchanged):
        return Refusal("shape", "operation", f"{twin.id} says so already")
    if key in case.said:
        return Refusal("shape", "operation", "an earlier operation says so already")
    return None


Check = Callable[[OperationContext], Refusal | None]
CHECKS: tuple[Check, ...] = (
    _forgotten,
    _uncited,
    _untouchable,
    _empty,
    vetoed,
    _injected,
    _contradictory,
    _repeated,
    _ungrounded,
    _unsupported,
    _laundered,
)
# What is known to hold takes the place of what it supersedes: its evidence was weighed before.
SETTLING: tuple[Check, ...] = (
    _forgotten,
    _uncited,
    _untouchable,
    _empty,
    vetoed,
    _injected,
    _contradictory,
    _repeated,
    _laundered,
)
# What not even the owner's approval of one change sets aside.
PROTECTING: tuple[Check, ...] = (_forgotten, _untouchable, _empty, vetoed, _contradictory, _repeated)


def same_as_deleted(text: str, deleted: str) -> bool:
    """Whether a line is the one that the owner deleted, perhaps in other words.

    The same folded text; or three quarters of the terms in common, the same numbers, and neither denies the other.
    """
    if normalise(text) == normalise(deleted):
        return True
    if _likeness(text, deleted) < SAME_AS_DELETED:
        return False
    return set(numbers(text)) == set(numbers(deleted)) and not contradicts(text, deleted)


def _likeness(one: str, other: str) -> float:
    return jaccard(_terms(one), _terms(other))


@lru_cache(maxsize=1024)
def _terms(text: str) -> frozenset[str]:
    return content_terms(text)


def _quoted(case: OperationContext) -> Operation:
    """What a page or a program said stands there as a quotation, and so does an order that an agent noted."""
    operation = case.operation
    if operation.action is Action.EVICT or case.by_code:
        return operation
    return replace(operation, text=attributed(operation.text, case.trust))
