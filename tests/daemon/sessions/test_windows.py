"""Working memory through its windows: operations here, HTTP, and MCP. One code path."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest

from daemon.api.access import LocalAccess
from daemon.api.operations import sessions
from daemon.api.operations.operation import operations_in
from daemon.api.operations.table import OPERATIONS
from daemon.config.settings import Config, McpSection
from daemon.mcp.tools import TOOLSETS
from daemon.workspace.adoption import init_workspace
from state.codec import plain
from state.errors import DreamdError
from state.stores.disk.workspace import Workspace
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import running
from tests.daemon.mcp.agents import asking, in_process
from tests.support.session_talk import Say, Window, held, is_part

CONFIG = Config(mcp=McpSection(toolsets=("memory", "sessions")))
EVERY = {one.name for one in operations_in(vars(sessions))} - {"session_summary", "session_archive"}
OF_AGENTS = {tool.name for name, tools in TOOLSETS.items() if name != "memory" for tool in tools}


def refusal(error: DreamdError) -> Any:
    return {"error": " ".join(str(error).split()), "code": error.code, "details": error.details}


@contextmanager
def operations(workspace: Workspace) -> Iterator[Window]:
    def call(tool: str, fields: dict[str, Any]) -> Any:
        operation = OPERATIONS[tool]
        with LocalAccess(workspace, Config(), "a test") as access:
            try:
                return plain(operation.answer(access, operation.bind(**fields)))
            except DreamdError as error:
                return refusal(error)

    yield call


@contextmanager
def at_the_socket(workspace: Workspace) -> Iterator[Window]:
    house = OwnHouse()
    house.register(workspace.root)
    with running(house) as server:

        def call(tool: str, fields: dict[str, Any]) -> Any:
            operation = OPERATIONS[tool]
            try:
                reply = server.client.call(workspace.root, operation, operation.bind(**fields))
            except DreamdError as error:
                return refusal(error)
            assert type(reply) is operation.reply
            return plain(reply)

        yield call


@contextmanager
def in_memory(workspace: Workspace) -> Iterator[tuple[Window, Window]]:
    """The window of an MCP client, and the operations beside it."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(in_process(asking(workspace, CONFIG), config=CONFIG)) as there,
        operations(workspace) as beside,
    ):

        def call(tool: str, fields: dict[str, Any]) -> Any:
            result = portal.call(there.call_tool, tool, fields)
            (part,) = result.content
            assert result.structured_content is None
            return json.loads(part.text)

        yield call, beside


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Say, Any]]:
    """What the operations answer in this process."""
    workspace = init_workspace(tmp_path_factory.mktemp("operations") / "w")
    with operations(workspace) as window:
        return held(window, workspace, EVERY)


def test_the_talk_uses_every_tool_and_meets_every_error(expected: list[tuple[Say, Any]]) -> None:
    assert {say.tool for say, _ in expected} == EVERY
    assert Counter(say.code for say, _ in expected).keys() == {
        "",
        "VALIDATION_ERROR",
        "NOT_FOUND",
        "EXPIRED",
        "ALREADY_PROMOTED",
        "STORAGE_ERROR",
        "UNSUPPORTED_INSTRUCTION",
        "CONFIRM_REQUIRED",
    }
    for say, answer in expected:
        if say.code and "fields" not in answer["details"]:  # it says which session and memory it is about
            assert answer["details"].keys() == {"session_id", "memory_id"} & say.fields.keys(), say


@pytest.mark.full
def test_programs_are_told_the_same(expected: list[tuple[Say, Any]], tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path / "w")
    with at_the_socket(workspace) as there:
        found = held(there, workspace, EVERY)
    for (say, answer), (_, right) in zip(found, expected, strict=True):
        assert answer == right, say


@pytest.mark.full
def test_agents_are_told_a_part_of_it_and_every_error_whole(expected: list[tuple[Say, Any]], tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path / "w")
    with in_memory(workspace) as (there, beside):
        found = held(there, workspace, OF_AGENTS, beside)
    whole = [one for one in expected if one[0].tool in OF_AGENTS]
    for (say, answer), (_, right) in zip(found, whole, strict=True):
        if say.code:
            assert answer == right, say
        else:
            assert is_part(answer, right), (say, answer, right)
