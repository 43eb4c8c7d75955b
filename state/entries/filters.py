"""Filter: which values of entries are wanted, by their fields: equal to something, or compared with it.

`{"status": "active", "score": {"$gt": 3}}`: all of it must hold. A name with dots that the value does not have leads
into it. An order is one of numbers, or of texts; what cannot be ordered is neither greater nor less.
"""

from collections.abc import Callable, Mapping
from operator import ge, gt, le, lt
from typing import Any

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
OPERATORS = frozenset({"$eq", "$ne", *_ORDERS})


def unknown_operators(wanted: Any) -> list[str]:  # noqa: ANN401 - JSON has no better type
    """The operators of a filter that there are not."""
    if isinstance(wanted, Mapping):
        here = [name for name in wanted if name.startswith("$") and name not in OPERATORS]
        return [*here, *(name for value in wanted.values() for name in unknown_operators(value))]
    return []


def passes(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the value is one of those that are wanted."""
    return all(_fits(_field(value, name), one) for name, one in wanted.items())


def _field(value: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401
    """What the value has under this name, or at its end; None for nothing."""
    if name in value or "." not in name:
        return value.get(name)
    head, _, rest = name.partition(".")
    inner = value.get(head)
    return _field(inner, rest) if isinstance(inner, Mapping) else None


def _fits(value: Any, wanted: Any) -> bool:  # noqa: ANN401
    if isinstance(wanted, Mapping):
        if any(name.startswith("$") for name in wanted):
            return all(_compared(value, name, one) for name, one in wanted.items())
        return isinstance(value, Mapping) and passes(value, wanted)
    return _same(value, wanted)


def _compared(value: Any, operator: str, other: Any) -> bool:  # noqa: ANN401
    if operator in _ORDERS:
        return _comparable(value, other) and _ORDERS[operator](value, other)
    return _same(value, other) is (operator == "$eq")


def _comparable(value: Any, other: Any) -> bool:  # noqa: ANN401
    kinds = ((int, float), str)
    return any(isinstance(value, kind) and isinstance(other, kind) for kind in kinds)


def _same(value: Any, other: Any) -> bool:  # noqa: ANN401
    """Equal as JSON: true is not 1."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return bool(value == other)
