"""Operations on dreams: run one, show the workspace's status, list past dreams and what people did."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.text import dream_text, status_text
from daemon.dream.run import Mode, Outcome
from daemon.journal.dream import DreamDetails, DreamRun, described, details, run_of_version
from daemon.workspace.status import Status, status
from daemon.workspace.stores import utc_now
from state.dream import Reason
from state.errors import UsageError
from state.stores.database.tables import Act

_REASONS = {"manual": Reason.MANUAL, "session-end": Reason.SESSION_END}

Limit = Annotated[int, Field(ge=1, le=1_000, description="At most so many")]
Id = Annotated[str, Field(max_length=100)]


@dataclass(frozen=True, slots=True)
class Dreamt:
    """How the dream ended; None if it was only queued."""

    outcome: Outcome | None


@operation("dream_now", long=True, agents="memory", text=dream_text, configured=True)
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


@dataclass(frozen=True, slots=True)
class DreamPage:
    """A page of runs, newest first. `next_cursor` is null on the last page."""

    dreams: tuple[DreamRun, ...]
    next_cursor: str | None


@operation("dreams", reads=True)
def dreams(
    access: WorkspaceAccess,
    limit: Limit = 50,
    cursor: Annotated[Id, Arg("next_cursor of the page before")] = "",
    outcome: Annotated[
        Literal["", "committed", "dry", "skipped", "rejected", "failed", "running"],
        Arg("Those that ended so; empty: all"),
    ] = "",
) -> DreamPage:
    """Return the dreams that ran, those that were skipped too, with what they cost and changed; the newest first."""
    with access.read() as store:
        runs = store.ledger.runs(limit + 1, cursor, outcome)
        page = runs[:limit]
        return DreamPage(described(store.lineage, store.ledger, page), page[-1].id if len(runs) > len(page) else None)


@operation("dream_details", reads=True)
def dream_details(
    access: WorkspaceAccess,
    dream: Annotated[Id, Arg("The beginning of its id")] = "",
    version: Annotated[int | None, Arg("The version that it made", ge=1, le=10**9)] = None,
    limit: Annotated[Limit, Arg("At most so many of each list")] = 200,
) -> DreamDetails:
    """Return one dream: its steps, what it changed and why, what was refused, prompts and answers, and the diff."""
    if bool(dream) is (version is not None):
        raise UsageError("which dream? name its id or its version", "'dreamd history' lists the versions")
    with access.read() as store:
        run = run_of_version(store.lineage, store.ledger, version) if version is not None else store.ledger.run(dream)
        return details(store, run, limit)


@dataclass(frozen=True, slots=True)
class ActPage:
    """A page of people's acts, newest first. `next_cursor` is null on the last page."""

    acts: tuple[Act, ...]
    next_cursor: int | None


@operation("acts", reads=True)
def acts(
    access: WorkspaceAccess,
    limit: Limit = 50,
    cursor: Annotated[int | None, Arg("next_cursor of the page before", ge=1, le=2**53)] = None,
) -> ActPage:
    """Return what people did through a window of the daemon, with the author and the outcome; the newest first."""
    with access.read() as store:
        found = store.ledger.acts(limit + 1, cursor)
        page = tuple(found[:limit])
        return ActPage(page, page[-1].number if len(found) > len(page) else None)
