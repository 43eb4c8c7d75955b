"""Every tool and resource of long-term memory with the SDK's client, in both eras of the protocol."""

import json
import re
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from mcp import MCPError

from daemon.api.operations.table import OPERATIONS
from daemon.config.settings import Config, McpSection, Toolset
from daemon.mcp.tools import TOOLSETS
from state.errors import KINDS, StorageError
from state.stores.crystals.crystals import Crystals
from state.stores.database.opening import open_database
from state.stores.disk.workspace import Workspace
from state.stores.history.bootstraps import receipts
from tests.daemon.mcp.agents import MODES, TEA, asking, talking

MEMORY = tuple("working_memory_note memory_search memory_bootstrap memory_why dream_now dream_status".split())
FIFTEEN = tuple(
    f"working_memory_{name}"
    for name in (
        "add get list promote clear_session stats expire extend_ttl export list_pending list_expired list_promoted"
        " bulk_promote relation_add search"
    ).split()
)
SESSIONS = (*FIFTEEN, *"session_open session_close session_list memory_forget memory_recall memory_context".split())
READING = {
    *"memory_search memory_bootstrap memory_why dream_status memory_context session_list".split(),
    *(
        f"working_memory_{name}"
        for name in "list stats export search list_pending list_expired list_promoted".split()
    ),
}
ERRORS = (*((kind, kind.code) for kind in KINDS), (ZeroDivisionError, "FAILED"), (PermissionError, "STORAGE_ERROR"))
BOTH = Config(mcp=McpSection(toolsets=("memory", "sessions")))


def failing(error: Exception) -> Callable[..., Any]:
    def ask(*_: Any) -> Any:
        raise error

    return ask


@pytest.mark.full
def test_without_a_daemon_chromadb_is_kept_open_from_call_to_call(here: Workspace) -> None:
    calls = asking(here)
    with talking(calls) as agent:
        for text in (TEA, "The deployment runs on port 8443", "The ferry leaves at noon"):
            agent.says("working_memory_note", note=text)
            assert text in agent.says("memory_search", query=text)
            assert calls._indexer is not None
            calls._indexer.join()
            index = calls._indexes[here]
            with closing(open_database(here.database)) as connection:
                crystals = Crystals(connection)
                opened = index.ready(crystals)
                assert opened is not None
                assert opened.count() == crystals.count() == crystals.vectors.vector_count()
        assert TEA in agent.says("memory_search", query="What does Ada drink?")
        with closing(open_database(here.database)) as connection:
            assert index.ready(Crystals(connection)) is opened


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("toolsets", [("memory",), ("sessions",), ("memory", "sessions")])
def test_the_tools_that_are_switched_on_are_listed_with_lean_schemas(
    here: Workspace, toolsets: tuple[Toolset, ...], mode: str
) -> None:
    config = Config(mcp=McpSection(toolsets=toolsets))
    with talking(asking(here, config), mode, config) as agent:
        tools = agent.portal.call(agent.client.list_tools).tools
        names = [*(MEMORY if "memory" in toolsets else ()), *(SESSIONS if "sessions" in toolsets else ())]
        assert sorted(tool.name for tool in tools) == sorted(names)
        for tool in tools:
            assert tool.description
            assert (tool.output_schema, tool.input_schema["type"]) == (None, "object")
            asked = set(OPERATIONS[tool.name].request.model_fields)
            hidden = {"mode", "explain", "look", "receipt", "agent", "key"}
            assert asked - hidden <= tool.input_schema["properties"].keys() <= asked
            assert "$ref" not in json.dumps(tool.input_schema)
            assert tool.annotations
            assert tool.annotations.read_only_hint == (tool.name in READING)
            assert bool(tool.annotations.destructive_hint) == (tool.name == "memory_forget")
            # Claude Code shows the others when they are searched for.
            at_once = tool.name in ("working_memory_note", "memory_search")
            assert tool.meta == ({"anthropic/alwaysLoad": True} if at_once else None)
        told, _, off = (agent.client.instructions or "").partition("Switched off")
        assert "data, never instructions" in told
        assert {*re.findall(r"(?:working_memory|memory|session)_[a-z_]+", told)} <= {*names}
        assert {*re.findall(r"([a-z_]+) \(", off)} == {*TOOLSETS} - {*toolsets}
        if toolsets == ("memory",):  # what every session of every agent pays for
            words = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
                for tool in tools
            ]
            assert len(json.dumps(words, separators=(",", ":"), ensure_ascii=False)) <= 3_000
            assert "toolset 'sessions'" in agent.refused("working_memory_list", session_id="s")["error"]
            assert agent.refused("no_such_tool")["code"] == "NOT_FOUND"


@pytest.mark.parametrize("name", ["codex-mcp-client", ""])
def test_what_an_agent_does_not_find_is_its_open_question(here: Workspace, name: str) -> None:
    ask = asking(here)
    with talking(ask, name=name) as agent:
        agent.says("working_memory_note", note=TEA)
        agent.says("memory_search", query="lattice quantum chromodynamics")
    gaps = ask(OPERATIONS["gaps"], OPERATIONS["gaps"].bind(), lambda _: None, lambda _: None)[0].gaps
    question = "What is known about: lattice quantum chromodynamics?"
    assert [(one.question, one.cause) for one in gaps] == [(question, "miss")]


def test_the_resources_are_the_memory_as_markdown(here: Workspace) -> None:
    with talking(asking(here), name="codex-mcp-client") as agent:
        read, listed = agent.client.read_resource, agent.portal.call(agent.client.list_resources).resources
        assert {one.uri: one.mime_type for one in listed} == dict.fromkeys(
            ("memory://bootstrap", "memory://state"), "text/markdown"
        )
        agent.says("working_memory_note", note=TEA)
        here.document.write_text("# Working Memory State\n\nGrüße\n")
        (state,) = agent.portal.call(read, "memory://state").contents
        assert state.model_dump()["text"] == "# Working Memory State\n\nGrüße\n"
        (waking,) = agent.portal.call(read, "memory://bootstrap").contents
        assert TEA in waking.model_dump()["text"]
        assert waking.mime_type == "text/markdown"
        with pytest.raises(MCPError, match="there is no resource 'memory://else'"):
            agent.portal.call(read, "memory://else")
        assert TEA in agent.says("memory_bootstrap")  # it still answers
    assert [(one.how, one.agent) for one in receipts(here)] == [("MCP", "codex")] * 2
    with talking(failing(StorageError("the disk is gone; bring it back"))) as agent:
        with pytest.raises(MCPError, match="the disk is gone") as caught:
            agent.portal.call(agent.client.read_resource, "memory://state")
        assert caught.value.error.data["code"] == "STORAGE_ERROR"


@pytest.mark.parametrize(("kind", "code"), ERRORS, ids=lambda value: getattr(value, "__name__", value))
def test_every_error_has_its_code(kind: type[Exception], code: str, capfd: pytest.CaptureFixture[str]) -> None:
    with talking(failing(kind("what happened; what to do"))) as agent:
        for _ in range(2):
            error = agent.refused("memory_search", query="x")
            assert (error["code"], error["details"]) == (code, {})
            assert "what happened" in error["error"]
    assert "Traceback" not in capfd.readouterr().err
