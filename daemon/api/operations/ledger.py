"""Operations on the ledger: which dreams ran, all that is known of one, and what a person did through a window."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.dream_details import DreamDetails, DreamRun, described, details, run_of_version
from daemon.api.operations.operation import Request, operation
from state.errors import UsageError
from state.stores.database.tables import Act

Limit = Annotated[int, Field(ge=1, le=1_000, description="At most so many")]
Id = Annotated[str, Field(max_length=100)]


class Dreams(Request):
    """Which runs."""

    limit: Limit = 50
    cursor: Id = Field(default="", description="next_cursor of the page before")
    outcome: Literal["", "committed", "proposed", "dry", "skipped", "rejected", "failed", "running"] = Field(
        default="", description="Those that ended so; empty: all"
    )


@dataclass(frozen=True, slots=True)
class DreamPage:
    """Runs, the newest first. `next_cursor` is null when that was all."""

    dreams: tuple[DreamRun, ...]
    next_cursor: str | None


@operation("dreams", "/dreams", method="GET")
def dreams(access: WorkspaceAccess, request: Dreams) -> DreamPage:
    """Return the dreams that ran, those that were skipped too, with what they cost and changed; the newest first."""
    with access.read() as store:
        runs = store.ledger.runs_after(request.limit + 1, request.cursor, request.outcome)
        page = runs[: request.limit]
        return DreamPage(described(store, page), page[-1].id if len(runs) > len(page) else None)


class OneDream(Request):
    """Which dream: by its id, or by the version that it made."""

    dream: Id = Field(default="", description="The beginning of its id")
    version: int | None = Field(default=None, ge=1, le=10**9, description="The version that it made")
    limit: Limit = Field(default=200, description="At most so many of each list")


@operation("dream_details", "/dreams/one", method="GET")
def dream_details(access: WorkspaceAccess, request: OneDream) -> DreamDetails:
    """Return one dream: its steps, what it changed and why, what was refused, prompts and answers, and the diff."""
    if bool(request.dream) is (request.version is not None):
        raise UsageError("which dream? name its id or its version", "'dreamd history' lists the versions")
    with access.read() as store:
        if request.version is not None:
            run = run_of_version(store, request.version)
        else:
            run = store.ledger.run(request.dream)
        return details(store, run, request.limit)


class WhichActs(Request):
    """Which acts."""

    limit: Limit = 50
    cursor: int | None = Field(default=None, ge=1, le=2**53, description="next_cursor of the page before")


@dataclass(frozen=True, slots=True)
class ActPage:
    """Acts, the newest first. `next_cursor` is null when that was all."""

    acts: tuple[Act, ...]
    next_cursor: int | None


@operation("acts", "/acts", method="GET")
def acts(access: WorkspaceAccess, request: WhichActs) -> ActPage:
    """Return what people did through a window of the daemon, with the author and the outcome; the newest first."""
    with access.read() as store:
        found = store.acts.latest(request.limit + 1, request.cursor)
        page = tuple(found[: request.limit])
        return ActPage(page, page[-1].number if len(found) > len(page) else None)
