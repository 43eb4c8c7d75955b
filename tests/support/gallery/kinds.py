"""What a kind of bad answer is, and what is read of a prompt to make one."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.support.model_characters import inputs_of, lines_of
from tests.support.scripted_model import Reply

Request = dict[str, Any]
Answer = Reply | str | dict[str, Any]
Kind = Callable[[Request, int], Answer]


def name_of(kind: Kind) -> str:
    """What the kind is called in reports."""
    return str(getattr(kind, "__name__", kind)).replace("_", " ")


def named(row: str, answer: Kind) -> Kind:
    """Give a function of a table its name and its docstring: "name: what it does"."""
    name, said = row.split(": ", 1)

    def kind(request: Request, number: int) -> Answer:
        return answer(request, number)

    kind.__name__, kind.__doc__ = name.replace(" ", "_"), said
    return kind


def table(rows: Mapping[str, Kind]) -> tuple[Kind, ...]:
    """Return the kinds of a table."""
    return tuple(named(row, answer) for row, answer in rows.items())


def notes(request: Request) -> list[str]:
    """The ids of the notes."""
    return [name for name, _, _ in inputs_of(request) if name[0] == "N"]


def first_note(request: Request) -> tuple[str, str]:
    """The first note, with its text."""
    return next(((name, text) for name, _, text in inputs_of(request) if name[0] == "N"), ("N1", "nothing"))


def lines(request: Request) -> list[tuple[str, str]]:
    """The lines that operations may name, with their texts."""
    return [(name, text) for name, pinned, text in lines_of(request) if not pinned and "search:" not in text]


def pairs(request: Request) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Two lines each."""
    found = lines(request)
    return zip(found[::2], found[1::2], strict=False)


def add(text: Any, *cites: str, section: Any = "The Bond") -> dict[str, Any]:
    return {"op": "add", "section": section, "text": text, "cites": list(cites)}


def revise(line: str, text: str, *cites: str) -> dict[str, Any]:
    return {"op": "revise", "line": line, "text": text, "cites": list(cites)}


def evict(line: str, topic: str = "things") -> dict[str, Any]:
    return {"op": "evict", "line": line, "topic": topic, "cites": [line]}


def merge(names: list[str], text: str, section: str = "Active Context") -> dict[str, Any]:
    return {"op": "merge", "section": section, "lines": names, "text": text, "cites": names}


def answer(operations: list[dict[str, Any]], consumed: Any) -> dict[str, Any]:
    return {"operations": operations, "consumed": consumed}


def whole(answered: str) -> dict[str, Any]:
    """The answer as a value."""
    parsed: dict[str, Any] = json.loads(answered)
    return parsed
