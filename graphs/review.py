"""Review: the owner's decisions on staged changes and wishes for single lines, as a version that consumes no input.

A change that a dream staged is applied to today's lines; one that it already applied is undone by its inverse. A
change whose lines have left or changed does not apply. Only the protecting checks run (pins, vetoes, forgotten texts,
repeats): the owner has judged the evidence.

A wish for a line has the same effect as the same change in an editor: a deleted line is not written again, and an
edited line is the owner's word and rests on no input. Unlike an edit, a wish can be refused: a pinned line has to be
unpinned first. "This is wrong" goes further: what the line rested on is not true either. The owner's correction
becomes a crystal that supersedes the old line's crystals which say the same. Without a correction, that crystal is a
denial of the line ("It is not true that: ..."), which a search shows as the current state.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum

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
from state.dream import EDIT, REVIEW, Correction, Dream, Evidence, Kind, Snapshot, StagedChange, Usage
from state.text.words import normalise, numbers
from state.trust import Trust

AUTHOR = "owner"
OWNERS_IMPORTANCE = 0.8
# The birth of a line of a staged change without lines and evidence, some of which may have been forgotten.
_UNKNOWN = datetime.fromtimestamp(0, UTC)
NOT_TRUE = "It is not true that: "
CONFLICT = "conflict"
"""The guard of a wish whose line is missing or has changed."""
_UNHELD = Refusal("shape", "operation", "MEMORY.md cannot hold that; change it in the file")


class LineAction(StrEnum):
    """What the owner wants done with a line."""

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
_PINS = (LineAction.PIN, LineAction.UNPIN)


@dataclass(frozen=True, slots=True)
class Wish:
    """The owner's wish for a line, which is named by its id, or else by its section and its displayed text.

    `expected` is the displayed text, which must still be current. `text` is the new text; `again` allows it even if
    the owner deleted it before. `also` are the ids of crystals that are wrong, too.
    """

    action: LineAction
    line: str = ""
    section: SectionName | None = None
    expected: str = ""
    text: str = ""
    again: bool = False
    also: tuple[str, ...] = ()


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
    the owner's words, `corrections` the lines called wrong.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.is_judged = True
        self.unwanted: list[str] = []
        self.lifted: list[str] = []
        self.said: list[Crystal] = []
        self.corrections: list[Correction] = []

    def version(self, cause: str, reason: str) -> Dream:
        """Return the version with the owner's decisions."""
        dream = self.dream(AUTHOR, Usage(), 0.0)
        return replace(
            dream,
            cause=cause,
            reason=reason,
            dreamt=(),
            notes=0,
            staged=(),
            refused=(),
            crystals=(*dream.crystals, *self.said),
            tombstones=tuple(self.unwanted),
            lifted_tombstones=tuple(dict.fromkeys(self.lifted)),
            corrections=tuple(self.corrections),
        )

    def write(
        self, operation: Operation, without: Collection[Check] = (), *, by_owner: bool = True
    ) -> Refusal | None:
        """Apply an operation; what the owner writes is their word, and rests on nothing but the crystal of it.

        Leave out the checks in `without`.
        """
        before = len(self.refused)
        self.play((operation,), [check for check in PROTECTING if check not in without])
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

    def today(self, lines: Sequence[CurrentLine]) -> tuple[str, ...]:
        """Return the current ids of those of these lines that still stand."""
        return tuple(line.id for line in map(self.stands, lines) if line is not None)

    def undo(self, staged: StagedChange, evidence: Mapping[str, tuple[str, ...]]) -> bool:
        """Undo an applied change; the lines that return are the owner's word. Return False if it is outdated."""
        back = _inverse(self, staged)
        if back is None:
            return False
        if not back.come:
            self.unwanted += [line.text for line in back.gone]
        rests = tuple(dict.fromkeys(crystal for line in back.come for crystal in evidence.get(line.id, ())))
        mine = tuple(map(_owned, back.come))
        why = Why.UNDONE if mine else Why.DELETED
        return self.change(replace(back, why=why, come=mine, evidence=() if mine else rests)) is not None

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
            why = Why.PINNED if come else Why.EVICTED if _is_pointer(line) else Why.DELETED
            if self.change(Change(why, old, come)) is None:
                return _UNHELD
        if line is None or wish.action in _PINS:
            return None
        if wish.action is LineAction.WRONG:
            if not wish.text:
                self.said.append(self._denial(line))
            self.corrections.append(Correction(line.id, self.said[-1].id, wish.also))
        # A dream may restore the wording of a line that was only reworded, but not of a line called wrong.
        if not wish.text or wish.action is LineAction.WRONG or set(numbers(line.text)) != set(numbers(written)):
            self.unwanted.append(line.text)
        return None

    def _denial(self, line: CurrentLine) -> Crystal:
        text = f"{NOT_TRUE}{line.text}"
        denied = replace(line, text=text, importance=OWNERS_IMPORTANCE, trust=Trust.OWNER, said_at=None)
        return owners_words(denied, self.snapshot.redaction, self.snapshot.now)


# ------------------------------------------------------------------------------ staged changes


