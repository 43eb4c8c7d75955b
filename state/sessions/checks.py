"""Checks: types for values that callers pass, and how a refusal quotes an invalid value."""

import math
import re
from typing import Annotated, Literal

from annotated_types import Len, MaxLen
from pydantic import Field, ValidationError

from state.codec import problems_of
from state.errors import UsageError

MAX_CONTENT_BYTES = 102_400

Number = Annotated[int, Field(ge=1, le=10**9)]
NumberOrNone = Annotated[int, Field(ge=0, le=10**9)]
Priority = Literal["low", "medium", "high", "critical"]
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, MaxLen(1_000)]
Name = Annotated[str, Len(1, 1_000)]
Tags = Annotated[tuple[Name, ...], MaxLen(100)]

_OF_TEN = re.compile(r"(10(\.0+)?|[0-9](\.[0-9]+)?)/10")
_STARS = {"★": 0.3, "★★": 0.6, "★★★": 0.9}


def shown(value: object) -> str:
    """Return a value from outside as a message may quote it: one short line, whatever the value."""
    if isinstance(value, int) and abs(value) > 10**18:
        return "a number of more than eighteen digits"  # Python refuses to print very long ones
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = ascii(value) if isinstance(value, str | int | float | bool | None) else f"a {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:100]}…"


def refusal(error: ValidationError) -> UsageError:
    """Convert pydantic's error to one that names the key and quotes the value."""
    place, problem = problems_of(error)[0]
    first, _, below = place.removesuffix(".[key]").partition(".")
    name = f"{first}.{shown(below)[1:-1]}" if below else first  # a key from outside may be any text
    return UsageError(f"{name}: {shown(error.errors()[0]['input'])}: {problem}")


def from_scale(importance: object) -> object:
    """Convert a text in another scale ("7/10", "★★") to a number from 0 to 1; return anything else unchanged.

    Raise ValueError, which pydantic reports for the field, if the text is in no known scale.
    """
    if not isinstance(importance, str):
        return importance
    if importance in _STARS:
        return _STARS[importance]
    if _OF_TEN.fullmatch(importance):
        return float(importance.removesuffix("/10")) / 10
    raise ValueError(f"{shown(importance)} is neither a number from 0 to 1, nor such as '7/10' or '★★'")
