"""Guard: decides which operations of a draft may be written. It counts; it does not read.

Everything is answered from ids, sections, lengths and numbers of lines, and from equal texts. What words mean is the
model's and the owner's affair: a wrong line is one undo away, for the old text stays a crystal and every version is
kept. A guard refuses the smallest thing it can: an operation, else a section (which keeps its old text), else the
dream. Some operations are not refused but wait for the owner. All functions are pure.

    structure   ids that exist, a section that may be written, not empty, not too long, said once
    ownership   not pinned, not forgotten, not deleted by the owner
    bounds      `Bounds`: how much one input vouches for, how much one answer tidies, evicts and changes
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from graphs.extractive import AUTHOR, additions, counted_operations, named_operations
from state.document.document import Document, Edit, SectionName, is_placeholder
from state.document.editing import edited
from state.document.merge import working
from state.document.operations import Action, Operation, Refusal, edits_of
from state.dream import CurrentLine, Draft, Evidence, Kind, PastLine, Snapshot
from state.forgetting.known import Known
from state.text.line import LINE_CHARACTERS, as_line, without_count
from state.text.words import content_terms, jaccard, normalise, numbers, repeat_key

ALL_REFUSED = "all refused"
FORGOTTEN = "the owner had this forgotten"
SAID_ALREADY = "says so already"
THIRD = "more than a third of the memory changes at once"
TIDYING = "more lines are tidied at once than may be without asking"
# So much of the words of a line that the owner deleted, with the same numbers, is that line.
SAME_AS_DELETED = 0.75
MOST_EROSION = 0.2
_WRITTEN_BY_CODE = {SectionName.POINTERS, SectionName.SKILLS}
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?:;。！？]\W*$")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much one answer may do before it is refused, or its owner is asked.

    `per_input`: lines that one input may change; `tidied`: lines that are merged or reworded without an input,
    or a tenth of the memory if that is more; `changed`: lines that may change in a small memory without asking;
    `important`: the least importance at which a note that an answer passes over gets its own line.
    """

    per_input: int = 8
    tidied: int = 8
    evictions: int = 20
    changed: int = 5
    important: float = 0.7


BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the guards let through, and what of that waits for the owner, by why (`asks`).

    `refusal` is set when the whole dream is refused.
    """

    operations: tuple[Operation, ...]
    refused: tuple[Refusal, ...]
    consumed: tuple[str, ...] = ()
    author: str = ""
    refusal: Refusal | None = None
    asks: tuple[tuple[Operation, str], ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """What to tell the model, the weightiest first."""
        every = (*((self.refusal,) if self.refusal else ()), *self.refused)
        return tuple(dict.fromkeys(f"{one.guard}: {one.figures}{_named(one.operation)}" for one in every))[:12]


@dataclass(frozen=True, slots=True)
class Case:
    """One operation with all that a check may look at.

    `unknown` are ids that do not exist, `taken` lines that an earlier operation changes, `said` folded texts that
    an earlier operation writes. `by_code`: the program or the owner wants it, not a model.
    """

    operation: Operation
    snapshot: Snapshot
    cited: tuple[Evidence, ...]
    cited_lines: tuple[CurrentLine, ...]
    touched: tuple[CurrentLine, ...]
    unknown: tuple[str, ...]
    taken: frozenset[str]
    said: frozenset[str]
    by_code: bool


Check = Callable[[Case], Refusal | None]


class Checked(NamedTuple):
    """The operations that may apply, each text made one line; a refusal for each of the others."""

    accepted: tuple[Operation, ...]
    refused: tuple[Refusal, ...]


def apply(snapshot: Snapshot, operations: Sequence[Operation]) -> tuple[Document, tuple[Edit, ...]]:
    """Return the document after these operations, and the edits that made it so."""
    texts = {line.id: (line.section, line.text) for line in snapshot.lines}
    edits = edits_of(operations, texts)
    after, left_out = edited(working(snapshot.text), edits)
    return after, tuple(edit for edit in edits if edit not in left_out)


def judge(snapshot: Snapshot, draft: Draft) -> Verdict:
    """Let through what may be written of a draft, and complete it.

    Notes that name the line that they replace, counted lines, and important notes that the model neither cited nor
    named get their lines here.
    """
    verdict = _judged(snapshot, draft)
    if not snapshot.forgotten:
        return verdict
    return replace(verdict, refused=tuple(_masked(snapshot.forgotten, one) for one in verdict.refused))


def _judged(snapshot: Snapshot, draft: Draft) -> Verdict:
    refused = [one for one in draft.refused if one.scope != "dream"]
    unread = next((one for one in draft.refused if one.scope == "dream"), None)
    unusable = unread or _cut_off(draft) or _unusable(draft)
    if unusable is not None:
        return Verdict((), tuple(refused), draft.consumed, draft.author, unusable)
    counted, worse = check_operations(snapshot, counted_operations(snapshot), by_code=True)
    bounded, too_many = within_bounds(_whole_sections(draft, refused))
    accepted, more = check_operations(snapshot, bounded, by_code=False, after=counted)
    refused += (*too_many, *more)
    nothing_left = _nothing_left(draft, accepted, refused)
    named, unnamed = check_operations(
        snapshot, named_operations(snapshot, accepted), by_code=True, after=(*counted, *accepted)
    )
    # A note that may not replace what it names is kept beside it.
    beside = [replace(one.operation, action=Action.ADD, lines=()) for one in unnamed if one.operation]
    kept, _ = check_operations(snapshot, beside, by_code=True, after=(*counted, *accepted, *named))
    named += kept
    # An input whose operation was refused is not taken in by being named.
    unheard = {cite for one in (*too_many, *more) if one.operation for cite in one.operation.cites}
    consumed = tuple(name for name in draft.consumed if name not in unheard)
    after = (*counted, *accepted, *named)
    unsaid = [] if draft.author == AUTHOR or nothing_left else _unsaid(snapshot, consumed, after)
    added, _ = check_operations(snapshot, additions(snapshot, unsaid), by_code=True, after=after)
    consumed += tuple(piece.id for piece in unsaid)
    return Verdict(
        (*accepted, *named, *added, *counted),
        (*refused, *unnamed, *worse),
        consumed,
        draft.author,
        nothing_left,
        _asks(snapshot, accepted, by_code=draft.author == AUTHOR),
    )


def check_operations(
    snapshot: Snapshot,
    operations: Sequence[Operation],
    *,
    by_code: bool,
    after: Sequence[Operation] = (),
    checks: Sequence[Check] | None = None,
) -> Checked:
    """Return which of the operations may apply, by all checks or by these alone.

    `after` are operations that were let through before: what they change and say is not changed and said again.
    """
    accepted, refused = list[Operation](), list[Refusal]()
    pieces = {piece.id: piece for piece in snapshot.evidence}
    lines = {line.id: line for line in snapshot.lines}
    taken = {line for one in after for line in one.lines}
    said = {repeat_key(one.text) for one in after if one.action is not Action.EVICT}
    for given in operations:
        operation = _made_safe(snapshot, given, by_code=by_code)
        case = Case(
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
        )
        refusal = next((found for check in checks or CHECKS if (found := check(case)) is not None), None)
        if refusal is not None:
            refused.append(replace(refusal, operation=operation))
            continue
        taken |= set(operation.lines)
        said |= {repeat_key(operation.text)} if operation.action is not Action.EVICT else set()
        accepted.append(operation)
    return Checked(tuple(accepted), tuple(refused))


def within_bounds(operations: Sequence[Operation]) -> Checked:
    """Refuse what is too much for one answer: evictions, pointers, lines fewer by merging, changes by one input.

    Too many evictions or pointers are all refused; of merges those after which too many lines would be fewer; of
    changes those that cite none but inputs which are cited for too many.
    """
    pointers = [one for one in operations if one.action is not Action.EVICT and one.section is SectionName.POINTERS]
    evictions = [one for one in operations if one.action is Action.EVICT]
    refused = list[Refusal]()
    if max(len(pointers), len(evictions)) > BOUNDS.evictions:
        figures = f"{len(evictions)} evictions and {len(pointers)} new pointers in one answer"
        figures += f", at most {BOUNDS.evictions}"
        refused += [Refusal("eviction runaway", "operation", figures, one) for one in (*evictions, *pointers)]
    merges = [one for one in operations if one.action is Action.MERGE and one not in pointers]
    fewer = [max(0, len(one.lines) - 1) for one in merges]
    figures = f"merges leave {sum(fewer)} lines fewer in one answer, at most {BOUNDS.evictions}"
    room = BOUNDS.evictions
    for one, less in zip(merges, fewer, strict=True):
        if less > room:
            refused.append(Refusal("eviction runaway", "operation", figures, one))
        else:
            room -= less
    changes = [one for one in operations if one.action in {Action.REVISE, Action.MERGE} and _inputs(one)]
    vouched = Counter(cite for one in changes for cite in _inputs(one) for _ in one.lines)
    for one in changes:
        if all(vouched[cite] > BOUNDS.per_input for cite in _inputs(one)):
            most = max(_inputs(one), key=lambda cite: vouched[cite])
            figures = f"{most} is cited for {vouched[most]} changed lines, at most {BOUNDS.per_input}"
            refused.append(Refusal("bounds", "operation", figures, one))
    out = {id(one.operation) for one in refused}
    return Checked(tuple(one for one in operations if id(one) not in out), tuple(refused))


def erosion(
    best: Sequence[PastLine], after: Document, leaving: Collection[str], resolving: Collection[str]
) -> Refusal | None:
    """Refuse a dream after which more than 20 % of the best of the last ten versions is gone.

    A line counts as kept when it stands, was revised, was deleted by the owner, or lies behind keywords that still
    resolve. `leaving` holds the lines that this dream moves behind pointers or revises.
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


