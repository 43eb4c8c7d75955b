"""Dreams: the life of the memory as one picture, a sentence a dream, and one of them with its changes."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Annotated
from urllib.parse import urlencode

from pydantic import Field

from daemon.api.operations.dreams import DreamPage, dream_details, dream_status, dreams, life
from daemon.api.operations.memory import restore_version
from daemon.api.words import reason_words, step_words
from daemon.journal.dream import DreamRun
from daemon.journal.life import MOST_DAYS, headline
from daemon.journal.summary import (
    Kind,
    Sentence,
    is_owners,
    local_day,
    local_time,
    owners_acts,
    refused,
    summary,
)
from daemon.pages.page import UNDO, Act, Ask, Beside, Day, Done, Page, Version, start_of_day, undo_of
from daemon.pages.picture import picture_of
from daemon.pages.today import DREAM, shown
from state.zone import local

_RUNS = 40
# Of each list of one dream, of the characters of a text, a prompt and the difference so much, and on its whole page.
_FIRST = {"rows": 12, "text": 600, "prompt": 500, "diff": 4_000}
_WHOLE = {"rows": 200, "text": 2_000, "prompt": 20_000, "diff": 200_000}
_SPANS = {7: "week", 30: "month", 365: "year", MOST_DAYS: "all"}
_KINDS = {
    None: "everything", Kind.DREAM: "what changed", Kind.NOTHING: "nothing new", Kind.FAILED: "failures",
    Kind.OWNER: "yours", Kind.SKIPPED: "looks without a dream",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Told:
    """One run, or several that belong together (`parts`), with the address of its page and the version it made."""

    when: str
    sentence: Sentence
    address: str = ""
    version: int | None = None
    parts: tuple["Told", ...] = ()


def _dreams(
    ask: Ask,
    days: Annotated[int, Field(ge=1, le=MOST_DAYS)] = 30,
    kind: Kind | None = None,
    day: Day | None = None,
    last: Day | None = None,
    cursor: Annotated[str, Field(max_length=200)] = "",
) -> Beside:
    """Read the picture of these days, and the runs of this kind, or of one `day` to the `last`."""
    since, until = (start_of_day(day), start_of_day((last or day) + timedelta(days=1))) if day else (None, None)
    found = ask(dreams, limit=_RUNS, cursor=cursor, kind=kind, since=since, until=until)
    lived = ask(life, days=days)
    now = local(ask.now, ask.zone)
    return {
        "headline": headline(lived),
        "picture": picture_of(lived, now) if lived.spans else None,
        "told": tuple(_told(found, now)),
        "spans": _SPANS,
        "kinds": _KINDS,
        "chosen_day": local_day(day, now) if day else "",
    }


def _told(found: DreamPage, now: datetime) -> Iterator[Told]:
    """Yield a sentence a dream; the owner's acts of a day are one, and looks that led to no dream."""

    def together(one: DreamRun) -> tuple[str, str]:
        if one.run.outcome == "skipped":
            return "skipped", ""
        return ("owner", one.run.started_at.date().isoformat()) if is_owners(one) else ("dream", one.run.id)

    for (what, _), group in groupby(found.dreams, together):
        runs = list(group)
        parts = tuple(
            Told(local_time(one.run.started_at, now), summary(one), _address(one), one.run.version) for one in runs
        )
        if len(runs) == 1:
            yield parts[0]
        elif what == "owner":
            yield Told(local_day(runs[0].run.started_at, now), owners_acts(reversed(runs)), parts=parts)
        else:
            looks = sum(one.run.times for one in runs)
            said = Sentence(Kind.SKIPPED, f"Looked {looks:,} times: too little was new.")
            yield Told(local_day(runs[0].run.started_at, now), said, parts=parts)


def _address(one: DreamRun) -> str:
    return f"dream?{urlencode({'dream': one.run.id[:100]} if one.run.id else {'version': one.run.version})}"


# ------------------------------------------------------------------------------------------------ one dream

_ORDER = ("left", "changed", "added", "same")


def _one_dream(
    ask: Ask, dream: Annotated[str, Field(max_length=100)] = "", version: Version | None = None, whole: bool = False
) -> Beside:
    """Read one dream: its changes in order of weight, what was refused, and its steps."""
    found = ask(dream_details, dream=dream, version=version)
    ask(dream_status)
    now = local(ask.now, ask.zone)
    changed = [one for one in map(shown, found.changes) if one is not None]
    return {
        "most": _WHOLE if whole else _FIRST,
        "when": local_time(found.run.run.started_at, now),
        "said": summary(found.run),
        "is_owners": is_owners(found.run),
        "why": reason_words(found.run.run.reason),
        "steps": [(step_words(step.node), step) for step in found.steps],
        "shown": sorted(changed, key=lambda one: _ORDER.index(one.did)),
        "refused": [(one, refused(one)) for one in found.refusals],
    }


# ------------------------------------------------------------------------------------------------ acts


def _restore(ask: Ask, version: Version) -> Done:
    """Bring MEMORY.md back as it was in a version."""
    number = ask(restore_version, version).dream.number
    when = local_time(ask(dream_details, version=version, limit=1).run.run.started_at, local(ask.now, ask.zone))
    return Done(
        f"Restored: MEMORY.md is as it was on {when}.", f"version {version}", number, undo_of(number, "the restore")
    )


_ACTS = (DREAM, Act(_restore, "restore", long=True), UNDO)
DREAMS = Page("dreams", "Dreams", _dreams, acts=_ACTS, live=True)
ONE_DREAM = Page("dream", "Dream", _one_dream, acts=_ACTS, live=True, under="dreams")
