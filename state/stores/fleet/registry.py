"""Registry of the fleet in PostgreSQL: tenants, their tokens, and their workspaces.

What is to be removed is closed first, so that nothing of it is given out. Its row goes last, so that an interrupted
removal is found again.
"""

import hashlib
import hmac
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from secrets import token_hex
from typing import Any

from state.errors import ConflictError, NotFoundError, QuotaError, UsageError
from state.fleet import TOKEN, Place, Quotas, Right, Tenant, Token, require_name
from state.stores.fleet.database import FleetDatabase, Statements, storable

_ID_BYTES, _SECRET_BYTES = 6, 24
_SPENDING_KEPT_DAYS = 400
_SWEPT_AT_ONCE = 10_000


# ------------------------------------------------------------------- tenants


@dataclass(frozen=True, slots=True)
class TenantFacts:
    """A tenant with its number of workspaces and what it has used today."""

    tenant: Tenant
    created_at: datetime
    removed: bool
    workspaces: int
    bytes: int
    dreams: int
    tokens: int
    usd: float


_TENANTS = """
SELECT t.id, t.name, t.quotas, t.created_at, t.removed_at IS NOT NULL AS removed,
    count(w.id) AS workspaces, coalesce(sum(w.bytes), 0)::bigint AS bytes,
    coalesce(max(s.dreams), 0)::bigint AS dreams, coalesce(max(s.tokens), 0)::bigint AS tokens,
    coalesce(max(s.usd), 0)::float8 AS usd
FROM tenants t LEFT JOIN workspaces w ON w.tenant = t.id AND w.removed_at IS NULL LEFT JOIN (
    SELECT tenant, sum(dreams) AS dreams, sum(tokens) AS tokens, sum(usd) AS usd FROM spending
    WHERE day = (statement_timestamp() AT TIME ZONE 'UTC')::date GROUP BY tenant) s ON s.tenant = t.id
GROUP BY t.id ORDER BY t.name
"""


def quotas_of(stored: Mapping[str, Any]) -> Quotas:
    """Decode stored quotas, ignoring any that a newer dreamd has added."""
    known = {field.name for field in fields(Quotas)}
    return Quotas(**{name: value for name, value in stored.items() if name in known})


class Tenants(Statements):
    """The tenants of the fleet. Methods raise UnreachableError while PostgreSQL is unreachable."""

    def add(self, name: str, quotas: Quotas = Quotas()) -> Tenant:  # noqa: B008 - a frozen value
        """Create a tenant. Raise UsageError for an invalid name, ConflictError for one that is taken."""
        row = self._database.row(
            "INSERT INTO tenants (name, quotas) VALUES (%(name)s, %(quotas)s) ON CONFLICT DO NOTHING RETURNING id",
            {"name": require_name("tenant", name), "quotas": json.dumps(asdict(quotas))},
        )
        if row is None:
            raise ConflictError(f"there is a tenant {name} already", "choose another name")
        return Tenant(row["id"], name, quotas)

    def find(self, name: str) -> Tenant:
        """Return the tenant with this name. Raise NotFoundError."""
        row = self._database.row(
            "SELECT id, quotas FROM tenants WHERE name = %(name)s AND removed_at IS NULL", {"name": storable(name)}
        )
        if row is None:
            raise NotFoundError(f"there is no tenant {name[:60]!r}", "'dreamd fleet tenant list' names them")
        return Tenant(row["id"], name, quotas_of(row["quotas"]))

    def set_quotas(self, tenant: Tenant, quotas: Quotas) -> None:
        """Set the tenant's quotas."""
        self._database.rows(
            "UPDATE tenants SET quotas = %(quotas)s WHERE id = %(id)s",
            {"id": tenant.id, "quotas": json.dumps(asdict(quotas))},
        )

    def all(self) -> list[TenantFacts]:
        """Return every tenant by name, including those whose removal is unfinished."""
        return [
            TenantFacts(Tenant(row.pop("id"), row.pop("name"), quotas_of(row.pop("quotas"))), **row)
            for row in self._database.rows(_TENANTS)
        ]