def same_as_deleted(text: str, deleted: str) -> bool:
    """Return whether a line is the one that the owner deleted: three quarters of its words, and its numbers."""
    if normalise(text) == normalise(deleted):
        return True
    return _likeness(text, deleted) >= SAME_AS_DELETED and set(numbers(text)) == set(numbers(deleted))


def _asks(snapshot: Snapshot, accepted: Sequence[Operation], *, by_code: bool) -> tuple[tuple[Operation, str], ...]:
    """Return what waits for the owner: over a third of the memory at once, or more tidying than is usual."""
    if by_code:
        return ()
    standing = [line for line in snapshot.lines if line.section not in _WRITTEN_BY_CODE]
    changes = [one for one in accepted if one.lines]
    if sum(len(one.lines) for one in changes) > max(BOUNDS.changed, len(standing) // 3):
        return tuple((one, THIRD) for one in changes)
    room, waiting = max(BOUNDS.tidied, len(standing) // 10), list[tuple[Operation, str]]()
    for one in changes:
        if one.action is Action.EVICT or _inputs(one):
            continue
        room -= len(one.lines)
        if room < 0:
            waiting.append((one, TIDYING))
    return tuple(waiting)


def _unsaid(snapshot: Snapshot, consumed: Collection[str], operations: Sequence[Operation]) -> list[Evidence]:
    """Return the important notes that an answer neither cites nor names, if it takes in anything at all."""
    taken = {*consumed, *(cite for one in operations for cite in one.cites)}
    notes = [piece for piece in snapshot.evidence if piece.kind is Kind.NOTE]
    if notes and not any(piece.id in taken for piece in snapshot.evidence):
        return []
    return [piece for piece in notes if piece.id not in taken and piece.importance >= BOUNDS.important]


def _inputs(operation: Operation) -> tuple[str, ...]:
    """Return the inputs that an operation cites, without lines."""
    return tuple(cite for cite in operation.cites if not cite.startswith("L"))


def _made_safe(snapshot: Snapshot, operation: Operation, *, by_code: bool) -> Operation:
    """Make the text one that can be nothing but a line; the raw text must not be used."""
    if operation.action is Action.EVICT and snapshot.forgotten.found(operation.text):
        return replace(operation, text="")  # the line gives its pointer another topic
    return replace(operation, text=as_line(operation.text if by_code else without_count(operation.text)))


def _masked(forgotten: Known, refusal: Refusal) -> Refusal:
    """Take the forgotten words out of a refusal, so that it may be told and written down."""
    operation = refusal.operation
    if operation is not None:
        cites = tuple(map(forgotten.masked, operation.cites))
        operation = replace(operation, text=forgotten.masked(operation.text), cites=cites)
    return replace(refusal, figures=forgotten.masked(refusal.figures), operation=operation)


def _named(operation: Operation | None) -> str:
    if operation is None:
        return ""
    return f" ({operation.action} {', '.join(operation.lines[:5]) or repr(operation.text[:60])})"


def _cut_off(draft: Draft) -> Refusal | None:
    if draft.complete:
        return None
    figures = "the model stopped at its token limit; answer with fewer operations (or raise model.max_output_tokens)"
    return Refusal("truncation", "dream", figures)


def _unusable(draft: Draft) -> Refusal | None:
    """Refuse a whole document in which no section can be read as itself."""
    if not draft.whole or len(set(draft.missing) | set(draft.doubled)) < len(SectionName):
        return None
    return Refusal("schema", "dream", f"{len(draft.missing)} sections are missing, {len(draft.doubled)} doubled")


def _whole_sections(draft: Draft, refused: list[Refusal]) -> tuple[Operation, ...]:
    """Return the operations on sections that a whole document has once; the others keep their old text."""
    bad = dict.fromkeys(draft.missing, "missing") | dict.fromkeys(draft.doubled, "doubled")
    if not draft.whole or not bad:
        return draft.operations
    refused += [Refusal("schema", "section", f"{name.value} is {how}") for name, how in bad.items()]
    return tuple(one for one in draft.operations if one.section not in bad)


def _nothing_left(draft: Draft, accepted: Sequence[Operation], refused: Sequence[Refusal]) -> Refusal | None:
    """Refuse an answer of which everything was refused, so that the model hears why; repeats are no fault."""
    faults = [one for one in refused if not (one.operation is not None and one.figures.endswith(SAID_ALREADY))]
    if accepted or not faults:
        return None
    if not draft.operations:
        return replace(faults[0], scope="dream", operation=None)
    said = len(draft.operations) + len(draft.refused)
    return Refusal(ALL_REFUSED, "dream", f"none of the {said} operations can be applied")


def _forgotten(case: Case) -> Refusal | None:
    """Refuse a text that the owner had erased for good."""
    if case.operation.action is Action.EVICT or not case.snapshot.forgotten.found(case.operation.text):
        return None
    return Refusal("human veto", "operation", FORGOTTEN)


def _uncited(case: Case) -> Refusal | None:
    operation = case.operation
    if not operation.cites:
        return Refusal("citation", "operation", "it cites nothing")
    if case.unknown:
        more = f" and {len(case.unknown) - 5} more" if len(case.unknown) > 5 else ""
        named = ", ".join(name[:20] for name in case.unknown[:5])
        return Refusal("citation", "operation", f"there is no {named}{more}")
    if operation.action is Action.ADD and not case.cited:
        return Refusal("citation", "operation", "a new line cites at least one input")
    return None


def _untouchable(case: Case) -> Refusal | None:
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


def _empty(case: Case) -> Refusal | None:
    text = case.operation.text
    if case.operation.action is Action.EVICT:
        return None
    if len(text) > LINE_CHARACTERS:
        return Refusal("shape", "operation", f"{len(text):,} characters in one line, at most {LINE_CHARACTERS}")
    if not text.strip() or is_placeholder(text):
        return Refusal("empty synthesis", "operation", "no content")
    return None


def vetoed(case: Case) -> Refusal | None:
    """Refuse a line that the owner deleted or put right, unless it is nearer to a line of the owner's own."""
    if case.operation.action is Action.EVICT:
        return None
    text, snapshot = case.operation.text, case.snapshot
    own = [line.text for line in snapshot.lines if line.id in snapshot.handwritten]
    for deleted in snapshot.tombstones:
        if same_as_deleted(text, deleted) and not any(_likeness(text, one) > _likeness(text, deleted) for one in own):
            return Refusal("human veto", "operation", "the owner deleted this line")
    return None


def _repeated(case: Case) -> Refusal | None:
    """Refuse a text that stands already, or that this answer has said: each line stands once."""
    operation = case.operation
    if operation.action is Action.EVICT:
        return None
    key = repeat_key(operation.text)
    twin = next((line for line in case.snapshot.lines if repeat_key(line.text) == key), None)
    unchanged = operation.action is Action.REVISE and twin is not None and twin.text == operation.text
    if twin is not None and (twin not in case.touched or unchanged):
        return Refusal("shape", "operation", f"{twin.id} {SAID_ALREADY}")
    if key in case.said:
        return Refusal("shape", "operation", f"an earlier operation {SAID_ALREADY}")
    return None


def _untold(case: Case) -> Refusal | None:
    """Refuse tidying without an input that brings a number or a name that none of its lines has."""
    operation = case.operation
    if case.by_code or case.cited or operation.action not in {Action.REVISE, Action.MERGE}:
        return None
    lines = [line.text for line in (*case.touched, *case.cited_lines)]
    known = {word.casefold() for text in lines for word in _WORD.findall(text)}
    counted = set(numbers(operation.text)).difference(*(numbers(text) for text in lines))
    new = sorted(counted | {name for name in _names(operation.text) if name.casefold() not in known})
    if not new:
        return None
    figures = f"it cites no input, and none of its lines says {', '.join(map(repr, new[:4]))}"
    return Refusal("bounds", "operation", figures)


def _names(text: str) -> set[str]:
    """Return the words with a capital that do not begin a sentence."""
    before = ((word.group(), text[: word.start()]) for word in _WORD.finditer(text) if word.group()[0].isupper())
    return {word for word, head in before if head.strip() and not _SENTENCE_END.search(head)}


def _likeness(one: str, other: str) -> float:
    return jaccard(_terms(one), _terms(other))


@lru_cache(maxsize=1024)
def _terms(text: str) -> frozenset[str]:
    return content_terms(text)


CHECKS: tuple[Check, ...] = (_forgotten, _uncited, _untouchable, _empty, vetoed, _repeated, _untold)
# What not even the owner's approval of one change sets aside.
PROTECTING: tuple[Check, ...] = (_forgotten, _untouchable, _empty, vetoed, _repeated)
