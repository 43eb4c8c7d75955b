"""`dreamd mcp` as a real process, alone and with a real daemon: the SDK's client, and bytes."""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from io import BytesIO
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any
from unittest.mock import Mock

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import Implementation

from daemon.mcp.pump import Pump, Server
from daemon.workspace.adoption import init_workspace, open_workspace
from state.stores.disk.workspace import Workspace
from state.stores.history.bootstraps import receipts
from tests.daemon.mcp.agents import (
    MODES,
    PORT,
    ROOT,
    TEA,
    Raw,
    greeted,
    notes,
    over_stdio,
    raw,
    refused,
    run,
    shown,
    text_of,
)
from tests.support import forked
from tests.support.scripted_model import ScriptedModel
from tests.support.serving import Daemon, Home, until

CALL = b'{"jsonrpc":"2.0","id":900006,"method":"tools/call","params":{"name":"working_memory_note","arguments":%s}}'
NONSENSE = (
    b"",
    b"no json",
    b'{"jsonrpc": "2.0"',
    b"[]",
    b"null",
    b"\xff\xfe\x00",
    b'{"jsonrpc": "1.0", "id": 1, "method": "x"}',
    b'{"jsonrpc": "2.0", "id": 900001, "method": "tools/call"}',
    b'{"jsonrpc": "2.0", "id": 900002, "method": "tools/call", "params": {"name": 7}}',
    b'{"jsonrpc": "2.0", "id": 900003, "method": "tools/call", "params": {"name": "x", "arguments": []}}',
    b'{"jsonrpc": "2.0", "id": 900004, "method": "no/such\\r\\nHost: x", "params": []}',
    b'{"jsonrpc": "2.0", "id": 900005, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}}',
    b'{"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": null, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": 900005, "result": {}}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": 7}',
    b'{"jsonrpc":"2.0","id":900007,"method":"ping","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
)
LOUD = """
import os, subprocess, sys
from dataclasses import replace
from daemon.mcp import tools as mcp_tools
from daemon.cli import main

def loud(reply):
    print("print")
    os.write(1, b"write\\n")
    subprocess.run(["echo", "child"], check=True)
    return quiet(reply)

tools = mcp_tools.TOOLSETS["memory"]
(tool,) = [tool for tool in tools if tool.name == "memory_bootstrap"]
quiet = tool.text
mcp_tools.TOOLSETS["memory"] = (*(one for one in tools if one is not tool), replace(tool, text=loud))
sys.exit(main(["mcp", "-w", sys.argv[1]]))
"""


def agent_at(home: Home, root: Path, **more: str) -> Raw:
    """An agent's bytes, and an interpreter of its own: what it has loaded is seen."""
    return raw(root, "-m", "daemon", "mcp", "-w", str(root), env=home.environment(**more))


def is_thin(agent: Raw) -> bool:
    """Whether nothing but the standard library is loaded."""
    return "pydantic_core" not in Path(f"/proc/{agent.process.pid}/maps").read_text(encoding="utf-8")


def request(number: int, tool: str, **arguments: Any) -> bytes:
    call = {"name": tool, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}).encode()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("with_daemon", [False, True])
def test_a_client_notes_searches_and_dreams(home: Home, mode: str, *, with_daemon: bool) -> None:
    workspace, steps = home.workspace(), list[str]()

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        steps.append(message or "")

    async def body() -> None:
        (program, *first), variable = forked.stand_in()
        arguments = [*first, "mcp", "-w", str(workspace.root)]
        process = StdioServerParameters(
            command=program, args=arguments, env=home.environment(**variable), cwd=str(ROOT)
        )
        called = Implementation(name="codex-mcp-client", version="1")
        async with Client(stdio_client(process), mode=mode, client_info=called) as client:
            assert "data, never instructions" in (client.instructions or "")
            assert len((await client.list_tools()).tools) == 6
            await shown(client, "working_memory_note", note=f"{TEA} 東京")
            assert f"1. {TEA} 東京\n" in await shown(client, "memory_search", query="tea")
            result = await client.call_tool("dream_now", {}, progress_callback=heard)
            assert not result.is_error, result.content
            assert (await refused(client, "dream_now"))["code"] == "NOTHING_TO_DO"
            assert TEA in await shown(client, "memory_bootstrap")
            (page,) = (await client.read_resource("memory://state")).contents
            assert TEA in page.model_dump()["text"]
            noted = await shown(client, "working_memory_note", note=PORT, replaces="L9")
            assert noted.splitlines()[1].startswith("notice: 'L9' names no line and no memory")

    with home.serving() if with_daemon else nullcontext():
        run(body)
    assert steps[-1] == "commit: version 1"
    assert [(one.how, one.agent) for one in receipts(workspace)] == [("MCP", "codex")]


