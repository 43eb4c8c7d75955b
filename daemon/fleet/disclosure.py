"""Disclosure: what a tenant may read in an error, a notice or a status: nothing about the operator's machines.

Everything about the tenant's own request is kept. What concerns a machine (paths, addresses, other processes) goes to
the log.
"""

import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

from daemon.api.operations.table import OPERATIONS
from daemon.http.app import WORKSPACES
from daemon.observability import logs
from daemon.workspace.status import Problem
from state.errors import (
    ConfigError,
    DreamdError,
    FencedError,
    ForeignError,
    NotFoundError,
    NotKeptError,
    OperatorNotice,
    QuotaError,
    StorageError,
    UnknownOutcomeError,
    UnreachableError,
)
from state.fleet import Place

Value = TypeVar("Value")

_OF_MACHINES = (UnreachableError, StorageError, FencedError, ConfigError, NotKeptError, ForeignError)
# What a tenant cannot do about a problem: nothing in particular, or what is the operator's.
_OF_OPERATOR = {"", *(one.name for one in OPERATIONS.values() if one.operator)}
# An absolute path in a message.
_PATH = re.compile(r"(?<![\w.~/])/(?:[\w.@+-]+/)+[\w.@+-]*")


def error_for_tenant(error: Exception, place: Place) -> DreamdError:
    """Return the error as the workspace's tenant may see it; log one that concerns a machine."""
    if isinstance(error, QuotaError):
        return error
    if not isinstance(error, DreamdError) or isinstance(error, _OF_MACHINES) or error.code == DreamdError.code:
        logs.get(workspace=place.handle).error("request_not_done", error=error)
        return unknown_outcome() if isinstance(error, UnknownOutcomeError) else not_now()
    what, advice = text_for_tenant(error.what, place), text_for_tenant(error.for_all, place)
    if (what, advice) == (error.what, error.advice):
        return error
    kind = error if type(error).__init__ is not DreamdError.__init__ else type(error)(what, advice)
    kind.what, kind.advice, kind.args = what, advice, (f"{what}; {advice}" if advice else what,)
    kind.code, kind.details, kind.http_status = error.code, error.details, error.http_status
    return kind


def unknown(name: str) -> NotFoundError:
    """Return the error for a workspace that does not exist or is not this token's; it does not say which."""
    return NotFoundError(f"there is no workspace {name[:60]!r}", f"GET {WORKSPACES} lists yours")


def not_now() -> UnreachableError:
    """Return the error for a tenant when the operator's machines are the cause."""
    return UnreachableError("the service cannot do this now", "try again")


def unknown_outcome() -> UnknownOutcomeError:
    """Return the error for a tenant when it is unknown whether the request was carried out."""
    return UnknownOutcomeError(
        "nobody knows whether this is done", "look whether it is there before you send it again"
    )


def text_for_tenant(text: str, place: Place) -> str:
    """Return the message with the workspace's folder replaced by its name, and all other paths by an ellipsis."""
    own = re.sub(rf"/[^\s'\":;,]*/{place.handle}(?![\w-])", place.name, text)
    return _PATH.sub("…", own)


def notices_for_tenant(notices: Sequence[str], place: Place) -> list[str]:
    """Return the notices that are not for the operator."""
    return [text_for_tenant(one, place) for one in notices if not isinstance(one, OperatorNotice)]


def value_for_tenant(value: Value, place: Place) -> Value:
    """Return the reply with `text_for_tenant` applied to every text in it, at any depth."""
    if isinstance(value, str):
        return text_for_tenant(value, place)  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(value_for_tenant(one, place) for one in value)  # type: ignore[return-value]
    if isinstance(value, Problem):
        is_theirs = value.deed.partition(" ")[0] not in _OF_OPERATOR
        advice = text_for_tenant(value.advice, place) if is_theirs else ""
        return replace(value, what=text_for_tenant(value.what, place), advice=advice)
    if is_dataclass(value) and not isinstance(value, type):
        given = {one.name: getattr(value, one.name) for one in fields(value)}
        new = {name: value_for_tenant(one, place) for name, one in given.items()}
        return replace(value, **{name: one for name, one in new.items() if one is not given[name]})
    return value
