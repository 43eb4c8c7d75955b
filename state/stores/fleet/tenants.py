"""Tenants and their tokens in PostgreSQL."""

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from state.errors import ConflictError, NotFoundError, UsageError
from state.fleet.tenant import Quotas, Right, Tenant, Token, require_name
from state.stores.fleet.database import FleetDatabase, storable

_TOKEN = re.compile(r"dreamd_([0-9a-f]{12})_([0-9a-f]{48})")
_ID_BYTES, _SECRET_BYTES = 6, 24


@dataclass(frozen=True, slots=True)
class TenantFacts:
    """A tenant, with how many workspaces it has and what today has cost it."""

    tenant: Tenant
    created_at: datetime
    removed: bool
    workspaces: int
    bytes: int
    dreams: int
    tokens: int
    usd: float


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """A token without its secret."""

    id: str
    name: str
    rights: tuple[str, ...]
    workspaces: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


def quotas_of(stored: Mapping[str, Any]) -> Quotas:
    """Return quotas as they are stored, without what a newer dreamd has added."""
    known = {field.name for field in fields(Quotas)}
    return Quotas(**{name: value for name, value in stored.items() if name in known})


class Tenants:
    """The tenants of the fleet. Raises UnreachableError while PostgreSQL is away."""

    def __init__(self, database: FleetDatabase) -> None:
        self._database = database

    def add(self, name: str, quotas: Quotas = Quotas()) -> Tenant:  # noqa: B008 - a frozen value
        """Make a tenant. Raise UsageError for a name that none may have, ConflictError for one that is taken."""
        row = self._database.row(
            "INSERT INTO tenants (name, quotas) VALUES (%(name)s, %(quotas)s) ON CONFLICT DO NOTHING RETURNING id",
            {"name": require_name("tenant", name), "quotas": json.dumps(asdict(quotas))},
        )
        if row is None:
            raise ConflictError(f"there is a tenant {name} already", "choose another name")
        return Tenant(row["id"], name, quotas)

    def find(self, name: str) -> Tenant:
        """Return the tenant of this name. Raise NotFoundError."""
        row = self._database.row(
            "SELECT id, quotas FROM tenants WHERE name = %(name)s AND removed_at IS NULL", {"name": storable(name)}
        )
        if row is None:
            raise NotFoundError(f"there is no tenant {name[:60]!r}", "'dreamd fleet tenant list' names them")
        return Tenant(row["id"], name, quotas_of(row["quotas"]))

    def set_quotas(self, tenant: Tenant, quotas: Quotas) -> None:
        """Give the tenant these quotas from now on."""
        self._database.rows(
            "UPDATE tenants SET quotas = %(quotas)s WHERE id = %(id)s",
            {"id": tenant.id, "quotas": json.dumps(asdict(quotas))},
        )

    def all(self) -> list[TenantFacts]:
        """Return every tenant, by name; also those whose removal is not finished."""
        rows = self._database.rows(
            "SELECT t.id, t.name, t.quotas, t.created_at, t.removed_at IS NOT NULL AS removed,"
            " count(w.id) AS workspaces, coalesce(sum(w.bytes), 0)::bigint AS bytes,"
            " coalesce(max(s.dreams), 0)::bigint AS dreams, coalesce(max(s.tokens), 0)::bigint AS tokens,"
            " coalesce(max(s.usd), 0)::float8 AS usd FROM tenants t"
            " LEFT JOIN workspaces w ON w.tenant = t.id AND w.removed_at IS NULL LEFT JOIN ("
            "  SELECT tenant, sum(dreams) AS dreams, sum(tokens) AS tokens, sum(usd) AS usd FROM spending"
            "  WHERE day = (statement_timestamp() AT TIME ZONE 'UTC')::date GROUP BY tenant) s ON s.tenant = t.id"
            " GROUP BY t.id ORDER BY t.name"
        )
        return [
            TenantFacts(Tenant(row.pop("id"), row.pop("name"), quotas_of(row.pop("quotas"))), **row) for row in rows
        ]

    def close(self, tenant: Tenant) -> None:
        """Give out nothing of the tenant from now on; nobody holds its workspaces any more."""
        with self._database.transaction() as cursor:
            values = {"id": tenant.id}
            cursor.execute("UPDATE tenants SET removed_at = clock_timestamp() WHERE id = %(id)s", values)
            cursor.execute(
                "UPDATE tokens SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE tenant = %(id)s", values
            )
            cursor.execute(
                "WITH kept AS MATERIALIZED (SELECT id FROM workspaces WHERE tenant = %(id)s AND removed_at IS NULL"
                " ORDER BY id FOR NO KEY UPDATE) UPDATE workspaces w SET removed_at = clock_timestamp(),"
                " owner = NULL, due_at = NULL, queued_at = NULL FROM kept WHERE w.id = kept.id",
                values,
            )
            cursor.execute("INSERT INTO removed (tenant, workspace) VALUES (%(id)s, 0)", values)

    def drop(self, tenant: int) -> int:
        """Delete every row of a tenant that was closed; return how many workspaces it had."""
        with self._database.transaction() as cursor:
            values = {"id": tenant}
            cursor.execute(
                "DELETE FROM procrastinate_jobs WHERE lock IN"
                " (SELECT 'ws-' || id FROM workspaces WHERE tenant = %(id)s)",
                values,
            )
            cursor.execute(
                "DELETE FROM workspaces WHERE tenant IN (SELECT id FROM tenants WHERE id = %(id)s"
                " AND removed_at IS NOT NULL)",
                values,
            )
            count = cursor.rowcount
            cursor.execute("DELETE FROM tenants WHERE id = %(id)s AND removed_at IS NOT NULL", values)
        return count


class Tokens:
    """The tokens of tenants. `random_bytes` is where their secrets come from."""

    def __init__(self, database: FleetDatabase, random_bytes: Callable[[int], bytes]) -> None:
        self._database = database
        self._random_bytes = random_bytes

    def add(
        self,
        tenant: Tenant,
        name: str,
        rights: Collection[Right],
        workspaces: Sequence[str] = (),
        expires_at: datetime | None = None,
    ) -> str:
        """Make a token and return it as its bearer shows it, this once. Raise UsageError and ConflictError."""
        require_name("token", name)
        if not rights:
            raise UsageError("a token without rights is good for nothing", f"name some of {', '.join(Right)}")
        identity, secret = self._random_bytes(_ID_BYTES).hex(), self._random_bytes(_SECRET_BYTES).hex()
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
        """Return what this token allows now; None when it is none, has expired or was revoked."""
        match = _TOKEN.fullmatch(shown)
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
        return Token(
            row["id"],
            Tenant(row["tenant"], row["tenant_name"], quotas_of(row["quotas"])),
            row["name"],
            frozenset(Right(right) for right in row["rights"]),
            tuple(row["workspaces"]),
            row["expires_at"],
        )

    def all(self, tenant: Tenant) -> list[TokenFacts]:
        """Return the tokens of a tenant, by name, revoked ones too."""
        rows = self._database.rows(
            "SELECT id, name, rights, workspaces, created_at, expires_at, revoked_at FROM tokens"
            " WHERE tenant = %(tenant)s ORDER BY name",
            {"tenant": tenant.id},
        )
        return [
            TokenFacts(**{**row, "rights": tuple(row["rights"]), "workspaces": tuple(row["workspaces"])})
            for row in rows
        ]

    def revoke(self, tenant: Tenant, name: str) -> None:
        """Revoke the token; a process that remembers it refuses it within ten seconds. Raise NotFoundError."""
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
