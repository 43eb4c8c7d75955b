"""Status: how a workspace is now, one value for every window (command line, HTTP, MCP).

It is read beside any owner: state.db is opened for reading only, no lock is taken, nothing heavy is
imported, and a workspace that has never dreamt has a status as well.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from daemon.config.paths import spent_folder
from daemon.config.settings import Config, day_start
from daemon.workspace.database_facts import NO_HELP, DatabaseFacts, LastDream, read_facts
from state.budget import Spend
from state.document.merge import is_conflicted
from state.document.operations import Refusal
from state.errors import CeilingError, DreamdError
from state.scratch import PendingCount
from state.stores.database.connection import explained
from state.stores.database.copies import found_damaged
from state.stores.disk.lock import Holder, present_holder
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.erasing.intent import ADVICE, UNFINISHED
from state.stores.history.bootstraps import BootstrapReceipt, receipts
from state.stores.history.changes import OpenChanges
from state.stores.history.daily_spend import daily_spend
from state.stores.history.memory import displaced_files
from state.stores.history.notes import notes_of

Read = TypeVar("Read")
NO_DAEMON = "by hand; no daemon runs ('dreamd install-service' makes one)"
BY_FLEET = "by itself, when enough is new"
LONGEST_WAIT = timedelta(hours=24)
TORN = "git left a conflict in MEMORY.md: the version before it is used, and nothing is written into the file"
RESOLVE = "edit MEMORY.md until its markers (<<<<<<<, =======, >>>>>>>) are gone"


@dataclass(frozen=True, slots=True)
class Pending:
    """Notes that no dream has consumed, and how long the oldest waits, in seconds.

    `more`: there are more than these, which are not counted.
    """

    notes: int
    oldest_seconds: float
    more: bool = False


@dataclass(frozen=True, slots=True)
class Spending:
    """What models cost since midnight UTC, and the ceilings of a day. `breaker` says why it is open; else empty.

    `all_…` are of all workspaces of the user together, the others of this one.
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
    """Something that is wrong, and what to do about it; without advice, nothing.

    `deed` is that for a program: dream, forget, doctor, or restore with a version; empty where a person must see.
    """

    what: str
    advice: str = ""
    deed: str = ""

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

    `upcoming` is the next dream in words, `at` its moment if one is foreseen; `dreaming` says how far one is that
    runs now; else it is empty. `alone`: something is under way beside which no dream runs, such as a forgetting.
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
    """A workspace at a moment. `crystals` counts them by lifecycle, as it is kept. `service`: None without daemon.

    `withheld` counts the texts that were not learnt because they hold what was forgotten, `changes` what the owner is
    to look at; `last_bootstrap` says what an agent was last given at session start.
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
    changes: OpenChanges = field(default_factory=OpenChanges)
    last_bootstrap: BootstrapReceipt | None = None


def status(
    workspace: Workspace,
    config: Config,
    now: datetime,
    service: ServiceStatus | None = None,
) -> Status:
    """Return the status now; `service` is what the daemon adds. Raise StorageError when state.db cannot be read."""
    with storage_errors(workspace.root):
        workspace.root.stat()  # the state outlives a folder that was moved away or deleted
    facts = read_facts(workspace, now)
    wrong = list[Problem]()
    count = _tried(wrong, partial(_pending, workspace), PendingCount())
    pending = Pending(count.notes, (now - min(now, count.oldest or now)).total_seconds(), count.more)
    text = _tried(wrong, partial(_text, workspace), "")
    if is_conflicted(text):
        wrong.insert(0, Problem(TORN, RESOLVE))
    owner = present_holder(workspace)
    spent_by_all = _tried(wrong, partial(daily_spend(spent_folder(os.environ)).of, now), Spend())
    given = _tried(wrong, lambda: next(receipts(workspace), None), None)
    return Status(
        workspace=str(workspace.root),
        at=now,
        version=facts.version,
        characters=len(text),
        last_dream=facts.last_dream,
        next_dream=(service.dreaming or service.upcoming) if service is not None else NO_DAEMON,
        pending=pending,
        crystals=facts.crystals,
        waiting_embeddings=facts.waiting_embeddings,
        spending=_spending(config, facts.spent, spent_by_all, facts.last_dream, now),
        rejections=facts.rejections,
        holder=owner,
        problems=(
            *(service.problems if service else ()),
            *wrong,
            *_problems(workspace, facts, pending, owner, forgetting=_is_forgetting(owner, service)),
        ),
        service=service,
        withheld=facts.withheld,
        changes=facts.changes,
        last_bootstrap=given,
    )


def _pending(workspace: Workspace) -> PendingCount:
    """Count what is pending; more than a thousand notes are not counted. Raise StorageError."""
    try:
        with notes_of(workspace) as notes:
            return notes.count()
    except sqlite3.Error as error:
        raise explained(error, workspace.database) from error


def _text(workspace: Workspace) -> str:
    return (workspace.disk().read_optional(workspace.document) or b"").decode(errors="replace")


def _tried(wrong: list[Problem], read: Callable[[], Read], otherwise: Read) -> Read:
    """Return what is read, or `otherwise` with one more problem."""
    try:
        return read()
    except DreamdError as error:
        wrong.append(Problem.of(error))
        return otherwise


def _spending(config: Config, spent: Spend, spent_by_all: Spend, last: LastDream | None, now: datetime) -> Spending:
    limits = config.limits
    breaker = ""
    if spent.calls and spent.usd >= limits.usd_per_day:
        breaker = "limits.usd_per_day is reached; it opens again at midnight UTC"
    elif spent.calls and spent.tokens >= limits.tokens_per_day:
        breaker = "limits.tokens_per_day is reached; it opens again at midnight UTC"
    elif reached := config.daemon.limits.reached(spent_by_all):
        breaker = f"{reached}, over all workspaces, is reached; it opens again at midnight UTC"
    elif last and last.detail.startswith(f"{CeilingError.code}: ") and last.at >= day_start(now):
        breaker = last.detail.removeprefix(f"{CeilingError.code}: ")
    own = (spent.calls, spent.tokens, spent.usd, limits.tokens_per_day, limits.usd_per_day, breaker)
    return Spending(
        *own, spent_by_all.tokens, spent_by_all.usd, config.daemon.tokens_per_day, config.daemon.usd_per_day
    )


def _has_interrupted_commit(workspace: Workspace) -> bool:
    """Tell whether a commit was cut off while it wrote MEMORY.md; False when that cannot be read."""
    try:
        return bool(displaced_files(workspace))
    except DreamdError:
        return False


def _long(seconds: float) -> str:
    """Write a time of more than a day in hours or days."""
    return f"{seconds / 3600:.0f} hours" if seconds < 72 * 3600 else f"{seconds / 86_400:.0f} days"


def _is_forgetting(owner: Holder | None, service: ServiceStatus | None) -> bool:
    """Tell whether a forgetting may be running now; if the daemon does it, the lock names the daemon."""
    return (service is not None and service.alone) or (owner is not None and owner.command == "dreamd forget")


def _problems(
    workspace: Workspace, facts: DatabaseFacts, pending: Pending, owner: Holder | None, *, forgetting: bool
) -> Iterator[Problem]:
    with storage_errors(workspace.state):
        is_open = bool(workspace.state.stat().st_mode & 0o077)
    if is_open:
        yield Problem(f"{workspace.state} is open to other users", f"run 'chmod 700 {workspace.state}'")
    if wrong := found_damaged(workspace.database):
        yield Problem(f"state.db was not copied: {wrong}", "run 'dreamd doctor --repair'", "doctor")
    if facts.version and not os.path.lexists(workspace.document):
        advice = f"'dreamd restore {facts.version}' brings it back"
        yield Problem("MEMORY.md is missing", advice, f"restore {facts.version}")
    if facts.last_dream and facts.last_dream.outcome == "running" and owner is None:
        advice = "'dreamd dream' goes on with it and pays for nothing twice"
        yield Problem(f"dream {facts.last_dream.id} was interrupted", advice, "dream")
    if facts.no_help:
        what = f"no answer of {facts.no_help} could be used in the last {NO_HELP} dreams that asked it"
        yield Problem(what, "set model.name to a larger model, or leave it empty to keep notes in their own words")
    if facts.forgetting_unfinished and not forgetting:
        yield Problem(f"a {UNFINISHED}", ADVICE, "forget")
    if owner is None and _has_interrupted_commit(workspace):
        yield Problem("a commit was interrupted while it wrote MEMORY.md", "'dreamd doctor' finishes it", "doctor")
    if pending.oldest_seconds > LONGEST_WAIT.total_seconds():
        yield Problem(f"a note has waited for {_long(pending.oldest_seconds)}", "run 'dreamd dream'", "dream")