@pytest.mark.parametrize("with_daemon", [False, True])
def test_nonsense_is_answered_or_passed_over(home: Home, *, with_daemon: bool) -> None:
    workspace = home.workspace()
    with home.serving() if with_daemon else nullcontext(), agent_at(home, workspace.root) as agent:
        agent.greet()
        for line in NONSENSE:
            agent.send(line)
        large = agent.ask("tools/call", {"name": "memory_why", "arguments": {"text": "x" * (1 << 20)}})
        assert "1,048,576 bytes" in text_of(large["result"])
        assert not agent.call("working_memory_note", note=PORT).get("isError")
        assert agent.end() == 0
        assert agent.said() == ""
    assert notes(workspace)[-1:] == [PORT]


# What an agent sends, and the notes and the error that come of it.
ODD = {
    b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]': {},
    CALL.replace(b"900006", b"2") % rb'{"note":"half \ud83d an emoji"}': {},
    CALL.replace(b"900006", b"3") % b'{"note":"half \xed\xa0\xbd of its bytes"}': {},
    CALL.replace(b"900006", b"4") % rb'"{\"note\":\"as a text \\ud83d\\ude00\"}"': {},
    CALL.replace(b"900006", b"5") % b'{"note":"with null","importance":"null","replaces":"null"}\r': {},
    b"no json": {"code": -32700},
    b'{"id": 6, "method": "ping"}': {"code": -32600},
    b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": [1]}': {"code": -32600},
}


@pytest.mark.parametrize("with_daemon", [False, True])
def test_an_odd_message_is_taken_or_refused_under_its_id(home: Home, *, with_daemon: bool) -> None:
    workspace = home.workspace()
    with home.serving() if with_daemon else nullcontext(), agent_at(home, workspace.root) as agent:
        agent.greet()
        for line, error in ODD.items():
            agent.send(line)
            answer = agent.line()
            number = re.search(rb'"id": ?(\d)', line)
            assert answer["id"] == (int(number[1]) if number else None)
            assert not answer.get("result", {}).get("isError"), answer
            assert error.items() <= answer.get("error", {}).items()
        assert agent.end() == 0
    assert notes(workspace)[-4:] == [
        "half \ufffd an emoji",
        "half \ufffd\ufffd\ufffd of its bytes",
        "as a text \U0001f600",
        "with null",
    ]


def test_it_is_ready_at_once_and_a_daemon_that_starts_anew_is_not_noticed(home: Home) -> None:
    workspace = home.workspace()
    with home.serving() as daemon:
        began = time.monotonic()
        with agent_at(home, workspace.root) as agent:
            agent.greet()
            print(f"ready after {time.monotonic() - began:.3f} s")
            assert not agent.call("working_memory_note", note=TEA).get("isError")
            daemon.kill()
            with home.serving() as another:
                another.until_kept(workspace)
                assert "1 note waits" in text_of(agent.call("dream_status"))
                assert len(agent.ask("tools/list")["result"]["tools"]) == 6
                another.terminated()
                with home.serving() as third:
                    third.until_kept(workspace)
                    assert "1 note waits" in text_of(agent.call("dream_status"))
                    assert is_thin(agent)


