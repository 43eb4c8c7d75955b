"""Life: what happened to MEMORY.md over a span of days, in figures, for a picture and its headline."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import pairwise

from daemon.workspace.stores import Store
from state.stores.history.ledger import Happened
from state.text.words import counted
from state.zone import local

MOST_DAYS = 1_100
_HOURS_OF_DAYS, _MOST_BY_DAY = 2, 92  # up to so many days by the hour, and by the day; more by the week
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Span:
    """What happened in the hour, day or week that begins `at`; `lines` are those of each section at its end.

    `learnt` lines came or came back, `changed` ones were reworded, merged, moved or weighed, `put_away` ones left for
    crystals, `closed` ones were answered or deleted. `yours`: versions that the owner made. `dream` is the id of the
    run, if there was but one, and no act of the owner.
    """

    at: datetime
    lines: dict[str, int]
    learnt: int
    changed: int
    put_away: int
    closed: int
    usd: float
    failed: int
    yours: int
    runs: int
    dream: str

    @property
    def total(self) -> int:
        """Return how many lines there were at its end."""
        return sum(self.lines.values())


@dataclass(frozen=True, slots=True)
class Life:
    """The spans from `start` to `stop` in which something happened; each is of so many `hours`.

    `before` are the lines of each section at the start, `version` is the last one of all. `lost` lines were put away
    and are in no crystal any more.
    """

    days: int
    hours: int
    start: datetime
    stop: datetime
    before: dict[str, int]
    spans: tuple[Span, ...]
    version: int
    lost: int
    usd_per_dream: float
    usd_per_day: float


def life(store: Store, days: int, now: datetime) -> Life:
    """Return the last days of the owner's calendar, today included: at most as many as there were."""
    zone, limits = store.config.zone, store.config.limits.ceilings
    today, first = local(now, zone).date(), store.ledger.first()
    known = (today - local(first, zone).date()).days + 1 if first else 1
    days = max(1, min(days, known))
    hours = 1 if days <= _HOURS_OF_DAYS else 24 if days <= _MOST_BY_DAY else 168
    edges = _edges(today, days, hours, zone)
    happened = store.ledger.happened(pairwise(edges))
    before = json.loads(store.lineage.sections_before(edges[0]))
    return Life(
        days=days,
        hours=hours,
        start=edges[0],
        stop=edges[-1],
        before=before,
        spans=tuple(_spans(happened, edges, before)),
        version=store.lineage.last_version(),
        lost=store.lineage.lost(edges[0]),
        usd_per_dream=limits.usd_per_dream,
        usd_per_day=limits.usd_per_day,
    )


def _edges(today: date, days: int, hours: int, zone: tzinfo) -> list[datetime]:
    """Return the moments between which the spans are, the end of today as the last."""

    def midnight(day: date) -> datetime:
        return datetime.combine(day, time(), zone).astimezone(UTC)

    first, stop = today - timedelta(days=days - 1), midnight(today + timedelta(days=1))
    if hours == 1:
        start = midnight(first)
        return [start + _HOUR * at for at in range(int((stop - start) / _HOUR))] + [stop]
    step = hours // 24
    starts = [midnight(first + timedelta(days=at)) for at in range(0, days, step)]
    return [*starts, stop]


def _spans(happened: Sequence[Happened], edges: Sequence[datetime], before: dict[str, int]) -> list[Span]:
    found, lines = list[Span](), before
    for place in dict.fromkeys(one.place for one in happened):
        here = [one for one in happened if one.place == place]
        lines = next((json.loads(one.sections) for one in here if one.number is not None), lines)
        runs, yours = sum(one.runs for one in here), sum(one.yours for one in here)
        found.append(
            Span(
                at=edges[place],
                lines=lines,
                learnt=sum(one.added + one.recalled for one in here),
                changed=sum(one.revised for one in here),
                put_away=sum(one.evicted for one in here),
                closed=sum(one.closed for one in here),
                usd=sum(one.usd for one in here),
                failed=sum(one.failed for one in here),
                yours=yours,
                runs=runs,
                dream=here[0].dream if runs == 1 and not yours else "",
            )
        )
    return found


def headline(one: Life) -> str:
    """Return the whole in a line: 30 days: from 10 lines to 59. 24 changed, 2 put away, none lost."""
    if not one.spans:
        return "Nothing has happened yet." if not one.before else f"{_long(one)}: nothing changed."
    was, is_ = sum(one.before.values()), one.spans[-1].total
    changed, away = (sum(getattr(span, name) for span in one.spans) for name in ("changed", "put_away"))
    lines = f"from {counted(was, 'line')} to {is_:,}" if was != is_ else f"{counted(is_, 'line')}, as many as before"
    lost = f"{one.lost:,} forgotten since" if one.lost else "none lost"
    did = [f"{changed:,} changed"] * bool(changed) + [f"{away:,} put away", lost] * bool(away)
    return " ".join([f"{_long(one)}: {lines}.", *([f"{', '.join(did)}."] if did else [])])


def _long(one: Life) -> str:
    return "Today" if one.days == 1 else counted(one.days, "day")
