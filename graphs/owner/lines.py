"""Lines: what the owner wants of single lines of MEMORY.md, as one small dream that takes in no input of its own.

What comes of it is what would come of the same change in an editor: a line that is deleted is not written again, an
edited one is the owner's word and rests on no input. A text is made safe as any line is, and the guards that protect
are asked (pins, what was deleted or forgotten before, GENOME.md, a line stands once): an editor cannot be told no, a
caller can. A line that is pinned has to be unpinned first.

"This is wrong" says more than an edit: what the line rested on is not true either. What the owner says instead is a
crystal, which supersedes those of the old line that say the same. Where nothing is said instead, that crystal is the
denial of the line ("It is not true that: ..."). Nothing else could say it: importance only ranks, and to hide or to
erase what was said would take the evidence from other lines (`dreamd forget` erases). A search then shows the denial
as what holds and the old text as superseded by it, whoever finds that; a dream may not write the old line again
because it is a tombstone, from the same crystals or from new ones; and a line that says the same in other words comes
to say the denial.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from graphs.approval import AUTHOR, OWNERS_IMPORTANCE
from graphs.guard import PROTECTING, check_operations, same_as_deleted, vetoed
from graphs.working_copy import WorkingCopy
from state.document.document import SectionName, parse
from state.document.operations import Action, Birth, Fate, Operation, Refusal
from state.document.pointer import parse_pointer
from state.dream import EDIT, Correction, CurrentLine, Dream, Snapshot, Usage
from state.text.words import normalise, numbers
from state.trust import Trust

NOT_TRUE = "It is not true that: "
_CHECKS = {False: PROTECTING, True: tuple(check for check in PROTECTING if check is not vetoed)}


class LineAction(StrEnum):
    """What the owner wants of a line."""

    EDIT = "edit"
    DELETE = "delete"
    PIN = "pin"
    UNPIN = "unpin"
    WRONG = "wrong"
    ADD = "add"


_DONE = {
    LineAction.EDIT: "edited", LineAction.DELETE: "deleted", LineAction.PIN: "pinned", LineAction.UNPIN: "unpinned",
    LineAction.WRONG: "wrong", LineAction.ADD: "added",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LineChange:
    """One wish. `line` is the line as it stands (None: one is added to the section), `text` what it is to say.

    `again`: also what the owner deleted before.
    """

    action: LineAction
    section: SectionName
    line: CurrentLine | None = None
    text: str = ""
    again: bool = False

    @property
    def operation(self) -> Operation | None:
        """The operation that writes the text; None when none is written."""
        if not self.text:
            return None
        if self.line is None:
            return Operation(Action.ADD, self.section, self.text)
        return Operation(Action.REVISE, self.section, self.text, (self.line.id,))


@dataclass(frozen=True, slots=True)
class ChangedLines:
    """The dream, or the refusals of those that cannot be, by their place: then nothing is done.

    `texts` are the lines as they are written, by the place of the change.
    """

    dream: Dream | None
    texts: dict[int, str]
    refused: dict[int, Refusal]


def change_lines(snapshot: Snapshot, changes: Sequence[LineChange]) -> ChangedLines:
    """Return the dream that carries out all of these changes, or why there is none."""
    written: dict[int, Operation] = {}
    refused: dict[int, Refusal] = {}
    for place, change in enumerate(changes):
        refusal = _impossible(change) or _twice(change, changes[:place])
        operation = change.operation
        if refusal is None and operation is not None:
            accepted, refusals = check_operations(
                snapshot, (operation,), by_code=True, after=tuple(written.values()), checks=_CHECKS[change.again]
            )
            refusal = next(iter(refusals), None)
            if accepted:
                (written[place],) = accepted
        if refusal is not None:
            refused[place] = refusal
    if refused:
        return ChangedLines(None, {}, refused)
    dream = _dream(snapshot, changes, written)
    texts = {place: operation.text for place, operation in written.items()}
    refused = _without_effect(dream, changes, texts)
    return ChangedLines(None if refused else dream, {} if refused else texts, refused)


def _impossible(change: LineChange) -> Refusal | None:
    """Why this cannot be done with this line, whatever it is to say."""
    line, action = change.line, change.action
    if line is None:
        ruled_out = {f"{change.section.value} is written by the program": change.section is SectionName.POINTERS}
    else:
        pointer = line.section is SectionName.POINTERS and parse_pointer(line.text) is not None
        writes = action in (LineAction.EDIT, LineAction.WRONG)
        ruled_out = {
            f"{line.id} is a pointer, which the program writes; delete it": pointer and writes,
            f"{line.id} is pinned already": action is LineAction.PIN and line.pinned,
            f"{line.id} is not pinned": action is LineAction.UNPIN and not line.pinned,
            f"{line.id} is pinned; unpin it first": action not in (LineAction.PIN, LineAction.UNPIN) and line.pinned,
        }
    why = next((why for why, applies in ruled_out.items() if applies), None)
    return Refusal("pinned" if "pinned" in why else "shape", "operation", why) if why else None


def _twice(change: LineChange, before: Sequence[LineChange]) -> Refusal | None:
    if change.line is None or all(one.line is None or one.line.id != change.line.id for one in before):
        return None
    return Refusal("shape", "operation", f"{change.line.id} is changed by an earlier change")


def _dream(snapshot: Snapshot, changes: Sequence[LineChange], written: dict[int, Operation]) -> Dream:
    copy = WorkingCopy(snapshot, tuple(written.values()), (), takes_in=False)
    born = dict(zip(written, copy.births[len(copy.births) - len(written) :], strict=True))
    tombstones, lifted, corrections = list[str](), list[str](), list[Correction]()
    for place, change in enumerate(changes):
        line, birth = change.line, born.get(place)
        said = _by_owner(copy, snapshot, birth) if birth is not None and line is not None else ""
        if birth is not None:
            evidence = (said,) if said else ()
            mine = replace(
                birth, trust=Trust.OWNER, importance=max(birth.importance, OWNERS_IMPORTANCE), evidence=evidence
            )
            copy.births = [mine if one is birth else one for one in copy.births]
            lifted += [one for one in snapshot.tombstones if change.again and same_as_deleted(birth.text, one)]
        if line is None:
            continue
        if change.action in (LineAction.PIN, LineAction.UNPIN):
            copy.pin(line, pinned=change.action is LineAction.PIN)
            continue
        if birth is None:
            _remove(copy, line)
        if change.action is LineAction.WRONG:
            corrections.append(Correction(line.id, said or _denial(copy, line)))
        # A line that is only worded otherwise may be worded so again by a dream; what is called wrong may not.
        if birth is None or change.action is LineAction.WRONG or set(numbers(line.text)) != set(numbers(birth.text)):
            tombstones.append(line.text)
    counted = Counter(_DONE[change.action] for change in changes)
    dream = copy.dream((), AUTHOR, Usage(), 0.0)
    standing = {normalise(line.text) for line in copy.lines}
    return replace(
        dream,
        cause=EDIT,
        reason=", ".join(f"{number} {how}" for how, number in counted.items()),
        dreamt=(),
        notes=0,
        tombstones=(*dream.tombstones, *(one for one in tombstones if normalise(one) not in standing)),
        lifted_tombstones=(*dream.lifted_tombstones, *dict.fromkeys(lifted)),
        corrections=tuple(corrections),
    )


def _by_owner(copy: WorkingCopy, snapshot: Snapshot, birth: Birth) -> str:
    """Return the id of the crystal of the owner's words, as of a correction in an editor."""
    line = CurrentLine(birth.id, birth.section, birth.text, OWNERS_IMPORTANCE, Trust.OWNER, snapshot.now)
    return copy.said_by_hand(line)


