"""Working memory through every window: operations here, HTTP at both doors, and MCP. One code path."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from mcp import Client

from daemon.api.access import LocalAccess
from daemon.api.operations.sessions import SESSION_ITEMS, SESSION_MINDS
from daemon.api.operations.table import OPERATIONS
from daemon.config.settings import Config, McpSection
from daemon.mcp.tools import TOOLSETS
from daemon.workspace.adoption import init_workspace
from state.codec import plain
from state.errors import DreamdError
from state.stores.disk.workspace import Workspace
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import running
from tests.daemon.mcp.agents import asking, in_process, over_stdio
from tests.daemon.mcp.serving import served
from tests.support.session_talk import Say, Window, held, is_part

CONFIG = Config(mcp=McpSection(toolsets=("memory", "sessions")))
SWITCH = json.dumps(["memory", "sessions"])
EVERY = {one.name for one in (*SESSION_ITEMS, *SESSION_MINDS)}
OF_AGENTS = {tool.name for name, tools in TOOLSETS.items() if name != "memory" for tool in tools}


def refusal(error: DreamdError) -> Any:
    return {"error": " ".join(str(error).split()), "code": error.code, "details": error.details}


@contextmanager
def operations(workspace: Workspace) -> Iterator[Window]:
    yield partial(answered, lambda: LocalAccess(workspace, Config(), "a test"))


def answered(opened: Callable[[], Any], tool: str, fields: dict[str, Any]) -> Any:
    """What the operation answers with this access."""
    operation = OPERATIONS[tool]
    with opened() as access:
        try:
            return plain(operation.answer(access, operation.bind(**fields)))
        except DreamdError as error:
            return refusal(error)


@contextmanager
def at_the_port(workspace: Workspace) -> Iterator[Window]:
    house = OwnHouse()
    name = house.register(workspace.root)
    with running(house) as server:

        def call(tool: str, fields: dict[str, Any]) -> Any:
            operation = OPERATIONS[tool]
            return server.ask("POST", f"/v1/workspaces/{name}/{operation.name}", fields).json

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


def of_agent(client: Callable[[], Any]) -> Callable[[], Any]:
    """A window of an MCP client."""

    @contextmanager
    def window() -> Iterator[Window]:
        with (
            anyio.from_thread.start_blocking_portal() as portal,
            portal.wrap_async_context_manager(client()) as there,
        ):
            yield partial(asked_of, portal.call, there)

    return window


def asked_of(portal: Any, client: Client, tool: str, fields: dict[str, Any]) -> Any:
    result = portal(client.call_tool, tool, fields)
    (part,) = result.content
    assert result.structured_content is None
    return json.loads(part.text)


@contextmanager
def in_memory(workspace: Workspace) -> Iterator[tuple[Window, Window]]:
    with (
        of_agent(lambda: in_process(asking(workspace, CONFIG), config=CONFIG))() as window,
        operations(workspace) as beside,
    ):
        yield window, beside


@contextmanager
def by_stdio(workspace: Workspace) -> Iterator[tuple[Window, Window]]:
    words = ("-w", str(workspace.root))
    with (
        of_agent(lambda: over_stdio(*words, DREAMD_MCP__TOOLSETS=SWITCH))() as window,
        operations(workspace) as beside,
    ):
        yield window, beside


@contextmanager
def by_http(workspace: Workspace) -> Iterator[tuple[Window, Window]]:
    house = OwnHouse(CONFIG)
    name = house.register(workspace.root)
    with served(house) as url, of_agent(lambda: Client(url))() as window:
        yield window, partial(answered, lambda: house.open(name, lambda _: None))


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
@pytest.mark.parametrize("window", [at_the_port, at_the_socket])
def test_programs_are_told_the_same_at_both_doors(
    expected: list[tuple[Say, Any]], tmp_path: Path, window: Callable[[Workspace], Any]
) -> None:
    workspace = init_workspace(tmp_path / "w")
    with window(workspace) as there:
        found = held(there, workspace, EVERY)
    for (say, answer), (_, right) in zip(found, expected, strict=True):
        assert answer == right, say


@pytest.mark.full
@pytest.mark.parametrize("window", [in_memory, by_stdio, by_http])
def test_agents_are_told_a_part_of_it_and_every_error_whole(
    expected: list[tuple[Say, Any]], tmp_path: Path, window: Callable[[Workspace], Any]
) -> None:
    workspace = init_workspace(tmp_path / "w")
    with window(workspace) as (there, beside):
        found = held(there, workspace, OF_AGENTS, beside)
    whole = [one for one in expected if one[0].tool in OF_AGENTS]
    for (say, answer), (_, right) in zip(found, whole, strict=True):
        if say.code:
            assert answer == right, say
        else:
            assert is_part(answer, right), (say, answer, right)
