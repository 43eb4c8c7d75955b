"""Dreaming on request, and the status of a workspace."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Nothing, Request, operation
from daemon.dream.run import Mode, Outcome
from daemon.workspace.status import Status, status
from daemon.workspace.stores import utc_now
from state.dream import Reason
from state.errors import UsageError

_REASONS = {"manual": Reason.MANUAL, "session-end": Reason.SESSION_END}


class DreamNow(Request):
    """Why, whether for real, and whether to wait for the end."""

    reason: Literal["manual", "session-end"] = Field(default="manual", description="For the ledger")
    mode: Mode | None = Field(
        default=None, description="auto writes, propose waits for a review, dry writes nothing; else dream.mode"
    )
    wait: bool = Field(default=True, description="False: ask the daemon for the dream and return at once")


@dataclass(frozen=True, slots=True)
class Dreamt:
    """How the dream ended; None when it was only asked for."""

    outcome: Outcome | None


@operation("dream_now", "/dream", long=True)
def dream_now(access: WorkspaceAccess, request: DreamNow) -> Dreamt:
    """Dream now: fold the notes and crystals that are new into MEMORY.md.

    Needed only when the next session must know at once; the daemon dreams by itself.
    """
    reason = _REASONS[request.reason]
    if not request.wait and request.mode is not None:
        raise UsageError("a dream that nobody waits for goes by dream.mode", "name no mode, or wait for it")
    if not request.wait and access.dream_soon(reason):
        return Dreamt(None)
    return Dreamt(access.dream(reason, request.mode or Mode(access.config.dream.mode)))


@operation("dream_status", "/status", method="GET")
def dream_status(access: WorkspaceAccess, _: Nothing) -> Status:
    """Return the last and next dream with their reasons, pending notes, spend, and what is wrong."""
    return status(access.workspace, access.config, utc_now(), access.service(), access.files)
