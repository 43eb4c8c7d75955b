"""How a workspace is: one value for every window (command line, HTTP, MCP).

Read beside whatever owner is at work: state.db is opened for reading only, no lock is taken, nothing heavy is
imported, and a workspace that has never dreamt has a status as well.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from socket import gethostname
from urllib.parse import quote

from daemon.config.paths import spent_folder
from daemon.config.settings import Config, day_start
from state.budget import Spend
from state.document.operations import Refusal
from state.errors import CeilingError, DreamdError, StorageError
from state.scratch import Note
from state.stores.database.connection import BUSY_TIMEOUT_MS, SCHEMA_VERSION, explained, require_ours, require_plain
from state.stores.database.tombstones import TombstoneStore
from state.stores.disk.disk import Disk
from state.stores.disk.lock import Holder, holder
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.erasing.intent import ADVICE, UNFINISHED, is_unfinished
from state.stores.history.daily_spend import daily_spend
from state.stores.history.ledger import Ledger, Run
from state.stores.history.lineage import Lineage
from state.stores.history.segments import Segments

NO_DAEMON = "by hand; no daemon runs ('dreamd install-service' makes one)"
LONGEST_WAIT = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class LastDream:
    """The last run that was more than a skip. `version` is None when it committed none; dollars 0: not known."""

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
    """Notes that no dream has consumed, and how long the oldest waits, in seconds."""

    notes: int
    oldest_seconds: float


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
    """Something that is not as it should be, and what to do about it; without advice nothing is to be done."""

    what: str
    advice: str = ""

    def __str__(self) -> str:
        """Both, in one line."""
        return f"{self.what}; {self.advice}" if self.advice else self.what

    @classmethod
    def of(cls, error: BaseException) -> "Problem":
        """What an error says."""
        from daemon.observability.failures import failure

        if not isinstance(error, Exception):
            return cls(f"{type(error).__name__} ended it")
        said = failure(error)
        return cls(said.what, said.advice)


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

    `withheld` counts the texts that were not learnt because they hold what was forgotten.
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
    proposals: tuple[str, ...]
    spending: Spending
    rejections: tuple[Refusal, ...]
    holder: Holder | None
    problems: tuple[Problem, ...]
    service: ServiceStatus | None = None
    withheld: int = 0


def status(workspace: Workspace, config: Config, now: datetime, service: ServiceStatus | None = None) -> Status:
    """The status now; `service` is what the daemon adds. Raises StorageError when state.db cannot be read."""
    known = _read(workspace, now)
    pending, characters, illegible = _files(workspace, now)
    owner = present_holder(workspace)
    together, uncounted = _together(now)
    return Status(
        workspace=str(workspace.root),
        at=now,
        version=known.version,
        characters=characters,
        last_dream=known.last_dream,
        next_dream=_next(known, service),
        pending=pending,
        crystals=known.crystals,
        waiting_embeddings=known.waiting_embeddings,
        proposals=known.proposals,
        spending=_spending(config, known.spent, together, known.last_dream, now),
        rejections=known.rejections,
        holder=owner,
        problems=(
            *(service.problems if service else ()),
            *illegible,
            *uncounted,
            *_problems(workspace, known, pending, owner, forgetting=_is_forgetting(owner, service)),
        ),
        service=service,
        withheld=known.withheld,
    )


def _next(known: "_Known", service: ServiceStatus | None) -> str:
    if service is not None:
        return service.dreaming or service.upcoming
    return "when its proposal is decided ('dreamd review')" if known.proposals else NO_DAEMON


def present_holder(workspace: Workspace) -> Holder | None:
    """Who holds the workspace; what a killed process left in the lock file is nobody."""
    who = holder(workspace)
    if who is None or who.host != gethostname():
        return who
    with suppress(OSError, IndexError):
        # The start time tells a process from a later one with its number (proc(5), field 22 of stat).
        fields = (
            Path(f"/proc/{who.pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
        return who if fields[19] == str(who.ticks) else None
    return None


@dataclass(frozen=True, slots=True)
class _Known:
    """What state.db says."""

    version: int = 0
    last_dream: LastDream | None = None
    crystals: dict[str, int] = field(default_factory=dict)
    waiting_embeddings: int = 0
    proposals: tuple[str, ...] = ()
    spent: Spend = field(default_factory=Spend)
    rejections: tuple[Refusal, ...] = ()
    withheld: int = 0
    half_forgotten: bool = False


def _read(workspace: Workspace, now: datetime) -> _Known:
    path = workspace.database
    if not path.exists():
        return _Known()
    try:
        with closing(_connected(workspace)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if schema > SCHEMA_VERSION:
                raise StorageError(f"{path}: written by a newer dreamd (schema {schema})", "upgrade this one")
            connection.execute("BEGIN")  # one moment for all that follows
            return _known(connection, now) if schema else _Known()
    except sqlite3.Error as error:
        raise explained(error, path) from error


def _connected(workspace: Workspace) -> sqlite3.Connection:
    if workspace.foreign:
        from state.stores.backup.database import open_untrusted  # a status of one's own needs none of it

        return open_untrusted(workspace.database)
    require_plain(workspace.database)
    uri = f"file:{quote(str(workspace.database))}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    connection.row_factory = sqlite3.Row
    require_ours(connection, workspace.database)
    return connection


def _known(connection: sqlite3.Connection, now: datetime) -> _Known:
    ledger, lineage = Ledger(connection), Lineage(connection)
    run = ledger.last_dream()
    waiting = connection.execute("SELECT count(*) FROM to_embed").fetchone()[0]
    return _Known(
        version=lineage.last_version(),
        last_dream=_last_dream(run, ledger, lineage) if run else None,
        crystals=_lifecycles(connection),
        waiting_embeddings=waiting,
        proposals=tuple(proposal.dream for proposal in ledger.proposals()),
        spent=ledger.spent(since=day_start(now)),
        rejections=tuple(ledger.rejections(run.id)) if run else (),
        withheld=TombstoneStore(connection).withheld(),
        half_forgotten=is_unfinished(connection),
    )


def lifecycles(workspace: Workspace) -> dict[str, int]:
    """How many crystals are in each lifecycle. Raises sqlite3.Error and StorageError."""
    with closing(_connected(workspace)) as connection:
        return _lifecycles(connection)


def _lifecycles(connection: sqlite3.Connection) -> dict[str, int]:
    stages = connection.execute("SELECT lifecycle, count(*) FROM crystals GROUP BY lifecycle ORDER BY lifecycle")
    return {row[0]: row[1] for row in stages}


def _last_dream(run: Run, ledger: Ledger, lineage: Lineage) -> LastDream:
    spend = ledger.spent(dream=run.id)
    committed = next((one for one in lineage.versions(1) if one.number == run.version), None)
    return LastDream(
        id=run.id,
        at=run.ended_at or run.started_at,
        reason=run.reason,
        outcome=run.outcome,
        detail=run.detail,
        version=run.version,
        model=committed.model if committed else "",
        tokens=spend.tokens,
        usd=spend.usd,
    )


def _together(now: datetime) -> tuple[Spend, tuple[Problem, ...]]:
    """What all workspaces have spent today, and a problem when that cannot be read."""
    try:
        return daily_spend(spent_folder(os.environ)).of(now), ()
    except DreamdError as error:
        return Spend(), (Problem.of(error),)


def _spending(config: Config, spent: Spend, together: Spend, last: LastDream | None, now: datetime) -> Spending:
    limits = config.limits
    breaker = ""
    if spent.calls and spent.usd >= limits.usd_per_day:
        breaker = "limits.usd_per_day is reached; it opens again at midnight UTC"
    elif spent.calls and spent.tokens >= limits.tokens_per_day:
        breaker = "limits.tokens_per_day is reached; it opens again at midnight UTC"
    elif reached := config.daemon.limits.reached(together):
        breaker = f"{reached}, over all workspaces, is reached; it opens again at midnight UTC"
    elif last and last.detail.startswith(f"{CeilingError.code}: ") and last.at >= day_start(now):
        breaker = last.detail.removeprefix(f"{CeilingError.code}: ")
    own = (spent.calls, spent.tokens, spent.usd, limits.tokens_per_day, limits.usd_per_day, breaker)
    return Spending(*own, together.tokens, together.usd, config.daemon.tokens_per_day, config.daemon.usd_per_day)


def _pending(notes: Iterable[Note], now: datetime) -> Pending:
    count, oldest = 0, now
    for note in notes:  # of a log of a million, none is kept
        count, oldest = count + 1, min(oldest, note.at)
    return Pending(count, (now - oldest).total_seconds())


def _files(workspace: Workspace, now: datetime) -> tuple[Pending, int, tuple[Problem, ...]]:
    """The pending notes, the length of MEMORY.md, and a problem for each of the two that cannot be read."""
    pending = Pending(0, 0.0)
    characters, problems = 0, list[Problem]()
    try:
        pending = _pending(Segments(workspace).each_pending(), now)
    except DreamdError as error:
        problems.append(Problem.of(error))
    try:
        content = Disk(workspace.root).read_if_there(workspace.document) or b""
        characters = len(content.decode(errors="replace"))
    except DreamdError as error:
        problems.append(Problem.of(error))
    return pending, characters, tuple(problems)


def _is_unsettled(workspace: Workspace) -> bool:
    """Whether a commit was cut off while it wrote; of a MEMORY.md that cannot be reached nothing is known."""
    try:
        return Disk(workspace.root).displaced(workspace.document) is not None
    except DreamdError:
        return False


def _is_forgetting(owner: Holder | None, service: ServiceStatus | None) -> bool:
    """Whether a forgetting may be under way now: one that a daemon does has the daemon's name on the lock."""
    return (service is not None and service.alone) or (owner is not None and owner.command == "dreamd forget")


