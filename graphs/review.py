"""Review: what the owner undoes, accepts, declines and changes line by line, as a version that consumes no input.

A change of any earlier version is undone by its inverse, a proposal is played, both on today's lines: if these have
left or changed, nothing happens. Only the protecting checks run (pins, vetoes, forgotten texts, repeats): the owner
has judged the evidence. Lines keep their authors, ages and importance.

A wish for a line has the same effect as the same change in an editor: a deleted line is not written again, and an
edited line is the owner's word and rests on no input. Unlike an edit, a wish can be refused: a pinned line has to be
unpinned first.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from graphs.checks import PROTECTING, untouchable, vetoed
from graphs.input_budget import numbered
from graphs.ports import Memory
from graphs.room import fit
from graphs.sheet import SAID_ALREADY, Check, Sheet
from state.changes.change import Change, CurrentLine
from state.changes.owner import same_as_deleted
from state.changes.page import Page, owners_words
from state.crystals.crystal import Crystal
from state.document.document import parse
from state.document.operations import Action, Operation, Refusal, Why
from state.document.pointer import parse_pointer
from state.document.sections import SectionName
from state.dream import EDIT, REVIEW, UNDO, Answer, Corrected, Dream, Evidence, Kind, Snapshot, Usage
from state.text.words import normalise, numbers
from state.trust import Trust

AUTHOR = "owner"
OWNERS_IMPORTANCE = 0.8
CONFLICT = "conflict"
"""The guard of a wish whose line is missing or has changed."""
UNHELD = Refusal("shape", "operation", "MEMORY.md cannot hold that; change it in the file")


class LineAction(StrEnum):
    """What the owner wants done with a line."""

    EDIT = "edit"
    DELETE = "delete"
    PIN = "pin"
    UNPIN = "unpin"
    ADD = "add"


_DONE = {
    LineAction.EDIT: "edited", LineAction.DELETE: "deleted", LineAction.PIN: "pinned", LineAction.UNPIN: "unpinned",
    LineAction.ADD: "added",
}  # fmt: skip
_PINS = (LineAction.PIN, LineAction.UNPIN)
_WRITES = frozenset((Action.ADD, Action.REVISE, Action.MERGE, Action.RECALL))


@dataclass(frozen=True, slots=True)
class Wish:
    """The owner's wish for a line, which is named by its id, or else by its section and its displayed text.

    `expected` is the displayed text, which must still be current. `text` is the new text; `again` allows it even if
    the owner deleted it before.
    """

    action: LineAction
    line: str = ""
    section: SectionName | None = None
    expected: str = ""
    text: str = ""
    again: bool = False


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What undoing a version takes back beside its lines.

    Corrections, and others that it had taken back itself; answers to proposals; texts that may be written again
    (`lifted`) or must not (`unwanted`). `own` are the lines that its owner wrote.
    """

    uncorrected: tuple[Corrected, ...] = ()
    corrected: tuple[Corrected, ...] = ()
    answers: tuple[Answer, ...] = ()
    lifted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    own: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """A proposal with its lines as they stood, and what it rests on. `is_owners`: the owner said the text before."""

    operation: Operation
    lines: tuple[CurrentLine, ...]
    evidence: tuple[Evidence, ...]
    is_owners: bool = False


@dataclass(frozen=True, slots=True)
class Undone:
    """The version that undid changes, if any, and the names of those done and of those whose lines have changed."""

    dream: Dream | None
    done: tuple[str, ...]
    outdated: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Carried:
    """The version that carries out the owner's wishes; None if there is none.

    `refused` and `texts` say by number why a wish was refused, or which line it wrote. `done` were applied;
    `outdated` concern lines that have changed, or say nothing new.
    """

    dream: Dream | None
    refused: Mapping[int, Refusal]
    texts: Mapping[int, str] = field(default_factory=dict)
    done: tuple[int, ...] = ()
    outdated: tuple[int, ...] = ()


