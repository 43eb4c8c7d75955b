"""Policies: which items leave a session, when and where to, as pure functions of the list of its items.

A policy is a frozen model whose fields are its settings. It implements `order` and overrides what it decides
differently. To add one, add a subclass of `Policy` here and list it in `POLICIES`.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from state.errors import UsageError
from state.sessions.checks import Number, NumberOrNone, Priority, Share, refusal, shown
from state.sessions.item import HOUR_SECONDS, PLACES, TTL_SECONDS, Item, State, after, score

_MAX_SECONDS = 10 * 366 * 86_400.0
Seconds = Annotated[float, Field(ge=0, le=_MAX_SECONDS)]
_Lifetimes = dict[Priority, Annotated[float, Field(ge=1, le=_MAX_SECONDS)]]
_Accesses = dict[Priority, Number]
_ACCESSES: _Accesses = {"low": 10, "medium": 15, "high": 20, "critical": 10}

FORGOTTEN = "forgotten"  # the reason for which a hidden item leaves
_by_age = attrgetter("created_at", "seq")
_by_importance = attrgetter("importance", "created_at", "seq")


class Action(StrEnum):
    """What happens to an item."""

    PROMOTE = "promote"  # it becomes a crystal, and stays in the set unless it `leaves`
    ARCHIVE = "archive"  # it leaves the set


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on one item. `leaves`: a promoted item leaves the set too; `rescue`: dreams see it first."""

    item: Item
    action: Action
    reason: str
    leaves: bool = True
    rescue: bool = False


class Plan(NamedTuple):
    """The steps to carry out, in order, and a line for the log with its level."""

    steps: tuple[Decision, ...] = ()
    log: str = ""
    level: str = "debug"


@dataclass(frozen=True, slots=True)
class View:
    """The set of a session at a moment: its live and hidden items by `seq`, and its highest step."""

    items: Sequence[Item]
    step: int
    now: datetime

    @property
    def count(self) -> int:
        """Return the number of items."""
        return len(self.items)

    @property
    def tokens(self) -> int:
        """Return the tokens of all items together."""
        return sum(item.token_count for item in self.items)

    @property
    def live(self) -> list[Item]:
        """Return the items that are not hidden."""
        return [item for item in self.items if item.state == State.LIVE]

    def forgotten(self, key: Callable[[Item], Any] = attrgetter("seq")) -> list[Decision]:
        """Return the archiving of softly forgotten items, sorted by `key`; except under `ttl` they leave first."""
        hidden = [item for item in self.items if item.state == State.HIDDEN]
        return [Decision(item, Action.ARCHIVE, FORGOTTEN) for item in sorted(hidden, key=key)]


