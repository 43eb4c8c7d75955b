"""Zone: the owner's calendar and clock, from which every calendar day of a moment is derived; storage stays UTC."""

from datetime import UTC, datetime, timedelta, timezone, tzinfo


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
