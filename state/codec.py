"""Codec: values to JSON and back, for records of dreams, checkpoints and `--json`.

Decoding checks everything: an unknown key, a missing key or a wrong type raises StorageError; no value is half read.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from state.errors import StorageError

if TYPE_CHECKING:
    from pydantic import ValidationError

Value = TypeVar("Value")

# The most invalid fields that are reported, and the most characters of a field's name.
MOST_PROBLEMS = 20
LONGEST_NAME = 100


def encode(value: object) -> str:
    """Return a frozen value, a list of them, or plain data as JSON on one line."""
    text: str = _adapter(_kind(value)).dump_json(value).decode()
    return text


def plain(value: object) -> Any:  # noqa: ANN401 - JSON has no better type
    """Return the value as plain lists, dicts, numbers and strings."""
    return _adapter(_kind(value)).dump_python(value, mode="json")


def decode(kind: type[Value], text: str | bytes, name: str = "record") -> Value:
    """Return the value that `encode` wrote. `name` identifies the record in errors."""
    from pydantic import ValidationError

    try:
        value: Value = _adapter(cast("Any", kind)).validate_json(text, strict=True, extra="forbid")
    except ValidationError as error:
        place, problem = problems_of(error)[0]
        raise StorageError(f"{name}: {place or 'it'} cannot be read ({problem})", "run 'dreamd doctor'") from error
    return value


def problems_of(error: "ValidationError") -> list[tuple[str, str]]:
    """Return the path and problem of each invalid field, without its value, which may be private."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)[:MOST_PROBLEMS]
    return [
        (".".join(map(str, one["loc"]))[:LONGEST_NAME], one["msg"][:1].lower() + one["msg"][1:]) for one in errors
    ]


def first_problem(error: "ValidationError") -> str:
    """Return the first invalid field and its problem on one line."""
    place, problem = problems_of(error)[0]
    return " ".join((f"{place}: {problem}" if place else problem).split())


def each_text(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - JSON has no better type
    """Return plain data with `change` applied to each string, including keys."""
    if isinstance(value, dict):
        return {change(str(name)): each_text(one, change) for name, one in value.items()}
    if isinstance(value, list):
        return [each_text(one, change) for one in value]
    return change(value) if isinstance(value, str) else value


def whole(text: str) -> str:
    """Return the text with U+FFFD for each half of a surrogate pair, which no file can hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _kind(value: object) -> Any:  # noqa: ANN401 - types are hashable, which mypy does not know of all
    return type(value)


@cache
def _adapter(kind: Any) -> Any:  # noqa: ANN401
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
