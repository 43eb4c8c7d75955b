"""Settings: reads and checks the settings of a policy."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from state.errors import UsageError
from state.sessions.item import Priority

MAX_SECONDS = 10 * 366 * 86_400.0
MAX_COUNT = 1_000_000_000

Reader = Callable[[str, object], Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """A reader that says in JSON schema what it reads."""

    read: Reader
    schema: Mapping[str, object]

    def __call__(self, key: str, value: object) -> Any:  # noqa: ANN401 - each setting has its own type
        """The value, checked. Raises UsageError, which names the key."""
        return self.read(key, value)


@dataclass(frozen=True, slots=True)
class ByPriority:
    """A figure for each priority."""

    low: float
    medium: float
    high: float
    critical: float

    def of(self, priority: Priority) -> float:
        """The one of this priority."""
        figures = {
            Priority.LOW: self.low,
            Priority.MEDIUM: self.medium,
            Priority.HIGH: self.high,
            Priority.CRITICAL: self.critical,
        }
        return figures[priority]


def read(policy: str, readers: Mapping[str, Reader], config: Mapping[str, object]) -> dict[str, Any]:
    """What was set, checked. Raises UsageError, which names the key, for what is unknown, mistyped or impossible."""
    for key in config:
        if key not in readers:
            raise UsageError(f"{shown(key)} is not a setting of the {policy} policy", f"there are {_names(readers)}")
    return {key: readers[key](key, value) for key, value in config.items()}


def whole(least: int, most: int) -> Setting:
    """An integer between these."""

    def reader(key: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"{key}: {shown(value)} is not a whole number")
        if not least <= value <= most:
            raise UsageError(f"{key}: {shown(value)} is not between {least} and {most}")
        return value

    return Setting(reader, {"type": "integer"})


def real(least: float, most: float) -> Setting:
    """A number between these."""

    def reader(key: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"{key}: {shown(value)} is not a number")
        if not least <= value <= most:  # not-a-number is not between any two
            raise UsageError(f"{key}: {shown(value)} is not between {least:g} and {most:g}")
        return value

    return Setting(reader, {"type": "number"})


def by_priority(one: Setting, defaults: ByPriority) -> Setting:
    """A figure for some of the priorities; the others keep their defaults."""

    def reader(key: str, value: object) -> ByPriority:
        figures = {priority.value: defaults.of(priority) for priority in Priority}
        if not isinstance(value, Mapping):
            raise UsageError(f"{key}: {shown(value)} is not a table with {_names(figures)}")
        for name, figure in value.items():
            if name not in figures:
                raise UsageError(f"{key}: {shown(name)} is not a priority", f"there are {_names(figures)}")
            figures[name] = one(f"{key}.{name}", figure)
        return ByPriority(**figures)

    table = {"type": "object", "properties": {priority.value: dict(one.schema) for priority in Priority}}
    return Setting(reader, table)


def _switch(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{key}: {shown(value)} is neither true nor false")
    return value


def _texts(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) and one for one in value):
        raise UsageError(f"{key}: {shown(value)} is not a list of texts")
    return tuple(value)


# True or false; and a list of texts, none of them empty.
switch = Setting(_switch, {"type": "boolean"})
texts = Setting(_texts, {"type": "array", "items": {"type": "string"}})


def shown(value: object) -> str:
    """A value from outside as a message may quote it: in one line, short, whatever it is."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_COUNT * MAX_COUNT:
        return "a number of more than eighteen digits"  # Python refuses to print the longest
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = ascii(value) if isinstance(value, str | int | float | bool | None) else f"a {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:100]}…"


def _names(table: Mapping[str, object]) -> str:
    return ", ".join(table)