class Review(Sheet):
    """The page while its owner changes it.

    `unwanted` are texts that must not be written again, `lifted` those that are allowed again, `said` the crystals of
    the owner's words.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.is_judged = True
        self.unwanted: list[str] = []
        self.lifted: list[str] = []
        self.said = list[Crystal]()

    def version(self, cause: str, reason: str) -> Dream:
        """Return the version with the owner's decisions."""
        dream = self.dream(AUTHOR, Usage(), 0.0)
        return replace(
            dream,
            cause=cause,
            reason=reason,
            dreamt=(),
            refused=(),
            crystals=(*dream.crystals, *self.said),
            tombstones=tuple(self.unwanted),
            lifted_tombstones=tuple(dict.fromkeys(self.lifted)),
        )

    def write(
        self, operation: Operation, without: Collection[Check] = (), *, by_owner: bool = True
    ) -> Refusal | None:
        """Apply an operation; what the owner writes is their word, and rests on nothing but the crystal of it.

        Leave out the checks in `without`.
        """
        before = len(self.refused)
        self.play((operation,), [check for check in PROTECTING if check not in without], asks=False)
        if self.refused[before:]:
            return self.refused[before]
        if by_owner:
            last = self.changes[-1]
            come = tuple(map(_owned, last.come))
            said = [owners_words(one, self.snapshot.redaction, self.snapshot.now) for one in come if last.gone]
            self.said += said
            self.changes[-1] = replace(last, come=come, evidence=tuple(one.id for one in said))
            self.lines |= {line.id: line for line in come}
        return None

    def undo(
        self, change: Change, evidence: Mapping[str, tuple[str, ...]], below: Mapping[str, Sequence[str]]
    ) -> bool:
        """Undo a change: lines come back as they were, above the first one `below` that still stands.

        Return False if its lines have changed since.
        """
        back = inverse_of(change, self)
        if back is None:
            return False
        if back.come:
            last = back.come[-1]
            here = {line.key for line in self.lines.values() if line.place is last.place}
            above = next((text for text in below.get(last.id, ()) if normalise(text) in here), "")
            back = replace(back, above=above)
        if not back.come:
            self.unwanted += [line.text for line in back.gone if line.section is not SectionName.POINTERS]
        come = tuple(replace(line, above=False) for line in back.come)
        rests = tuple(dict.fromkeys(crystal for line in back.come for crystal in evidence.get(line.id, ())))
        why = back.why if come else Why.DELETED
        if self.change(replace(back, why=why, come=come, evidence=rests)) is None:
            return False
        back_again = [line.text for line in come]
        deleted = self.snapshot.tombstones
        self.lifted += [one for one in deleted if any(same_as_deleted(text, one) for text in back_again)]
        return True

    def line(self, wish: Wish, line: CurrentLine | None) -> Refusal | None:
        """Carry out a wish for a line, or for a section if `line` is None."""
        section = line.section if line else wish.section
        assert section is not None
        old = () if line is None else (line,)
        written = ""
        if wish.text:
            action = Action.REVISE if line else Action.ADD
            operation = Operation(action, section, wish.text, tuple(one.id for one in old))
            if (refusal := self.write(operation, (vetoed,) if wish.again else ())) is not None:
                return refusal
            last = self.changes[-1]
            written = last.come[0].text if last.come else wish.text
            if wish.again:
                self.lifted += [one for one in self.snapshot.tombstones if same_as_deleted(written, one)]
        elif line is not None:
            come = (replace(line, pinned=wish.action is LineAction.PIN),) if wish.action in _PINS else ()
            why = Why.PINNED if come else Why.EVICTED if is_pointer(line) else Why.DELETED
            if self.change(Change(why, old, come)) is None:
                return UNHELD
        if line is None or wish.action in _PINS:
            return None
        # A dream may restore the wording of a line that was only reworded.
        if not wish.text or set(numbers(line.text)) != set(numbers(written)):
            self.unwanted.append(line.text)
        return None


# ------------------------------------------------------------------------------ changes of earlier versions


