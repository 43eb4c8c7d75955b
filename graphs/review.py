"""Review: what the owner decides of changes and wants of single lines, as a version that takes in no input.

What a dream staged is carried out on the lines of today, or the change that it made is undone: that is its inverse. A
change whose lines are gone or were changed does not apply. Only the checks that protect are asked then (pins, vetoes,
what is forgotten, a line stands once): the owner has judged the evidence.

What comes of a wish for a line is what would come of the same change in an editor: a line that is deleted is not
written again, an edited one is the owner's word and rests on no input. An editor cannot be told no, a caller can. A
line that is pinned has to be unpinned first. "This is wrong" says more: what the line rested on is not true either.
What the owner says instead is a crystal, which supersedes those of the old line that say the same; where nothing is
said instead, that crystal is the denial of the line ("It is not true that: ..."), which a search shows as what holds.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from graphs.checks import PROTECTING, same_as_deleted, vetoed
from graphs.input_budget import numbered
from graphs.room import Archive, fit
from graphs.sheet import SAID_ALREADY, Check, Sheet
from state.changes.change import Change, CurrentLine
from state.changes.page import Page, owners_words
from state.crystals.crystal import Crystal
from state.document.document import SectionName, parse
from state.document.operations import Action, Operation, Refusal, Why
from state.document.pointer import parse_pointer
from state.dream import EDIT, REVIEW, Correction, Dream, Evidence, Kind, Snapshot, StagedChange, Usage
from state.text.words import normalise, numbers
from state.trust import Trust

AUTHOR = "owner"
OWNERS_IMPORTANCE = 0.8
# Of a change that says nothing of its lines, as an earlier dreamd kept some.
_UNKNOWN = datetime.fromtimestamp(0, UTC)
NOT_TRUE = "It is not true that: "
_CHECKS: Mapping[bool, tuple[Check, ...]] = {
    False: PROTECTING,
    True: tuple(check for check in PROTECTING if check is not vetoed),
}


# ------------------------------------------------------------------------------ staged changes


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


def carry_out(
    snapshot: Snapshot, wishes: Sequence[Wish], archive: Archive, evidence: Mapping[str, tuple[str, ...]]
) -> Carried:
    """Carry these wishes out. `evidence` are the crystals on which lines rested that come back, by their ids."""
    snapshot, wishes = _with_evidence(snapshot, wishes)
    sheet, unwanted = Sheet(snapshot), list[str]()
    done, outdated, refused = list[Wish](), list[int](), list[tuple[int, Refusal]]()
    for wish in wishes:
        fate = _undo(sheet, wish.change, evidence, unwanted) if wish.undo else _approve(sheet, wish)
        if isinstance(fate, Refusal):
            refused.append((wish.number, fate))
        elif fate:
            done.append(wish)
        else:
            outdated.append(wish.number)
    if sheet.changes:
        fit(sheet, archive)
    for wish in [one for one in done if one.change.operation.action is Action.EVICT and not one.undo]:
        stays = next((sheet.unmovable[name] for name in _lines_today(sheet, wish) if name in sheet.unmovable), None)
        if stays is not None:
            done.remove(wish)
            refused.append((wish.number, stays))
    if not done:
        return Carried(None, (), tuple(outdated), tuple(refused))
    numbers = tuple(wish.number for wish in done)
    reason = f"change{'s' if len(done) > 1 else ''} {', '.join(map(str, numbers))}"
    dream = _version(sheet, REVIEW, reason, tombstones=unwanted)
    return Carried(dream, numbers, tuple(outdated), tuple(refused))


def _approve(sheet: Sheet, wish: Wish) -> Refusal | bool:
    """Carry a staged change out on the lines of today; False when it is outdated."""
    operation = _today(sheet, wish)
    if operation is None:
        return False
    before = len(sheet.refused)
    sheet.play((operation,), PROTECTING)
    refusal = next(iter(sheet.refused[before:]), None)
    if refusal is not None:
        return False if refusal.figures.endswith(SAID_ALREADY) else refusal
    if wish.text:
        _by_owner(sheet)
    return True


def is_outdated(staged: StagedChange, lines: Sequence[CurrentLine]) -> bool:
    """Whether the lines that the change is about are no longer what they were, or say it already."""
    page = Page("", lines, 1)
    if staged.applied:
        return _inverse(page, staged) is None
    if any(page.stands(line) is None for line in staged.lines):
        return True
    takes_away = staged.operation.action in (Action.EVICT, Action.CLOSE, Action.MOVE)
    return not (takes_away or _rewords(staged) or page.find(staged.operation.text) is None)


def stands(line: CurrentLine, lines: Sequence[CurrentLine]) -> CurrentLine | None:
    """Return today's line that this one still is."""
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
    """Return the inverse of an applied change on the lines of today; None when they are no longer what it left."""
    back = change_of(staged).undone
    gone = [page.stands(line) for line in back.gone]
    is_move = staged.operation.action is Action.MOVE
    found = tuple(one for one in gone if one and (not is_move or one.section is staged.operation.section))
    if len(found) < len(gone) or (not found and any(page.stands(line) is not None for line in back.come)):
        return None
    leaving = {line.id for line in found}
    twins = [page.stands(line) for line in back.come]
    come = tuple(
        replace(line, pinned=False)
        for line, twin in zip(back.come, twins, strict=True)
        if twin is None or twin.id in leaving
    )
    return replace(back, gone=found, come=come)