def _denial(copy: WorkingCopy, line: CurrentLine) -> str:
    text = f"{NOT_TRUE}{line.text}"
    return copy.said_by_hand(replace(line, text=text, importance=OWNERS_IMPORTANCE, trust=Trust.OWNER, said_at=None))


def _remove(copy: WorkingCopy, line: CurrentLine) -> None:
    parsed = parse_pointer(line.text) if line.section is SectionName.POINTERS else None
    pointer = next((one for one in copy.pointers if parsed is not None and one.keywords == parsed[1]), None)
    if pointer is not None:
        copy.retire(pointer, line, line.text)
    else:
        copy.remove(line, Fate.DELETED, copy.crystal_of(line))


def _without_effect(dream: Dream, changes: Sequence[LineChange], texts: dict[int, str]) -> dict[int, Refusal]:
    """Refuse the changes after which MEMORY.md does not read as it should: their texts are no lines there."""
    after = {(name, block.key, block.pinned) for name, block in parse(dream.after).lines()}
    refused = {}
    for place, change in enumerate(changes):
        wanted = texts.get(place)
        if wanted is None and change.action in (LineAction.PIN, LineAction.UNPIN) and change.line is not None:
            wanted = change.line.text
        stands = (change.section, normalise(wanted or ""), change.action is LineAction.PIN)
        if wanted is not None and stands not in after:
            refused[place] = Refusal("shape", "operation", "MEMORY.md cannot hold that; change it in the file")
    return refused
