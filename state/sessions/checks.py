"""Checks: whether what a caller gave can be stored; what cannot raises a UsageError that names the key."""

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from state.codec import problems_of
from state.errors import UsageError
from state.sessions.item import WEIGHTS

MAX_CONTENT_BYTES = 102_400
MAX_NAME_BYTES = 16_384
MAX_COUNT = 1_000_000_000

Number = Annotated[int, Field(ge=1, le=MAX_COUNT)]
NumberOrNone = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Priority = Literal["low", "medium", "high", "critical"]
Share = Annotated[float, Field(ge=0, le=1)]
Texts = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)]

_OF_TEN = re.compile(r"(10(\.0+)?|[0-9](\.[0-9]+)?)/10")
_STARS = {"★": 0.3, "★★": 0.6, "★★★": 0.9}


class ScaleError(UsageError, ValueError):
    """An importance in an unknown scale; pydantic reports a ValueError as the field's."""


def shown(value: object) -> str:
    """Return a value from outside as a message may quote it: in one line, short, whatever it is."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_COUNT * MAX_COUNT:
        return "a number of more than eighteen digits"  # Python refuses to print the longest
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = ascii(value) if isinstance(value, str | int | float | bool | None) else f"a {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:100]}…"


def checked_value(key: str, kind: Any, value: object) -> Any:  # noqa: ANN401 - any type has an adapter
    """Return the value as one of this type, strictly."""
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        raise refusal(error, key) from None


def refusal(error: ValidationError, key: str = "") -> UsageError:
    """Return what pydantic found as an error that names the key and quotes the value."""
    place, problem = problems_of(error)[0]
    first, _, below = (f"{key}.{place}" if key and place else key or place).removesuffix(".[key]").partition(".")
    name = f"{first}.{shown(below)[1:-1]}" if below else first  # a key from outside may be any text
    return UsageError(f"{name}: {shown(error.errors()[0]['input'])}: {problem}")


def require_known(subject: str, known: Sequence[str], given: Mapping[str, object]) -> None:
    """Raise UsageError for a key that is not among the known ones."""
    for key in given:
        if key not in known:
            raise UsageError(f"{shown(key)} is not a setting of {subject}", f"there are {', '.join(known)}")


def at_least_one(key: str, number: int) -> int:
    """Return the number, if it is above zero."""
    if number < 1:
        raise UsageError(f"{key}: {shown(number)} is below 1")
    return number


def checked_text(key: str, value: str, most: int | None = None) -> str:
    """Return a text that can be written as UTF-8; with `most`, one of at least one and at most so many bytes."""
    if not isinstance(value, str) or (most and not value):
        raise UsageError(f"{key}: {shown(value)} is no text", "give at least one character" if most else "")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise UsageError(f"{key}: it holds half a character (a lone surrogate)", "send whole Unicode text") from error
    if most and size > most:
        raise UsageError(f"{key}: it has {size} bytes and may have {most}", "give a shorter one")
    return value


def checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags, each once."""
    if isinstance(tags, str) or not all(isinstance(tag, str) and tag for tag in tags):
        raise UsageError(f"tags: {shown(tags)} is not a list of texts, none of them empty")
    checked_text("tags", "".join(tags) or " ", MAX_CONTENT_BYTES)
    return tuple(dict.fromkeys(tags))


def checked_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata as a table of texts."""
    if not isinstance(metadata, Mapping):
        raise UsageError(f"metadata: {shown(metadata)} is not a table of texts")
    texts = {checked_text("metadata", key): checked_text(f"metadata.{key}", value) for key, value in metadata.items()}
    checked_text("metadata", "".join((*texts, *texts.values())) or " ", MAX_CONTENT_BYTES)
    return texts


def checked_importance(priority: str, importance: float | str | None) -> float:
    """Return the importance of an item: as given, in whatever scale, else what its priority says."""
    if importance is None:
        return WEIGHTS[priority]
    return float(checked_value("importance", Share, from_scale(importance)))


def from_scale(importance: object) -> object:
    """Convert a text in one of the other scales ("7/10", "★★") to a number from 0 to 1; leave the rest as it is.

    Raise ScaleError for a text in no known scale.
    """
    if not isinstance(importance, str):
        return importance
    if importance in _STARS:
        return _STARS[importance]
    if _OF_TEN.fullmatch(importance):
        return float(importance.removesuffix("/10")) / 10
    raise ScaleError(f"importance: {shown(importance)} is neither a number from 0 to 1, nor such as '7/10' or '★★'")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401
    return TypeAdapter(kind, config=ConfigDict(strict=True))
