"""Checks: which operations may be carried out. They compare ids, counts and texts, never meaning.

    structure   ids that exist, a section that may be written, not empty, not too long, no repeat
    ownership   not pinned, not forgotten, not deleted by the owner, not tidied if the owner wrote it
    bounds      how much one input may justify, how much one dream may evict, change and tidy

The operations of an answer are played in an order of their own (`Sheet.play`): what they say first decides nothing.

Each check gets the current sheet and one operation. It returns None, or a refusal whose figures say what would be
accepted.
"""

import re

from graphs.sheet import (
    APPROVAL,
    ASKED_ALREADY,
    EVICTIONS,
    PER_INPUT,
    SAID_ALREADY,
    THIRD,
    WRITTEN_BY_CODE,
    Check,
    Sheet,
)
from state.changes.owner import is_unwanted
from state.document.operations import Action, Operation, Refusal, Why
from state.document.sections import SectionName, is_placeholder
from state.text.line import LINE_CHARACTERS
from state.text.words import numbers, repeat_key

FORGOTTEN = "the owner had this forgotten"
_TAKEN_AWAY = frozenset((Why.EVICTED, Why.ANSWERED))
_WRITES = frozenset((Action.ADD, Action.REVISE, Action.MERGE, Action.RECALL))
_OF_POINTERS = frozenset((Action.REVISE, Action.WEIGH, Action.EVICT, Action.CLOSE, Action.RECALL))
# How many lines an operation names: (least, most, in words); one for all other kinds.
_NAMES = {
    Action.ADD: (0, 0, "no line"),
    Action.LEARN: (0, 0, "no line"),
    Action.MERGE: (2, 99, "two lines or more"),
    Action.CLOSE: (1, 99, "one line or more"),
}
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?:;。！？]\W*$")


def vetoed(sheet: Sheet, operation: Operation) -> Refusal | None:
    """Refuse a line that the owner deleted or corrected, unless it is closer to one of the owner's own lines."""
    if operation.action not in _WRITES:
        return None
    text, snapshot = operation.text, sheet.snapshot
    own = [line.text for line in snapshot.lines if line.id in snapshot.handwritten]
    if is_unwanted(text, snapshot.tombstones, own):
        return Refusal("human veto", "operation", "the owner deleted this line; leave it out")
    return None


def _forgotten(sheet: Sheet, operation: Operation) -> Refusal | None:
    """Refuse a text that the owner had erased."""
    if operation.action is Action.EVICT or not sheet.snapshot.forgotten.found(operation.text):
        return None
    return Refusal("human veto", "operation", FORGOTTEN)


def _unknown(sheet: Sheet, operation: Operation) -> Refusal | None:
    """Refuse an operation with unknown ids, or on lines that an earlier operation has changed."""
    gone = {line.id for change in sheet.changes for line in change.gone}
    missing = [name for name in operation.lines if name not in sheet.lines or sheet.lines[name].above]
    missing += [
        name for name in operation.cites if name not in sheet.lines and name not in sheet.inputs | dict.fromkeys(gone)
    ]
    missing = list(dict.fromkeys(missing))
    if not missing:
        return None
    if missing[0] in gone:
        later = [missing[0]]
        for change in sheet.changes:  # which may have been changed again
            if not {one.id for one in change.gone}.isdisjoint(later):
                later = [one for one in later if one in sheet.lines] + [line.id for line in change.come]
        later = [one for one in later if one in sheet.lines]
        instead = f"; {', '.join(later)} stands in its place" if later else ""
        return Refusal("shape", "operation", f"{missing[0]} is changed by an earlier operation{instead}")
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    return Refusal("citation", "operation", f"there is no {', '.join(name[:20] for name in missing[:5])}{more}")


