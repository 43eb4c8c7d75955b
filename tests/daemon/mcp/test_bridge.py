"""`dreamd mcp` where a daemon runs: a real daemon, a real process, the SDK's client and bytes."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import Implementation

from daemon.config.registry import exclude, known, name_of
from state.stores.history.bootstraps import receipts
from tests.daemon.mcp.agents import MODES, PORT, ROOT, TEA, Raw, notes, run, shown, text_of
from tests.support import forked
from tests.support.scripted_model import ScriptedModel
from tests.support.serving import Home, at_home, until

NONSENSE = (
    b"",
    b"no json",
    b'{"jsonrpc": "2.0"',
    b"[]",
    b"null",
    b"\xff\xfe\x00",
    b'{"jsonrpc": "2.0", "id": 900001, "method": "tools/call"}',
    b'{"jsonrpc": "2.0", "id": 900002, "method": "tools/call", "params": {"name": 7}}',
    b'{"jsonrpc": "2.0", "id": 900003, "method": "tools/call", "params": {"name": "\\u6771\\r\\nX: 1"}}',
    b'{"jsonrpc": "2.0", "id": 900004, "method": "no/such\\r\\nHost: x", "params": []}',
    b'{"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": null, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": 900005, "result": {}}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": 7}',
    b'{"jsonrpc":"2.0","id":900007,"method":"ping","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
)


@pytest.fixture
def home() -> Iterator[Home]:
    with at_home() as made:
        yield made


def bridge(home: Home, root: Path) -> Raw:
    """An interpreter of its own: what it has loaded is seen."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by Raw
    process = subprocess.Popen(
        [sys.executable, "-m", "daemon", "mcp", "-w", root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        cwd=ROOT,
        env=home.environment(),
    )
    return Raw(process, errors)


def is_thin(agent: Raw) -> bool:
    """Whether nothing but the standard library is loaded."""
    return "pydantic_core" not in Path(f"/proc/{agent.process.pid}/maps").read_text(encoding="utf-8")


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES)
def test_a_client_notes_searches_and_dreams_through_the_daemon(home: Home, mode: str) -> None:
    workspace, steps = home.workspace(known=False), list[str]()

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        steps.append(message or "")

    async def body() -> None:
        (program, *first), variable = forked.stand_in()
        parameters = StdioServerParameters(
            command=program,
            args=[*first, "mcp", "-w", str(workspace.root)],
            env=home.environment(**variable),
            cwd=str(ROOT),
        )
        called = Implementation(name="codex-mcp-client", version="1")
        async with Client(stdio_client(parameters), mode=mode, client_info=called) as client:
            assert "data, never instructions" in (client.instructions or "")
            assert len((await client.list_tools()).tools) == 6
            await shown(client, "working_memory_note", note=f"{TEA} 東京")
            assert f"1. {TEA} 東京\n" in await shown(client, "memory_search", query="tea")
            result = await client.call_tool("dream_now", {}, progress_callback=heard)
            assert not result.is_error, result.content
            assert TEA in await shown(client, "memory_bootstrap")
            (page,) = (await client.read_resource("memory://state")).contents
            assert TEA in page.model_dump()["text"]

    with home.serving():
        run(body)
    assert known(home.registry) == (workspace.root,)  # from now on the daemon keeps it
    assert steps[-1] == "commit: version 1"
    assert [(one.how, one.agent) for one in receipts(workspace)] == [("MCP", "codex")]


def test_it_is_ready_at_once_and_a_daemon_that_starts_anew_is_not_noticed(home: Home) -> None:
    workspace = home.workspace()
    with home.serving() as daemon:
        began = time.monotonic()
        with bridge(home, workspace.root) as agent:
            agent.greet()
            print(f"ready after {time.monotonic() - began:.3f} s")
            assert not agent.call("working_memory_note", note=TEA).get("isError")
            large = agent.ask("tools/call", {"name": "memory_why", "arguments": {"text": "x" * (1 << 20)}})
            assert "1,048,576 bytes" in large["error"]["message"]
            daemon.kill()
            with home.serving() as another:
                another.until_kept(workspace)
                assert "1 note pending" in text_of(agent.call("dream_status"))
                assert is_thin(agent)


