"""Doors: every way to ask an operation of a workspace. Each returns what was answered in the same form."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from dreamd_client import Client
from dreamd_client import DreamdError as RefusedError

from daemon.api.access import LocalAccess
from daemon.api.operations.operation import AnyOperation
from daemon.api.operations.request import Request
from daemon.api.operations.table import OPERATIONS
from daemon.cli import COMMANDS
from daemon.cli.perform import arguments_of
from daemon.config.settings import Config, McpSection
from daemon.mcp.tools import TOOLSETS
from daemon.mcp.tools import arguments_of as tool_arguments
from daemon.workspace.adoption import open_workspace
from daemon.workspace.vector_index import Embedding
from state.codec import encode
from state.errors import KINDS, DreamdError
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import TOKEN, Answer, Running
from tests.daemon.mcp.agents import Talk
from tests.doors.rows import Row
from tests.support.running import Caller

STATUS = {kind.code: kind for kind in KINDS}
BOTH = Config(mcp=McpSection(toolsets=("memory", "sessions")))
# The commands that are one operation each, by its name.
COMMAND_OF = {
    operation.name: name
    for name, (place, *_) in COMMANDS.items()
    for operation in OPERATIONS.values()
    if place.startswith("api.") and operation.run.__name__ == place.rpartition(":")[2]
}


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back; None for what this door does not say."""

    reply: Any = None
    text: str | None = None
    code: str = ""
    said: str = ""
    wrong: frozenset[str] | None = None
    about: frozenset[str] | None = None  # the names of what else it is about


@dataclass(frozen=True, slots=True)
class Place:
    """A workspace that a server keeps, and who may come to it."""

    server: Running
    name: str
    root: Path
    dreamd: Caller
    patch: pytest.MonkeyPatch
    talk: Talk

    def path(self, operation: AnyOperation, query: str = "") -> str:
        return f"/v1/workspaces/{self.name}/{operation.name}{query}"


Door = Callable[[Place, AnyOperation, Row], Answered | None]


def agent_of(house: OwnHouse, name: str) -> Callable[..., Any]:
    """What a server of MCP asks."""

    def call(operation: AnyOperation, request: Request, *_: object) -> Any:
        with house.open(name, lambda _: None) as access:
            return access.run(operation, request), access.config.zone

    return call


def refusal(error: Mapping[str, Any]) -> Answered:
    """The error in the form that every error has."""
    assert error.keys() == {"error", "code", "details"}, error
    wrong, about = frozenset(error["details"].get("fields", ())), frozenset(error["details"]) - {"fields"}
    return Answered(None, None, error["code"], error["error"], wrong, about)


def status_of(code: str, wrong: object) -> int:
    """The status of HTTP: fields that are wrong have one of their own."""
    return 422 if wrong and code == "VALIDATION_ERROR" else STATUS[code].http_status


def here(root: Path, embedding: Embedding, operation: AnyOperation, row: Row) -> Answered:
    """The function, in this process."""
    with LocalAccess(open_workspace(root), Config(), "a test", embedding=embedding) as access:
        try:
            reply = operation.answer(access, operation.bind(**row.fields))
        except DreamdError as error:
            return refusal({"error": " ".join(str(error).split()), "code": error.code, "details": error.details})
        assert type(reply) is operation.reply
        return Answered(json.loads(encode(reply)), operation.text_of(reply, access.config.zone))


def _of_http(answer: Answer, *, is_text: bool = False) -> Answered:
    if answer.status == 200:
        assert answer.headers["Content-Type"].startswith("text/plain" if is_text else "application/json")
        return Answered(text=answer.body.decode()) if is_text else Answered(answer.json)
    told = refusal(answer.json)
    assert answer.status == status_of(told.code, told.wrong), answer.body
    return told


def post(place: Place, operation: AnyOperation, row: Row) -> Answered:
    """A program over HTTP, with JSON. What names files of the machine is asked at the socket alone."""
    if operation.remote:
        return _of_http(place.server.ask("POST", place.path(operation), row.fields))
    refused = place.server.ask("POST", place.path(operation), row.fields)
    assert (refused.status, refused.code) == (403, "FORBIDDEN")
    return _of_http(place.server.ask_socket("POST", place.path(operation), row.fields))


