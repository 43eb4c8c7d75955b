"""Forgetting: the instructions to forget items of a session, and which items each means.

    oldest    least important    position:N    before:step_N    id:MEMORY_ID

A soft one hides and so means items that are not hidden yet; a hard one purges and means hidden ones too, and by its
id also one that has left. Positions are those of the set, hidden items included: 0 is the oldest.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from state.errors import ConfirmRequiredError, NotFoundError, UnsupportedInstructionError, UsageError
from state.sessions.item import Item
from state.sessions.policies.policy import EVERYTHING, LIVE, ItemView, Order, Range
from state.sessions.policies.settings import MAX_COUNT, shown

_NUMBERED = re.compile(r"(position:|before:step_)(-?)0*([0-9]+)")
_DIGITS = 9
_ID = "id:"


class Mode(StrEnum):
    """What becomes of what is forgotten."""

    SOFT = "soft"  # hidden, still counted, the first to leave
    HARD = "hard"  # purged, with a tombstone


@dataclass(frozen=True, slots=True)
class Oldest:
    """The one that came first."""


@dataclass(frozen=True, slots=True)
class LeastImportant:
    """The one with the lowest importance; of several, the older."""


@dataclass(frozen=True, slots=True)
class Position:
    """The one at this place."""

    place: int


@dataclass(frozen=True, slots=True)
class BeforeStep:
    """All that were added before this step."""

    step: int


@dataclass(frozen=True, slots=True)
class OfId:
    """The one that is called so."""

    id: str


InSet = Oldest | LeastImportant | Position | BeforeStep
Instruction = InSet | OfId


def mode_of(name: str, *, confirm: bool) -> Mode:
    """The mode of this name. Raises UsageError, and ConfirmRequiredError for a hard one that is not confirmed."""
    if name not in (Mode.SOFT, Mode.HARD):
        raise UsageError(f"mode: {shown(name)} is none of soft, hard")
    if name == Mode.HARD and not confirm:
        raise ConfirmRequiredError("mode 'hard' removes for good", "say confirm=true, or use mode 'soft'")
    return Mode(name)


def instruction_of(text: str) -> Instruction:
    """What the words say, written exactly so. Raises UnsupportedInstructionError for any others."""
    if text == "oldest":
        return Oldest()
    if text == "least important":
        return LeastImportant()
    if text.startswith(_ID) and text != _ID:
        return OfId(text.removeprefix(_ID))
    numbered = _NUMBERED.fullmatch(text)
    if numbered is None:
        raise UnsupportedInstructionError(
            f"{shown(text)} is not an instruction",
            "use 'oldest', 'least important', 'position:N', 'before:step_N' or 'id:MEMORY_ID'",
        )
    kind, sign, digits = numbered.groups()
    # More than any session has; its digits may be more than Python reads.
    number = int(digits) if len(digits) <= _DIGITS else MAX_COUNT
    number = -number if sign else number
    return Position(number) if kind == "position:" else BeforeStep(number)


def selected_items(instruction: InSet, view: ItemView, mode: Mode) -> tuple[Item, ...]:
    """The items that the instruction means, at least one. Raises NotFoundError when there is none."""
    only = LIVE if mode is Mode.SOFT else EVERYTHING
    match instruction:
        case Oldest():
            items = tuple(islice(view.items(Order.FIRST_IN, only), 1))
        case LeastImportant():
            items = tuple(islice(view.items(Order.LEAST_IMPORTANT, only), 1))
        case Position(place):
            items = tuple(islice(view.items(Order.FIRST_IN), place, place + 1)) if place >= 0 else ()
        case BeforeStep(step):
            items = tuple(view.items(Order.FIRST_IN, Range(only.state, step_before=step)))
    if not items:
        raise NotFoundError(f"there is nothing {_said(instruction)}", f"the session has {view.count} items")
    return items


def _said(instruction: InSet) -> str:
    match instruction:
        case Position(place):
            return f"at position {place}"
        case BeforeStep(step):
            return f"from before step {step}"
        case _:
            return "to forget"
