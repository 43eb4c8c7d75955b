"""Fields: finds the texts of an entry that are compared by meaning, by paths as LangGraph's stores take them.

`$` is the whole value; `title`, `author.name`, `tags[0]`, `tags[-1]`, `tags[*]`, `*` and `{title,body}` are parts.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

WHOLE = "$"
# The embedding model reads some 1,000 characters of a text.
LONGEST_TEXT = 8_000
MOST_TEXTS = 32
# So many places of a value are looked at: a path of 100 characters, such as {a,a}.{a,a}, may lead to a million.
_MOST_PLACES = 1_000
_STEP = re.compile(r"\[([^\[\]]*)\]|\{([^{}]*)\}|([^.\[\]{}]+)")


def texts_of(value: Mapping[str, Any], fields: Iterable[str]) -> tuple[str, ...]:
    """The texts at these paths, each once, at most 32; a path that leads nowhere has none."""
    found: dict[str, None] = {}
    whole, seen, places = dict(value), set[int](), iter(range(_MOST_PLACES))
    for path in fields:
        parts = [whole] if path in ("", WHOLE) else _at(whole, list(_steps(path)), places)
        for part in parts:
            if part is not None and id(part) not in seen:
                seen.add(id(part))
                found[_said(part)[:LONGEST_TEXT]] = None
            if len(found) == MOST_TEXTS:
                return tuple(found)
    return tuple(found)


def _steps(path: str) -> Iterator[tuple[str, str]]:
    """The steps of a path: what it is ([, { or a name), and what it says."""
    for match in _STEP.finditer(path):
        index, several, name = match.groups()
        if index is not None:
            yield "[", index
        elif several is not None:
            yield "{", several
        else:
            yield "", name


def _at(value: Any, steps: list[tuple[str, str]], places: Iterator[int]) -> Iterator[Any]:  # noqa: ANN401 - JSON
    """What these steps lead to, until no place is left."""
    if next(places, None) is None:
        return
    if not steps:
        yield value
        return
    (kind, said), rest = steps[0], steps[1:]
    if kind == "{":
        for path in said.split(","):
            yield from _at(value, [*_steps(path.strip()), *rest], places)
        return
    for part in _parts(value, kind, said):
        yield from _at(part, rest, places)


def _parts(value: Any, kind: str, said: str) -> Iterable[Any]:  # noqa: ANN401
    if kind == "[":
        if not isinstance(value, list):
            return ()
        if said == "*":
            return value
        index = int(said) if re.fullmatch(r"-?\d{1,9}", said) else len(value)
        return value[index : index + 1 or None] if -len(value) <= index < len(value) else ()
    if said == "*":
        return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (value[said],) if isinstance(value, Mapping) and said in value else ()


def _said(part: Any) -> str:  # noqa: ANN401
    if isinstance(part, str):
        return part
    return json.dumps(part, sort_keys=True, ensure_ascii=False)
