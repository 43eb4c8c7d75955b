"""Tenant: whose workspaces these are, what they may use, and what a token lets its bearer do."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from state.errors import UsageError

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")


class Right(StrEnum):
    """What a token allows: reading, adding and changing, dreams (which cost), making and deleting workspaces."""

    READ = "read"
    WRITE = "write"
    DREAM = "dream"
    MANAGE = "manage"


@dataclass(frozen=True, slots=True)
class Quotas:
    """The most that a tenant may have or use; 0: no limit."""

    workspaces: int = 0
    notes_per_minute: int = 0
    bytes_per_workspace: int = 0
    dreams_per_day: int = 0
    usd_per_day: float = 0.0
    tokens_per_day: int = 0


@dataclass(frozen=True, slots=True)
class Tenant:
    """One customer of the fleet: nothing of theirs is ever seen by another."""

    id: int
    name: str
    quotas: Quotas = Quotas()


@dataclass(frozen=True, slots=True)
class Token:
    """What its bearer may do, in which workspaces (none named: all of the tenant's), and until when."""

    id: str
    tenant: Tenant
    name: str
    rights: frozenset[Right]
    workspaces: tuple[str, ...] = ()
    expires_at: datetime | None = None

    def reaches(self, workspace: str) -> bool:
        """Return whether it is for the workspace of this name."""
        return not self.workspaces or workspace in self.workspaces


def is_name(name: str) -> bool:
    """Return whether a tenant, a workspace or a token may have this name."""
    return _NAME.fullmatch(name) is not None


def require_name(kind: str, name: str) -> str:
    """Return the name, if a tenant, a workspace or a token may have it. Raises UsageError."""
    if not is_name(name):
        raise UsageError(
            f"{name[:60]!r} is no name of a {kind}",
            "a name has lower-case letters, digits and hyphens, 48 at most, and no hyphen in front",
        )
    return name