def carry_out(
    snapshot: Snapshot,
    approved: Mapping[int, tuple[StagedChange, str]],
    undone: Mapping[int, StagedChange],
    archive: Memory,
    evidence: Mapping[str, tuple[str, ...]],
) -> Carried:
    """Apply approved changes, each optionally with the owner's own text, and undo applied ones.

    `evidence` has the crystals behind the lines that return, by line id.
    """
    pieces, operations = _with_evidence({number: staged for number, (staged, _) in approved.items()})
    review = Review(replace(snapshot, evidence=pieces, seeds=(), notes=(), taken=()))
    done, outdated, refused = list[int](), list[int](), dict[int, Refusal]()
    for number, (staged, text) in approved.items():
        lines = review.today(staged.lines)
        refusal = None
        if is_there := len(set(lines)) == len(staged.lines):
            cites = (*operations[number].cites, *review.today(staged.beside))
            operation = replace(operations[number], lines=lines, cites=cites, text=text or staged.operation.text)
            # The owner was asked because the line is pinned; it stays so.
            without = (untouchable,) if any(line.pinned for line in staged.lines) else ()
            refusal = review.write(operation, without, by_owner=bool(text))
        if not is_there or (refusal is not None and refusal.figures.endswith(SAID_ALREADY)):
            outdated.append(number)
        elif refusal is not None:
            refused[number] = refusal
        else:
            done.append(number)
    for number, staged in undone.items():
        (done if review.undo(staged, evidence) else outdated).append(number)
    if review.changes:
        fit(review, archive)
    for number in [one for one in done if one in approved and operations[one].action is Action.EVICT]:
        lines = review.today(approved[number][0].lines)
        stays = next((review.unmovable[name] for name in lines if name in review.unmovable), None)
        if stays is not None:
            done.remove(number)
            refused[number] = stays
    if not done:
        return Carried(None, refused, outdated=tuple(outdated))
    reason = f"change{'s' if len(done) > 1 else ''} {', '.join(map(str, done))}"
    return Carried(review.version(REVIEW, reason), refused, {}, tuple(done), tuple(outdated))


def is_outdated(staged: StagedChange, lines: Sequence[CurrentLine]) -> bool:
    """Return whether the lines that the change is about have changed, or already say it."""
    page = Page("", lines, 1)
    if staged.applied:
        return _inverse(page, staged) is None
    if any(page.stands(line) is None for line in staged.lines):
        return True
    text = normalise(staged.operation.text)
    takes_away = staged.operation.action in (Action.EVICT, Action.CLOSE, Action.MOVE)
    only_rewords = text in {normalise(line.text) for line in staged.lines}
    return not (takes_away or only_rewords or page.find(text) is None)


def stands(line: CurrentLine, lines: Sequence[CurrentLine]) -> CurrentLine | None:
    """Return today's version of this line."""
    return Page("", lines, 1).stands(line)


def change_of(staged: StagedChange) -> Change:
    """Return the change that a staged operation makes."""
    operation = staged.operation
    if operation.action in (Action.EVICT, Action.CLOSE):
        return Change(Why.EVICTED, staged.lines)
    if operation.action is Action.MOVE:
        return Change(Why.MOVED, staged.lines, tuple(replace(one, section=operation.section) for one in staged.lines))
    born, importance = next(((one.born_at, one.importance) for one in staged.lines), (None, 0.5))
    born = born or next((one.at for one in staged.evidence), _UNKNOWN)
    line = CurrentLine("", operation.section, operation.text, importance, Trust.AGENT, born)
    return Change(Why.REVISED if staged.lines else Why.ADDED, staged.lines, (line,))


def _inverse(page: Page, staged: StagedChange) -> Change | None:
    """Return the inverse of an applied change on today's lines; None if they are no longer what it left behind."""
    back = change_of(staged).undone
    gone = [page.stands(line) for line in back.gone]
    is_move = staged.operation.action is Action.MOVE
    found = tuple(one for one in gone if one and (not is_move or one.section is staged.operation.section))
    if len(found) < len(gone) or (not found and any(page.stands(line) is not None for line in back.come)):
        return None
    leaving = {line.id for line in found}
    twins = [page.stands(line) for line in back.come]
    come = tuple(line for line, twin in zip(back.come, twins, strict=True) if twin is None or twin.id in leaving)
    return replace(back, gone=found, come=come)


def _with_evidence(approved: Mapping[int, StagedChange]) -> tuple[tuple[Evidence, ...], dict[int, Operation]]:
    """Return the evidence of these changes, renumbered, and their operations with the new ids."""
    pieces, operations = list[Evidence](), dict[int, Operation]()
    for number, staged in approved.items():
        names: dict[str, str] = {}
        for piece in staged.evidence:
            # An OLD_TEXT id would name a line above the rule.
            kind = Kind.CRYSTAL if piece.kind is Kind.OLD_TEXT else piece.kind
            (new,) = numbered(kind, [replace(piece, kind=kind)], sum(one.kind is kind for one in pieces) + 1)
            names[piece.id] = new.id
            pieces.append(new)
        cites = tuple(names[cite] for cite in staged.operation.cites if cite in names)
        operations[number] = replace(staged.operation, cites=cites)
    return tuple(pieces), operations


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
    refused = {place: _UNHELD for place, stand in wanted.items() if stand not in after}
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
    writes = action in (LineAction.EDIT, LineAction.WRONG)
    ruled_out = {
        f"{line.id} is a pointer, which the program writes; delete it": _is_pointer(line) and writes,
        f"{line.id} is pinned already": action is LineAction.PIN and line.pinned,
        f"{line.id} is not pinned": action is LineAction.UNPIN and not line.pinned,
        f"{line.id} is pinned; unpin it first": action not in _PINS and line.pinned,
        f"{line.id} is changed by an earlier change": line.id in touched,
    }
    why = next((why for why, applies in ruled_out.items() if applies), None)
    return Refusal("pinned" if "pinned" in why else "shape", "operation", why) if why else None


def _is_pointer(line: CurrentLine) -> bool:
    return line.section is SectionName.POINTERS and parse_pointer(line.text) is not None


def _owned(line: CurrentLine) -> CurrentLine:
    """Return the line with the owner's trust and importance."""
    return replace(line, trust=Trust.OWNER, importance=max(line.importance, OWNERS_IMPORTANCE))