def _uncited(sheet: Sheet, operation: Operation) -> Refusal | None:
    """Refuse a new line that cites neither an input nor a line, and an insight that cites fewer than two inputs."""
    cited = sheet.cited_inputs(operation)
    if operation.action is Action.ADD and not (cited or sheet.cited_lines(operation)):
        figures = "a new line cites at least one input, or the line that it is a part of; cite the one that says so"
        return Refusal("citation", "operation", figures)
    if operation.action is Action.LEARN and len(cited) < 2:
        return Refusal("citation", "operation", "an insight cites at least two inputs")
    return None


def _pinned(sheet: Sheet, operation: Operation) -> Refusal | None:
    """Refuse a change of a pinned line, except a revision that an input asks for: its owner decides about that."""
    is_asked = operation.action is Action.REVISE and bool(sheet.cited_inputs(operation))
    return None if is_asked else untouchable(sheet, operation)


def untouchable(sheet: Sheet, operation: Operation) -> Refusal | None:
    """Refuse a change of a pinned line."""
    lines = sheet.touched(operation)
    if pinned := [line.id for line in lines if line.pinned]:
        return Refusal("pinned", "operation", f"{', '.join(pinned)} is pinned by the owner; leave it as it is")
    return None


def _not_asked_for(sheet: Sheet, operation: Operation) -> Refusal | None:
    """Refuse to ask the owner twice, or about a line that they wrote without an input that says so."""
    if sheet.is_proposed(operation):
        return Refusal(APPROVAL, "operation", ASKED_ALREADY)
    own = [line.id for line in sheet.touched(operation) if line.id in sheet.snapshot.handwritten]
    if own and not sheet.cited_inputs(operation):
        return Refusal(
            APPROVAL, "operation", f"{own[0]} was written by the owner; only an input may ask to change it"
        )
    return None


def _over_bounds(sheet: Sheet, operation: Operation) -> Refusal | None:
    """Refuse what would change a third of the memory, or tidy too many lines; later dreams may go on."""
    if sheet.changes_too_much(operation):
        return Refusal(APPROVAL, "operation", f"{THIRD}; leave the rest as it is")
    if sheet.tidies_too_much(operation):
        return Refusal(APPROVAL, "operation", "enough lines are tidied in one dream; leave the rest as it is")
    return None


def _by_code(sheet: Sheet, operation: Operation) -> Refusal | None:
    """Refuse changes to lines that the program writes; of pointers, only merging, moving and making them."""
    if operation.action is Action.LEARN:
        return None
    lines = sheet.touched(operation)
    theirs = {line.section for line in lines}
    if operation.action not in (Action.EVICT, Action.CLOSE):
        theirs |= {operation.section}
    if operation.action in _OF_POINTERS and {line.section for line in lines} == {SectionName.POINTERS}:
        theirs -= {SectionName.POINTERS}
    found = sorted(theirs & WRITTEN_BY_CODE)
    return Refusal("shape", "operation", f"{found[0]} is written by the program; leave it") if found else None


def _shapeless(sheet: Sheet, operation: Operation) -> Refusal | None:
    """Refuse an operation on the wrong number or kind of lines."""
    action, lines = operation.action, sheet.touched(operation)
    least, most, said = _NAMES.get(action, (1, 1, "one line"))
    if not least <= len(lines) <= most:
        return Refusal("shape", "operation", f"{action} names {said}, not {len(lines)}")
    if action is Action.RECALL and not (lines[0].section is SectionName.POINTERS and lines[0].crystal):
        figures = f"{lines[0].id} is no pointer; recall names a line of Crystal Pointers"
        return Refusal("shape", "operation", figures)
    if action is Action.MOVE and lines[0].section is operation.section:
        return Refusal("shape", "operation", f"{lines[0].id} stands there already")
    return None


def _empty(_: Sheet, operation: Operation) -> Refusal | None:
    text = operation.text
    if operation.action is Action.RECALL and not text:
        return Refusal("shape", "operation", "what it leads to is no longer there")
    if operation.action not in _WRITES | {Action.LEARN}:
        return None
    if len(text) > LINE_CHARACTERS:
        figures = f"{len(text):,} characters, at most {LINE_CHARACTERS}; say it shorter, or in two lines"
        return Refusal("shape", "operation", figures)
    if not text.strip() or is_placeholder(text):
        return Refusal("empty synthesis", "operation", "no content; say something or leave it out")
    return None


