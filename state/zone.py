"""Zone: the owner's calendar and clock, from which every calendar day of a moment is derived; storage stays UTC."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any


def local(moment: datetime, zone: tzinfo) -> datetime:
    """Return a moment on the zone's clock.

    Its offset is fixed: Python subtracts two times of one zone by their clocks, which is an hour off when the clocks
    were changed between them.
    """
    try:
        here = moment.astimezone(zone)
    except OverflowError:  # the first or the last day that Python has
        return moment
    return here.replace(tzinfo=timezone(here.utcoffset() or timedelta(0), here.tzname() or ""), fold=0)


def day_of(moment: datetime, zone: tzinfo) -> str:
    """Return the zone's calendar day of a moment (ISO 8601)."""
    return local(moment, zone).date().isoformat()


def instant(moment: datetime, zone: tzinfo) -> datetime:
    """Return the moment in UTC; one without an offset is of the zone's clock."""
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
    except OverflowError:
        return moment.replace(tzinfo=UTC)


def clock_time(moment: datetime, zone: tzinfo) -> str:
    """Return a moment to the minute, with its zone: `2026-11-27 20:36 EST`."""
    return f"{local(moment, zone):%Y-%m-%d %H:%M %Z}"


def full_time(moment: datetime, zone: tzinfo) -> str:
    """Return a moment with its weekday, offset and zone: `Friday 2026-11-27 20:36 UTC-05:00 (America/New_York)`."""
    here, key = local(moment, zone), getattr(zone, "key", None)
    offset = here.isoformat()[-6:] if here.utcoffset() else ""
    return f"{here:%A %Y-%m-%d %H:%M} UTC{offset}" + (f" ({key})" if key and "UTC" not in key else "")


def on_clock(value: Any, zone: tzinfo) -> Any:  # noqa: ANN401 - any reply there is
    """Return a value with every moment in it on the zone's clock; the value itself if it has none."""
    if isinstance(value, datetime):
        return local(value, zone) if value.tzinfo else value
    if is_dataclass(value) and not isinstance(value, type):
        given = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
        new = {name: on_clock(one, zone) for name, one in given.items()}
        changed = {name: one for name, one in new.items() if one is not given[name]}
        return replace(value, **changed) if changed else value
    if isinstance(value, Mapping):
        items = {name: on_clock(one, zone) for name, one in value.items()}
        return items if any(items[name] is not value[name] for name in items) else value
    if isinstance(value, tuple | list):
        every = [on_clock(one, zone) for one in value]
        if all(one is other for one, other in zip(every, value, strict=True)):
            return value
        make = getattr(value, "_make", type(value))
        return make(every)
    return value
