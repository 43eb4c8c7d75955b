"""Status: the current state of a workspace, one value for every window (command line, HTTP, MCP).

It is read without a lock, from a read-only state.db and without heavy imports, so it is available while another
process owns the workspace, and also before the first dream.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from daemon.config.paths import spent_folder
from daemon.config.settings import Config, day_start
from state.budget import Spend
from state.document.merge import is_conflicted
from state.document.operations import Refusal
from state.errors import CeilingError, DreamdError, StorageError
from state.pending import PendingCount
from state.stores.database.connection import explained, open_unmigrated
from state.stores.database.copies import found_damaged
from state.stores.database.schema import unreadable
from state.stores.database.tombstones import TombstoneStore
from state.stores.disk.lock import Holder, present_holder
from state.stores.disk.places import project_of
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.erasing.intent import ADVICE, UNFINISHED, is_unfinished
from state.stores.history.bootstraps import BootstrapReceipt, receipts
from state.stores.history.daily_spend import DailySpend
from state.stores.history.ledger import Ledger
from state.stores.history.lineage import Lineage
from state.stores.history.memory import displaced_files
from state.stores.history.notes import notes_of
from state.stores.history.proposals import Proposals
from state.stores.history.unread import UnreadTranscripts
from state.text.words import counted

Read = TypeVar("Read")
NO_DAEMON = "by hand; no daemon runs ('dreamd install-service' makes one)"
BY_FLEET = "by itself, when enough is new"
LONGEST_WAIT = timedelta(hours=24)
TORN = "git left a conflict in MEMORY.md: the version before it is used, and nothing is written into the file"
RESOLVE = "edit MEMORY.md until its markers (<<<<<<<, =======, >>>>>>>) are gone"
_UNEMBEDDED = "SELECT count(*) FROM crystals WHERE vector IS NULL"
_NO_HELP = 3
MOST_UNREAD = 20
# The latest dreams in which a model answered: its name, and whether it is the author of the result.
_ANSWERED = """SELECT asked.model, author.model IS asked.model AS helped
    FROM dreams JOIN (SELECT dream, max(model) AS model FROM calls GROUP BY dream) asked ON asked.dream = dreams.id
    LEFT JOIN versions author ON author.number = dreams.version
    WHERE outcome IN ('committed', 'rejected')
    ORDER BY started_at DESC LIMIT ?"""


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
    `project` is the folder in which people work.
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


@dataclass(frozen=True, slots=True)
class _Facts:
    """The content of state.db at one moment; the defaults are those of a workspace without one.

    `no_help` names a model that answered in the last dreams but is the author of none of them.
    """

    version: int = 0
    last_dream: LastDream | None = None
    crystals: dict[str, int] = field(default_factory=dict)
    waiting_embeddings: int = 0
    proposals: int = 0
    spent: Spend = field(default_factory=Spend)
    rejections: tuple[Refusal, ...] = ()
    withheld: int = 0
    forgetting_unfinished: bool = False
    no_help: str = ""
    unread: tuple[str, ...] = ()


def status(workspace: Workspace, config: Config, now: datetime, service: ServiceStatus | None = None) -> Status:
    """Return the current status; `service` is the daemon's part. Raise StorageError if state.db cannot be read."""
    with storage_errors(workspace.root):
        workspace.root.stat()  # state remains after its folder was moved or deleted
    facts, wrong = _read_facts(workspace, now), list[Problem]()

    def tried(read: Callable[[], Read], otherwise: Read) -> Read:
        try:
            return read()
        except DreamdError as error:
            wrong.append(Problem.of(error))
            return otherwise

    count = tried(lambda: _pending(workspace), PendingCount())
    pending = Pending(count.notes, (now - min(now, count.oldest or now)).total_seconds(), count.more)
    content = tried(lambda: workspace.disk().read_optional(workspace.document), None) or b""
    text = content.decode(errors="replace")
    if is_conflicted(text):
        wrong.insert(0, Problem(TORN, RESOLVE))
    owner = present_holder(workspace)
    spent_by_all = tried(lambda: DailySpend(spent_folder(os.environ)).of(now), Spend())
    given = tried(lambda: next((one.in_short for one in receipts(workspace)), None), None)
    if service is not None:
        next_dream, said = service.dreaming or service.upcoming, service.problems
    else:
        next_dream, said = NO_DAEMON, ()
    # During a forgetting by the daemon, the lock names the daemon.
    forgets = (service is not None and service.alone) or (owner is not None and owner.command == "dreamd forget")
    problems = _problems(workspace, facts, pending, owner, forgets=forgets)
    return Status(
        workspace=str(workspace.root),
        at=now,
        version=facts.version,
        characters=len(text),
        last_dream=facts.last_dream,
        next_dream=next_dream,
        pending=pending,
        crystals=facts.crystals,
        waiting_embeddings=facts.waiting_embeddings,
        spending=_spending(config, facts.spent, spent_by_all, facts.last_dream, now),
        rejections=facts.rejections,
        holder=owner,
        problems=(*said, *wrong, *problems, *unread_problems(facts.unread)),
        service=service,
        withheld=facts.withheld,
        proposals=facts.proposals,
        last_bootstrap=given,
        project=str(project_of(workspace)),
    )