def undo_changes(
    snapshot: Snapshot,
    changes: Mapping[str, Change],
    archive: Memory,
    evidence: Mapping[str, tuple[str, ...]],
    below: Mapping[str, Sequence[str]] = MappingProxyType({}),
    beside: Mapping[str, TakenBack] = MappingProxyType({}),
) -> Undone:
    """Undo these changes, given by name, in order.

    `evidence` has the crystals behind former lines, `below` the texts that stood below them, both by line id.
    `beside` has what is taken back beside the lines, by version: if all its changes are undone.
    """
    review = Review(snapshot)
    done = tuple(name for name, change in changes.items() if review.undo(change, evidence, below))
    outdated = tuple(name for name in changes if name not in done)
    kept = {name.partition(".")[0] for name in outdated}
    back = {number: one for number, one in beside.items() if number not in kept}
    lines = done
    done += tuple(number for number in back if not any(name.partition(".")[0] == number for name in done))
    if not done:
        return Undone(None, (), outdated)
    for one in back.values():
        review.unwanted = [*(text for text in review.unwanted if text not in one.own), *one.unwanted]
        review.lifted += one.lifted
    if lines:
        fit(review, archive)
    dream = replace(
        review.version(UNDO, f"change{'s' * (len(done) > 1)} {', '.join(done)}"),
        answers=tuple(each for one in back.values() for each in one.answers),
        uncorrected=tuple(each for one in back.values() for each in one.uncorrected),
        corrected=tuple(each for one in back.values() for each in one.corrected),
        since=min(int(name.partition(".")[0]) for name in done),
    )
    return Undone(dream, done, outdated)


def inverse_of(change: Change, page: Page) -> Change | None:
    """Return the inverse of a change on today's lines; None if they are no longer what it left behind."""
    back = change.inverse
    gone = [page.stands(line) for line in back.gone]
    is_move = change.why is Why.MOVED
    found = tuple(
        one
        for one, was in zip(gone, back.gone, strict=True)
        if one is not None
        and (not is_move or one.section is was.section)
        and (change.why is not Why.PINNED or one.pinned == was.pinned)
    )
    if len(found) < len(gone) or (not found and any(page.stands(line) is not None for line in back.come)):
        return None
    leaving = {line.id for line in found}
    twins = [page.stands(line) for line in back.come]
    come = tuple(
        replace(line, id=found[0].id) if change.why is Why.PINNED else line
        for line, twin in zip(back.come, twins, strict=True)
        if twin is None or twin.id in leaving
    )
    return replace(back, gone=found, come=come)


# ------------------------------------------------------------------------------ proposals


def settle_proposals(
    snapshot: Snapshot, accepted: Mapping[int, Asked], declined: Mapping[int, Operation], archive: Memory
) -> Carried:
    """Play accepted proposals on the page of today. Declined texts are not written again, like deleted lines."""
    pieces, operations = list[Evidence](), dict[int, Operation]()
    for number, one in accepted.items():
        cited = numbered(Kind.CRYSTAL, one.evidence, len(pieces) + 1)
        pieces += cited
        lines = {line.id for line in snapshot.lines} & set(one.operation.cites)
        operations[number] = replace(one.operation, cites=(*(piece.id for piece in cited), *sorted(lines)))
    review = Review(replace(snapshot, evidence=tuple(pieces)))
    done, outdated, refused = list[int](), list[int](), dict[int, Refusal]()
    for number, one in accepted.items():
        today = [line.id for line in map(review.stands, one.lines) if line is not None]
        refusal = None
        if is_there := len(set(today)) == len(one.operation.lines):
            # A pinned line that its owner has revised stays pinned.
            without = (untouchable,) if one.operation.action is Action.REVISE else ()
            operation = replace(operations[number], lines=tuple(today))
            refusal = review.write(operation, without, by_owner=one.is_owners)
        if not is_there or (refusal is not None and refusal.figures.endswith(SAID_ALREADY)):
            outdated.append(number)
        elif refusal is not None:
            refused[number] = refusal
        else:
            done.append(number)
    review.unwanted += [one.text for one in declined.values() if one.text and one.action in _WRITES]
    if review.changes:
        fit(review, archive)
    for number in [one for one in done if operations[one].action is Action.EVICT]:
        there = (line for line in map(review.stands, accepted[number].lines) if line is not None)
        stays = next((why for line in there if (why := review.unmovable.get(line.id))), None)
        if stays is not None:
            done.remove(number)
            refused[number] = stays
    answers = (*(Answer(one, "accepted") for one in done), *(Answer(one, "declined") for one in declined))
    if not answers:
        return Carried(None, refused, outdated=tuple(outdated))
    words = {"accepted": done, "declined": declined}
    reason = "; ".join(f"{word} {', '.join(map(str, numbers))}" for word, numbers in words.items() if numbers)
    dream = replace(review.version(REVIEW, reason), answers=answers)
    return Carried(dream, refused, {}, tuple(done), tuple(outdated))


