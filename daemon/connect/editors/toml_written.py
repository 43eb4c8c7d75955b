"""Values written as TOML: as tables with headers, or within a line."""

import json
from collections.abc import Iterator

from daemon.connect.editors.toml_statements import BARE
from state.errors import UsageError

_MOST_INTEGER = 2**63


def key(*names: str) -> str:
    """The names with dots between them, quoted where they must be."""
    return ".".join(name if BARE.fullmatch(name) else _text(name) for name in names)


def is_table(value: object) -> bool:
    """Whether it is written with a header rather than within a line: an object, or an array of objects."""
    return isinstance(value, dict) or is_tables(value)


def is_tables(value: object) -> bool:
    """Whether it is an array of objects alone."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def lines(path: tuple[str, ...], value: object) -> Iterator[str]:
    """The lines of an object or of an array of objects, each table with its header."""
    for item in value if isinstance(value, list) else ():
        yield f"[[{key(*path)}]]"
        yield from _inner_lines(path, item)
    if isinstance(value, dict):
        yield f"[{key(*path)}]"
        yield from _inner_lines(path, value)


def _inner_lines(path: tuple[str, ...], table: dict[str, object]) -> Iterator[str]:
    """What is written within a line comes first: behind a header it would belong to that."""
    for name, value in table.items():
        if not is_table(value):
            yield f"{key(name)} = {inline(value)}"
    for name, value in table.items():
        if is_table(value):
            yield from lines((*path, name), value)


def inline(value: object) -> str:
    """The value within a line; raises UsageError for what TOML has not."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _text(value)
        case float():
            return repr(value)
        case int() if -_MOST_INTEGER <= value < _MOST_INTEGER:
            return str(value)
        case list():
            return f"[{', '.join(inline(item) for item in value)}]"
        case dict():
            members = ", ".join(f"{key(name)} = {inline(item)}" for name, item in value.items())
            return f"{{ {members} }}" if members else "{}"
    raise UsageError(f"TOML cannot hold {value!a}")


def _text(text: str) -> str:
    """A basic string: TOML has all escapes of JSON, and needs one more."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