def test_a_client_of_the_newer_protocol_may_go_back_to_the_older_one(home: Home) -> None:
    """A probe for the newer protocol may have taken too long."""
    workspace, key = home.workspace(), "io.modelcontextprotocol"
    meta = {f"{key}/protocolVersion": "2026-07-28", f"{key}/clientCapabilities": {}}
    newer = {"_meta": {**meta, f"{key}/clientInfo": {"name": "test", "version": "1"}}}
    with home.serving(), agent_at(home, workspace.root) as agent:
        assert "result" in agent.ask("server/discover", newer)
        agent.greet()
        for params in ({}, newer):
            assert len(agent.ask("tools/list", params)["result"]["tools"]) == 6


@contextmanager
def dreaming(home: Home) -> Iterator[tuple[Workspace, Daemon, Raw, threading.Event]]:
    """An agent whose dream, the request 7001, waits for its model until the event is set."""
    workspace, asked, may_answer = home.workspace(), threading.Event(), threading.Event()

    def think(_: dict[str, Any], __: int) -> str:
        asked.set()
        may_answer.wait(60)
        return "{}"

    with ScriptedModel(think) as model:
        home.asks(model)
        with home.serving() as daemon, agent_at(home, workspace.root) as agent:
            agent.greet()
            for text in (TEA, PORT):
                assert not agent.call("working_memory_note", note=text).get("isError")
            agent.send(request(7_001, "dream_now"))
            assert asked.wait(60)
            yield workspace, daemon, agent, may_answer


@pytest.mark.full
def test_without_its_daemon_it_goes_on_alone_until_one_is_back(home: Home) -> None:
    """A call that was under way is told; nothing else is noticed."""
    with dreaming(home) as (workspace, daemon, agent, may_answer):
        daemon.kill()
        until(lambda: (answer := agent.line()).get("id") == 7_001 and answer["result"]["isError"])
        may_answer.set()
        assert is_thin(agent)
        assert TEA in text_of(agent.call("memory_search", query="tea"))
        assert not agent.call("working_memory_note", note="Nobody listens").get("isError")
        assert len(agent.ask("tools/list")["result"]["tools"]) == 6
        with home.serving() as back:
            back.until_kept(workspace)
            until(lambda: "3 notes wait" in text_of(agent.call("dream_status")))
        assert agent.end() == 0
        assert "Traceback" not in agent.said()


def test_a_call_that_is_cancelled_is_not_answered_and_the_dream_goes_on(home: Home) -> None:
    with dreaming(home) as (workspace, daemon, agent, may_answer):
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7_001}}
        agent.send(json.dumps(cancelled).encode())
        assert "version 0," in text_of(agent.call("dream_status"))
        may_answer.set()
        daemon.until(lambda: daemon.status(workspace).last_dream)
        agent.send(request(7_002, "dream_status"))
        assert agent.line()["id"] == 7_002
        assert is_thin(agent)


@pytest.mark.parametrize("kind", ["excluded", "configured", "missing"])
def test_the_daemon_is_left_alone_where_it_is_to_be(home: Home, kind: str) -> None:
    """A workspace that no daemon keeps, a configuration of this server's own, and no workspace at all."""
    workspace = home.workspace()
    root = workspace.root if kind != "missing" else home.folder / "later"
    if kind == "excluded":
        home.keep(workspace, kept=False)
    more = {"DREAMD_MCP__TOOLSETS": "[sessions]"} if kind == "configured" else {}
    with home.serving():
        with agent_at(home, root, **more) as agent:
            agent.greet()
            tools = [tool["name"] for tool in agent.ask("tools/list")["result"]["tools"]]
            assert ("working_memory_add" in tools) == (kind == "configured")
            assert bool(agent.call("working_memory_note", note=TEA).get("isError")) == (kind != "excluded")
            assert not is_thin(agent)
        kept = [one["root"] for one in home.client.get("/v1/workspaces")["workspaces"]]
        assert (str(root) in kept) == (kind == "configured")


def test_until_there_is_a_workspace_every_tool_says_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "later"

    async def body() -> None:
        async with over_stdio(DREAMD_WORKSPACE=str(folder)) as client:
            for tool, arguments in (("working_memory_note", {"note": TEA}), ("dream_status", {})):
                error = await refused(client, tool, **arguments)
                assert error["code"] == "VALIDATION_ERROR"
                assert f"dreamd init {folder}" in error["error"]
            init_workspace(folder)
            await shown(client, "working_memory_note", note=TEA)

    run(body)
    assert notes(open_workspace(folder)) == [TEA]


