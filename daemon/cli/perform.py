"""Perform: commands made from the parameters of one operation, answered by a running daemon, else by this process.

The fast way sends the arguments to a running daemon and prints its text, without importing anything else: an agent
that searches by a command waits for little but Python's start. It takes the arguments from `commands.json`, which is
generated from the operations. Anything but a plain answer, such as an error, makes the command run in full.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, get_args, get_origin

from daemon.api.client import Client, daemon
from daemon.api.headers import NOTICES_HEADER
from daemon.cli.parsing import WORKSPACE, Argument, arg, caller_of, command, is_configured, parser_of, workspace_of
from daemon.cli.terminal import say, show_json, show_notices, show_reply, spinner, write_json
from daemon.config.paths import has_socket, socket_path
from state.errors import BusyError, DreamdError, NotKeptError, UsageError
from state.stores.disk.lock import is_stopped, present_holder
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.api.operations.operation import AnyOperation, Operation, Parameter
    from daemon.dream.progress import Step

P = ParamSpec("P")
ReplyT = TypeVar("ReplyT")

TABLE = Path(__file__).with_name("commands.json")
_ANSWER_SECONDS, _OK = 30.0, 200
# A daemon is often busy for a moment with what was just written; a dream may take longer than anybody waits.
_READING_SECONDS, _POLL_SECONDS = 30.0, 0.2


def run(operation: "AnyOperation", arguments: argparse.Namespace, command: str) -> int:
    """Run the operation in the daemon or here, and print the reply."""
    asked = fields_of(arguments_of(operation), arguments)
    caller = caller_of(arguments, command)
    show(operation.text, caller.ask(operation, **asked), caller.config.zone, as_json=arguments.json)
    return 0


def show(text: Callable[[Any], str] | None, reply: object, zone: tzinfo = UTC, *, as_json: bool) -> None:
    """Print a reply as JSON, or as text with times of this zone."""
    if as_json or text is None:
        show_json(reply)
    else:
        from daemon.api.shapes import on_clock

        show_reply(text(on_clock(reply, zone)))


def ask_daemon(name: str, words: Sequence[str]) -> int | None:
    """Print the daemon's answer to a command that only reads, and return 0; None if the command must run in full.

    Raise UsageError for wrong arguments.
    """
    if not {"-h", "--help"}.isdisjoint(words) or not has_socket(socket_path(os.environ)):
        return None
    command = json.loads(TABLE.read_text(encoding="utf-8")).get(name)
    if command is None:
        return None
    parser = parser_of(f"dreamd {name}", None, [*command["arguments"], *WORKSPACE])
    arguments = parser.read(words)
    if is_configured(arguments) or os.environ.get("DREAMD_CONFIG"):  # the full command checks the configuration
        return None
    workspace = workspace_of(arguments)
    if is_stopped(present_holder(workspace)):
        return None
    fields = fields_of(command["arguments"], arguments)
    with suppress(DreamdError, ValueError):
        if show_answer(command["operation"], workspace, fields, _ANSWER_SECONDS, as_json=arguments.json):
            return 0
    return None


def show_answer(
    operation: str, workspace: Workspace | None, fields: Mapping[str, Any], seconds: float, *, as_json: bool
) -> bool:
    """Print the daemon's reply and return True; return False if it is an error or incomplete.

    `workspace`: None asks the daemon itself. Raise the errors of `Client.answer`, and ValueError for invalid JSON.
    """
    name, form = workspace.name if workspace else "", "json" if as_json else "text"
    path = f"{'' if name else '/v1'}/{operation}?as={form}"
    status, headers, reply = Client.at(os.environ).answer(path, fields, name, seconds)
    if status != _OK:
        return False
    show_notices(json.loads(headers.get(NOTICES_HEADER.lower(), "[]")))
    if as_json:
        write_json(json.loads(reply))
    else:
        show_reply(reply.decode())
    return True


def read_in(
    arguments: argparse.Namespace, operation: "Operation[P, ReplyT]", *args: P.args, **kwargs: P.kwargs
) -> ReplyT:
    """Run an operation that reads files; retry for 30 s while the daemon is busy, then raise BusyError."""
    with spinner("reading…"):
        caller = caller_of(arguments, "ingest", lambda step: say(step.figures))
        seconds = _READING_SECONDS if daemon() is not None else 0.0
        return retry_while_busy(lambda: caller.ask(operation, *args, **kwargs), seconds)


def retry_while_busy(
    ask: Callable[[], ReplyT], seconds: float, tell: Callable[[str], None] = lambda _: None
) -> ReplyT:
    """Call `ask` again while it raises BusyError, for this many seconds; `tell` once about the wait."""
    deadline, waiting = time.monotonic() + seconds, False
    while True:
        try:
            return ask()
        except BusyError as error:
            if isinstance(error, NotKeptError) or time.monotonic() >= deadline:
                raise
            if not waiting:
                tell(f"waiting: {error}")
            waiting = True
            time.sleep(_POLL_SECONDS)


@command(arg("operation", metavar="OPERATION", help="its name, as /v1/openapi.json has it"), *WORKSPACE)
def call(arguments: argparse.Namespace) -> int:
    """Run any operation with fields on stdin, as a JSON object; print steps, notices and reply as the daemon does."""
    from daemon.api.operations.table import OPERATIONS
    from state.codec import plain
    from state.text.words import did_you_mean

    def tell(kind: str, value: object) -> None:
        sys.stdout.write(json.dumps({kind: value}) + "\n")
        sys.stdout.flush()

    operation = OPERATIONS.get(arguments.operation)
    if operation is None:
        near = did_you_mean(arguments.operation, OPERATIONS)
        raise UsageError(f"there is no operation {arguments.operation!r:.100}{near}", "/v1/openapi.json lists them")
    try:
        fields = json.loads(sys.stdin.buffer.read() or b"{}")
    except ValueError as error:
        raise UsageError(f"stdin is no JSON: {error}", "give a JSON object") from None
    if not isinstance(fields, dict):
        raise UsageError("stdin is no JSON object", "give the operation's fields as one")

    def on_step(step: "Step") -> None:
        tell("step", {"node": step.node, "figures": step.figures})

    caller = caller_of(arguments, "call", on_step)
    reply = replace(caller, on_notice=lambda notice: tell("notice", notice)).ask(operation, **fields)
    tell("reply", plain(reply))
    return 0


def fields_of(arguments: Iterable[Argument], given: argparse.Namespace) -> dict[str, Any]:
    """Return the given arguments by the names of the request's fields; words of one text are joined."""
    fields = {}
    for one in arguments:
        name = one.get("dest", one["flags"][0])
        value = getattr(given, name, None)
        if value is not None:
            is_text = one.get("nargs") == "+" and "action" not in one and isinstance(value, list)
            fields[name] = " ".join(value) if is_text else value
    return fields


