"""Tool: an operation as an agent sees it: when to use it, its schemas, and which fields of the reply it gets."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from daemon.api.operations.operation import AnyOperation
from state.codec import plain

# Keys of a schema that an agent does not need: the error for a text that is too long states the limit.
_OMITTED_KEYS = ("title", "$defs", "maxLength", "minLength", "maxItems", "maxProperties", "propertyNames")
# Values that an agent can do without: a missing field is empty, and numbers have some limit.
_OMITTED_VALUES: dict[str, tuple[object, ...]] = {"default": ("", [], {}), "maximum": (1_000, 10**7, 10**9, 2**53)}
# Digits of the numbers in a reply that are more than an agent needs.
_DIGITS = {"score": 3, "age_days": 2, "dopamine": 3, "cortisol": 3, "oxytocin": 3}


@dataclass(frozen=True, slots=True)
class Tool:
    """An operation as an agent sees it.

    `brief` shortens the operation's reply to a `reply` (None: as it is), `hides` names fields of it that are left out
    ("memories.seq": of each memory), and `text` renders it for clients without structured content (None: as JSON).
    `hidden` fields of the request are not the agent's to set: an owner who reviews dreams must not be bypassed; some
    of them are `fixed`.
    `reads`: changes nothing that an agent could notice. `repeatable`: twice has the effect of once. `destroys`: what
    it removes cannot be restored.
    """

    operation: AnyOperation
    description: str
    reply: type | None = None
    brief: Callable[[Any], Any] | None = None
    text: Callable[[Any], str] | None = None
    hides: frozenset[str] = frozenset()
    hidden: tuple[str, ...] = ()
    fixed: tuple[tuple[str, object], ...] = ()
    reads: bool = False
    repeatable: bool = False
    destroys: bool = False

    @property
    def name(self) -> str:
        """The operation's name."""
        return self.operation.name

    def shown(self, full: Any) -> tuple[dict[str, Any], str]:  # noqa: ANN401 - the operation's reply
        """The part of the operation's reply that an agent gets: as JSON, and as text."""
        reply = self.brief(full) if self.brief else full
        fields = _without(plain(reply), self.hides)
        return fields, self.text(reply) if self.text else json.dumps(
            fields, ensure_ascii=False, separators=(",", ":")
        )


@cache
def input_schema(tool: Tool) -> dict[str, Any]:
    """JSON schema of the tool's arguments."""
    schema = tool.operation.request.model_json_schema()
    shown = {name: field for name, field in schema["properties"].items() if name not in tool.hidden}
    return _lean({**schema, "properties": shown}, optional=True)


@cache
def output_schema(tool: Tool) -> dict[str, Any]:
    """JSON schema of the tool's reply."""
    reply = tool.reply or tool.operation.reply
    schema = _lean(TypeAdapter(reply).json_schema(mode="serialization"), optional=False)
    return _shown(schema, tool.hides)


def _without(value: Any, hidden: frozenset[str], at: str = "") -> Any:  # noqa: ANN401 - JSON has no better type
    """The value without the fields of these paths, its numbers rounded; a list is passed through."""
    if isinstance(value, list):
        return [_without(one, hidden, at) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: round(one, _DIGITS[name]) if name in _DIGITS else _without(one, hidden, f"{at}{name}.")
        for name, one in value.items()
        if f"{at}{name}" not in hidden
    }


def _shown(schema: dict[str, Any], hidden: frozenset[str], at: str = "") -> dict[str, Any]:
    """The schema of what `_without` leaves."""
    shown = dict(schema)
    if "properties" in schema:
        kept = {name: part for name, part in schema["properties"].items() if f"{at}{name}" not in hidden}
        shown["properties"] = {name: _shown(part, hidden, f"{at}{name}.") for name, part in kept.items()}
    if "required" in schema:
        shown["required"] = [name for name in schema["required"] if f"{at}{name}" not in hidden]
    if "items" in schema:
        shown["items"] = _shown(schema["items"], hidden, at)
    if "anyOf" in schema:
        shown["anyOf"] = [_shown(part, hidden, at) for part in schema["anyOf"]]
    return shown


def _lean(schema: dict[str, Any], *, optional: bool) -> dict[str, Any]:
    """A schema in fewer tokens: references resolved, no titles and lengths, descriptions of fields only.

    `optional`: a field that may be null may be left out instead, so null is not mentioned.
    """
    parts: dict[str, Any] = schema.get("$defs", {})

    def lean(part: Any) -> Any:  # noqa: ANN401 - a schema is any JSON
        if isinstance(part, list):
            return [lean(one) for one in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            meant = dict(parts[part["$ref"].rpartition("/")[2]])
            meant.pop("description", None)
            return lean(meant | {key: value for key, value in part.items() if key != "$ref"})
        if optional and "anyOf" in part:
            (given,) = [one for one in part["anyOf"] if one != {"type": "null"}]
            rest = {key: value for key, value in part.items() if key not in ("anyOf", "default")}
            return lean({**given, **rest})
        kept = {
            key: value
            for key, value in part.items()
            if key not in _OMITTED_KEYS and value not in _OMITTED_VALUES.get(key, ())
        }
        fields = kept.pop("properties", None)
        if fields is not None:
            kept.pop("description", None)
        shown = {key: lean(value) for key, value in kept.items()}
        return shown if fields is None else {**shown, "properties": {key: lean(one) for key, one in fields.items()}}

    whole: dict[str, Any] = lean(schema)
    return whole