def _undo(sheet: Sheet, staged: StagedChange, evidence: Mapping[str, tuple[str, ...]], unwanted: list[str]) -> bool:
    """Take an applied change back; the lines that come back are the owner's word, and rest on what they rested on."""
    back = _inverse(sheet, staged)
    if back is None:
        return False
    if not back.come:
        unwanted += [line.text for line in back.gone]
    rests = tuple(dict.fromkeys(crystal for line in back.come for crystal in evidence.get(line.id, ())))
    mine = tuple(
        replace(line, trust=Trust.OWNER, importance=max(line.importance, OWNERS_IMPORTANCE)) for line in back.come
    )
    why = Why.UNDONE if back.come else Why.DELETED
    done = sheet.change(replace(back, why=why, come=mine, evidence=rests if not mine else ()))
    return done is not None


def _today(sheet: Sheet, wish: Wish) -> Operation | None:
    """Return the operation of a wish on today's lines; None when they are no longer what they were."""
    lines = _lines_today(sheet, wish)
    if len(set(lines)) < len(wish.change.lines):
        return None
    return replace(wish.change.operation, lines=lines, text=wish.text or wish.change.operation.text)


def _lines_today(sheet: Sheet, wish: Wish) -> tuple[str, ...]:
    lines = [sheet.stands(line) for line in wish.change.lines]
    return tuple(line.id for line in lines if line is not None)


def _by_owner(sheet: Sheet) -> None:
    """Make the line of the last change the owner's word, which rests on nothing else."""
    last = sheet.changes[-1]
    mine = tuple(
        replace(one, trust=Trust.OWNER, importance=max(one.importance, OWNERS_IMPORTANCE)) for one in last.come
    )
    sheet.changes[-1] = replace(last, come=mine, evidence=())
    sheet.lines |= {line.id: line for line in mine}


def _rewords(staged: StagedChange) -> bool:
    """Whether it only writes one of its lines otherwise: the folded text is the same."""
    return normalise(staged.operation.text) in {normalise(line.text) for line in staged.lines}


def _with_evidence(snapshot: Snapshot, wishes: Sequence[Wish]) -> tuple[Snapshot, list[Wish]]:
    """Put the evidence of the changes in the place of what is new, each piece with an id of its own."""
    pieces, renamed = list[Evidence](), list[Wish]()
    for wish in wishes:
        names: dict[str, str] = {}
        for piece in wish.change.evidence:
            # The letter of old text names lines above the rule.
            kind = Kind.CRYSTAL if piece.kind is Kind.OLD_TEXT else piece.kind
            (new,) = numbered(kind, [replace(piece, kind=kind)], sum(one.kind is kind for one in pieces) + 1)
            names[piece.id] = new.id
            pieces.append(new)
        operation = wish.change.operation
        cites = tuple(names[cite] for cite in operation.cites if cite in names)
        renamed.append(replace(wish, change=replace(wish.change, operation=replace(operation, cites=cites))))
    return replace(snapshot, evidence=tuple(pieces), seeds=(), notes=(), taken=()), renamed


def _version(
    sheet: Sheet,
    cause: str,
    reason: str,
    *,
    tombstones: Sequence[str] = (),
    lifted: Collection[str] = (),
    crystals: Sequence[Crystal] = (),
    corrections: Sequence[Correction] = (),
) -> Dream:
    """Return the version of what the owner decided. It takes in no input."""
    dream = sheet.dream(AUTHOR, Usage(), 0.0)
    return replace(
        dream,
        cause=cause,
        reason=reason,
        dreamt=(),
        notes=0,
        staged=(),
        refused=(),
        crystals=(*dream.crystals, *crystals),
        tombstones=tuple(tombstones),
        lifted_tombstones=tuple(dict.fromkeys(lifted)),
        corrections=tuple(corrections),
    )


# ------------------------------------------------------------------------------ single lines


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
_PINS = (LineAction.PIN, LineAction.UNPIN)


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