def still_applies(operation: Operation, lines: Sequence[CurrentLine], page: Page) -> bool:
    """Return whether the lines that an operation is about still stand, and no line says its text already."""
    if len(lines) < len(operation.lines) or any(page.stands(line) is None for line in lines):
        return False
    only_rewords = normalise(operation.text) in {normalise(line.text) for line in lines}
    return operation.action not in _WRITES or only_rewords or page.find(operation.text) is None


# ------------------------------------------------------------------------------ single lines


def change_lines(snapshot: Snapshot, wishes: Sequence[Wish], shown_of: Callable[[str], str] = str) -> Carried:
    """Return the version that carries out all of these wishes, or why there is none.

    `shown_of` returns the displayed text of a line.
    """
    review, touched = Review(snapshot), set[str]()
    texts, refused = dict[int, str](), dict[int, Refusal]()
    wanted = dict[int, tuple[SectionName, str, bool]]()  # what MEMORY.md must contain afterwards
    for place, wish in enumerate(wishes):
        line = None if wish.action is LineAction.ADD else _named(wish, snapshot.lines, shown_of)
        refusal = _impossible(wish, line, touched, shown_of) or review.line(wish, line)
        touched |= {line.id} if line else set()
        if refusal is not None:
            refused[place] = refusal
        elif wish.text or wish.action in _PINS:
            made = review.changes[-1].come
            text = made[0].text if made else wish.text
            section = made[0].section if made else line.section if line else wish.section
            assert section is not None
            wanted[place] = section, normalise(text), wish.action is LineAction.PIN
            texts |= {place: text} if wish.text else {}
    if refused:
        return Carried(None, refused)
    standing = {normalise(line.text) for line in review.standing}
    review.unwanted = [one for one in review.unwanted if normalise(one) not in standing]
    counted = Counter(_DONE[wish.action] for wish in wishes)
    dream = review.version(EDIT, ", ".join(f"{number} {how}" for how, number in counted.items()))
    # A text may parse as something other than this one line.
    after = {(name, block.key, block.pinned) for name, block in parse(dream.after).lines()}
    refused = {place: UNHELD for place, stand in wanted.items() if stand not in after}
    return Carried(None, refused) if refused else Carried(dream, {}, texts)


def _named(wish: Wish, lines: Sequence[CurrentLine], shown_of: Callable[[str], str]) -> CurrentLine | None:
    if wish.line:
        return next((line for line in lines if line.id == wish.line), None)
    here = [line for line in lines if line.section is wish.section]
    return next((line for line in here if wish.expected in (line.text, shown_of(line.text))), None)


def _impossible(
    wish: Wish, line: CurrentLine | None, touched: Collection[str], shown_of: Callable[[str], str]
) -> Refusal | None:
    """Return why this wish cannot be carried out on this line, whatever its text."""
    action = wish.action
    if line is None and action is LineAction.ADD:
        if wish.section is not SectionName.POINTERS:
            return None
        return Refusal("shape", "operation", f"{SectionName.POINTERS.value} is written by the program")
    if line is None:
        name = wish.line or "a line with that text in that section"
        return Refusal(CONFLICT, "line", f"{name} does not stand in MEMORY.md any more")
    if wish.expected not in (line.text, shown_of(line.text)):
        return Refusal(CONFLICT, "expected", f"{line.id} says something else by now")
    ruled_out = {
        f"{line.id} is a pointer, which the program writes; delete it": is_pointer(line)
        and action is LineAction.EDIT,
        f"{line.id} is pinned already": action is LineAction.PIN and line.pinned,
        f"{line.id} is not pinned": action is LineAction.UNPIN and not line.pinned,
        f"{line.id} is pinned; unpin it first": action not in _PINS and line.pinned,
        f"{line.id} is changed by an earlier change": line.id in touched,
    }
    why = next((why for why, applies in ruled_out.items() if applies), None)
    return Refusal("pinned" if "pinned" in why else "shape", "operation", why) if why else None


def is_pointer(line: CurrentLine) -> bool:
    """Return whether a line leads to a crystal."""
    return line.section is SectionName.POINTERS and parse_pointer(line.text) is not None


def _owned(line: CurrentLine) -> CurrentLine:
    """Return the line with the owner's trust and importance."""
    return replace(line, trust=Trust.OWNER, importance=max(line.importance, OWNERS_IMPORTANCE))
