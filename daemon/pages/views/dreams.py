"""Dreams: every run with why it ran, how it ended, what it changed and cost; and what people did in this window."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field

from daemon.api.operations.dreams import dream_now
from daemon.api.operations.ledger import acts, dreams
from daemon.api.operations.request import Nothing, Request
from daemon.api.operations.versions import RestoredVersion, restore_version
from daemon.api.tables.dream_details import DreamRun
from daemon.pages.page import Action, Ask, Done, Page, Replies
from daemon.pages.undo import TakeBack, take_back, undo_of

_SHOWN, _ACTS_SHOWN = 40, 15
# A curve of fewer says nothing.
_CURVE = 3
OUTCOMES = ("committed", "proposed", "skipped", "rejected", "failed", "running")


class WhichDreams(Request):
    """Which runs, and from which act on."""

    outcome: Literal["", "committed", "proposed", "skipped", "rejected", "failed", "running"] = ""
    cursor: str = Field(default="", max_length=100)
    acts: int | None = Field(default=None, ge=1, le=2**53)


def _read(ask: Ask, query: WhichDreams) -> Replies:
    return {
        "dreams": ask(dreams, limit=_SHOWN, cursor=query.cursor, outcome=query.outcome),
        "acts": ask(acts, limit=_ACTS_SHOWN, cursor=query.acts),
    }


def _view(replies: Replies, _: WhichDreams, __: datetime) -> Mapping[str, object]:
    ran = [run for run in reversed(replies["dreams"].dreams) if run.outcome != "skipped"]
    return {"outcomes": OUTCOMES, "curves": _curves(ran) if len(ran) >= _CURVE else ()}


def _curves(ran: list[DreamRun]) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Return what those that ran cost, the oldest first; what nothing was spent of is left out."""
    curves = (("tokens", tuple(float(run.tokens) for run in ran)), ("seconds", tuple(run.seconds for run in ran)))
    return tuple((name, values) for name, values in curves if any(values))


def dream_soon(ask: Ask, _: Nothing) -> Done:
    """Ask for a dream; the page shows how it goes."""
    done = ask(dream_now, wait=False)
    if done.outcome is None:
        return Done("A dream was asked for: it shows here as it runs.")
    number = done.outcome.dream.number
    return Done(f"It dreamt: MEMORY.md is at version {number}.", version=number)


class Version(Request):
    """A version to restore."""

    version: int = Field(ge=1, le=10**9)


def _restore(ask: Ask, form: Version) -> Done:
    return _restored(ask(restore_version, form.version), form.version)


def _undo(ask: Ask, form: TakeBack) -> Done:
    return _restored(take_back(ask, form), form.version)


def _restored(done: RestoredVersion, version: int) -> Done:
    number = done.dream.number
    said = f"MEMORY.md is as it was in version {version}, and that is version {number} now."
    return Done(said, f"version {version}", number, undo_of("dreams", number))


PAGE = Page(
    "dreams",
    "Dreams",
    _read,
    WhichDreams,
    _view,
    live=True,
    actions=(
        Action("dream", Nothing, dream_soon, long=True),
        Action("restore", Version, _restore, long=True),
        Action("undo", TakeBack, _undo, long=True),
    ),
)
