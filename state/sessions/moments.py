"""Moments: sums of times that stay within the calendar."""

from datetime import UTC, datetime, timedelta

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)


def after(moment: datetime, seconds: float) -> datetime:
    """So many seconds later (or earlier)."""
    try:
        return moment.astimezone(UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST if seconds > 0 else _FIRST


def seconds_between(earlier: datetime, later: datetime) -> float:
    """How much later; 0 when a clock was set back."""
    return max(0.0, (later - earlier).total_seconds())
