"""The fleet: tenants with their quotas and tokens, their workspaces, and the inbox of each workspace."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from state.errors import UsageError
from state.scratch import Note, admitted

TOKEN = re.compile(r"dreamd_([0-9a-f]{12})_([0-9a-f]{48})")
"""A token as its bearer presents it: its id and its secret."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")


class Right(StrEnum):
    """What a token permits: reading, adding and changing, dreaming (which costs), managing workspaces."""

    READ = "read"
    WRITE = "write"
    DREAM = "dream"
    MANAGE = "manage"


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of a tenant; 0: no limit."""

    workspaces: int = 0
    notes_per_minute: int = 0
    bytes_per_workspace: int = 0
    dreams_per_day: int = 0
    usd_per_day: float = 0.0
    tokens_per_day: int = 0


@dataclass(frozen=True, slots=True)
class Tenant:
    """One customer of the fleet; no tenant ever sees another's data."""

    id: int
    name: str
    quotas: Quotas = Quotas()

    @property
    def prefix(self) -> str:
        """Return the key prefix of the objects of all its workspaces in the store."""
        return str(self.id)

    @property
    def named(self) -> str:
        """Return how messages name the tenant."""
        return f"tenant {self.name}"


@dataclass(frozen=True, slots=True)
class Token:
    """What the bearer may do, in which workspaces (empty: all of the tenant's), and until when."""

    id: str
    tenant: Tenant
    name: str
    rights: frozenset[Right]
    workspaces: tuple[str, ...] = ()
    expires_at: datetime | None = None

    def reaches(self, workspace: str) -> bool:
        """Return whether the token is valid for the workspace with this name."""
        return not self.workspaces or workspace in self.workspaces


def is_name(name: str) -> bool:
    """Return whether a tenant, a workspace or a token may have this name."""
    return _NAME.fullmatch(name) is not None


def require_name(kind: str, name: str) -> str:
    """Return the name if a tenant, a workspace or a token may have it, else raise UsageError."""
    if not is_name(name):
        raise UsageError(
            f"{name[:60]!r} is no name of a {kind}",
            "a name has lower-case letters, digits and hyphens, 48 at most, and no hyphen in front",
        )
    return name


@dataclass(frozen=True, slots=True)
class Place:
    """One workspace of the fleet: its number and name, its tenant's, and its time zone ("": the fleet's)."""

    id: int
    tenant: int
    tenant_name: str
    name: str
    timezone: str = ""

    @property
    def prefix(self) -> str:
        """Return the key prefix of its objects in the store."""
        return f"{self.tenant}/{self.id}"

    @property
    def handle(self) -> str:
        """Return its identifier among processes."""
        return f"ws-{self.id}"

    @property
    def named(self) -> str:
        """Return how messages name the workspace."""
        return f"workspace {self.name} of tenant {self.tenant_name}"


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work in a workspace: its holder, and the number of the generation committed last (0: none).

    As of when it was taken: when the workspace was created and last committed; `is_due`: whether work is foreseen.
    PostgreSQL's number is a hint: the object store may hold a newer generation, and refuses a second one of a number.
    """

    place: Place
    owner: UUID
    generation: int
    created_at: datetime
    committed_at: datetime | None = None
    is_due: bool = True


@dataclass(frozen=True, slots=True)
class InboxRow:
    """An acknowledged note, or end of a session (kind `session_end`), that no generation contains yet.

    `body` is JSON.
    """

    id: int
    kind: str
    key: str
    body: str
    at: datetime

    def note(self) -> Note:
        """Return the row as a note, with its own time or that of its arrival. Raise UsageError if it is not one."""
        with self._reading() as body:
            at, replaces = self._at(body), str(body.get("replaces", ""))
            return admitted(Note(body["text"], at, float(body["importance"]), replaces=replaces))

    def ended_at(self) -> datetime:
        """Return when the session ended. Raise UsageError if the row cannot be read."""
        with self._reading() as body:
            return self._at(body)

    def _at(self, body: dict[str, Any]) -> datetime:
        return datetime.fromisoformat(body.get("at") or self.at.isoformat()).astimezone(UTC)

    @contextmanager
    def _reading(self) -> Iterator[dict[str, Any]]:
        try:
            yield json.loads(self.body)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise UsageError(
                f"row {self.id} of an inbox cannot be read", "a newer dreamd may have written it"
            ) from error


def readable_notes(rows: Iterable[InboxRow]) -> Iterator[tuple[InboxRow, Note]]:
    """Yield the notes among these rows, skipping unreadable ones, as a holder does."""
    for row in rows:
        with suppress(UsageError):
            if row.kind == "note":
                yield row, row.note()
