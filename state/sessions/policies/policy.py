"""Policy: a pure decision about which items leave a session's working memory, and where they go.

A policy is one file with one subclass of `Policy`, and one name in `POLICIES` (state/sessions/policies/by_name.py).
It never sorts everything: it names the order in which items leave, and the view hands them out in that order, from an
index where there is one.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Protocol, Self, TypeVar

from state.sessions.item import Item, Priority, State
from state.sessions.policies.settings import settings_in

_Bound = TypeVar("_Bound", int, float, datetime)

# Why a hidden item leaves, under every policy.
FORGOTTEN = "forgotten"


class Action(StrEnum):
    """What becomes of an item."""

    PROMOTE = "promote"  # it becomes a crystal, and stays in the set (or leaves it: see `leaves`)
    ARCHIVE = "archive"  # it leaves the set for the cold archive


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to one item. `leaves`: a promoted item leaves the set too; `rescue`: the dream sees it first."""

    item: Item
    action: Action
    reason: str
    leaves: bool = True
    rescue: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in order; the same state gives the same plan. `log`: a line for the log, with its level."""

    steps: tuple[Step, ...] = ()
    log: str = ""
    level: str = "debug"


class Order(StrEnum):
    """The orders in which a view hands out its items. Ties are broken by `seq`, the lowest first.

    The last two are the first two backwards, ties too: the highest `seq` first.
    """

    OLDEST = "oldest"  # created_at
    LEAST_IMPORTANT = "least important"  # importance, then created_at
    EXPIRES_FIRST = "expires first"  # expires_at
    FIRST_IN = "first in"  # seq alone: the order of positions
    NEWEST = "newest"  # created_at, the latest first
    MOST_IMPORTANT = "most important"  # importance, the highest first, then the newest first


@dataclass(frozen=True, slots=True)
class Range:
    """Which items are asked for. None lets everything pass; the lower bounds are included, the upper ones are not."""

    state: State | None = None
    importance_from: float | None = None
    importance_below: float | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
    step_from: int | None = None
    step_before: int | None = None


EVERYTHING = Range()
LIVE = Range(state=State.LIVE)
HIDDEN = Range(state=State.HIDDEN)


def meet(*ranges: Range) -> Range | None:
    """What is in every one of these; None when nothing can be. Steps begin at 0."""
    states = {only.state for only in ranges if only.state is not None}
    importance_from = _highest(only.importance_from for only in ranges)
    importance_below = _lowest(only.importance_below for only in ranges)
    created_from = _highest(only.created_from for only in ranges)
    created_before = _lowest(only.created_before for only in ranges)
    step_from = _highest(only.step_from for only in ranges)
    step_before = _lowest(only.step_before for only in ranges)
    empty = (
        len(states) > 1
        or _empty(importance_from, importance_below)
        or _empty(created_from, created_before)
        or _empty(max(0, step_from or 0), step_before)
    )
    state = next(iter(states), None)
    met = Range(state, importance_from, importance_below, created_from, created_before, step_from, step_before)
    return None if empty else met


def _empty(first: _Bound | None, end: _Bound | None) -> bool:
    return first is not None and end is not None and first >= end


def _highest(bounds: Iterable[_Bound | None]) -> _Bound | None:
    return max((bound for bound in bounds if bound is not None), default=None)


def _lowest(bounds: Iterable[_Bound | None]) -> _Bound | None:
    return min((bound for bound in bounds if bound is not None), default=None)


class ItemView(Protocol):
    """The set of a session: its live and its hidden items. Cheap to ask, whatever its size."""

    @property
    def count(self) -> int:
        """How many items are in the set."""

    @property
    def tokens(self) -> int:
        """Their tokens together."""

    @property
    def step(self) -> int:
        """The session's current step: the highest `step_index` that it was given."""

    def items(self, order: Order, only: Range = EVERYTHING) -> Iterator[Item]:
        """Those that are asked for, handed out one by one in this order; EXPIRES_FIRST leaves out what never does.

        Lazy: what is not asked for is not read. Several may be open at once; the set does not change meanwhile.
        """


@dataclass(frozen=True, slots=True)
class Usage:
    """How full a session is. A limit that the policy does not have is None; `utilisation` is in per cent.

    `status`: healthy, approaching (more than 90 %), and the policy's own words for what is beyond.
    """

    max_items: int | None = None
    max_tokens: int | None = None
    utilisation: float = 0.0
    status: str = "healthy"


class Policy(ABC):
    """Decides for one session; made of its settings when the session is opened, and the same for its life.

    A policy is a frozen dataclass whose fields are its settings, with types and bounds. It overrides what it decides
    otherwise: every item fits, none expires, and nothing leaves.
    """

    __slots__ = ()
    name: ClassVar[str]
    # How often maintenance ticks it; None: it ticks on an explicit sweep alone.
    tick_seconds: ClassVar[float | None] = None

    @classmethod
    def of(cls, config: Mapping[str, object]) -> Self:
        """One with these settings; what is not set keeps its default. Raises UsageError, which names the key."""
        return cls(**settings_in(cls, config))

    def lifetime(self, item: Item) -> float | None:  # noqa: ARG002
        """Seconds that a new item lives (with its priority); None: no time to live."""
        return None

    def fits(self, tokens: int) -> str:  # noqa: ARG002
        """Why an item of so many tokens can never be taken; empty when it can."""
        return ""

    def admit(self, new: Item, view: ItemView, now: datetime) -> Plan:  # noqa: ARG002
        """What has to go so that the view, which holds `new` already, keeps its limits. `new` may be among them."""
        return Plan()

    def tick(self, view: ItemView, now: datetime) -> Plan:  # noqa: ARG002
        """What maintenance (or an explicit sweep) does at this moment."""
        return Plan()

    def on_access(self, item: Item, now: datetime) -> Plan:  # noqa: ARG002
        """What follows from this item having been read; its access is counted in it already."""
        return Plan()

    def earning(self, priority: Priority) -> tuple[int, int] | None:  # noqa: ARG002
        """From how many accesses on `on_access` may promote items of this priority, and from how many it always does.

        Of those that are neither hidden nor promoted. None: it never promotes one.
        """
        return None

    def usage(self, count: int, tokens: int) -> Usage:  # noqa: ARG002
        """How full a session of so many items and tokens is."""
        return Usage()

    @abstractmethod
    def order(self, view: ItemView, now: datetime) -> Iterator[Step]:
        """The items in the order in which they would leave, each with why: the preview. Lazily.

        What `admit` and `tick` take of this same view stands in this order.
        """