class Policy(BaseModel):
    """A policy with its settings, the same for the life of a session.

    By default every item fits, none expires, and nothing leaves.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    name: ClassVar[str]
    # How often maintenance calls `tick`; None: only an explicit sweep does.
    tick_seconds: ClassVar[float | None] = None

    @classmethod
    def of(cls, config: Mapping[str, object]) -> Self:
        """Create a policy with these settings. Raise UsageError, which names the key."""
        for key in config:
            if key not in cls.model_fields:
                known = f"there are {', '.join(cls.model_fields)}"
                raise UsageError(f"{shown(key)} is not a setting of the {cls.name} policy", known)
        try:
            return cls.model_validate(dict(config))
        except ValidationError as error:
            raise refusal(error) from None

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """Return the most items and tokens there may be; None: unlimited."""
        return None, None

    def lifetime(self, priority: str) -> float | None:  # noqa: ARG002
        """Return the lifetime of a new item in seconds; None: it does not expire."""
        return None

    def is_full(self, count: int, tokens: int) -> bool:  # noqa: ARG002
        """Return whether an add to a session of this size needs a decision; only then are its items read."""
        return False

    @abstractmethod
    def order(self, view: View) -> Iterable[Decision]:
        """Return the items in the order in which they would leave: the preview."""

    def admit(self, view: View, new: str) -> Plan:  # noqa: ARG002
        """Return what leaves to make room for the item with the id `new`, which a full session already contains."""
        return Plan()

    def tick(self, view: View) -> Plan:  # noqa: ARG002
        """Return what maintenance or an explicit sweep does now."""
        return Plan()

    def earned(self, view: View) -> tuple[Decision, ...]:  # noqa: ARG002
        """Return which of these items are promoted when they are read."""
        return ()

    def fits(self, count: int, tokens: int) -> str:  # noqa: ARG002
        """Return the log line of an add that needed no decision."""
        return ""

    def usage(self, count: int, tokens: int) -> tuple[float, str]:
        """Return the fill level in per cent of the nearer limit, and its name."""
        shares = [100 * has / most for has, most in zip((count, tokens), self.limits, strict=True) if most]
        percent = max(shares, default=0.0)
        return percent, "approaching" if percent > 90 else "healthy"


class Ttl(Policy):
    """Items expire after a time set by their priority; those used enough become crystals first (after NEXS-MCP).

    Nothing leaves for lack of room, and an add decides nothing: a new critical item is promoted at its first read.
    """

    ttl_seconds: _Lifetimes = Field(default_factory=lambda: {**TTL_SECONDS})  # type: ignore[arg-type]
    promote_accesses: _Accesses = Field(default_factory=_ACCESSES.copy)
    promote_score: Share = 0.8
    promote_critical_accesses: Number = 1
    promote_age_seconds: Seconds = 6 * HOUR_SECONDS
    promote_age_accesses: Number = 5

    name: ClassVar[str] = "ttl"
    tick_seconds: ClassVar[float | None] = 300.0

    @classmethod
    def of(cls, config: Mapping[str, object]) -> Self:
        """Create a policy with these settings; a priority missing from a table keeps its default."""
        given, defaults = super().of(config), cls()
        tables = ("ttl_seconds", "promote_accesses")
        return given.model_copy(update={key: {**getattr(defaults, key), **getattr(given, key)} for key in tables})

    def lifetime(self, priority: str) -> float | None:
        return self.ttl_seconds[priority]  # type: ignore[index]

    def eligible(self, item: Item, now: datetime) -> str:
        """Return the rule by which an item is promoted; empty: none. Softly forgotten items never are."""
        if item.promoted_to_id or item.state == State.HIDDEN:
            return ""
        priority: Any = item.priority
        if item.access_count >= self.promote_accesses[priority]:
            return "access_count"
        age = (now - item.created_at).total_seconds()
        scored = score(item.access_count, age, priority, len(item.content), self.ttl_seconds[priority])
        if scored >= round(self.promote_score, PLACES):
            return "importance_score"
        if priority == "critical" and item.access_count >= self.promote_critical_accesses:
            return "critical_and_accessed"
        aged = age > self.promote_age_seconds and item.access_count >= self.promote_age_accesses
        return "aged_and_active" if aged else ""

    def order(self, view: View) -> Iterator[Decision]:
        """Yield the items by expiry; an eligible one is promoted first, and leaves only once it has expired."""
        expiring = [(item.expires_at, item.seq, item) for item in view.items if item.expires_at is not None]
        for expires_at, _, item in sorted(expiring):
            if why := self.eligible(item, view.now):
                yield Decision(item, Action.PROMOTE, why, leaves=expires_at <= view.now)
            else:
                yield Decision(item, Action.ARCHIVE, "expired")

    def tick(self, view: View) -> Plan:
        """Promote eligible items; expired ones leave, promoted or not."""
        steps = tuple(
            step
            for step in self.order(view)
            if step.action is Action.PROMOTE
            or (step.item.expires_at is not None and step.item.expires_at <= view.now)
        )
        promoted = sum(step.action is Action.PROMOTE for step in steps)
        log = f"Working memory cleanup - promoting {promoted}, {sum(step.leaves for step in steps)} expired"
        return Plan(steps, log, "info" if steps else "debug")

    def earned(self, view: View) -> tuple[Decision, ...]:
        """Return the eligible items, which stay in the set until they expire."""
        found = ((item, self.eligible(item, view.now)) for item in view.items)
        return tuple(Decision(item, Action.PROMOTE, why, leaves=False) for item, why in found if why)


class Budget(Policy):
    """At a soft limit the oldest unprotected items become crystals, at a hard one the oldest leave (after Katra).

    Each check handles one batch, the hard limit first.
    """

    enabled: bool = True
    soft_limit: Number = 35
    hard_limit: Number = 50
    batch_size: Number = 10
    tag_aware_archival: bool = True
    protected_tags: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)] = (
        "insight",
        "permanent",
        "personal",
        "decision",
        "architecture",
        "important",
    )

    name: ClassVar[str] = "budget"
    tick_seconds: ClassVar[float | None] = 30.0
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "interactive": {"soft_limit": 35, "hard_limit": 50},
        "production": {"soft_limit": 25, "hard_limit": 40},
        "research": {"soft_limit": 50, "hard_limit": 75},
    }

    @classmethod
    def of(cls, config: Mapping[str, object]) -> Self:
        """Create a policy with these settings on top of those of `preset`, if it is given."""
        preset = config.get("preset", "interactive")
        if not isinstance(preset, str) or preset not in cls.presets:
            raise UsageError(f"preset: {shown(preset)} is none of {', '.join(cls.presets)}")
        policy = super().of({**cls.presets[preset], **{key: config[key] for key in config if key != "preset"}})
        if policy.soft_limit > policy.hard_limit:
            raise UsageError(f"soft_limit: {policy.soft_limit} is above hard_limit, {policy.hard_limit}")
        return policy

    @property
    def limits(self) -> tuple[int | None, int | None]:
        return self.hard_limit, None

    def is_full(self, count: int, tokens: int) -> bool:  # noqa: ARG002
        return self.enabled and count >= self.soft_limit

    def protects(self, item: Item) -> bool:
        """Return whether a tag protects the item from the soft limit. Tags are compared exactly."""
        return self.tag_aware_archival and not set(self.protected_tags).isdisjoint(item.tags)

    def order(self, view: View) -> list[Decision]:
        """Return the oldest items first; below the hard limit, protected ones after all others."""
        if not self.enabled:
            return []
        oldest = sorted(view.live, key=_by_age)
        hard = [Decision(item, Action.ARCHIVE, "hard_limit", rescue=self.protects(item)) for item in oldest]
        forgotten = view.forgotten(_by_age)
        if view.count >= self.hard_limit:
            return [*forgotten, *hard]
        soft = [Decision(item, Action.PROMOTE, "soft_limit") for item in oldest if not self.protects(item)]
        return [*forgotten, *soft, *(step for step in hard if step.rescue)]

    def admit(self, view: View, new: str) -> Plan:  # noqa: ARG002
        return self.tick(view)

    def tick(self, view: View) -> Plan:
        """Check the limits once."""
        count, soft, hard = view.count, self.soft_limit, self.hard_limit
        if not self.is_full(count, 0):
            return Plan(log=self.fits(count, 0))
        batch = tuple(islice(self.order(view), self.batch_size))
        if count >= hard:
            log = f"Working memory at hard limit ({count}/{hard}) - archiving oldest {len(batch)}"
            return Plan(batch, log, "warning")
        steps = tuple(step for step in batch if step.reason != "hard_limit")
        promoted = sum(step.action is Action.PROMOTE for step in steps)
        forgotten = f", archiving {len(steps) - promoted} forgotten" if len(steps) > promoted else ""
        done = f"making oldest {promoted} permanent{forgotten}" if steps else "all are protected, nothing leaves"
        return Plan(steps, f"Working memory at soft limit ({count}/{soft}) - {done}", "info")

    def fits(self, count: int, tokens: int) -> str:  # noqa: ARG002
        stand = f"({count}/{self.soft_limit}/{self.hard_limit})"
        return f"Working memory {'within budget' if self.enabled else 'budget is switched off'} {stand}"

    def usage(self, count: int, tokens: int) -> tuple[float, str]:  # noqa: ARG002
        """Return the fill level in per cent of the soft limit (over a hundred at the hard limit), and its name."""
        percent = 100 * count / self.soft_limit
        if count >= self.soft_limit:
            return percent, "hard_limit" if count >= self.hard_limit else "soft_limit"
        return percent, "approaching" if percent > 90 else "healthy"


class Hybrid(Policy):
    """Above a number of tokens the least important items leave, the oldest of equals first (after HTM's ADR-007).

    Evicted items can be recalled; one that comes back makes room for itself.
    """

    max_tokens: Number = 128_000

    name: ClassVar[str] = "hybrid"

    @property
    def limits(self) -> tuple[int | None, int | None]:
        return None, self.max_tokens

    def is_full(self, count: int, tokens: int) -> bool:  # noqa: ARG002
        return tokens > self.max_tokens

    def order(self, view: View) -> list[Decision]:
        live = sorted(view.live, key=_by_importance)
        return [*view.forgotten(_by_importance), *(Decision(item, Action.ARCHIVE, "token_limit") for item in live)]

    def admit(self, view: View, new: str) -> Plan:
        """Evict item by item until the excess is gone. The new item is never evicted for itself."""
        deficit = view.tokens - self.max_tokens
        steps = _until((step for step in self.order(view) if step.item.id != new), 0, deficit)
        freed = sum(step.item.token_count for step in steps)
        over = f"Working memory {deficit} tokens over {self.max_tokens}"
        return Plan(steps, f"{over} - evicting {len(steps)} items, {freed} tokens", "info")


class Bounded(Policy):
    """Above a number of items or tokens, evicts by protection, age, importance, recency (after Working Memory Store).

    The bound always wins: protected items are the last resort. Age only ranks when room is needed; an explicit sweep
    takes what has outlived its steps or its time. `wall_ttl` is in seconds.
    """

    max_items: Number = 64
    max_tokens: Number = 4_000
    step_ttl: NumberOrNone = 20
    wall_ttl: Seconds = HOUR_SECONDS
    importance_threshold_low: Share = 0.3
    importance_threshold_high: Share = 0.7
    recent_window: NumberOrNone = 5

    name: ClassVar[str] = "bounded"

    @classmethod
    def of(cls, config: Mapping[str, object]) -> Self:
        policy = super().of(config)
        low, high = policy.importance_threshold_low, policy.importance_threshold_high
        if low > high:
            raise UsageError(f"importance_threshold_low: {low:g} is above importance_threshold_high, {high:g}")
        return policy

    @property
    def limits(self) -> tuple[int | None, int | None]:
        return self.max_items, self.max_tokens

    def is_full(self, count: int, tokens: int) -> bool:
        return count > self.max_items or tokens > self.max_tokens

    def protects(self, item: Item) -> bool:
        """Return whether the item is evicted only as a last resort."""
        return item.importance >= self.importance_threshold_high

    def outlived(self, view: View) -> Callable[[Item], bool]:
        """Return a test for items that are older than their allowed steps or time."""
        stale, old = view.step - self.step_ttl, after(view.now, -self.wall_ttl)
        return lambda item: item.step_index < stale or item.created_at < old

    def order(self, view: View) -> Iterator[Decision]:
        """Yield the items by (protected, not outlived, not low, recent, seq), in ascending order."""
        yield from view.forgotten()
        low, window, outlived = self.importance_threshold_low, view.step - self.recent_window, self.outlived(view)
        keyed = sorted(
            (self.protects(one), not outlived(one), one.importance >= low, one.step_index >= window, one.seq, one)
            for one in view.live
        )
        for protected, young, not_low, _, _, item in keyed:
            band = "_protected" if protected else "_expired" if not young else "" if not_low else "_low"
            yield Decision(item, Action.ARCHIVE, f"capacity_exceeded{band}", rescue=protected)

    def admit(self, view: View, new: str) -> Plan:  # noqa: ARG002
        """Evict until both limits hold. The new item itself may be evicted."""
        steps = _until(self.order(view), view.count - self.max_items, view.tokens - self.max_tokens)
        fill = f"({view.count}/{self.max_items} items, {view.tokens}/{self.max_tokens} tokens)"
        log = f"Working memory {fill} over its limits - evicting {len(steps)}"
        return Plan(steps, log, "warning" if any(step.rescue for step in steps) else "info")

    def tick(self, view: View) -> Plan:
        """Sweep: archive every item that has outlived its time, protected or not."""
        outlived = self.outlived(view)
        gone = tuple(
            Decision(step.item, Action.ARCHIVE, "ttl_exceeded") for step in self.order(view) if outlived(step.item)
        )
        return Plan(gone, f"Working memory swept - {len(gone)} expired", "info" if gone else "debug")


def _until(order: Iterable[Decision], items: int, tokens: int) -> tuple[Decision, ...]:
    """Return the shortest prefix of the order that frees this many items and tokens."""
    taken: list[Decision] = []
    for step in order:
        if items <= 0 and tokens <= 0:
            break
        taken.append(step)
        items, tokens = items - 1, tokens - step.item.token_count
    return tuple(taken)


POLICIES: Mapping[str, type[Policy]] = {policy.name: policy for policy in (Ttl, Budget, Hybrid, Bounded)}
DEFAULT = "ttl"  # of a session that was never opened
LONGEST_TICK_SECONDS = max(policy.tick_seconds or 0.0 for policy in POLICIES.values())


def policy_of(name: str, config: Mapping[str, object]) -> Policy:
    """Return the policy with this name and these settings. Raise UsageError, which names the key."""
    if name not in POLICIES:
        raise UsageError(f"policy: {shown(name)} is none of {', '.join(POLICIES)}")
    return POLICIES[name].of(config)


def settings_of(policy: Policy) -> dict[str, Any]:
    """Return all settings as JSON values, from which `policy_of` makes the same policy."""
    return policy.model_dump(mode="json")


def settings_schema() -> dict[str, Any]:
    """Return the JSON schema of the settings of all policies; each is described by the policies that have it."""
    settings: dict[str, dict[str, object]] = {"preset": {"enum": list(Budget.presets), "description": Budget.name}}
    for name, policy in POLICIES.items():
        for key, schema in policy.model_json_schema()["properties"].items():
            policies = [str(settings[key]["description"])] if key in settings else []
            settings[key] = {**_lean(schema), "description": ", ".join([*policies, name])}
    return {"type": "object", "properties": settings, "additionalProperties": False}


def _lean(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema without bounds: agents read it with every tool, and an error names the bound anyway."""
    if "propertyNames" in schema:
        names = schema["propertyNames"]["enum"]
        return {"type": "object", "properties": dict.fromkeys(names, _lean(schema["additionalProperties"]))}
    items = {"items": _lean(schema["items"])} if "items" in schema else {}
    return {"type": schema["type"], **items}
