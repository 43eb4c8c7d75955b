"""Dreaming when asked, and how things are."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Nothing, Operation, Request
from daemon.dream.run import Mode, Outcome
from daemon.upkeep.examine import Finding, check_stores
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


def _dream(desk: WorkspaceAccess, asked: DreamNow) -> Dreamt:
    reason = _REASONS[asked.reason]
    if not asked.wait and asked.mode is not None:
        raise UsageError("a dream that nobody waits for goes by dream.mode", "name no mode, or wait for it")
    if not asked.wait and desk.dream_soon(reason):
        return Dreamt(None)
    return Dreamt(desk.dream(reason, asked.mode or Mode(desk.config.dream.mode)))


DREAM = Operation(
    name="dream_now",
    method="POST",
    path="/dream",
    summary="Dream now: fold the notes and crystals that are new into MEMORY.md. Needed only when the next session "
    "must know at once; the daemon dreams by itself.",
    request=DreamNow,
    reply=Dreamt,
    run=_dream,
    long=True,
)


def _status(desk: WorkspaceAccess, _: Nothing) -> Status:
    return status(desk.workspace, desk.config, utc_now(), desk.service())


STATUS = Operation(
    name="dream_status",
    method="GET",
    path="/status",
    summary="The last and next dream with their reasons, pending notes, spend, and what is wrong.",
    request=Nothing,
    reply=Status,
    run=_status,
)


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found in the stores, sound or not."""

    findings: tuple[Finding, ...]


def _examine(desk: WorkspaceAccess, _: Nothing) -> Findings:
    with desk.alone() as store:
        return Findings(tuple(check_stores(store)))


EXAMINE = Operation(
    name="examine",
    method="POST",
    path="/examination",
    summary="Look into the stores of the workspace; a torn index is built anew.",
    request=Nothing,
    reply=Findings,
    run=_examine,
    long=True,
)
