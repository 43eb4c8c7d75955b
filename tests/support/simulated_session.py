"""A session on a clock that is moved: carries plans out as a store does, and writes down what became of whom."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from state.sessions.importance import score
from state.sessions.item import Item, State
from state.sessions.policies.policy import Action, ItemView, Plan, Policy, Step
from tests.state.sessions.shelves import START, ListShelf


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
    tombstones: set[str] = field(default_factory=set)
    log: list[tuple[str, Place, str]] = field(default_factory=list)
    crystals: list[str] = field(default_factory=list)
    added: int = 0

    @property
    def shelf(self) -> ListShelf:
        return ListShelf(tuple(self.held), self.step)

    def add(self, **fields: object) -> Plan | None:
        """One more item; None when it is refused."""
        usual: dict[str, object] = {
            "id": f"item-{self.added}",
            "session": "s",
            "seq": self.added,
            "content": "x",
            "created_at": self.now,
            "last_accessed_at": self.now,
            "step_index": self.step,
        }
        new = Item(**{**usual, **fields})  # type: ignore[arg-type]
        if self.policy.fits(new.token_count):
            return None
        seconds = self.policy.lifetime(new)
        ends = None if seconds is None else self.now + timedelta(seconds=seconds)
        new = replace(new, expires_at=ends, importance_score=score(new, self.now, seconds))
        self.added += 1
        self.step = max(self.step, new.step_index)
        return self._enter(new, "added")

    def get(self, place: int) -> Plan:
        read = self.held[place]
        self.held[place] = replace(read, access_count=read.access_count + 1, last_accessed_at=self.now)
        return self.apply(self.policy.on_access(self.held[place], self.now))

    def tick(self) -> Plan:
        plan = self._previewed(lambda shelf: self.policy.tick(shelf, self.now))
        return self.apply(plan)

    def hide(self, place: int) -> None:
        self.held[place] = replace(self.held[place], state=State.HIDDEN)

    def restore(self, name: str) -> Plan:
        back = self.archived.pop(name)
        return self._enter(replace(back, state=State.LIVE), "restored")

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
        return self.apply(self._previewed(lambda shelf: self.policy.admit(new, shelf, self.now), new))

    def _previewed(self, decide: Callable[[ItemView], Plan], new: Item | None = None) -> Plan:
        """The same set gives the same plan, in the order of the preview."""
        before = list(self.held)
        plan = decide(self.shelf)
        assert plan == decide(ListShelf(tuple(reversed(before)), self.step)), "whatever order the items lie in"
        assert self.held == before
        preview = [step.item.id for step in self.policy.order(self.shelf, self.now)]
        assert len(set(preview)) == len(preview)
        taken = [step.item.id for step in plan.steps]
        assert taken == [name for name in preview if name in set(taken)]
        if new is not None:
            others = [name for name in preview if name != new.id] if self.policy.name == "hybrid" else preview
            assert taken == others[: len(taken)]
        return plan

    def _carry_out(self, step: Step) -> None:
        if step.action is Action.PROMOTE:
            assert step.item.state is State.LIVE
            self.crystals.append(step.item.id)
            kept = replace(step.item, promoted_to=f"memory-of-{step.item.id}", promotion_reason=step.reason)
            if step.leaves:
                self.promoted[kept.id] = kept
                self.log.append((kept.id, Place.PROMOTED, step.reason))
            else:
                self.held.append(kept)
        else:
            assert step.leaves
            self.archived[step.item.id] = replace(step.item, state=State.ARCHIVED, rescue=step.rescue)
            self.log.append((step.item.id, Place.ARCHIVED, step.reason))
