"""Undo: takes back what an act wrote, by restoring the version before it, as long as nothing has changed since."""

from pydantic import Field

from daemon.api.operations.dreams import dream_status
from daemon.api.operations.request import Request
from daemon.api.operations.versions import RestoredVersion, diff, restore_version
from daemon.pages.page import Ask, Undo
from state.errors import ConflictError

_ADVICE = "the page Dreams has every version, and restores the one that you choose"


class TakeBack(Request):
    """The version to restore, and the one that is taken back by it."""

    version: int = Field(ge=1, le=10**9)
    made: int = Field(ge=1, le=10**9)


def undo_of(page: str, made: int | None) -> Undo | None:
    """Return what takes this version back; None without a version before it."""
    return Undo(page, "undo", {"version": made - 1, "made": made}) if made is not None and made > 1 else None


def take_back(ask: Ask, form: TakeBack) -> RestoredVersion:
    """Restore the version. Raise ConflictError where that would take along what was written since."""
    stands = ask(dream_status).version
    if stands != form.made:
        raise ConflictError(
            f"MEMORY.md was at version {form.made} then, and is at version {stands} now: nothing was undone", _ADVICE
        )
    if ask(diff, file=True).diff:
        raise ConflictError("MEMORY.md was written by hand since then: nothing was undone", _ADVICE)
    return ask(restore_version, form.version)
