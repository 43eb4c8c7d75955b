"""Moments in state.db: ISO 8601 text in UTC with microseconds, which sorts as text."""

from datetime import UTC, datetime

from state.errors import StorageError


def to_text(moment: datetime) -> str:
    """Return a moment as ISO 8601 text in UTC with microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def from_text(text: str) -> datetime:
    """Parse the text of `to_text`. Raise StorageError if it is no timestamp."""
    try:
        return datetime.fromisoformat(text)
    except (ValueError, TypeError) as error:
        raise StorageError(f"state.db: {text!r:.40} is no moment", "run 'dreamd doctor'") from error


def optional_text(moment: datetime | None) -> str | None:
    """Return a moment as text; None for None."""
    return to_text(moment) if moment is not None else None


def optional_moment(text: str | None) -> datetime | None:
    """Parse the text of `optional_text`."""
    return from_text(text) if text is not None else None
