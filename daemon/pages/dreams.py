"""Dreams: the life of the memory as one picture, a sentence a dream, and one of them with its changes."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Annotated
from urllib.parse import urlencode

from pydantic import Field

from daemon.api.operations.dreams import DreamPage, dream_details, dream_status, dreams, life
from daemon.api.operations.journal import undo_changes
from daemon.api.operations.memory import restore_version
from daemon.api.words import reason_words, step_words
from daemon.journal.dream import DreamRun
from daemon.journal.life import MOST_DAYS, headline
from daemon.journal.story import Entry
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
from daemon.pages.page import UNDO, Act, Ask, Day, Done, Page, Version, start_of_day, undo_of
from daemon.pages.picture import picture_of
from daemon.pages.today import DREAM, Beside
from state.document.operations import Why
from state.document.pointer import parse_pointer
from state.document.sections import SectionName
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
    until = (last or day or ask.now.date()) + timedelta(days=1) if day else None
    found = ask(dreams, limit=_RUNS, cursor=cursor, kind=kind, since=start_of_day(day), until=start_of_day(until))
    lived = ask(life, days=days)
    now = local(ask.now, ask.zone)
    return {
        "headline": headline(lived),
        "picture": picture_of(lived, now) if lived.spans else None,
        "told": tuple(_told(found, now)),
        "spans": _SPANS,
        "kinds": _KINDS,
        "chosen_day": local_day(datetime(day.year, day.month, day.day), now) if day else "",  # noqa: DTZ001
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


@dataclass(frozen=True, slots=True)
class Shown:
    """A change as a person reads it: what it did to a line, its texts, and a word beside them."""

    name: str
    did: str
    old: str
    new: str
    section: str
    note: str
    line: str
    undoable: bool


_ORDER = ("left", "changed", "added", "same")
_LEFT = {Why.EVICTED: "put away; a search finds it", Why.ANSWERED: "answered", Why.DELETED: "deleted"}
_SAME = {Why.MOVED: "moved", Why.WEIGHED: "counts more or less than before", Why.PINNED: "pinned or unpinned"}


def _one_dream(
    ask: Ask, dream: Annotated[str, Field(max_length=100)] = "", version: Version | None = None, whole: bool = False
) -> Beside:
    """Read one dream, with the seconds and tokens of each node's steps, in the order in which each first ended."""
    found = ask(dream_details, dream=dream, version=version)
    shares: dict[str, tuple[float, int]] = {}
    for step in found.steps:
        node = step_words(step.node)
        span, tokens = shares.get(node, (0.0, 0))
        shares[node] = span + step.seconds, tokens + step.tokens
    ask(dream_status)
    now = local(ask.now, ask.zone)
    changed = [one for one in map(_shown, found.changes) if one is not None]
    return {
        "most": _WHOLE if whole else _FIRST,
        "when": local_time(found.run.run.started_at, now),
        "said": summary(found.run),
        "is_owners": is_owners(found.run),
        "why": reason_words(found.run.run.reason),
        "steps": [(step_words(step.node), step) for step in found.steps],
        "shown": sorted(changed, key=lambda one: _ORDER.index(one.did)),
        "refused": [(one, refused(one)) for one in found.refusals],
        "shares": [(node, *share) for node, share in shares.items()],
        "bars": [(f"{node}: {span:.1f} s", span) for node, (span, _) in shares.items()],
    }


def _shown(one: Entry) -> Shown | None:
    """Return a change for a person; None of pointers alone, which the program writes."""
    if one.section == SectionName.POINTERS:
        return None
    pointers = [parsed for line in one.new if (parsed := parse_pointer(line.text))] if one.why == Why.EVICTED else []
    old = [line for line in one.old if not pointers or parse_pointer(line.text) is None]
    new = () if pointers else one.new
    old_text, new_text = ("\n".join(line.text for line in lines) for lines in (old, new))
    did = "left" if not new else "added" if not old else "same" if old_text == new_text else "changed"
    note = _note(one, did)
    if pointers:
        note = f"put away; a search for “{pointers[0][1]}” finds it"
    line = (new or old)[-1].id
    return Shown(one.name, did, old_text, new_text, one.section, note, line, one.undoable)


def _note(one: Entry, did: str) -> str:
    """Return the word beside a change that its texts do not say."""
    if did == "left":
        return _LEFT.get(Why(one.why), "taken back")
    if did == "same":
        return f"moved to {one.section}" if one.why == Why.MOVED else _SAME.get(Why(one.why), "")
    return (
        "brought back"
        if one.why in (Why.RECALLED, Why.UNDONE)
        else "two lines became one"
        if len(one.old) > 1
        else ""
    )


# ------------------------------------------------------------------------------------------------ acts


def _restore(ask: Ask, version: Version) -> Done:
    """Bring MEMORY.md back as it was in a version."""
    number = ask(restore_version, version).dream.number
    when = local_time(ask(dream_details, version=version, limit=1).run.run.started_at, local(ask.now, ask.zone))
    return Done(
        f"Restored: MEMORY.md is as it was on {when}.", f"version {version}", number, undo_of(number, "the restore")
    )


def _take_back(ask: Ask, version: Version) -> Done:
    """Take back what one dream changed, whatever came after it."""
    done = ask(undo_changes, changes=(str(version),))
    stay = len(done.outdated)
    said = f"Taken back: {len(done.undone):,} of its changes." if done.undone else "Nothing was taken back."
    kept = f" {stay:,} had changed since, and {'stays' if stay == 1 else 'stay'}." if stay else ""
    return Done(said + kept, f"version {version}", done.version, undo_of(done.version, "that"))


_ACTS = (
    DREAM, Act(_restore, "restore", long=True), Act(_take_back, "take_back", long=True), UNDO,
)  # fmt: skip
DREAMS = Page("dreams", "Dreams", _dreams, acts=_ACTS, live=True)
ONE_DREAM = Page("dream", "Dream", _one_dream, acts=_ACTS, live=True, under="dreams")