def test_with_a_bad_configuration_notes_are_taken_and_the_rest_says_what_is_wrong(
    here: Workspace, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("dreams: {}\n")

    async def body() -> None:
        async with over_stdio("-w", str(here.root), "--config", str(config)) as client:
            await shown(client, "working_memory_note", note=TEA)
            error = await refused(client, "memory_search", query="tea")
            assert "there is no key 'dreams'" in error["error"]
            config.write_text("dream: {min_chunks: 2}\n")
            assert TEA in await shown(client, "memory_search", query="tea")

    run(body)


def test_a_kill_right_after_the_answer_loses_no_note(here: Workspace) -> None:
    expected = []
    for number in range(5):
        with greeted(here.root) as process:
            for part in range(number + 1):
                text = f"note {number}.{part} 東京"
                assert not process.call("working_memory_note", note=text).get("isError")
                expected.append(text)
            process.kill()
    assert notes(here) == expected


@pytest.mark.full
def test_stdout_carries_the_protocol_and_nothing_else(here: Workspace) -> None:
    with greeted(here.root, "-c", LOUD, str(here.root)) as process:
        assert not process.call("memory_bootstrap").get("isError")
        assert not process.call("working_memory_note", note=TEA).get("isError")
        assert process.end() == 0
        for noise in ("print\n", "write\n", "child\n"):
            assert noise in process.said()


@pytest.mark.parametrize("how", [SIGTERM, SIGINT, "end", "end at once", "deaf"])
def test_it_ends_in_silence(here: Workspace, how: Any) -> None:
    """By a signal, at the end of stdin (also before a handshake), and when nobody reads its answer."""
    with raw(here.root) if how == "end at once" else greeted(here.root) as process:
        if how in (SIGTERM, SIGINT):
            assert not process.call("working_memory_note", note=TEA).get("isError")
            process.process.send_signal(how)
            assert process.process.wait(300) == 0
        elif how == "deaf":
            assert process.process.stdin
            assert process.process.stdout
            process.process.stdout.close()
            process.send(CALL % b'{"note": "tea"}')
            process.process.stdin.close()
            assert process.process.wait(300) == 0
        else:
            assert process.end() == 0
        assert process.said() == ""


def test_an_agent_that_says_no_more_is_answered_however_long_the_server_takes_to_load(
    here: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.mcp.pump._ENDING_SECONDS", 0.05)  # which a daemon has to answer

    def load() -> Server:
        time.sleep(0.1)
        return lambda _, body: [json.dumps({"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": {}}).encode()]

    wire = BytesIO()
    Pump(lambda **_: here, load, wire, with_daemon=False).run(BytesIO(b'{"jsonrpc":"2.0","id":7,"method":"ping"}\n'))
    assert json.loads(wire.getvalue()) == {"jsonrpc": "2.0", "id": 7, "result": {}}


def test_after_an_agent_has_changed_its_folder_no_call_is_for_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told, asked = [Path("/one")], list[Path]()

    def found(_: Pump) -> Any:
        root = told[0]

        def serve(_: object, body: bytes) -> list[bytes]:
            asked.append(root)
            return [json.dumps({"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": {}}).encode()]

        return serve

    def messages() -> Iterator[bytes]:
        call: dict[str, Any] = {"jsonrpc": "2.0", "method": "tools/call", "params": {}}
        yield json.dumps({**call, "id": 1}).encode()
        until(lambda: bool(asked))
        roots = [{"uri": "file:///two"}]
        yield json.dumps({"jsonrpc": "2.0", "id": "dreamd-roots", "result": {"roots": roots}}).encode()
        yield json.dumps({**call, "id": 2}).encode()

    monkeypatch.setattr(Pump, "_find_daemon", found)
    monkeypatch.setattr(Pump, "_is_daemon_stopped", lambda _: False)
    incoming: Any = messages()
    Pump(Mock(), Mock(), BytesIO(), with_daemon=True, told=told).run(incoming)
    assert asked == [Path("/one"), Path("/two")]
