"""Status: how the whole fleet stands, and what is wrong with it; never a word of a tenant's memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from daemon.config.settings import Config
from daemon.workspace.status import Problem
from state.stores.fleet.figures import Counts, Failing, Figures, InboxFigures, Removing, SpentToday
from state.stores.fleet.processes import Process, Processes

if TYPE_CHECKING:
    from state.stores.fleet.database import FleetDatabase

_MOST_FAILING = 20
_MOST_TENANTS = 5
# The sweep looks every second, and takes five hundred at a time.
_LAG_SECONDS = 60.0
# A process fetches within seconds; with every slot taken a job waits for a dream to end, for minutes.
_QUEUED_SECONDS = 1_800.0
_REMOVAL_SECONDS = 3_600.0
# An inbox is taken in by the next pass.
_PASSES = 6


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What all tenants together may spend in a day; 0: no ceiling."""

    usd_per_day: float
    tokens_per_day: int


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """The fleet at one moment. `database` and `objects` are where it is; `spenders` have spent the most today.

    In `inbox`, `workspaces` are those whose last generation is behind: it lacks something that was acknowledged.
    """

    at: datetime
    database: str
    objects: str
    processes: tuple[Process, ...]
    counts: Counts
    failing: tuple[Failing, ...]
    inbox: InboxFigures
    spent: SpentToday
    spenders: tuple[SpentToday, ...]
    ceilings: Ceilings
    removing: Removing
    problems: tuple[Problem, ...]


def fleet_status(
    database: "FleetDatabase", config: Config, oldest_minutes: float | None = None, spenders: int = _MOST_TENANTS
) -> FleetStatus:
    """Return how the fleet stands, with so many `spenders`. What waits for longer than `oldest_minutes` is a problem.

    Raise UnreachableError.
    """
    from state.stores.fleet.database import named

    figures = Figures(database)
    counts, inbox, removing = figures.counts(), figures.inbox(), figures.removing()
    spent, most = figures.spent(spenders)
    processes = tuple(Processes(database).all())
    failing = tuple(figures.failing(_MOST_FAILING))
    ceilings = Ceilings(config.fleet.usd_per_day, config.fleet.tokens_per_day)
    if oldest_minutes is None:
        oldest_minutes = _PASSES * config.daemon.pass_minutes + config.dream.interval_minutes / 10
    problems = (
        *_of_processes(processes),
        *_of_the_queue(counts),
        *_of_work(failing, counts, inbox, oldest_minutes),
        *_of_money(spent, ceilings),
        *_of_removals(removing),
    )
    return FleetStatus(
        at=counts.at,
        database=named(config.fleet.database),
        objects=config.fleet.objects,
        processes=processes,
        counts=counts,
        failing=failing,
        inbox=inbox,
        spent=spent,
        spenders=tuple(most),
        ceilings=ceilings,
        removing=removing,
        problems=problems,
    )


def _of_processes(processes: tuple[Process, ...]) -> Iterator[Problem]:
    if not any(one.alive and one.kind == "serve" and not one.draining for one in processes):
        yield Problem(
            "no process lives: no agent reaches its memory, and nothing is dreamt", "start 'dreamd fleet serve'"
        )
    for one in processes:
        if one.alive and one.problem:
            yield Problem(f"the process at {one.address} says: {one.problem}", f"its log on {one.host} says more")


def _of_the_queue(counts: Counts) -> Iterator[Problem]:
    if counts.lag_seconds > _LAG_SECONDS:
        yield Problem(
            f"the sweep does not keep up: a workspace is due for {counts.lag_seconds / 60:.0f} minutes, not queued",
            "the logs of processes say why ('sweep_failed')",
        )
    if counts.queued_seconds > _QUEUED_SECONDS:
        yield Problem(
            f"the queue does not move: a job waits for {counts.queued_seconds / 60:.0f} minutes",
            "start more processes, or raise fleet.dreams_at_once",
        )


def _of_work(
    failing: tuple[Failing, ...], counts: Counts, inbox: InboxFigures, oldest_minutes: float
) -> Iterator[Problem]:
    if failing:
        what = "1 workspace fails" if counts.failing == 1 else f"{counts.failing:,} workspaces fail"
        first = failing[0]
        yield Problem(
            f"{what}; {first.tenant}/{first.workspace}, {first.failures} in a row: {first.problem}",
            "each is tried again, later and later",
        )
    if inbox.oldest_seconds > 60 * oldest_minutes:
        yield Problem(
            f"what was acknowledged {inbox.oldest_seconds / 60:.0f} minutes ago still waits in an inbox",
            f"{oldest_minutes:.0f} are usual; processes that fail or are too few leave it there",
        )


def _of_money(spent: SpentToday, ceilings: Ceilings) -> Iterator[Problem]:
    if ceilings.usd_per_day and spent.usd >= ceilings.usd_per_day:
        yield Problem(
            f"the fleet's ceiling of ${ceilings.usd_per_day:,.2f} a day is reached",
            "nothing dreams until midnight UTC; raise fleet.usd_per_day or wait",
        )
    if ceilings.tokens_per_day and spent.tokens >= ceilings.tokens_per_day:
        yield Problem(
            f"the fleet's ceiling of {ceilings.tokens_per_day:,} tokens a day is reached",
            "nothing dreams until midnight UTC; raise fleet.tokens_per_day or wait",
        )


def _of_removals(removing: Removing) -> Iterator[Problem]:
    if removing.oldest_seconds > _REMOVAL_SECONDS:
        yield Problem(
            f"what was removed {removing.oldest_seconds / 3600:.0f} hours ago is not deleted yet",
            "run 'dreamd fleet tenant remove' again; the logs of processes say why ('removal_failed')",
        )
