"""`budget`: a soft and a hard number of items, after Katra's working memory budget.

At the soft limit the oldest batch of unprotected items becomes permanent; at the hard one the oldest batch leaves for
the cold archive, protected or not. One batch a check, the hard limit first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated, ClassVar, Self

from pydantic import Field

from state.errors import UsageError
from state.sessions.item import Item
from state.sessions.policies.policy import FORGOTTEN, HIDDEN, LIVE, Action, ItemView, Order, Plan, Policy, Step, Usage
from state.sessions.policies.settings import Texts, settings_in, shown

SOFT_LIMIT = "soft_limit"
HARD_LIMIT = "hard_limit"
PROTECTED_TAGS = ("insight", "permanent", "personal", "decision", "architecture", "important")
PRESETS: Mapping[str, Mapping[str, object]] = {
    "interactive": {"soft_limit": 35, "hard_limit": 50},
    "production": {"soft_limit": 25, "hard_limit": 40},
    "research": {"soft_limit": 50, "hard_limit": 75},
}

_Items = Annotated[int, Field(ge=1, le=1_000_000)]
_CHECK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Budget(Policy):
    """The two limits, and which tags keep an item from the first."""

    enabled: bool = True
    soft_limit: _Items = 35
    hard_limit: _Items = 50
    batch_size: _Items = 10
    tag_aware_archival: bool = True
    protected_tags: Texts = PROTECTED_TAGS

    name: ClassVar[str] = "budget"
    tick_seconds: ClassVar[float | None] = _CHECK_SECONDS

    @classmethod
    def of(cls, config: Mapping[str, object]) -> Self:
        """With these settings, on top of those of `preset` when it names one. Raises UsageError."""
        preset = config.get("preset", "interactive")
        if not isinstance(preset, str) or preset not in PRESETS:
            raise UsageError(f"preset: {shown(preset)} is none of {', '.join(PRESETS)}")
        given = {key: value for key, value in config.items() if key != "preset"}
        values = settings_in(cls, {**PRESETS[preset], **given})
        if values["soft_limit"] > values["hard_limit"]:
            raise UsageError(f"soft_limit: {values['soft_limit']} is above hard_limit, {values['hard_limit']}")
        return cls(**values)

    def protects(self, item: Item) -> bool:
        """Whether a tag keeps it from the soft limit. Tags are compared exactly."""
        return self.tag_aware_archival and not set(self.protected_tags).isdisjoint(item.tags)

    def admit(self, new: Item, view: ItemView, now: datetime) -> Plan:  # noqa: ARG002
        """One check."""
        return self._check(view, now)

    def tick(self, view: ItemView, now: datetime) -> Plan:
        """One check."""
        return self._check(view, now)

    def usage(self, count: int, tokens: int) -> Usage:  # noqa: ARG002
        """In per cent of the soft limit: at the hard one it is above a hundred."""
        if count >= self.hard_limit:
            status = HARD_LIMIT
        elif count >= self.soft_limit:
            status = SOFT_LIMIT
        else:
            status = "approaching" if 100 * count > 90 * self.soft_limit else "healthy"
        return Usage(self.hard_limit, None, 100 * count / self.soft_limit, status)

    def order(self, view: ItemView, now: datetime) -> Iterator[Step]:  # noqa: ARG002
        """At the hard limit the oldest first; below it the protected ones after all others.

        Softly forgotten ones come before either, and never become permanent.
        """
        if not self.enabled:
            return
        hard = view.count >= self.hard_limit
        for item in view.items(Order.OLDEST, HIDDEN):
            yield Step(item, Action.ARCHIVE, FORGOTTEN)
        for item in view.items(Order.OLDEST, LIVE):
            if hard:
                yield self._lost(item)
            elif not self.protects(item):
                yield Step(item, Action.PROMOTE, SOFT_LIMIT)
        if not hard:
            yield from (self._lost(item) for item in view.items(Order.OLDEST, LIVE) if self.protects(item))

    def _lost(self, item: Item) -> Step:
        return Step(item, Action.ARCHIVE, HARD_LIMIT, rescue=self.protects(item))

    def _check(self, view: ItemView, now: datetime) -> Plan:
        count, soft, hard = view.count, self.soft_limit, self.hard_limit
        if not self.enabled:
            return Plan(log=f"Working memory budget is switched off ({count}/{soft}/{hard})")
        if count < soft:
            return Plan(log=f"Working memory within budget ({count}/{soft}/{hard})")
        batch = tuple(islice(self.order(view, now), self.batch_size))
        if count >= hard:
            return Plan(
                batch, f"Working memory at hard limit ({count}/{hard}) - archiving oldest {len(batch)}", "warning"
            )
        steps = tuple(step for step in batch if step.reason != HARD_LIMIT)
        promoted = sum(step.action is Action.PROMOTE for step in steps)
        forgotten = f", archiving {len(steps) - promoted} forgotten" if len(steps) > promoted else ""
        done = f"making oldest {promoted} permanent{forgotten}" if steps else "all are protected, nothing leaves"
        return Plan(steps, f"Working memory at soft limit ({count}/{soft}) - {done}", "info")
