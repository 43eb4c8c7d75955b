"""Codec: values as JSON and back, for the journal's records, checkpoints and `--json`.

Reading checks everything: an unknown key, a missing one or a wrong type is a StorageError, never a half-read value.
"""

from functools import cache
from typing import Any, TypeVar, cast

from state.errors import StorageError

Value = TypeVar("Value")


def encode(value: object) -> str:
    """JSON on one line of a frozen value, a list of them, or plain data."""
    text: str = _adapter(_kind(value)).dump_json(value).decode()
    return text


def plain(value: object) -> Any:  # noqa: ANN401 - JSON has no better type
    """The value as plain lists, dicts, numbers and strings."""
    return _adapter(_kind(value)).dump_python(value, mode="json")


def decode(kind: type[Value], text: str | bytes, name: str = "record") -> Value:
    """The value that `encode` wrote. `name` says in the error which record it was."""
    from pydantic import ValidationError

    try:
        value: Value = _adapter(cast("Any", kind)).validate_json(text, strict=True, extra="forbid")
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        raise StorageError(
            f"{name}: {place or 'it'} cannot be read ({first['msg']})", "run 'dreamd doctor'"
        ) from error
    return value


def _kind(value: object) -> Any:  # noqa: ANN401 - types are hashable, which mypy does not know of all
    return type(value)


@cache
def _adapter(kind: Any) -> Any:  # noqa: ANN401
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
