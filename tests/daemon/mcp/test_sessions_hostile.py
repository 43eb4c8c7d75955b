"""The toolset `sessions` with ids and contents that nobody would choose, and processes that are killed."""

import json
from pathlib import Path

import pytest

from daemon.workspace.adoption import init_workspace
from state.stores.disk.workspace import Workspace
from tests.daemon.mcp.agents import over_stdio, raw, refused, run, told
from tests.daemon.mcp.sessions import added, agent
from tests.support.session_talk import HOSTILE

TOOLSETS = '["memory", "sessions"]'


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    return init_workspace(tmp_path / "here")


STRANGE = (HOSTILE, "../" * 50, "/", ".", "~", "\0", "'", '"}', "a" * 10_000, "🦓" * 4_000, "purged-1", "null")


@pytest.mark.parametrize("session", STRANGE, ids=range(12))
def test_ids_and_contents_are_data(here: Workspace, session: str) -> None:
    async def body() -> None:
        before = {path for path in here.root.parent.rglob("*") if ".dreamd" not in path.parts}
        async with agent(here) as client:
            made = await added(
                client, session, session_id=session, tags=[session[:99]], metadata={session[:9]: session}
            )
            assert (made["session_id"], made["content"]) == (session, session)
            of = {"session_id": session, "memory_id": made["id"]}
            assert made["id"].isprintable()
            assert (await told(client, "working_memory_get", **of))["content"] == session
            for id_ in (session[:1_000], made["id"].upper(), f"{made['id']}%", "%", "_"):
                if id_ != made["id"]:
                    error = await refused(client, "working_memory_get", session_id=session, memory_id=id_)
                    assert error["code"] == "NOT_FOUND"
            assert (await told(client, "working_memory_search", session_id=session, query=session))["count"] == 1
            assert (await told(client, "working_memory_list", session_id=f"{session}?"[-9_999:]))["count"] == 0
            await told(client, "working_memory_clear_session", session_id=session)
            await told(client, "memory_recall", session_id=session, query=session)
            assert (await told(client, "memory_context", session_id=session))["context"] == ""
        assert {path for path in here.root.parent.rglob("*") if ".dreamd" not in path.parts} == before

    run(body)


def test_half_a_character_is_refused(here: Workspace) -> None:
    async def body() -> None:
        async with agent(here) as client:
            for wrong in ({"session_id": "\ud800"}, {"session_id": "s", "query": "a\udfff"}):
                error = await refused(client, "working_memory_search", **wrong)
                assert (error["code"], error["details"].keys()) == ("VALIDATION_ERROR", {"fields"})

    run(body)


def test_a_line_with_half_a_character_does_not_stop_the_server(here: Workspace) -> None:
    """It is no JSON that could be read, so the SDK has nobody to answer."""
    call = {"name": "working_memory_list", "arguments": {"session_id": "\ud800"}}
    with raw(here.root, DREAMD_MCP__TOOLSETS=TOOLSETS) as process:
        process.greet()
        process.send(json.dumps({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": call}).encode())
        assert not process.call("working_memory_list", session_id="s").get("isError")
        assert process.end() == 0


def test_over_stdio_a_session_outlives_its_server(here: Workspace, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("mcp: {toolsets: [memory, sessions]}\n")
    words = ("-w", str(here.root), "--config", str(config))

    async def body() -> None:
        async with over_stdio(*words) as client:
            made = await added(client, "kept", metadata={"n": "1"})
        async with over_stdio(*words) as client:
            got = await told(client, "working_memory_get", session_id="s", memory_id=made["id"])
            assert (got["content"], got["access_count"], got["metadata"]) == ("kept", 2, {"n": "1"})

    run(body)


@pytest.mark.full
def test_a_kill_right_after_the_answer_loses_no_memory(here: Workspace) -> None:
    expected = []
    for number in range(5):
        with raw(here.root, DREAMD_MCP__TOOLSETS=TOOLSETS) as process:
            process.greet()
            for part in range(3):
                text = f"thought {number}.{part}"
                answer = process.call("working_memory_add", session_id="s", content=text, priority="low")
                assert not answer.get("isError"), answer
                expected.append(text)
            process.kill()

    async def body() -> None:
        async with agent(here) as client:
            listed = await told(client, "working_memory_list", session_id="s")
            assert sorted(one["content"] for one in listed["memories"]) == expected

    run(body)