def lifecycles(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the crystals by lifecycle."""
    return dict(connection.execute("SELECT lifecycle, count(*) FROM crystals GROUP BY 1 ORDER BY 1").fetchall())


def _read_facts(workspace: Workspace, now: datetime) -> _Facts:
    """Read the facts in one transaction. Raise StorageError if state.db is unreadable, or not of this dreamd."""
    path = workspace.database
    if not path.exists():
        return _Facts()
    try:
        with open_unmigrated(path) as connection:
            schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if why := unreadable(schema):
                raise StorageError(f"{path}: {why[0]}", why[1])
            connection.execute("BEGIN")  # one snapshot for all queries
            return _facts(connection, workspace, now) if schema else _Facts()
    except sqlite3.Error as error:
        raise explained(error, path) from error


def _facts(connection: sqlite3.Connection, workspace: Workspace, now: datetime) -> _Facts:
    ledger, lineage = Ledger(connection), Lineage(connection)
    last = None
    if run := ledger.last_dream():
        spend = ledger.spent(dream=run.id)
        models = [one.model for one in lineage.versions(1) if one.number == run.version]
        last = LastDream(
            id=run.id,
            at=run.ended_at or run.started_at,
            reason=run.reason,
            outcome=run.outcome,
            detail=run.detail,
            version=run.version,
            model=models[0] if models else "",
            tokens=spend.tokens,
            usd=spend.usd,
        )
    return _Facts(
        version=lineage.standing()[0],
        last_dream=last,
        crystals=lifecycles(connection),
        waiting_embeddings=connection.execute(_UNEMBEDDED).fetchone()[0],
        proposals=Proposals(connection).count(),
        spent=ledger.spent(since=day_start(now)),
        rejections=tuple(ledger.rejections(run.id)) if run else (),
        withheld=TombstoneStore(connection).withheld(),
        forgetting_unfinished=is_unfinished(connection),
        no_help=_no_help(connection),
        unread=tuple(UnreadTranscripts(connection, workspace.root).named(now)),
    )


def _no_help(connection: sqlite3.Connection) -> str:
    last = connection.execute(_ANSWERED, (_NO_HELP,)).fetchall()
    models = {row["model"] for row in last}
    is_no_help = len(last) == _NO_HELP and len(models) == 1 and not any(row["helped"] for row in last)
    return str(models.pop()) if is_no_help else ""


def _pending(workspace: Workspace) -> PendingCount:
    """Count the pending notes, up to a thousand. Raise StorageError."""
    try:
        with notes_of(workspace) as notes:
            return notes.count()
    except sqlite3.Error as error:
        raise explained(error, workspace.database) from error


def _spending(config: Config, spent: Spend, spent_by_all: Spend, last: LastDream | None, now: datetime) -> Spending:
    limits, breaker = config.limits, ""
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


def unread_problems(unread: Sequence[str]) -> Iterator[Problem]:
    """Yield the transcripts that could not be read: the latest, and the number of others."""
    for one in unread[:MOST_UNREAD]:
        yield Problem(" ".join(one.split()))
    if more := len(unread[MOST_UNREAD:]):
        yield Problem(f"{counted(more, 'more transcript')} could not be read", "'dreamd dream' names them")


def _problems(
    workspace: Workspace, facts: _Facts, pending: Pending, owner: Holder | None, *, forgets: bool
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
        what = f"no answer of {facts.no_help} could be used in the last {_NO_HELP} dreams that asked it"
        yield Problem(what, "set model.name to a larger model, or leave it empty to keep notes in their own words")
    if facts.forgetting_unfinished and not forgets:
        yield Problem(f"a {UNFINISHED}", ADVICE, "forget")
    is_cut_off = False
    with suppress(DreamdError):
        is_cut_off = owner is None and bool(displaced_files(workspace))
    if is_cut_off:
        yield Problem("a commit was interrupted while it wrote MEMORY.md", "'dreamd doctor' finishes it", "doctor")
    if pending.oldest_seconds > LONGEST_WAIT.total_seconds():
        hours = pending.oldest_seconds / 3600
        waited = f"{hours:.0f} hours" if hours < 72 else f"{hours / 24:.0f} days"
        yield Problem(f"a note has waited for {waited}", "run 'dreamd dream'", "dream")
