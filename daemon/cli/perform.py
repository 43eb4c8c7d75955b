"""Perform: commands that are one operation each, made from its parameters; the reply is printed as text or JSON."""

import argparse
from collections.abc import Callable, Collection
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from daemon.cli import terminal, thin
from daemon.cli.parsing import caller_of, takes_workspace

if TYPE_CHECKING:
    from daemon.api.operations.operation import AnyOperation, Parameter


def add(parser: argparse.ArgumentParser, operation: "AnyOperation", without: Collection[str] = ()) -> None:
    """Add its parameters: the required ones by their place, the others as options. Text in one place may be words."""
    for one in arguments_of(operation):
        if one.get("dest", one["flags"][0]) not in without:
            thin.add(parser, one)
    takes_workspace(parser)


def arguments_of(operation: "AnyOperation") -> list[dict[str, Any]]:
    """Return the arguments of a command for an operation, as plain data."""
    required = [one for one in operation.parameters if one.required]
    words = required[0].name if len(required) == 1 and _kind(required[0]) is str else ""
    return [argument_of(one) | ({"nargs": "+"} if one.name == words else {}) for one in operation.parameters]


def argument_of(one: "Parameter") -> dict[str, Any]:
    """Return the argument for a parameter: a required one by its place, another one as an option."""
    if one.required:
        return {"flags": [one.name], "help": one.about, "metavar": one.name.upper(), **_reader(one)}
    if one.place:
        many = get_origin(_kind(one)) is tuple
        kind: dict[str, Any] = {"nargs": "*", "type": "int", "metavar": "N"} if many else {"nargs": "?"}
        return {"flags": [one.name], "help": one.about, "metavar": one.name.upper(), **kind}
    is_plain = one.default in (None, "", False, ())
    about = one.about if is_plain else f"{one.about or 'at most'}; default {one.default}"
    option = str(one.bounds.get("alias", one.name)).replace("_", "-")
    return {"flags": [f"--{option}"], "dest": one.name, "help": about or None, **_reader(one)}


def given(operation: "AnyOperation", arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the arguments say of its parameters, by their names."""
    return thin.fields_of(arguments_of(operation), arguments)


def run(operation: "AnyOperation", arguments: argparse.Namespace, command: str) -> int:
    """Have it done, and print the reply."""
    asked = given(operation, arguments)
    show(operation.text, caller_of(arguments, command).ask(operation, **asked), as_json=arguments.json)
    return 0


def show(text: Callable[[Any], str] | None, reply: object, *, as_json: bool) -> None:
    """Print a reply."""
    if as_json or text is None:
        terminal.show_json(reply)
        return
    terminal.show_reply(text(reply))


def operation_at(name: str) -> "AnyOperation":
    """Return the operation at this place."""
    module, _, attribute = name.partition(":")
    operation: AnyOperation = getattr(import_module(f"daemon.api.operations.{module}"), attribute)
    return operation


def _kind(one: "Parameter") -> Any:  # noqa: ANN401 - any type there is
    """Return its type without None, and without what pydantic is told beside it."""
    kinds = [kind for kind in get_args(one.kind) if kind is not type(None)]
    kind = kinds[0] if type(None) in get_args(one.kind) else one.kind
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _reader(one: "Parameter") -> dict[str, Any]:
    """Return how argparse reads it."""
    from pydantic import AwareDatetime

    kind = _kind(one)
    if kind is bool:
        return {"action": "store_true"}
    if get_origin(kind) is tuple:
        return {"action": "append", "metavar": "ID"}
    if get_origin(kind) is Literal:
        return {"choices": list(get_args(kind))}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"choices": [each.value for each in kind], "metavar": "NAME"}
    if kind is AwareDatetime:  # what was known on a day was known at its end
        return {"type": "end of day" if one.name == "as_of" else "moment", "metavar": "TIME"}
    is_number = kind in (int, float)
    return {"type": kind.__name__, "metavar": "N"} if is_number else {} if one.required else {"metavar": "TEXT"}
