"""Figures: the state of the whole fleet, as values and the statements that read them."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of workspaces by their state at `at`, PostgreSQL's time.

    `due`: their job is not queued yet, the oldest since `lag_seconds`. `queued`: their job waits for a process, the
    oldest since `queued_seconds`. `running`: a living process owns them. `failing`: their last job failed.
    """

    at: datetime
    workspaces: int
    bytes: int
    owned: int
    due: int
    queued: int
    running: int
    failing: int
    lag_seconds: float
    queued_seconds: float


@dataclass(frozen=True, slots=True)
class InboxFigures:
    """How much is acknowledged but in no generation yet, and in how many workspaces.

    `oldest_seconds` is the age of the oldest note. Session ends do not count: without a note, they wait for the next.
    """

    waiting: int
    workspaces: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class SpentToday:
    """What a tenant, or all of them (tenant ""), have spent since the day began (UTC)."""

    tenant: str
    dreams: int
    calls: int
    tokens: int
    usd: float


@dataclass(frozen=True, slots=True)
class Failing:
    """A workspace with failing jobs: failures in a row since `since`, the last problem, when it is tried again."""

    tenant: str
    workspace: str
    handle: str
    failures: int
    since: datetime | None
    problem: str
    due_at: datetime | None


@dataclass(frozen=True, slots=True)
class Removing:
    """What was closed but not deleted yet; the oldest since `oldest_seconds`."""

    tenants: int
    workspaces: int
    oldest_seconds: float


_SECONDS = "greatest(0, coalesce(extract(epoch FROM clock_timestamp() - {}), 0))::float8"
COUNTS = f"""
SELECT clock_timestamp() AS at, count(*) AS workspaces, coalesce(sum(w.bytes), 0)::bigint AS bytes,
    count(p.id) AS owned,
    count(*) FILTER (WHERE w.due_at <= clock_timestamp() AND w.queued_at IS NULL) AS due,
    count(*) FILTER (WHERE w.queued_at IS NOT NULL AND p.id IS NULL) AS queued,
    count(*) FILTER (WHERE w.queued_at IS NOT NULL AND p.id IS NOT NULL) AS running,
    count(*) FILTER (WHERE w.failures > 0) AS failing,
    {_SECONDS.format("min(w.due_at) FILTER (WHERE w.due_at <= clock_timestamp() AND w.queued_at IS NULL)")}
        AS lag_seconds,
    {_SECONDS.format("min(w.queued_at) FILTER (WHERE p.id IS NULL)")} AS queued_seconds
FROM workspaces w LEFT JOIN living p ON p.id = w.owner WHERE w.removed_at IS NULL
"""
INBOX = f"""
SELECT count(*) AS waiting, count(DISTINCT i.workspace) AS workspaces,
    {_SECONDS.format("min(i.at) FILTER (WHERE i.kind = 'note')")} AS oldest_seconds
FROM inbox i JOIN workspaces w ON w.id = i.workspace AND w.removed_at IS NULL WHERE i.taken_at IS NULL
"""
# The total of all tenants comes first, then the tenants, those with the highest cost first.
SPENT = """
SELECT CASE WHEN grouping(s.tenant) = 1 THEN '' ELSE min(t.name) END AS tenant,
    coalesce(sum(s.dreams), 0)::bigint AS dreams, coalesce(sum(s.calls), 0)::bigint AS calls,
    coalesce(sum(s.tokens), 0)::bigint AS tokens, coalesce(sum(s.usd), 0)::float8 AS usd
FROM spending s JOIN tenants t ON t.id = s.tenant WHERE s.day = (clock_timestamp() AT TIME ZONE 'UTC')::date
GROUP BY GROUPING SETS ((), (s.tenant))
ORDER BY grouping(s.tenant) DESC, usd DESC, tokens DESC, tenant LIMIT %(most)s
"""
REMOVING = f"""
SELECT (SELECT count(*) FROM tenants WHERE removed_at IS NOT NULL) AS tenants,
    count(*) FILTER (WHERE t.removed_at IS NULL) AS workspaces,
    {_SECONDS.format("least(min(w.removed_at), (SELECT min(removed_at) FROM tenants))")} AS oldest_seconds
FROM workspaces w JOIN tenants t ON t.id = w.tenant WHERE w.removed_at IS NOT NULL
"""
# Those with the most failures come first.
FAILING = """
SELECT t.name AS tenant, w.name AS workspace, 'ws-' || w.id AS handle, w.failures, w.failed_at AS since,
    w.problem, w.due_at
FROM workspaces w JOIN tenants t ON t.id = w.tenant
WHERE w.failures > 0 AND w.removed_at IS NULL ORDER BY w.failures DESC, w.id LIMIT %(most)s
"""
