"""Status: the current state of a workspace, one value for every window (command line, HTTP, MCP).

It is read without a lock, from a read-only state.db and without heavy imports, so it is available while another
process owns the workspace, and also before the first dream.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TypeVar

from daemon.config.paths import spent_folder
from daemon.config.settings import Config, day_start
from daemon.workspace.checks import FILES, PERMISSIONS, ROWS, Finding, Level, Subject
from state.budget import Spend, reached
from state.document.operations import Refusal
from state.errors import CeilingError, DreamdError, StorageError
from state.stores.database.connection import explained, open_unmigrated
from state.stores.database.moments import from_text
from state.stores.database.opening import memory_database
from state.stores.database.schema import unreadable
from state.stores.database.standing import standing
from state.stores.database.tombstones import TombstoneStore
from state.stores.disk.lock import KEEPER, Holder, present_holder
from state.stores.disk.places import project_of
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.history.bootstraps import BootstrapReceipt, receipts
from state.stores.history.daily_spend import DailySpend
from state.stores.history.ledger import Ledger
from state.zone import clock_time

Read = TypeVar("Read")
DREAM_COMMAND = "dreamd dream"
"""The command of a process that dreams without a daemon, as the lock names it."""
NO_DAEMON = "by hand; no daemon runs ('dreamd install-service' makes one)"
_UNHEARD = "when the daemon that keeps it says so; it has not answered"
BY_FLEET = "by itself, when enough is new"
_UNEMBEDDED = "SELECT count(*) FROM crystals WHERE vector IS NULL"


@dataclass(frozen=True, slots=True)
class LastDream:
    """The last run that was not skipped. `version` is None if it committed none; `usd` is 0 if unknown."""

    id: str
    at: datetime
    reason: str
    outcome: str
    detail: str
    version: int | None
    model: str
    tokens: int
    usd: float


@dataclass(frozen=True, slots=True)
class Pending:
    """How many notes no dream has consumed, and the age of the oldest, in seconds.

    `more`: there are others, which were not counted.
    """

    notes: int
    oldest_seconds: float
    more: bool = False


@dataclass(frozen=True, slots=True)
class Spending:
    """What models have cost since midnight UTC, and the daily ceilings. `breaker`: why no call is allowed, or empty.

    `all_…` counts all workspaces of the user, the others this one.
    """

    calls: int
    tokens: int
    usd: float
    tokens_per_day: int
    usd_per_day: float
    breaker: str
    all_tokens: int
    all_usd: float
    all_tokens_per_day: int
    all_usd_per_day: float


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, and what to do about it; without advice, nothing needs to be done.

    `deed` is the advice for a program: dream, forget, doctor, or restore with a version; empty if a person is needed.
    One that does not stop (`stops`) anything has a cost alone.
    """

    what: str
    advice: str = ""
    deed: str = ""
    stops: bool = True

    def __str__(self) -> str:
        """Return the problem and its advice in one line."""
        return f"{self.what}; {self.advice}" if self.advice else self.what

    @classmethod
    def of(cls, error: BaseException) -> "Problem":
        """Return the problem that an error describes."""
        from daemon.observability.failures import failure

        if not isinstance(error, Exception):
            return cls(f"{type(error).__name__} ended it")
        described = failure(error)
        return cls(described.what, described.advice)


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """What the daemon knows of a workspace beyond its files.

    `upcoming` describes the next dream, `at` is its time if one is scheduled; `dreaming` is the progress of a running
    dream, or empty. `alone`: an operation that excludes dreams, such as a forgetting, is in progress.
    """

    pid: int
    since: datetime
    upcoming: str
    at: datetime | None
    dreaming: str
    problems: tuple[Problem, ...]
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a workspace at one moment. `crystals` counts them by stored lifecycle.

    `service` is None without a daemon. `withheld` counts texts that were not learned because they contain a forgotten
    text; `proposals` counts what needs the owner's yes; `last_bootstrap` is what an agent was last given at a start;
    `project` is the folder in which people work; `model` dreams, none if that is empty.
    """

    workspace: str
    at: datetime
    version: int
    characters: int
    last_dream: LastDream | None
    next_dream: str
    pending: Pending
    crystals: dict[str, int]
    waiting_embeddings: int
    spending: Spending
    rejections: tuple[Refusal, ...]
    holder: Holder | None
    problems: tuple[Problem, ...]
    service: ServiceStatus | None = None
    withheld: int = 0
    proposals: int = 0
    last_bootstrap: BootstrapReceipt | None = None
    project: str = ""
    model: str | None = None


class Verdict(StrEnum):
    """How a workspace stands, in a word."""

    WELL = "well"
    DREAMING = "dreaming"
    WANTS = "wants"
    STOPPED = "stopped"


def verdict(value: Status) -> Verdict:
    """Say whether it stopped, is dreaming, wants its owner, or all is well."""
    service, holder, last = value.service, value.holder, value.last_dream
    if any(one.stops for one in value.problems):
        return Verdict.STOPPED
    if (service is not None and service.dreaming) or (holder is not None and holder.command == DREAM_COMMAND):
        return Verdict.DREAMING
    if last is not None and last.outcome in ("failed", "rejected"):
        return Verdict.STOPPED
    return Verdict.WANTS if value.proposals or value.problems else Verdict.WELL


def status(workspace: Workspace, config: Config, now: datetime, service: ServiceStatus | None = None) -> Status:
    """Return the current status; `service` is the daemon's part. Raise StorageError if state.db cannot be read."""
    with storage_errors(workspace.root):
        workspace.root.stat()  # state remains after its folder was moved or deleted
    owner = present_holder(workspace)
    problems = list(service.problems) if service is not None else []
    # During a forgetting by the daemon, the lock names the daemon.
    forgets = (service is not None and service.alone) or (owner is not None and owner.command == "dreamd forget")

    def tried(read: Callable[[], Read], otherwise: Read) -> Read:
        try:
            return read()
        except DreamdError as error:
            problems.append(Problem.of(error))
            return otherwise

    with _open(workspace) as connection:
        at = Subject(workspace, config, now, owner is not None, connection, forgets)
        for _, check in (PERMISSIONS, *FILES, *ROWS):
            found = tried(partial(list, check(at)), list[Finding]())
            faults = (one for one in found if one.level is not Level.OK)
            problems += [Problem(one.what, one.advice, one.deed, one.level is Level.PROBLEM) for one in faults]
        count, content = at.pending, at.content or b""
        ledger, stands, last_dream = Ledger(connection), standing(connection), None
        if stands.dream:
            model = connection.execute("SELECT model FROM versions WHERE number = ?", (stands.made,)).fetchone()
            paid, run = ledger.spent(dream=stands.dream), (stands.reason, stands.outcome, stands.detail, stands.made)
            last_dream = LastDream(
                stands.dream, from_text(stands.at), *run, model[0] if model else "", paid.tokens, paid.usd
            )
        spent_by_all = tried(lambda: DailySpend(spent_folder(os.environ)).of(now), Spend())
        return Status(
            workspace=str(workspace.root),
            at=now,
            version=stands.version,
            characters=len(content.decode(errors="replace")),
            last_dream=last_dream,
            next_dream=_next_dream(service, owner),
            pending=Pending(count.notes, (now - min(now, count.oldest or now)).total_seconds(), count.more),
            crystals=lifecycles(connection),
            waiting_embeddings=connection.execute(_UNEMBEDDED).fetchone()[0],
            spending=_spending(config, ledger.spent(since=day_start(now)), spent_by_all, last_dream, now),
            rejections=tuple(ledger.rejections(stands.dream)),
            holder=owner,
            last_bootstrap=tried(lambda: next((one.in_short for one in receipts(workspace)), None), None),
            problems=tuple(problems),
            service=service,
            withheld=TombstoneStore(connection).withheld(),
            proposals=stands.proposals,
            project=str(project_of(workspace)),
            model=config.redaction.of(config.model.name or ""),
        )


