"""A tool of MCP: which operation it is, when to use it, and what of the answer an agent is told."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from daemon.api.operations import AnyOperation
from state.codec import plain

# Of a schema, what an agent does not have to read: how long a text may be, the error says if it was too long.
_UNTOLD = ("title", "$defs", "maxLength", "minLength", "maxItems", "maxProperties", "propertyNames")
# Values that go without saying: what is left out is empty, and numbers have some end.
_UNSAID: dict[str, tuple[object, ...]] = {"default": ("", [], {}), "maximum": (1_000, 10**7, 10**9, 2**53)}


@dataclass(frozen=True, slots=True)
class Tool:
    """An operation as an agent sees it.

    `brief` makes of the operation's answer a `reply` (None: it is the reply), `hides` names the fields of it that are
    not told ("memories.seq": that of each memory), and `text` makes what stands beside it for clients without
    structured content (None: it is the reply as JSON). `hidden` fields of the request are not the agent's to set: an
    owner who reviews dreams must not be passed by. `reads`: nothing that an agent could tell is changed.
    `repeatable`: twice is as good as once. `destroys`: what it takes away cannot be brought back.
    """

    operation: AnyOperation
    description: str
    reply: type | None = None
    brief: Callable[[Any], Any] | None = None
    text: Callable[[Any], str] | None = None
    hides: frozenset[str] = frozenset()
    hidden: tuple[str, ...] = ()
    reads: bool = False
    repeatable: bool = False
    destroys: bool = False

    @property
    def name(self) -> str:
        """As the operation is called."""
        return self.operation.name

    def told(self, answer: Any) -> tuple[dict[str, Any], str]:  # noqa: ANN401 - the operation's reply
        """What an agent is told of the operation's answer: as JSON, and as text."""
        reply = self.brief(answer) if self.brief else answer
        told = _without(plain(reply), self.hides)
        return told, self.text(reply) if self.text else json.dumps(told, ensure_ascii=False, separators=(",", ":"))


@cache
def input_schema(tool: Tool) -> dict[str, Any]:
    """What the tool is asked, as JSON schema."""
    schema = tool.operation.request.model_json_schema()
    shown = {name: field for name, field in schema["properties"].items() if name not in tool.hidden}
    return _lean({**schema, "properties": shown}, optional=True)


@cache
def output_schema(tool: Tool) -> dict[str, Any]:
    """What the tool answers, as JSON schema."""
    reply = tool.reply or tool.operation.reply
    schema = _lean(TypeAdapter(reply).json_schema(mode="serialization"), optional=False)
    return _shown(schema, tool.hides)


def _without(value: Any, hidden: frozenset[str], at: str = "") -> Any:  # noqa: ANN401 - JSON has no better type
    """The value without the fields of these paths; a list is passed through."""
    if isinstance(value, list):
        return [_without(one, hidden, at) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: _without(one, hidden, f"{at}{name}.") for name, one in value.items() if f"{at}{name}" not in hidden}


def _shown(schema: dict[str, Any], hidden: frozenset[str], at: str = "") -> dict[str, Any]:
    """The schema of what `_without` leaves."""
    shown = dict(schema)
    if "properties" in schema:
        told = {name: part for name, part in schema["properties"].items() if f"{at}{name}" not in hidden}
        shown["properties"] = {name: _shown(part, hidden, f"{at}{name}.") for name, part in told.items()}
    if "required" in schema:
        shown["required"] = [name for name in schema["required"] if f"{at}{name}" not in hidden]
    if "items" in schema:
        shown["items"] = _shown(schema["items"], hidden, at)
    if "anyOf" in schema:
        shown["anyOf"] = [_shown(part, hidden, at) for part in schema["anyOf"]]
    return shown


def _lean(schema: dict[str, Any], *, optional: bool) -> dict[str, Any]:
    """The same in fewer tokens: references resolved; no titles, no lengths, and of descriptions those of fields.

    `optional`: what may be null may as well be left out, and null is not mentioned.
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
        kept = {key: value for key, value in part.items() if key not in _UNTOLD and value not in _UNSAID.get(key, ())}
        fields = kept.pop("properties", None)
        if fields is not None:
            kept.pop("description", None)
        shown = {key: lean(value) for key, value in kept.items()}
        return shown if fields is None else {**shown, "properties": {key: lean(one) for key, one in fields.items()}}

    whole: dict[str, Any] = lean(schema)
    return whole
