"""Perform: commands that are one operation each, made from its parameters; the reply is printed as text or JSON."""

import argparse
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from daemon.api.text import ABOUT
from daemon.cli import terminal
from daemon.cli.parsing import caller_of, takes_workspace

if TYPE_CHECKING:
    from daemon.api.operations.operation import AnyOperation, Parameter


def add(parser: argparse.ArgumentParser, operation: "AnyOperation", without: Collection[str] = ()) -> None:
    """Add its parameters: the required ones by their place, the others as options. Text in one place may be words."""
    required = [one for one in operation.parameters if one.required]
    for one in operation.parameters:
        if one.name in without:
            continue
        if one.required and len(required) == 1 and _kind(one) is str:
            parser.add_argument(one.name, nargs="+", metavar=one.name.upper(), help=one.about)
        else:
            add_parameter(parser, one)
    takes_workspace(parser)


def add_parameter(parser: argparse.ArgumentParser, one: "Parameter") -> None:
    """Add one parameter: a required one by its place, another one as an option."""
    if one.required:
        parser.add_argument(one.name, help=one.about, **{"metavar": one.name.upper(), **_reader(one)})
    elif one.place:
        many = get_origin(_kind(one)) is tuple
        kind: dict[str, Any] = {"nargs": "*", "type": int, "metavar": "N"} if many else {"nargs": "?"}
        parser.add_argument(one.name, help=one.about, **{"metavar": one.name.upper(), **kind})
    else:
        is_plain = one.default in (None, "", False, ())
        about = one.about if is_plain else f"{one.about or 'at most'}; default {one.default}"
        option = str(one.bounds.get("alias", one.name)).replace("_", "-")
        parser.add_argument(f"--{option}", dest=one.name, help=about or None, **_reader(one))


def given(operation: "AnyOperation", arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the arguments say of its parameters, by their names."""
    values = {one.name: getattr(arguments, one.name, None) for one in operation.parameters}
    words = {one.name for one in operation.parameters if _kind(one) is str}
    return {
        name: " ".join(value) if name in words and isinstance(value, list) else value
        for name, value in values.items()
        if value is not None
    }


def run(operation: "AnyOperation", arguments: argparse.Namespace, command: str) -> int:
    """Have it done, and print the reply."""
    asked = given(operation, arguments)
    show(operation.text, caller_of(arguments, command).ask(operation, **asked), as_json=arguments.json)
    return 0


def show(text: Callable[[Any], str] | None, reply: object, *, as_json: bool) -> None:
    """Print a reply. That its texts are data is for agents; what it says beside goes to stderr."""
    if as_json or text is None:
        terminal.show_json(reply)
        return
    said = text(reply)
    if said.startswith(ABOUT):
        head, _, said = said.removeprefix(ABOUT).partition("\n")
        terminal.say(head.strip()) if head else None
    terminal.show(said.lstrip("\n"))


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
        return {"choices": get_args(kind)}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"choices": [each.value for each in kind], "metavar": "NAME"}
    if kind is AwareDatetime:
        return {"type": _ENDS.get(one.name, _moment), "metavar": "TIME"}
    return {"type": kind, "metavar": "N"} if kind in (int, float) else {} if one.required else {"metavar": "TEXT"}


def _day_over(text: str) -> datetime:
    moment = _moment(text)
    return moment + timedelta(days=1) if len(text) == len("2026-03-12") else moment


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no day or time such as 2026-03-12 or 2026-03-12T14:30Z"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# What was known on a day was known at its end.
_ENDS: dict[str, Callable[[str], datetime]] = {"as_of": _day_over}
