"""The toolsets of sessions with the SDK's client: which tools there are, their instructions, size and hints."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiktoken

from daemon.config.settings import Config, McpSection, Toolset
from daemon.mcp.tools import TOOLSETS
from daemon.workspace.adoption import init_workspace
from state.stores.disk.workspace import Workspace
from tests.daemon.mcp.agents import MODES, asking, in_process, refused, run
from tests.daemon.mcp.sessions import agent

FIFTEEN = tuple(
    f"working_memory_{name}"
    for name in (
        "add get list promote clear_session stats expire extend_ttl export list_pending list_expired list_promoted"
        " bulk_promote relation_add search"
    ).split()
)
MORE = (
    *(f"session_{name}" for name in "open close list".split()),
    *(f"memory_{name}" for name in "forget recall context".split()),
)


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    return init_workspace(tmp_path / "here")


def only(*toolsets: Toolset) -> Config:
    return Config(mcp=McpSection(toolsets=toolsets))


def test_the_toolsets_are_there_where_they_are_switched_on(here: Workspace) -> None:
    async def body() -> None:
        async with in_process(asking(here)) as client:
            assert not {tool.name for tool in (await client.list_tools()).tools} & {*FIFTEEN, *MORE}
            error = await refused(client, "working_memory_list", session_id="s")
            assert error["code"] == "NOT_FOUND"
            assert "toolset 'sessions'" in error["error"]
        async with agent(here) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names[:1] == ["working_memory_note"]
            assert {*names[6:]} == {*FIFTEEN, *MORE}
            assert len(names) == 6 + len(FIFTEEN) + len(MORE)

    run(body)


@pytest.mark.parametrize("toolsets", [("memory",), ("sessions",), ("memory", "sessions")])
def test_the_instructions_name_the_tools_that_are_there_and_the_toolsets_that_are_not(
    toolsets: tuple[Toolset, ...], here: Workspace
) -> None:
    async def body() -> None:
        config = only(*toolsets)
        async with in_process(asking(here, config), "auto", config) as client:
            there = {tool.name for tool in (await client.list_tools()).tools}
            told_of, _, off = (client.instructions or "").partition("Switched off")
            named = set(re.findall(r"(?:working_memory|memory|session)_[a-z_]+", told_of))
            assert named <= there
            assert {*re.findall(r"([a-z_]+) \(", off)} == {*TOOLSETS} - {*toolsets}

    run(body)


def test_the_everyday_tools_cost_few_tokens(here: Workspace) -> None:
    """As a model counts them (a BPE of its kind comes with litellm)."""
    folder = Path(str(find_spec("litellm").submodule_search_locations[0]))  # type: ignore[index, union-attr]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(folder / "litellm_core_utils" / "tokenizers"))
        encoding = tiktoken.get_encoding("cl100k_base")

    async def body() -> None:
        async with in_process(asking(here)) as client:
            tools = (await client.list_tools()).tools
            words = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
                for tool in tools
            ]
            texts = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in words]
            assert len(tools) == 6
            assert sum(len(encoding.encode(text)) for text in texts) < 800

    run(body)


@pytest.mark.parametrize("mode", MODES)
def test_the_tools_of_sessions_say_what_they_change(here: Workspace, mode: str) -> None:
    async def body() -> None:
        async with agent(here, mode) as client:
            tools = (await client.list_tools()).tools[6:]
            hints = {tool.name: tool.annotations for tool in tools}
            reading = {name for name, hint in hints.items() if hint and hint.read_only_hint}
            assert reading == {
                *(f"working_memory_{name}" for name in "list stats export search".split()),
                *(f"working_memory_list_{name}" for name in "pending expired promoted".split()),
                "memory_context",
                "session_list",
            }
            assert [name for name, hint in hints.items() if hint and hint.destructive_hint] == ["memory_forget"]
            assert "$ref" not in json.dumps([tool.input_schema for tool in tools])
            (opening,) = (tool.input_schema for tool in tools if tool.name == "session_open")
            config = opening["properties"]["config"]
            assert config["properties"]["soft_limit"] == {"type": ["integer", "null"], "description": "budget"}
            assert config["additionalProperties"] is False

    run(body)