def change_lines(snapshot: Snapshot, wishes: Sequence[LineChange]) -> ChangedLines:
    """Return the version that carries out all of these wishes, or why there is none."""
    sheet, texts, refused = Sheet(snapshot), dict[int, str](), dict[int, Refusal]()
    tombstones, lifted = list[str](), list[str]()
    crystals, corrections = list[Crystal](), list[Correction]()
    for place, wish in enumerate(wishes):
        refusal = _impossible(wish) or _twice(wish, wishes[:place]) or _carried(sheet, wish, texts, place)
        if refusal is not None:
            refused[place] = refusal
            continue
        said, text = list[Crystal](), texts.get(place)
        if text is not None:
            said = _said(sheet, wish)
            lifted += [one for one in snapshot.tombstones if wish.again and same_as_deleted(text, one)]
        if wish.line is None or wish.action in _PINS:
            continue
        if wish.action is LineAction.WRONG:
            said = said or [_denial(wish.line, snapshot)]
            corrections.append(Correction(wish.line.id, said[0].id))
        crystals += said
        # A line that is only worded otherwise may be worded so again by a dream; what is called wrong may not.
        if text is None or wish.action is LineAction.WRONG or set(numbers(wish.line.text)) != set(numbers(text)):
            tombstones.append(wish.line.text)
    if refused:
        return ChangedLines(None, {}, refused)
    standing = {normalise(line.text) for line in sheet.standing}
    counted = Counter(_DONE[wish.action] for wish in wishes)
    dream = _version(
        sheet,
        EDIT,
        ", ".join(f"{number} {how}" for how, number in counted.items()),
        tombstones=[one for one in tombstones if normalise(one) not in standing],
        lifted=lifted,
        crystals=crystals,
        corrections=corrections,
    )
    refused = _without_effect(dream, wishes, texts)
    return ChangedLines(None if refused else dream, {} if refused else texts, refused)


def _impossible(wish: LineChange) -> Refusal | None:
    """Why this cannot be done with this line, whatever it is to say."""
    line, action = wish.line, wish.action
    if line is None:
        ruled_out = {f"{wish.section.value} is written by the program": wish.section is SectionName.POINTERS}
    else:
        pointer = line.section is SectionName.POINTERS and parse_pointer(line.text) is not None
        writes = action in (LineAction.EDIT, LineAction.WRONG)
        ruled_out = {
            f"{line.id} is a pointer, which the program writes; delete it": pointer and writes,
            f"{line.id} is pinned already": action is LineAction.PIN and line.pinned,
            f"{line.id} is not pinned": action is LineAction.UNPIN and not line.pinned,
            f"{line.id} is pinned; unpin it first": action not in _PINS and line.pinned,
        }
    why = next((why for why, applies in ruled_out.items() if applies), None)
    return Refusal("pinned" if "pinned" in why else "shape", "operation", why) if why else None


def _twice(wish: LineChange, before: Sequence[LineChange]) -> Refusal | None:
    if wish.line is None or all(one.line is None or one.line.id != wish.line.id for one in before):
        return None
    return Refusal("shape", "operation", f"{wish.line.id} is changed by an earlier change")


def _carried(sheet: Sheet, wish: LineChange, texts: dict[int, str], place: int) -> Refusal | None:
    """Carry one wish out; `texts` gets the line as it is written. Return why it cannot be."""
    operation, line = wish.operation, wish.line
    if operation is not None:
        before = len(sheet.refused)
        sheet.play((operation,), _CHECKS[wish.again])
        if sheet.refused[before:]:
            return sheet.refused[before]
        _by_owner(sheet)
        texts[place] = sheet.changes[-1].come[0].text if sheet.changes[-1].come else operation.text
        return None
    assert line is not None
    if wish.action in _PINS:
        pinned = replace(line, pinned=wish.action is LineAction.PIN)
        done = sheet.change(Change(Why.PINNED, (line,), (pinned,)))
    else:
        is_pointer = line.section is SectionName.POINTERS and parse_pointer(line.text) is not None
        done = sheet.change(Change(Why.EVICTED if is_pointer else Why.DELETED, (line,)))
    return None if done else Refusal("shape", "operation", "MEMORY.md cannot hold that; change it in the file")


def _said(sheet: Sheet, wish: LineChange) -> list[Crystal]:
    """Return the crystal of the owner's words in the place of a line, on which the new line rests."""
    last = sheet.changes[-1]
    if wish.line is None or not last.come:
        return []
    said = owners_words(last.come[0], sheet.snapshot.redaction, sheet.snapshot.now)
    sheet.changes[-1] = replace(last, evidence=(said.id,))
    return [said]


def _denial(line: CurrentLine, snapshot: Snapshot) -> Crystal:
    text = f"{NOT_TRUE}{line.text}"
    denied = replace(line, text=text, importance=OWNERS_IMPORTANCE, trust=Trust.OWNER, said_at=None)
    return owners_words(denied, snapshot.redaction, snapshot.now)


def _without_effect(dream: Dream, wishes: Sequence[LineChange], texts: Mapping[int, str]) -> dict[int, Refusal]:
    """Refuse the wishes after which MEMORY.md does not read as it should: their texts are no lines there."""
    after = {(name, block.key, block.pinned) for name, block in parse(dream.after).lines()}
    refused = {}
    for place, wish in enumerate(wishes):
        wanted = texts.get(place)
        if wanted is None and wish.action in _PINS and wish.line is not None:
            wanted = wish.line.text
        stand = (wish.section, normalise(wanted or ""), wish.action is LineAction.PIN)
        if wanted is not None and stand not in after:
            refused[place] = Refusal("shape", "operation", "MEMORY.md cannot hold that; change it in the file")
    return refused
