"""Thin: commands that only ask, put to a running daemon: arguments out, its text in. Nothing else is loaded for it.

An agent that searches by a command waits for little but Python. What the arguments are stands in `commands.json`,
which is made of the operations; and whatever is not a plain answer, an error too, is left to the command in full.
"""

import json
import os
import socket
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from daemon.api.headers import NOTICES_HEADER, ROOT_HEADER
from daemon.api.peer import require_trusted
from daemon.cli.parsing import Parser, parser_of, takes_workspace, workspace_of
from daemon.cli.terminal import show_notices, show_reply, write_json
from daemon.config.paths import socket_path
from daemon.config.registry import name_of
from state.errors import DreamdError
from state.stores.disk.lock import is_stopped, present_holder

TABLE = Path(__file__).with_name("commands.json")
_CONNECT_SECONDS, _ANSWER_SECONDS = 5.0, 30.0
_OK = "HTTP/1.1 200 "


def run(name: str, words: Sequence[str]) -> int | None:
    """Print the daemon's answer to a command and return 0; None where the command has to be run in full.

    Raise UsageError for wrong arguments.
    """
    path = socket_path(os.environ)
    if not {"-h", "--help", "--config"}.isdisjoint(words) or not path.exists():
        return None
    command = json.loads(TABLE.read_text(encoding="utf-8"))[name]
    arguments = parser_for(name, command["arguments"]).parse_intermixed_args(words)
    workspace = workspace_of(arguments)
    if is_stopped(present_holder(workspace)):
        return None
    form = "json" if arguments.json else "text"
    target = f"/v1/workspaces/{name_of(workspace.root)}/{command['operation']}?as={form}"
    fields = json.dumps(fields_of(command["arguments"], arguments), default=datetime.isoformat)
    answer = _answer(path, target, workspace.root, fields.encode())
    if answer is None:
        return None
    notices, reply = answer
    show_notices(notices)
    if arguments.json:
        write_json(json.loads(reply))
    else:
        show_reply(reply)
    return 0


def parser_for(name: str, arguments: Iterable[Mapping[str, Any]]) -> Parser:
    """Return the parser of a command, without what its help says."""
    parser = parser_of(f"dreamd {name}", None)
    for one in arguments:
        add(parser, one)
    takes_workspace(parser)
    return parser


def add(parser: ArgumentParser, argument: Mapping[str, Any]) -> None:
    """Add an argument: what `add_argument` takes, the names as `flags`, the type by its name."""
    options = {key: value for key, value in argument.items() if key != "flags"}
    if "type" in options:
        options["type"] = _READERS[options["type"]]
    parser.add_argument(*argument["flags"], **options)


def fields_of(arguments: Iterable[Mapping[str, Any]], given: Namespace) -> dict[str, Any]:
    """Return what was given of these arguments, by the names of the request's fields. Several words are one text."""
    fields = {}
    for one in arguments:
        name = one.get("dest", one["flags"][0])
        value = getattr(given, name, None)
        if value is not None:
            fields[name] = " ".join(value) if one.get("nargs") == "+" and isinstance(value, list) else value
    return fields


def _answer(path: Path, target: str, root: Path, body: bytes) -> tuple[list[str], str] | None:
    """Return the notices and the reply of the daemon at this socket; None without a reply."""
    head = (
        f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"{ROOT_HEADER}: {quote(os.fsencode(root))}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with suppress(OSError, DreamdError, ValueError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_CONNECT_SECONDS)
        connection.connect(str(path))
        require_trusted(connection, path, named=bool(os.environ.get("DREAMD_SOCKET")))
        connection.settimeout(_ANSWER_SECONDS)
        connection.sendall(head.encode("ascii") + body)
        said = b"".join(iter(lambda: connection.recv(65_536), b""))
        head, _, reply = said.decode().partition("\r\n\r\n")
        status, *rows = head.split("\r\n")
        headers = {name.lower(): value for name, _, value in (row.partition(": ") for row in rows)}
        if status.startswith(_OK) and headers.get("content-length") == str(len(reply.encode())):
            return json.loads(headers.get(NOTICES_HEADER.lower(), "[]")), reply
    return None


def _day_over(text: str) -> datetime:
    moment = _moment(text)
    return moment + timedelta(days=1) if len(text) == len("2026-03-12") else moment


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        said = f"{text!r} is no day or time such as 2026-03-12 or 2026-03-12T14:30Z"
        raise ArgumentTypeError(said) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# What was known on a day was known at its end.
_READERS: Mapping[str, Callable[[str], object]] = {
    "int": int, "float": float, "moment": _moment, "end of day": _day_over,
}  # fmt: skip