def arguments_of(operation: "AnyOperation", without: Collection[str] = ()) -> list[Argument]:
    """Return the operation's parameters as arguments: required ones positional, the others options.

    If the only required one is a text, it may be several words.
    """
    required = [one for one in operation.parameters if one.required]
    words = required[0].name if len(required) == 1 and required[0].type is str else ""
    own = (one for one in operation.parameters if one.name not in without)
    return [{**argument_of(one), **({"nargs": "+"} if one.name == words else {})} for one in own]


def argument_of(one: "Parameter") -> Argument:
    """Return the argument for a parameter: positional if it is required or has a place, else an option."""
    about = f"{one.about[:1].lower()}{one.about[1:]}"
    if one.required:
        return {"flags": [one.name], "help": about, "metavar": one.name.upper(), **_reader(one)}
    if one.place:
        many = get_origin(one.type) is tuple
        kind: dict[str, Any] = {"nargs": "*", "type": "int", "metavar": "N"} if many else {"nargs": "?"}
        return {"flags": [one.name], "help": about, "metavar": one.name.upper(), **kind}
    option, is_plain = str(one.bounds.get("alias", one.name)).replace("_", "-"), one.default in (None, "", False, ())
    about = about or (f"only of this {option}" if is_plain else "at most")  # agents pay for what a name says already
    about = about if is_plain else f"{about}; default {one.default}"
    return {"flags": [f"--{option}"], "dest": one.name, "help": about, **_reader(one)}


def _reader(one: "Parameter") -> dict[str, Any]:
    """Return the parameters of `add_argument` that depend on the type."""
    kind = one.type
    if kind is bool:
        return {"action": "store_true"}
    if get_origin(kind) is tuple:
        return {"action": "extend", "nargs": "+"} if one.required else {"action": "append", "metavar": "ID"}
    if get_origin(kind) is Literal:
        return {"choices": list(get_args(kind))}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"choices": [each.value for each in kind]}
    if kind is datetime:  # `as_of` a day includes all of that day
        return {"type": "end of day" if one.name == "as_of" else "moment", "metavar": "TIME"}
    is_number = kind in (int, float)
    return {"type": kind.__name__, "metavar": "N"} if is_number else {} if one.required else {"metavar": "TEXT"}
