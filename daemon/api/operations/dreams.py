"""Dreaming on request, and the status of a workspace."""

from dataclasses import dataclass
from typing import Annotated, Literal

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.text import dream_text, status_text
from daemon.dream.run import Mode, Outcome
from daemon.workspace.status import Status, status
from daemon.workspace.stores import utc_now
from state.dream import Reason
from state.errors import UsageError

_REASONS = {"manual": Reason.MANUAL, "session-end": Reason.SESSION_END}


@dataclass(frozen=True, slots=True)
class Dreamt:
    """How the dream ended; None when it was only asked for."""

    outcome: Outcome | None


@operation("dream_now", long=True, agents="memory", text=dream_text)
def dream_now(
    access: WorkspaceAccess,
    reason: Annotated[Literal["manual", "session-end"], Arg("For the ledger")] = "manual",
    mode: Annotated[
        Mode | None, Arg("auto (or none) writes, dry only shows what would be written", owner=True)
    ] = None,
    wait: Annotated[bool, Arg("False: ask the daemon for the dream and return at once")] = True,
) -> Dreamt:
    """Fold new notes into MEMORY.md now. Seldom needed: it happens by itself. May take minutes."""
    why = _REASONS[reason]
    if not wait and mode is not None:
        raise UsageError("a dream that nobody waits for is not only shown", "name no mode, or wait for it")
    if not wait and access.dream_soon(why):
        return Dreamt(None)
    return Dreamt(access.dream(why, mode or Mode.AUTO))


@operation("dream_status", reads=True, agents="memory", text=status_text)
def dream_status(access: WorkspaceAccess) -> Status:
    """Return last and next dream, pending notes, spend, problems and what to do about them."""
    return status(access.workspace, access.config, utc_now(), access.service())
