"""A session on a clock that is moved: carries plans out as a store does, and writes down what became of whom."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from state.sessions.item import Item, State
from state.sessions.policies import Action, Decision, Plan, Policy, View
from tests.state.sessions.items import START, item


class Place(StrEnum):
    """Where an item is, or what the log last said of it."""

    SET = "set"
    PROMOTED = "promoted"
    ARCHIVED = "archived"
    PURGED = "purged"


@dataclass
class Session:
    """Its set, what left it, and a log of (item, what, why)."""

    policy: Policy
    now: datetime = START
    step: int = 0
    held: list[Item] = field(default_factory=list)
    promoted: dict[str, Item] = field(default_factory=dict)
    archived: dict[str, Item] = field(default_factory=dict)
    rescued: set[str] = field(default_factory=set)
    tombstones: set[str] = field(default_factory=set)
    log: list[tuple[str, Place, str]] = field(default_factory=list)
    crystals: list[str] = field(default_factory=list)
    added: int = 0

    @property
    def view(self) -> View:
        return View(sorted(self.held, key=lambda one: one.seq), self.step, self.now)

    def add(self, **fields: object) -> Plan | None:
        """One more item; None when it is refused."""
        new = item(self.added, **{"created_at": self.now, "step_index": self.step, **fields})
        _, most = self.policy.limits
        if most is not None and new.token_count > most:
            return None
        seconds = self.policy.lifetime(new.priority)
        new = replace(new, expires_at=None if seconds is None else self.now + timedelta(seconds=seconds))
        self.added += 1
        self.step = max(self.step, new.step_index)
        return self._enter(new, "added")

    def get(self, place: int) -> None:
        read = self.held[place]
        self.held[place] = replace(read, access_count=read.access_count + 1)
        self.apply(Plan(self.policy.earned(View([self.held[place]], self.step, self.now))))

    def tick(self) -> None:
        self.apply(self._previewed(self.policy.tick))

    def hide(self, place: int) -> None:
        self.held[place] = replace(self.held[place], state=State.HIDDEN)

    def restore(self, name: str) -> None:
        back = self.archived.pop(name)
        self.rescued.discard(name)
        self._enter(replace(back, state=State.LIVE), "restored")

    def purge(self, place: int) -> None:
        gone = self.held.pop(place)
        self.tombstones.add(gone.id)
        self.log.append((gone.id, Place.PURGED, "forgotten"))

    def apply(self, plan: Plan) -> Plan:
        """In order. Every step is of an item of the set, as it is there, and no item has two."""
        assert len({step.item.id for step in plan.steps}) == len(plan.steps)
        for step in plan.steps:
            assert step.item in self.held
            assert step.reason
            self.held.remove(step.item)
            self._carry_out(step)
        return plan

    def last_said(self) -> dict[str, Place]:
        return {name: place for name, place, _ in self.log}

    def where(self) -> Iterator[tuple[str, Place]]:
        yield from ((one.id, Place.SET) for one in self.held)
        yield from ((name, Place.PROMOTED) for name in self.promoted)
        yield from ((name, Place.ARCHIVED) for name in self.archived)
        yield from ((name, Place.PURGED) for name in self.tombstones)

    def _enter(self, new: Item, why: str) -> Plan:
        self.held.append(new)
        self.log.append((new.id, Place.SET, why))
        fill = self.view.count, self.view.tokens
        if not self.policy.is_full(*fill):
            return Plan(log=self.policy.fits(*fill))
        return self.apply(self._previewed(lambda view: self.policy.admit(view, new.id), new))

    def _previewed(self, decide: Callable[[View], Plan], new: Item | None = None) -> Plan:
        """The same set gives the same plan, in the order of the preview."""
        before = list(self.held)
        plan = decide(self.view)
        assert plan == decide(self.view)
        assert self.held == before
        preview = [step.item.id for step in self.policy.order(self.view)]
        assert len(set(preview)) == len(preview)
        taken = [step.item.id for step in plan.steps]
        assert taken == [name for name in preview if name in set(taken)]
        if new is not None:
            others = [name for name in preview if name != new.id] if self.policy.name == "hybrid" else preview
            assert taken == others[: len(taken)]
        return plan

    def _carry_out(self, step: Decision) -> None:
        if step.action is Action.PROMOTE:
            assert step.item.state == State.LIVE
            self.crystals.append(step.item.id)
            kept = replace(step.item, promoted_to_id=f"memory-of-{step.item.id}")
            if step.leaves:
                self.promoted[kept.id] = kept
                self.log.append((kept.id, Place.PROMOTED, step.reason))
            else:
                self.held.append(kept)
        else:
            assert step.leaves
            self.archived[step.item.id] = replace(step.item, state=State.ARCHIVED)
            self.rescued |= {step.item.id} if step.rescue else set()
            self.log.append((step.item.id, Place.ARCHIVED, step.reason))