# ------------------------------------------------------------------- tokens


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """A token without its secret."""

    id: str
    name: str
    rights: Sequence[str]
    workspaces: Sequence[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class Tokens(Statements):
    """The tokens of tenants. Methods raise UnreachableError while PostgreSQL is unreachable."""

    def add(
        self,
        tenant: Tenant,
        name: str,
        rights: Collection[Right],
        workspaces: Sequence[str] = (),
        expires_at: datetime | None = None,
    ) -> str:
        """Create a token; return the text that its bearer shows, only this once. Raise UsageError, ConflictError."""
        require_name("token", name)
        if not rights:
            raise UsageError("a token without rights is good for nothing", f"name some of {', '.join(Right)}")
        identity, secret = token_hex(_ID_BYTES), token_hex(_SECRET_BYTES)
        row = self._database.row(
            "INSERT INTO tokens (id, secret, tenant, name, rights, workspaces, expires_at)"
            " VALUES (%(id)s, %(secret)s, %(tenant)s, %(name)s, %(rights)s, %(workspaces)s, %(expires)s)"
            " ON CONFLICT (tenant, name) DO NOTHING RETURNING id",
            {
                "id": identity,
                "secret": _digest(secret),
                "tenant": tenant.id,
                "name": name,
                "rights": sorted(right.value for right in rights),
                "workspaces": [require_name("workspace", one) for one in workspaces],
                "expires": expires_at,
            },
        )
        if row is None:
            raise ConflictError(f"tenant {tenant.name} has a token {name} already", "choose another name")
        return f"dreamd_{identity}_{secret}"

    def authenticate(self, shown: str) -> Token | None:
        """Return what this token allows now; None if it is invalid, expired or revoked."""
        match = TOKEN.fullmatch(shown)
        if match is None:
            return None
        row = self._database.row(
            "SELECT k.*, t.name AS tenant_name, t.quotas FROM tokens k JOIN tenants t ON t.id = k.tenant"
            " WHERE k.id = %(id)s AND k.revoked_at IS NULL AND t.removed_at IS NULL"
            " AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())",
            {"id": match.group(1)},
        )
        if row is None or not hmac.compare_digest(bytes(row["secret"]), _digest(match.group(2))):
            return None
        tenant = Tenant(row["tenant"], row["tenant_name"], quotas_of(row["quotas"]))
        rights = frozenset(Right(right) for right in row["rights"])
        return Token(row["id"], tenant, row["name"], rights, tuple(row["workspaces"]), row["expires_at"])

    def all(self, tenant: Tenant) -> list[TokenFacts]:
        """Return the tokens of a tenant by name, including revoked ones."""
        return self._database.all(
            TokenFacts,
            "SELECT id, name, rights, workspaces, created_at, expires_at, revoked_at FROM tokens"
            " WHERE tenant = %(tenant)s ORDER BY name",
            {"tenant": tenant.id},
        )

    def revoke(self, tenant: Tenant, name: str) -> None:
        """Revoke the token; a process that has it cached refuses it within ten seconds. Raise NotFoundError."""
        row = self._database.row(
            "UPDATE tokens SET revoked_at = coalesce(revoked_at, clock_timestamp())"
            " WHERE tenant = %(tenant)s AND name = %(name)s RETURNING id",
            {"tenant": tenant.id, "name": storable(name)},
        )
        if row is None:
            raise NotFoundError(
                f"tenant {tenant.name} has no token {name[:60]!r}", f"see 'dreamd fleet token list {tenant.name}'"
            )


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


# ------------------------------------------------------------------- workspaces


@dataclass(frozen=True, slots=True)
class PlaceFacts:
    """A workspace as its tenant and the status see it."""

    place: Place
    generation: int
    bytes: int
    committed_at: datetime | None
    due_at: datetime | None
    queued: bool
    owned: bool
    failures: int
    problem: str
    waiting: int


@dataclass(frozen=True, slots=True)
class TenantUse:
    """What a tenant has, and what it has used today and in this minute."""

    workspaces: int
    bytes: int
    dreams: int
    tokens: int
    usd: float
    notes_this_minute: int


_FACTS = """
SELECT w.id, w.tenant, t.name AS tenant_name, w.name, w.timezone, w.generation, w.bytes, w.committed_at,
    w.due_at, w.queued_at IS NOT NULL AS queued, w.failures, w.problem,
    EXISTS (SELECT 1 FROM living p WHERE p.id = w.owner) AS owned,
    (SELECT count(*) FROM inbox i WHERE i.workspace = w.id AND i.taken_at IS NULL) AS waiting
FROM workspaces w JOIN tenants t ON t.id = w.tenant
WHERE w.tenant = %(tenant)s AND w.removed_at IS NULL
"""

# The tenant's workspaces with these names, or all of them if no name is given.
_NAMED = "(%(names)s::text[] = '{}' OR w.name = ANY(%(names)s::text[]))"

_USE = f"""
SELECT count(*) AS workspaces, coalesce(sum(w.bytes), 0)::bigint AS bytes, s.*,
    coalesce((SELECT notes FROM arrivals a WHERE a.tenant = %(tenant)s
              AND a.minute = date_trunc('minute', clock_timestamp())), 0) AS notes_this_minute
FROM (SELECT coalesce(sum(dreams), 0)::bigint AS dreams, coalesce(sum(tokens), 0)::bigint AS tokens,
          coalesce(sum(usd), 0)::float8 AS usd
      FROM spending WHERE tenant = %(tenant)s AND day = (clock_timestamp() AT TIME ZONE 'UTC')::date) s
    LEFT JOIN workspaces w ON w.tenant = %(tenant)s AND w.removed_at IS NULL AND {_NAMED}
GROUP BY s.dreams, s.tokens, s.usd
"""


class Places(Statements):
    """The workspaces of the fleet. Methods raise UnreachableError while PostgreSQL is unreachable."""

    def add(self, tenant: Tenant, name: str) -> Place:
        """Create an empty workspace. Raise UsageError, ConflictError if the name is taken, QuotaError."""
        values = {"tenant": tenant.id, "name": require_name("workspace", name)}
        with self._database.transaction() as cursor:
            # The lock makes concurrent calls see each other's new workspaces.
            cursor.execute(
                "SELECT quotas FROM tenants WHERE id = %(tenant)s AND removed_at IS NULL FOR NO KEY UPDATE", values
            )
            if (found := cursor.fetchone()) is None:
                raise NotFoundError(f"there is no tenant {tenant.name}", "it was removed")
            cursor.execute(
                "SELECT count(*) AS count FROM workspaces WHERE tenant = %(tenant)s AND removed_at IS NULL", values
            )
            count, most = (cursor.fetchone() or {})["count"], quotas_of(found["quotas"]).workspaces
            if most and count >= most:
                raise QuotaError(
                    f"tenant {tenant.name} has {count:,} of {most:,} workspaces", "remove one, or ask for more"
                )
            cursor.execute(
                "INSERT INTO workspaces (tenant, name) VALUES (%(tenant)s, %(name)s)"
                " ON CONFLICT DO NOTHING RETURNING id",
                values,
            )
            made = cursor.fetchone()
        if made is None:
            raise ConflictError(f"there is a workspace {name} already", "choose another name")
        return Place(made["id"], tenant.id, tenant.name, name)

    def set_timezone(self, place: Place, timezone: str) -> None:
        """Set the workspace's time zone."""
        values = {"id": place.id, "timezone": timezone}
        self._database.rows("UPDATE workspaces SET timezone = %(timezone)s WHERE id = %(id)s", values)

    def find(self, tenant: int, name: str) -> PlaceFacts:
        """Return the tenant's workspace with this name. Raise NotFoundError."""
        row = self._database.row(
            f"{_FACTS} AND w.name = %(name)s AND t.removed_at IS NULL", {"tenant": tenant, "name": storable(name)}
        )
        if row is None:
            raise NotFoundError(f"there is no workspace {name[:60]!r}", "GET /v1/workspaces lists yours")
        return _facts(row)

    def all(self, tenant: int, after: str = "", most: int = 1_000, names: Sequence[str] = ()) -> list[PlaceFacts]:
        """Return at most `most` workspaces of a tenant, by name, after `after`; with `names` only these."""
        values = {"tenant": tenant, "after": storable(after), "most": most, "names": list(names)}
        statement = f"{_FACTS} AND w.name > %(after)s AND {_NAMED} ORDER BY w.name LIMIT %(most)s"
        return [_facts(row) for row in self._database.rows(statement, values)]

    def use(self, tenant: int, names: Sequence[str] = ()) -> TenantUse:
        """Return what the tenant has and uses; with `names`, count only these workspaces."""
        [use] = self._database.all(TenantUse, _USE, {"tenant": tenant, "names": list(names)})
        return use

    def sweep(self) -> None:
        """Delete spending of more than a year ago, and processes dead for an hour."""
        self._database.rows(
            "WITH dead AS (DELETE FROM processes WHERE seen_at < clock_timestamp() - interval '1 hour')"
            " DELETE FROM spending WHERE (day, tenant, workspace) IN (SELECT day, tenant, workspace"
            " FROM spending WHERE day < current_date - %(days)s::int LIMIT %(most)s)",
            {"days": _SPENDING_KEPT_DAYS, "most": _SWEPT_AT_ONCE},
        )


def _facts(row: dict[str, Any]) -> PlaceFacts:
    place = Place(*(row.pop(key) for key in ("id", "tenant", "tenant_name", "name", "timezone")))
    return PlaceFacts(place, **row)


# ------------------------------------------------------------------- removals

# The workspace number 0 stands for a whole tenant.
_CLOSE = (
    """
    UPDATE tenants SET removed_at = coalesce(removed_at, clock_timestamp())
    WHERE id = %(tenant)s AND %(workspace)s = 0
    """,
    """
    UPDATE tokens SET revoked_at = coalesce(revoked_at, clock_timestamp())
    WHERE tenant = %(tenant)s AND %(workspace)s = 0
    """,
    """
    WITH kept AS MATERIALIZED (
        SELECT id FROM workspaces WHERE tenant = %(tenant)s AND %(workspace)s IN (0, id) AND removed_at IS NULL
        ORDER BY id FOR NO KEY UPDATE)
    UPDATE workspaces w SET removed_at = clock_timestamp(), owner = NULL, due_at = NULL, queued_at = NULL
    FROM kept WHERE w.id = kept.id
    """,
    """
    INSERT INTO erased (tenant, workspace) SELECT %(tenant)s, %(workspace)s WHERE NOT EXISTS (
        SELECT 1 FROM erased WHERE tenant = %(tenant)s AND workspace = %(workspace)s AND kept = 0)
    """,
    """
    SELECT removed_at FROM tenants WHERE id = %(tenant)s AND %(workspace)s = 0
    UNION ALL SELECT removed_at FROM workspaces WHERE id = %(workspace)s
    """,
)

_DROP = (
    """
    WITH gone AS (
        DELETE FROM workspaces w USING tenants t WHERE w.tenant = %(tenant)s AND %(workspace)s IN (0, w.id)
        AND t.id = w.tenant AND w.removed_at IS NOT NULL AND (%(workspace)s > 0 OR t.removed_at IS NOT NULL)
        RETURNING w.id)
    DELETE FROM procrastinate_jobs WHERE queueing_lock IN (SELECT 'ws-' || gone.id FROM gone)
    """,
    "DELETE FROM tenants WHERE id = %(tenant)s AND %(workspace)s = 0 AND removed_at IS NOT NULL",
)

_CLOSED = """
SELECT w.id, w.tenant, t.name AS tenant_name, w.name FROM workspaces w JOIN tenants t ON t.id = w.tenant
WHERE w.removed_at IS NOT NULL AND t.removed_at IS NULL ORDER BY w.id
"""

_ROWS = """
WITH w AS (SELECT id FROM workspaces WHERE tenant = %(tenant)s AND %(workspace)s = 0
           UNION ALL SELECT %(workspace)s::bigint)
SELECT (SELECT count(*) FROM tenants WHERE id = %(tenant)s AND %(workspace)s = 0) AS tenants,
    (SELECT count(*) FROM tokens WHERE tenant = %(tenant)s AND %(workspace)s = 0) AS tokens,
    (SELECT count(*) FROM workspaces WHERE id IN (SELECT id FROM w)) AS workspaces,
    (SELECT count(*) FROM inbox WHERE workspace IN (SELECT id FROM w)) AS inbox,
    (SELECT count(*) FROM spending WHERE tenant = %(tenant)s AND %(workspace)s = 0) AS spending,
    (SELECT count(*) FROM arrivals WHERE tenant = %(tenant)s AND %(workspace)s = 0) AS arrivals,
    (SELECT count(*) FROM procrastinate_jobs WHERE queueing_lock IN (SELECT 'ws-' || id FROM w)) AS jobs
"""

# Each entry is due again at twice its age, and one process of all takes it.
_ERASED = """
UPDATE erased e SET due_at = clock_timestamp() + (clock_timestamp() - e.at)
FROM (SELECT ctid FROM erased WHERE due_at <= clock_timestamp() ORDER BY due_at LIMIT 1000 FOR UPDATE SKIP LOCKED) d
WHERE e.ctid = d.ctid RETURNING e.tenant, e.workspace, e.kept, e.at
"""


@dataclass(frozen=True, slots=True)
class Erased:
    """What was removed (a workspace, or a whole tenant if its number is 0), or forgotten before generation `kept`."""

    tenant: int
    workspace: int
    kept: int
    at: datetime


class Removals(Statements):
    """Tenants and workspaces being removed: first closed, then without objects, then without rows."""

    def close(self, what: Tenant | Place) -> datetime:
        """Stop giving out anything of it, and return since when; current holders are fenced.

        Raise NotFoundError.
        """
        with self._database.transaction() as cursor:
            for statement in _CLOSE:
                cursor.execute(statement, _numbers(what))
            row = cursor.fetchone()
            if row is None:
                raise NotFoundError(f"there is no {what.named}", "it was removed meanwhile")
        at: datetime = row["removed_at"]
        return at

    def closed(self) -> list[Tenant | Place]:
        """Return what is closed but still there: tenants, and workspaces of other tenants."""
        tenants = "SELECT id, name FROM tenants WHERE removed_at IS NOT NULL ORDER BY id"
        return [*self._database.all(Tenant, tenants), *self._database.all(Place, _CLOSED)]

    def drop(self, what: Tenant | Place) -> None:
        """Delete every row of something closed."""
        with self._database.transaction() as cursor:
            for statement in _DROP:
                cursor.execute(statement, _numbers(what))

    def rows(self, what: Tenant | Place) -> dict[str, int]:
        """Count its rows in each table."""
        return self._database.rows(_ROWS, _numbers(what))[0]

    def erased(self) -> list[Erased]:
        """Return the removed or forgotten things to be searched for now; no other process gets them."""
        return self._database.all(Erased, _ERASED)

    def forget_erased(self, one: Erased) -> None:
        """Stop searching for it, because nobody writes to it any more after so long."""
        self._database.rows(
            "DELETE FROM erased WHERE tenant = %(tenant)s AND workspace = %(workspace)s AND at = %(at)s", asdict(one)
        )


def _numbers(what: Tenant | Place) -> dict[str, int]:
    return (
        {"tenant": what.id, "workspace": 0}
        if isinstance(what, Tenant)
        else {"tenant": what.tenant, "workspace": what.id}
    )


class Registry(FleetDatabase):
    """The database of a fleet with its tenants, their tokens and their workspaces."""

    def __init__(self, url: str, size: int = 8) -> None:
        super().__init__(url, size)
        self.tenants, self.tokens, self.places = Tenants(self), Tokens(self), Places(self)
        self.removals = Removals(self)
