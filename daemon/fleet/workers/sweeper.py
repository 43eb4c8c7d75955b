"""Sweeper: looks at the workspaces that are due, and queues their jobs within the ceilings; one process at a time."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from daemon.config.settings import Config, day_start
from daemon.fleet.workers.decision import decide
from daemon.observability import logs
from daemon.service.schedule import Action, Decision, Thresholds
from state.errors import UnreachableError
from state.fleet.tenant import Quotas
from state.stores.fleet.database import FleetDatabase
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.places import Places
from state.stores.fleet.processes import Processes
from state.stores.fleet.schedule import CONSOLIDATE, DREAM, Capacity, DueRow, Job, Schedule, Sweep, Use

TICK_SECONDS = 1.0
# In one transaction of some tens of milliseconds, whose rows nobody else can write meanwhile.
_MOST_ROWS = 100
# So many jobs wait for each slot: a worker that ends one finds the next, and what waits longer waits in the registry,
# where it can be chosen again. Never many more: Procrastinate's fetch compares the locks of waiting jobs without an
# index, and with 100,000 of them takes 33 to 71 ms.
_WAITING_FOR_A_SLOT = 2
_POSTPONED = timedelta(seconds=5)
# Of jobs in one slot, at most.
_ENDED_A_SECOND = 4
_LONGEST_WAIT = timedelta(minutes=10)
# A worker may die of anything; of the same workspace again and again it dies of that. Where others were lost with it,
# one of them may be what it died of.
_LOST_BEFORE_A_PAUSE, _LOST_WITH_OTHERS = 2, 5
_NET_SECONDS = 20.0
_OLD_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Room:
    """What may still be queued: jobs of the fleet, and what a dream may cost at most."""

    capacity: Capacity
    config: Config
    uses: Mapping[int, Use]

    @property
    def jobs(self) -> int:
        """How many more jobs may wait or run."""
        return max(0, self.capacity.slots * _WAITING_FOR_A_SLOT - self.capacity.busy)

    def refusal(self, tenant: int, more: int, more_of_all: int) -> str:
        """Return why a tenant may have no dream beside those queued in this sweep; empty when it may."""
        use, fleet = self.uses.get(tenant, Use(Quotas())), self.config.fleet
        quotas, limits = use.quotas, self.config.limits
        # What waits or runs may cost as much as its ceiling allows, and is counted so until it has ended.
        reserved, all_reserved = use.busy + more, self.capacity.busy + more_of_all
        if self.config.model.name is None:  # nothing costs
            return "dreams" if quotas.dreams_per_day and use.dreams + reserved >= quotas.dreams_per_day else ""
        checks = (
            ("dreams", use.dreams + reserved, quotas.dreams_per_day),
            ("usd", use.usd + reserved * limits.usd_per_dream, quotas.usd_per_day),
            ("tokens", use.tokens + reserved * limits.tokens_per_dream, quotas.tokens_per_day),
            ("usd of the fleet", self.capacity.usd + all_reserved * limits.usd_per_dream, fleet.usd_per_day),
            (
                "tokens of the fleet",
                self.capacity.tokens + all_reserved * limits.tokens_per_dream,
                fleet.tokens_per_day,
            ),
        )
        return next((what for what, used, most in checks if most and used >= most), "")


class Sweeper:
    """One thread in each worker; whoever has the sweep's lock sweeps."""

    def __init__(
        self,
        database: FleetDatabase,
        config: Callable[[], Config],
        thresholds: Callable[[], Thresholds],
        stopping: threading.Event,
    ) -> None:
        self._schedule = Schedule(database)
        self._inbox = Inbox(database)
        self._processes = Processes(database)
        self._places = Places(database)
        self._config = config
        self._thresholds = thresholds
        self._stopping = stopping
        self._net_at = self._old_at = 0.0
        self._ended: set[int] = set()  # of the jobs, at the last look
        self._passed_over: Counter[int] = Counter()  # of each tenant, in this round
        self.thread = threading.Thread(target=self._run, name="sweep", daemon=True)

    def _run(self) -> None:
        while not self._stopping.wait(TICK_SECONDS):
            try:
                self._passed_over.clear()
                while self.tick() >= _MOST_ROWS and not self._stopping.is_set():
                    pass
            except UnreachableError:
                continue  # the lifetime says so
            except Exception as error:  # noqa: BLE001 - whatever it is, the next tick comes
                logs.get().error("sweep_failed", error=error)

    def tick(self) -> int:
        """Sweep once, if anything is due; return how many workspaces were looked at."""
        steady = time.monotonic()
        if steady >= self._net_at:
            self._net_at = steady + _NET_SECONDS
            self._inbox.wake_waiting()
            if dead := self._schedule.clear_dead(self._ended):
                logs.get().warning("jobs_dead", jobs=dead)
            self._ended = self._schedule.ended_jobs()
        if steady >= self._old_at:
            self._old_at = steady + _OLD_SECONDS
            self._inbox.sweep()
            self._processes.sweep()
            self._places.sweep()
        if not self._schedule.is_due():
            return 0
        with self._schedule.sweep() as sweep:
            return self._sweep(sweep) if sweep is not None else 0

    def _sweep(self, sweep: Sweep) -> int:
        rows, config = sweep.due(_MOST_ROWS), self._config()
        if not rows:
            return 0
        capacity = sweep.capacity(spent=bool(config.fleet.usd_per_day or config.fleet.tokens_per_day))
        lost = [row.place.id for row in rows if row.lost]
        if lost:
            sweep.clear_lost(lost, [row.place.id for row in rows if row.lost and not row.outage])
            logs.get().warning("jobs_lost", workspaces=len(lost))
        alone = len(lost) == 1
        until, wanted, done = list[tuple[int, datetime | None]](), list[_Wanted](), list[int]()
        for row in rows:
            found = _look(row, capacity.now, self._thresholds(), alone=alone)
            if isinstance(found, _Wanted):
                wanted.append(found)
            else:
                until.append((row.place.id, found))
                done += [row.place.id] if _has_failed(row) and not _is_paused(row, alone=alone) else []
        if done:  # what a lost job was for was done all the same
            sweep.forgive_lost(done)
        if wanted:
            room = Room(capacity, config, sweep.use([one.row.place.tenant for one in wanted]))
            jobs, later = chosen(wanted, room, self._passed_over)
            until += later
            if jobs:
                sweep.defer(jobs)
        if until:
            sweep.postpone(until)
        return len(rows)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A workspace with the job that it wants."""

    row: DueRow
    decision: Decision


def chosen(
    wanted: Sequence[_Wanted], room: Room, passed_over: Counter[int]
) -> tuple[list[Job], list[tuple[int, datetime | None]]]:
    """Return the jobs to queue now, and when to look at the other workspaces again.

    Tenants come in turn, the one with the fewest jobs under way first, each with its longest due first. A tenant
    without room waits until the day ends. Who found no slot is looked at again when its turn among its tenant's may
    come, the first ones at once: so thousands of one tenant never stand before the one of another. `passed_over`
    counts these for each tenant.
    """
    jobs, later = list[Job](), list[tuple[int, datetime | None]]()
    taken: Counter[int] = Counter()
    now = room.capacity.now
    for one in _in_turn(wanted, room.uses):
        tenant, place = one.row.place.tenant, one.row.place.id
        is_dream = one.decision.action is Action.DREAM
        if is_dream and room.refusal(tenant, taken[tenant], len(jobs)):
            later.append((place, min(day_start(now) + timedelta(days=1), now + timedelta(minutes=10))))
        elif len(jobs) >= room.jobs:
            turn = passed_over[tenant] / (_ENDED_A_SECOND * max(1, room.capacity.slots))
            later.append((place, now + min(timedelta(seconds=1 + turn), _LONGEST_WAIT)))
            passed_over[tenant] += 1
        else:
            taken[tenant] += 1
            jobs.append(
                Job(
                    place,
                    DREAM if is_dream else CONSOLIDATE,
                    one.decision.reason.value if one.decision.reason is not None else "",
                    one.row.queue,
                )
            )
    return jobs, later


def _in_turn(wanted: Sequence[_Wanted], uses: Mapping[int, Use]) -> Iterator[_Wanted]:
    places: Counter[int] = Counter()
    keyed = list[tuple[int, datetime, int, _Wanted]]()
    for number, one in enumerate(sorted(wanted, key=lambda one: one.row.due_at)):
        tenant = one.row.place.tenant
        keyed.append((uses.get(tenant, Use(Quotas())).busy + places[tenant], one.row.due_at, number, one))
        places[tenant] += 1
    return (one for *_, one in sorted(keyed, key=lambda key: key[:3]))


def _look(row: DueRow, now: datetime, thresholds: Thresholds, *, alone: bool) -> _Wanted | datetime | None:
    """Return the job that a workspace wants now, else when to look at it again (None: when something comes)."""
    if row.queued and not row.lost:
        return now + 4 * _POSTPONED
    if _is_paused(row, alone=alone):
        return now + min(timedelta(hours=4), timedelta(minutes=1) * 2.0 ** min(row.failures, 8))
    decision = _decided(row, now, thresholds)
    if decision is None:
        return None
    return decision.at if decision.action is Action.WAIT else _Wanted(row, decision)


def _is_paused(row: DueRow, *, alone: bool) -> bool:
    """Return whether its jobs were lost too often, `alone` or with others: perhaps it kills whoever dreams it."""
    return row.lost and not row.outage and row.failures >= (_LOST_BEFORE_A_PAUSE if alone else _LOST_WITH_OTHERS)


def _has_failed(row: DueRow) -> bool:
    return row.lost or (row.failures > 0 and not row.queued)


def _decided(row: DueRow, now: datetime, thresholds: Thresholds) -> Decision | None:
    try:
        return decide(row, now, thresholds)
    except Exception as error:  # noqa: BLE001 - one workspace holds up no others: facts that an older dreamd cannot read, or a newer one has written otherwise
        logs.get(workspace=row.place.handle).error("facts_unreadable", error=error)
        without = replace(row, facts="")
        return decide(without, now, thresholds)