def get(place: Place, operation: AnyOperation, row: Row) -> Answered:
    """A query for what only reads, for people's eyes; the rest is asked for in lines; the last one counts."""
    if operation.reads and not any(isinstance(one, dict) for one in row.fields.values()):
        is_text = operation.text is not None  # the others say JSON
        query = urlencode({**row.fields, "as": "text" if is_text else "json"}, doseq=True)
        return _of_http(place.server.ask_socket("GET", place.path(operation, f"?{query}")), is_text=is_text)
    if not operation.reads:
        assert place.server.ask_socket("GET", place.path(operation)).headers["Allow"] == "POST"
    lines = {"Accept": "application/x-ndjson"}
    answer = place.server.ask_socket("POST", place.path(operation), row.fields, headers=lines)
    last = json.loads(answer.body.splitlines()[-1])
    return Answered(last["reply"]) if "reply" in last else refusal(last if "code" in last else last["error"])


def client(place: Place, operation: AnyOperation, row: Row) -> Answered:
    """A program in Python."""
    place.patch.setenv("DREAMD_SOCKET", str(place.server.path))
    far = Client(place.name, address=f"http://127.0.0.1:{place.server.port}", token=TOKEN)
    try:
        return Answered((far if operation.remote else Client(place.root)).call(operation.name, **row.fields))
    except RefusedError as error:
        return refusal({"error": str(error), "code": error.code, "details": error.details})


def command(place: Place, operation: AnyOperation, row: Row) -> Answered | None:
    """A person at a terminal, without a daemon."""
    place.patch.setenv("DREAMD_SOCKET", "/nobody")
    words = words_of(operation, row)
    if words is None:
        return None
    ended = place.dreamd(*words, "-w", place.root)
    if ended.status == 0:
        return Answered(text=ended.out)
    assert (ended.out, ended.err.count("\n")) == ("", 1), ended
    return Answered(code=row.code if ended.status == STATUS[row.code].exit_status else str(ended), said=ended.err)


def asked(place: Place, operation: AnyOperation, row: Row) -> Answered | None:
    """A program that runs a command, which asks the daemon; `call` where there is no command."""
    place.patch.setenv("DREAMD_SOCKET", str(place.server.path))
    words = words_of(operation, row) if operation.name in COMMAND_OF else None
    with place.patch.context() as patch:
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(row.fields).encode())))
        ended = place.dreamd(*(words or ["call", operation.name]), "-w", place.root, "--json")
    rows = ended.out.splitlines()
    if ended.status:
        told = json.loads(rows[-1] if words is None else ended.out)
        assert ended.status == STATUS[told["code"]].exit_status
        # argparse says of a value that it cannot read no more than that, and a command calls a field as it is typed.
        return refusal(told) if words is None else Answered(code=told["code"], said=told["error"])
    return Answered(ended.json if words else json.loads(rows[-1])["reply"])


def words_of(operation: AnyOperation, row: Row) -> list[str] | None:
    """The command that is this call."""
    if row.words:
        return row.words.split()
    if operation.name not in COMMAND_OF or not row.fields.keys() <= {one.name for one in operation.parameters}:
        return None
    options, places = list[str](), list[str]()
    for one in arguments_of(operation):
        (flag,), value = one["flags"], row.fields.get(one.get("dest", one["flags"][0]))
        if value is None or value is False:
            continue
        if flag.startswith("-"):
            every = value if isinstance(value, list) else [value]
            options += [flag] if value is True else [f"{flag}={each}" for each in every]
        elif isinstance(value, str) and one.get("nargs") == "+" and " -" not in value:
            places += value.split(" ")  # the words of a text are joined
        else:
            places += map(str, value if isinstance(value, list) else [value])
    return [COMMAND_OF[operation.name], *options, *places]


def agent(place: Place, operation: AnyOperation, row: Row) -> Answered | None:
    """An agent over MCP, which reads texts, and of sessions JSON without what it has no use for."""
    tools = {tool.name: tool for tools in TOOLSETS.values() for tool in tools}
    if operation.name not in tools or not row.fields.keys() <= set(tool_arguments(tools[operation.name])):
        return None
    result = place.talk.portal.call(place.talk.client.call_tool, operation.name, dict(row.fields))
    (part,) = result.content
    if result.is_error:
        return refusal(json.loads(part.text))
    return Answered(text=part.text) if operation.text else Answered(json.loads(part.text))


DOORS: dict[str, Door] = {one.__name__: one for one in (post, get, client, command, asked, agent)}
