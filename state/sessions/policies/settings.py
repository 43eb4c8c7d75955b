"""Settings: checks what callers set of a policy, and other values from outside, against types with bounds."""

import math
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from state.codec import problems_of
from state.errors import UsageError

MAX_SECONDS = 10 * 366 * 86_400.0
MAX_COUNT = 1_000_000_000

Number = Annotated[int, Field(ge=1, le=MAX_COUNT)]
NumberOrNone = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS)]
Share = Annotated[float, Field(ge=0, le=1)]
Texts = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)]
PriorityName = Literal["low", "medium", "high", "critical"]
Lifetimes = dict[PriorityName, Annotated[float, Field(ge=1, le=MAX_SECONDS)]]
Numbers = dict[PriorityName, Number]


def checked_value(key: str, kind: Any, value: object) -> Any:  # noqa: ANN401 - any type has an adapter
    """The value as one of this type. Raises UsageError, which names the key."""
    try:
        return adapter(kind).validate_python(value)
    except ValidationError as error:
        place, problem = problems_of(error)[0]
        below = shown(place.removesuffix(".[key]"))[1:-1]  # a key from outside: it may be any text
        name = f"{key}.{below}" if place else key
        raise UsageError(f"{name}: {shown(error.errors()[0]['input'])}: {problem}") from None


def read(subject: str, kinds: Mapping[str, Any], config: Mapping[str, object]) -> dict[str, Any]:
    """What was set, checked. Raises UsageError, which names the key, for what is unknown, mistyped or impossible."""
    for key in config:
        if key not in kinds:
            known = ", ".join(kinds)
            raise UsageError(f"{shown(key)} is not a setting of {subject}", f"there are {known}")
    return {key: checked_value(key, kinds[key], value) for key, value in config.items()}


def settings_in(policy: Any, config: Mapping[str, object]) -> dict[str, Any]:  # noqa: ANN401 - see `kinds_of`
    """What was set of a class of policies, checked. Raises UsageError, which names the key."""
    return read(f"the {policy.name} policy", kinds_of(policy), config)


@cache
def kinds_of(policy: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a class, which mypy takes for unhashable
    """What can be set of a policy: the types of its fields, by their names."""
    types = get_type_hints(policy, include_extras=True)
    return {field.name: types[field.name] for field in fields(policy)}


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401
    """What checks values of this type, and describes it."""
    return TypeAdapter(kind, config=ConfigDict(strict=True))


def shown(value: object) -> str:
    """A value from outside as a message may quote it: in one line, short, whatever it is."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_COUNT * MAX_COUNT:
        return "a number of more than eighteen digits"  # Python refuses to print the longest
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = ascii(value) if isinstance(value, str | int | float | bool | None) else f"a {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:100]}…"