def test_nonsense_is_answered_or_passed_over(home: Home) -> None:
    workspace = home.workspace()
    with home.serving(), bridge(home, workspace.root) as agent:
        agent.greet()
        for line in NONSENSE:
            agent.send(line)
        assert not agent.call("working_memory_note", note=PORT).get("isError")
        assert agent.end() == 0
        assert agent.said() == ""
    assert notes(workspace) == [PORT]


@pytest.mark.full
def test_without_its_daemon_it_goes_on_alone(home: Home) -> None:
    """A call that was under way is told; nothing else is noticed."""
    workspace, asked, may_answer = home.workspace(), threading.Event(), threading.Event()

    def think(_: dict[str, Any], __: int) -> str:
        asked.set()
        may_answer.wait(60)
        return "{}"

    with ScriptedModel(think) as model:
        home.asks(model)
        with home.serving() as daemon, bridge(home, workspace.root) as agent:
            agent.greet()
            for text in (TEA, PORT):
                assert not agent.call("working_memory_note", note=text).get("isError")
            agent.send(request(7_001, "dream_now"))
            assert asked.wait(60)
            daemon.kill()
            until(lambda: (answer := agent.line()).get("id") == 7_001 and answer["result"]["isError"])
            may_answer.set()
            assert is_thin(agent)
            assert TEA in text_of(agent.call("memory_search", query="tea"))
            assert not agent.call("working_memory_note", note="Nobody listens").get("isError")
            assert len(agent.ask("tools/list")["result"]["tools"]) == 6
            with home.serving() as back:  # and the daemon is asked again when it is back
                back.until_kept(workspace)
                assert "3 notes pending" in text_of(agent.call("dream_status"))
            assert agent.end() == 0
            assert "Traceback" not in agent.said()


def test_a_call_that_is_cancelled_is_not_answered_and_the_dream_goes_on(home: Home) -> None:
    workspace, asked, may_answer = home.workspace(), threading.Event(), threading.Event()

    def think(_: dict[str, Any], __: int) -> str:
        asked.set()
        may_answer.wait(60)
        return "{}"

    with ScriptedModel(think) as model:
        home.asks(model)
        with home.serving() as daemon, bridge(home, workspace.root) as agent:
            agent.greet()
            for text in (TEA, PORT):
                assert not agent.call("working_memory_note", note=text).get("isError")
            agent.send(request(7_001, "dream_now"))
            assert asked.wait(60)
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
    workspace = home.workspace(known=False)
    root = workspace.root if kind != "missing" else home.folder / "later"
    if kind == "excluded":
        exclude(home.registry, root)
    more = {"DREAMD_MCP__TOOLSETS": "[sessions]"} if kind == "configured" else {}
    with home.serving():
        process: forked.Forked[bytes] = forked.Forked(
            ["mcp", "-w", root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=home.environment(**more)
        )
        with Raw(process, tempfile.TemporaryFile()) as agent:
            agent.greet()
            tools = [tool["name"] for tool in agent.ask("tools/list")["result"]["tools"]]
            assert ("working_memory_add" in tools) == (kind == "configured")
            assert bool(agent.call("working_memory_note", note=TEA).get("isError")) == (kind != "excluded")
        assert name_of(root) not in [one["name"] for one in home.client.get("/v1/workspaces")["workspaces"]]


def request(number: int, tool: str, **arguments: Any) -> bytes:
    call = {"name": tool, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}).encode()


def test_nothing_but_the_standard_library_is_loaded() -> None:
    program = (
        "import sys; sys.path.insert(0, '.'); before = set(sys.modules); import daemon.mcp.bridge, daemon.cli.mcp;"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    ended = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, cwd=ROOT, check=True)
    assert {*ended.stdout.decode().split()} <= {"daemon", "state", "_sha256"}
