"""`dreamd mcp` as a real process: with the SDK's client, and with bytes."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.workspace.adoption import init_workspace, open_workspace
from state.stores.disk.lock import acquire
from state.stores.disk.workspace import Workspace
from tests.daemon.mcp.agents import (
    MODES,
    PORT,
    ROOT,
    TEA,
    environment,
    greeted,
    notes,
    over_stdio,
    raw,
    refused,
    run,
    shown,
)
from tests.support.folders import PLACE

HEAVY = ("litellm", "chromadb", "langgraph", "onnxruntime", "numpy")
CALL = (
    b'{"jsonrpc": "2.0", "id": 900006, "method": "tools/call", "params": '
    b'{"name": "working_memory_note", "arguments": {"note": "%s"}}}'
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


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    return init_workspace(tmp_path / "here")


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(dir=PLACE))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("mode", MODES)
def test_a_client_notes_searches_and_dreams(here: Workspace, mode: str) -> None:
    began = time.monotonic()

    async def body() -> None:
        async with over_stdio("-w", str(here.root), mode=mode) as client:
            print(f"ready after {time.monotonic() - began:.2f} s")
            assert len((await client.list_tools()).tools) == 6
            await shown(client, "working_memory_note", note=TEA)
            assert notes(here) == [TEA]
            found = await shown(client, "memory_search", query="tea")
            assert found.splitlines()[1] == f"1. {TEA}"
            assert (await shown(client, "dream_now")).startswith("version 1, ")
            assert (await refused(client, "dream_now"))["code"] == "NOTHING_TO_DO"
            assert TEA in await shown(client, "memory_bootstrap")

    run(body)


def test_an_agent_is_told_that_what_its_note_replaces_is_not_there(here: Workspace) -> None:
    async def body() -> None:
        async with over_stdio("-w", str(here.root)) as client:
            await shown(client, "working_memory_note", note=TEA)
            assert "notice: " not in await shown(client, "working_memory_note", note=PORT, replaces=TEA)
            noted = await shown(client, "working_memory_note", note=PORT, replaces="L9")
            assert noted.splitlines()[1].startswith("notice: 'L9' names no line and no memory")

    run(body)
    assert notes(here) == [TEA, PORT, PORT]


def test_the_workspace_may_be_named_by_the_environment(here: Workspace) -> None:
    async def body() -> None:
        async with over_stdio(DREAMD_WORKSPACE=str(here.root)) as client:
            await shown(client, "working_memory_note", note=TEA)

    run(body)
    assert notes(here) == [TEA]


def test_without_a_workspace_every_tool_says_what_to_do_until_there_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "later"

    async def body() -> None:
        async with over_stdio("-w", str(folder)) as client:
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


@pytest.mark.full
def test_a_note_is_taken_while_another_process_holds_the_workspace(here: Workspace) -> None:
    async def body() -> None:
        async with over_stdio("-w", str(here.root)) as client:
            await shown(client, "working_memory_note", note=PORT)
            await shown(client, "memory_search", query="port")
            with acquire(here, "somebody else"):
                await shown(client, "working_memory_note", note=TEA)
                found = await shown(client, "memory_search", query="port 8443")
                assert PORT in found
                assert "notice: searched as it stands" in found
                error = await refused(client, "dream_now")
                assert error["code"] == "BUSY"
                assert "somebody else" in error["error"]
            assert (await shown(client, "dream_now")).count("  + ") == 2

    run(body)


def test_a_daemon_that_is_gone_is_not_missed(here: Workspace, short: Path) -> None:
    """Its socket is still there, and nobody listens."""
    path = short / "s"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    async def body() -> None:
        async with over_stdio("-w", str(here.root), DREAMD_SOCKET=str(path)) as client:
            await shown(client, "working_memory_note", note=TEA)
            assert TEA in await shown(client, "memory_search", query="tea")
            assert (await shown(client, "dream_now")).startswith("version 1, ")

    run(body)


def test_a_daemon_that_goes_in_the_middle_is_asked_once_more(here: Workspace, short: Path) -> None:
    """It takes two questions and answers none; a third one finds no daemon."""
    path = short / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def hang_up() -> None:
            for is_last in (False, True):
                connection, _ = listening.accept()
                connection.recv(65_536)
                if is_last:
                    path.unlink()  # before the client can ask again
                connection.close()

        async def body() -> None:
            async with over_stdio("-w", str(here.root), DREAMD_SOCKET=str(path)) as client:
                await shown(client, "working_memory_note", note=TEA)
                error = await refused(client, "dream_now")
                assert error["code"] == "STORAGE_ERROR"  # it may have been done: not done twice
                assert "the daemon went" in error["error"]
                assert TEA in await shown(client, "memory_search", query="tea")

        going = threading.Thread(target=hang_up)
        going.start()
        run(body)
        going.join(300)


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


def test_nonsense_on_stdin_is_answered_or_passed_over(here: Workspace) -> None:
    with greeted(here.root) as process:
        for line in (
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
            b'{"jsonrpc": "2.0", "id": 900004, "method": "no/such", "params": {}}',
            b'{"jsonrpc": "2.0", "id": 900005, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}}',
            b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 12345}}',
            CALL % b"\\ud800 alone",
            b'{"jsonrpc":"2.0","id":900007,"method":"ping","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        ):
            process.send(line)
        assert not process.call("working_memory_note", note=TEA).get("isError")
        assert process.end() == 0
        assert "Traceback" not in process.said()
    assert TEA in notes(here)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(here: Workspace, number: signal.Signals) -> None:
    with greeted(here.root) as process:
        assert not process.call("working_memory_note", note=TEA).get("isError")
        process.process.send_signal(number)
        assert process.process.wait(300) == 0
        assert process.said() == ""


def test_the_end_of_stdin_ends_it_even_before_a_handshake(here: Workspace) -> None:
    with raw(here.root) as process:
        assert process.end() == 0
        assert process.said() == ""


def test_a_client_that_goes_without_its_answer_is_no_error(here: Workspace) -> None:
    with greeted(here.root) as process:
        assert process.process.stdin
        assert process.process.stdout
        process.process.stdout.close()
        process.send(CALL % TEA.encode())
        process.process.stdin.close()
        assert process.process.wait(300) == 0
        assert process.said() == ""


@pytest.mark.full
def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    program = "import sys, daemon.mcp.server, daemon.mcp.stdio, daemon.mcp.http; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, cwd=ROOT, env=environment(), check=True, timeout=300
    )
    loaded = ended.stdout.decode().split()
    assert "daemon.mcp.server" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_the_http_endpoint_costs_nothing_until_it_is_asked() -> None:
    program = "import sys, daemon.mcp.http; print('mcp' in sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, cwd=ROOT, env=environment(), check=True, timeout=300
    )
    assert json.loads(ended.stdout.decode().lower()) is False