def _problems(
    workspace: Workspace, known: _Known, pending: Pending, owner: Holder | None, *, forgetting: bool
) -> Iterator[Problem]:
    if workspace.foreign:
        yield Problem(
            "you neither made nor adopted this memory, so it is only read",
            f"'dreamd init --trust {workspace.root}' shows what it brings and makes it yours",
        )
    with storage_errors(workspace.state):
        is_open = bool(workspace.state.stat().st_mode & 0o077)
    if is_open:
        yield Problem(f"{workspace.state} is open to other users", f"run 'chmod 700 {workspace.state}'")
    if known.version and not os.path.lexists(workspace.document):
        yield Problem("MEMORY.md is missing", f"'dreamd restore {known.version}' brings it back")
    if known.last_dream and known.last_dream.outcome == "running" and owner is None:
        advice = "'dreamd dream' goes on with it and pays for nothing twice"
        yield Problem(f"dream {known.last_dream.id} was interrupted", advice)
    if known.half_forgotten and not forgetting:
        yield Problem(f"a {UNFINISHED}", ADVICE)
    if owner is None and _is_unsettled(workspace):
        yield Problem("a commit was interrupted while it wrote MEMORY.md", "'dreamd doctor' finishes it")
    if pending.oldest_seconds > LONGEST_WAIT.total_seconds():
        yield Problem(f"a note has waited for {pending.oldest_seconds / 3600:.0f} hours", "run 'dreamd dream'")