def _repeated(sheet: Sheet, operation: Operation) -> Refusal | None:
    """Refuse a text that another line already has."""
    if operation.action not in _WRITES:
        return None
    key = repeat_key(operation.text)
    twin = next((line for line in sheet.standing if repeat_key(line.text) == key), None)
    if twin is None:
        return None
    unchanged = (
        operation.action is Action.REVISE and twin.text == operation.text and twin.section is operation.section
    )
    if twin.id in operation.lines and not unchanged:
        return None
    return Refusal("shape", "operation", f"{twin.id} {SAID_ALREADY}")


def _untold(sheet: Sheet, operation: Operation) -> Refusal | None:
    """Refuse a text without an input that has a number or name which the lines it comes from do not have."""
    is_text = operation.action in (Action.ADD, Action.REVISE, Action.MERGE)
    if sheet.cited_inputs(operation) or not is_text or operation.section is SectionName.POINTERS:
        return None
    lines = [line.text for line in (*sheet.touched(operation), *sheet.cited_lines(operation))]
    known = {word.casefold() for text in lines for word in _WORD.findall(text)}
    counted = set(numbers(operation.text)).difference(*(numbers(text) for text in lines))
    new = sorted(counted | {name for name in _names(operation.text) if name.casefold() not in known})
    if not new:
        return None
    said = ", ".join(map(repr, new[:4]))
    return Refusal("bounds", "operation", f"no line of it says {said}; cite the input that does")


def _too_much(sheet: Sheet, operation: Operation) -> Refusal | None:
    """Refuse what exceeds the bounds of one dream: evictions, lines lost to merges, changes that cite one input."""
    left = (line for change in sheet.changes if change.why in _TAKEN_AWAY for line in change.gone)
    count = sum(line.section is not SectionName.POINTERS for line in left)
    if operation.action in (Action.EVICT, Action.CLOSE) and count >= EVICTIONS:
        return Refusal("eviction runaway", "operation", f"at most {EVICTIONS} lines are evicted in one dream")
    if operation.action is Action.MERGE:
        fewer = sum(len(change.gone) - 1 for change in sheet.changes if change.why is Why.MERGED)
        if fewer + len(operation.lines) - 1 > EVICTIONS:
            figures = f"merges leave at most {EVICTIONS} lines fewer in one dream"
            return Refusal("eviction runaway", "operation", figures)
    cited = sheet.cited_inputs(operation)
    full = [one for one in cited if sheet.vouched[one] + len(operation.lines) > PER_INPUT]
    if operation.lines and cited and len(full) == len(cited):
        figures = f"{full[0]} is cited for more than {PER_INPUT} changed lines"
        return Refusal("bounds", "operation", figures)
    return None


def _names(text: str) -> set[str]:
    """Return the capitalised words that do not begin a sentence."""
    before = ((word.group(), text[: word.start()]) for word in _WORD.finditer(text) if word.group()[0].isupper())
    return {word for word, head in before if head.strip() and not _SENTENCE_END.search(head)}


# In order: what even the owner's own change must pass; what the program's operations must pass; what a model's must.
PROTECTING: tuple[Check, ...] = (_unknown, _forgotten, untouchable, _empty, vetoed, _repeated)
OF_CODE: tuple[Check, ...] = (_unknown, _forgotten, _pinned, _empty, vetoed, _repeated, _uncited, _not_asked_for)
OF_MODEL: tuple[Check, ...] = (
    _unknown, _shapeless, _forgotten, _uncited, _pinned, _not_asked_for, _by_code, _empty, vetoed, _repeated, _untold,
    _too_much, _over_bounds,
)  # fmt: skip
