"""Life: what happened to MEMORY.md over a span of days, in figures, for a picture and its headline."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import pairwise

from daemon.workspace.stores import Store
from state.stores.history.ledger import Span
from state.text.words import counted
from state.zone import local

MOST_DAYS = 1_100
_HOURS_OF_DAYS, _MOST_BY_DAY = 2, 92  # up to so many days by the hour, and by the day; more by the week
_HOUR = timedelta(hours=1)


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
    return Life(
        days=days,
        hours=hours,
        start=edges[0],
        stop=edges[-1],
        before=json.loads(store.lineage.sections_before(edges[0])),
        spans=tuple(store.ledger.happened(pairwise(edges))),
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