def _next_dream(service: ServiceStatus | None, owner: Holder | None) -> str:
    if service is not None:
        return service.dreaming or service.upcoming
    return _UNHEARD if owner is not None and owner.command == KEEPER else NO_DAEMON


def lifecycles(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the crystals by lifecycle."""
    return dict(connection.execute("SELECT lifecycle, count(*) FROM crystals GROUP BY 1 ORDER BY 1").fetchall())


@contextmanager
def _open(workspace: Workspace) -> Iterator[sqlite3.Connection]:
    """Read state.db as of one moment, an empty one without one. Raise StorageError if this dreamd cannot read it."""
    path = workspace.database
    try:
        if path.exists():
            with open_unmigrated(path) as connection:
                schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
                if why := unreadable(schema):
                    raise StorageError(f"{path}: {why[0]}", why[1])
                if schema:
                    connection.execute("BEGIN")
                    yield connection
                    return
        with closing(memory_database()) as connection:
            yield connection
    except sqlite3.Error as error:
        raise explained(error, path) from error


def _spending(config: Config, spent: Spend, spent_by_all: Spend, last: LastDream | None, now: datetime) -> Spending:
    limits, breaker = config.limits, ""
    again = f"it opens again at {clock_time(day_start(now) + timedelta(days=1), config.zone)}"
    if key := reached(limits.ceilings, spent):
        breaker = f"limits.{key} is reached; {again}"
    elif key := reached(config.daemon.limits, spent_by_all):
        breaker = f"daemon.{key}, over all workspaces, is reached; {again}"
    elif last and last.detail.startswith(f"{CeilingError.code}: ") and last.at >= day_start(now):
        breaker = last.detail.removeprefix(f"{CeilingError.code}: ")
    own = (spent.calls, spent.tokens, spent.usd, limits.tokens_per_day, limits.usd_per_day, breaker)
    return Spending(
        *own, spent_by_all.tokens, spent_by_all.usd, config.daemon.tokens_per_day, config.daemon.usd_per_day
    )
