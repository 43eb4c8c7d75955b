"""What `dreamd connect` writes and docs/agents.md says, followed: Claude Code, Codex, frameworks, a loop.

Neither Claude Code nor Codex runs here (tests/clients/ has them): what they run is run as they run it, hooks with
their JSON on stdin, servers with the command and the environment of the file.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from daemon.connect.place import Place
from daemon.workspace.vector_index import cache_folder
from state.dream import Reason
from state.stores.disk.workspace import Workspace
from tests.daemon.mcp.agents import notes, run, shown
from tests.support.recipes import Follower, blocks, commands, follower, function_call, transcript
from tests.support.running import ROOT, Ended
from tests.support.scripted_model import ScriptedModel, in_turn
from tests.support.serving import PATIENCE_SECONDS, Daemon, Home, noted

SESSION = "00893aaf-19fa-41d2-8238-13269b9b3ca0"
TEA = "I prefer tea over coffee in the morning"
OLD = "The deployment runs on port 8443"
NOTE = "Ada prefers tea over coffee in the morning"
LOCK, UV = ROOT / "tests/frameworks/requirements.lock", Path(sys.executable).with_name("uv")
# What Codex hands to a server beside `env` and `env_vars`: its DEFAULT_ENV_VARS.
CODEX_PASSES = ("HOME", "LOGNAME", "PATH", "SHELL", "USER", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ")
CLAUDE, CODEX = "claude-code", "codex"


@pytest.fixture
def me(home: Home) -> Follower:
    return follower(home)


@pytest.fixture
def cold(home: Home) -> Follower:
    return follower(home, cold=True)


def plugin(me: Follower, agent: str, name: str) -> Any:
    """A file of the plugin that `dreamd connect` writes, as the agent reads it."""
    return json.loads(Place((str(me.program),), me.environment()).rendered(agent)[f"plugin/{name}"])


def hook(me: Follower, event: str, agent: str = CLAUDE, **more: Any) -> Ended:
    """The event's hook, as Claude Code or Codex runs it in a session whose transcript is there or not."""
    common = {"session_id": SESSION, "transcript_path": str(spoken(me)), "cwd": str(me.workspace.root)}
    about = {"model": "gpt-5-codex", "permission_mode": "default"}
    (command,) = commands(plugin(me, agent, "hooks/hooks.json"), event)
    return me.shell(command, {**common, **about, "hook_event_name": event, **more})


def spoken(me: Follower, *texts: str) -> Path:
    """The transcript of the session, outside of the workspace, after these texts were said."""
    path = me.home.folder / ".claude" / "projects" / "-home-ada" / f"{SESSION}.jsonl"
    return transcript(path, SESSION, *texts) if texts else path


def dreamt(me: Follower, daemon: Daemon) -> bool:
    """Whether the last dream was for a session's end, and was committed."""
    last = daemon.status(me.workspace).last_dream
    return last is not None and (last.reason, last.outcome) == (Reason.SESSION_END, "committed")


def links(workspace: Workspace) -> list[Path]:
    return [path.readlink() for path in sorted((workspace.root / "transcripts").glob("*"))]


# ---------------------------------------------------------------- the files


def test_the_documents_show_the_files() -> None:
    agents, readme = ROOT / "docs" / "agents.md", ROOT / "README.md"
    files = {path.name: path.read_text() for path in (ROOT / "docs" / "agents").iterdir() if path.is_file()}
    assert [json.loads(block) for block in blocks(agents, "json")] == [json.loads(files["mcp-http.json"])]
    assert blocks(agents, "toml") == blocks(readme, "json") == []
    assert all(f"(agents/{name})" in agents.read_text() for name in files)


# ---------------------------------------------------------------- hooks


@pytest.mark.parametrize("name", [CLAUDE, CODEX])
@pytest.mark.parametrize("source", ["startup", "resume", "clear", "compact"])
def test_a_session_begins_with_the_memory_in_its_context(me: Follower, name: str, source: str) -> None:
    noted(me.workspace, [NOTE])
    ended = hook(me, "SessionStart", name, source=source)
    assert (ended.status, ended.err) == (0, "")
    answer = ended.json["hookSpecificOutput"]
    assert ended.json.keys() == {"hookSpecificOutput"}
    assert answer.keys() == {"hookEventName", "additionalContext"}
    assert answer["hookEventName"] == "SessionStart"
    assert NOTE in answer["additionalContext"]


@pytest.mark.full
@pytest.mark.parametrize("name", [CLAUDE, CODEX])
def test_at_the_end_of_a_session_its_transcript_is_read_and_dreamt_of(me: Follower, name: str) -> None:
    spoken(me, TEA)
    noted(me.workspace, [OLD])
    with me.served() as daemon:
        assert hook(me, "SessionEnd", name, reason="other") == Ended(0, "", "")
        daemon.until(lambda: dreamt(me, daemon))
        daemon.until(lambda: TEA in daemon.found(me.workspace, "tea or coffee"))
        assert "8443" in me.workspace.document.read_text()
        # The session is resumed: what is said then is read as well, and nobody has to ask for it.
        spoken(me, "The cat is called Miez")
        daemon.until(lambda: "The cat is called Miez" in daemon.found(me.workspace, "name of the cat"))
    assert links(me.workspace) == [spoken(me)]


def test_before_a_compaction_the_transcript_is_read_and_nothing_is_dreamt(me: Follower) -> None:
    spoken(me, TEA)
    with me.served() as daemon:
        for _ in range(2):
            assert hook(me, "PreCompact", trigger="auto", custom_instructions="") == Ended(0, "", "")
        daemon.until(lambda: TEA in daemon.found(me.workspace, "tea or coffee"))
        assert daemon.status(me.workspace).last_dream is None
    assert links(me.workspace) == [spoken(me)]


# ---------------------------------------------------------------- MCP servers


def test_the_server_of_claude_code_starts_as_it_is_written(cold: Follower) -> None:
    """With nothing in its environment but this person's HOME, and what the file and the SDK's client give it."""
    server = plugin(cold, CLAUDE, ".mcp.json")["mcpServers"]["dreamd"]
    assert server.pop("alwaysLoad") is True
    server["env"]["HOME"] = cold.environment()["HOME"]
    _remembers(cold, StdioServerParameters(**server, cwd=cold.workspace.root))


def test_the_server_of_codex_starts_as_it_is_written(me: Follower) -> None:
    server = plugin(me, CODEX, ".mcp.json")["mcpServers"]["dreamd"]
    given = {name: value for name, value in me.environment().items() if name in CODEX_PASSES} | server["env"]
    # `env` replaces whatever the client would pass on by itself, and HOME is this person's.
    command, words = server["command"], server["args"]
    _remembers(me, StdioServerParameters(command=command, args=words, env=given, cwd=me.workspace.root))


def _remembers(me: Follower, server: StdioServerParameters) -> None:
    """It is served by the daemon, not beside it: the daemon counts the search."""

    async def body() -> None:
        async with Client(stdio_client(server)) as client:
            assert "Your long-term memory" in (client.instructions or "")
            await shown(client, "working_memory_note", note=NOTE)
            assert f"1. {NOTE}" in await shown(client, "memory_search", query="tea")
            assert NOTE in await shown(client, "memory_bootstrap")

    with me.served() as daemon:
        run(body)
        assert notes(me.workspace) == [NOTE]
        figures = httpx2.get(
            f"http://127.0.0.1:{me.port}/metrics", headers=_bearer(me), timeout=PATIENCE_SECONDS
        ).text
        assert 'dreamd_requests_total{code="OK",operation="memory_search"} 1.0' in figures
        assert daemon.events("request_failed") == []


def _bearer(me: Follower) -> dict[str, str]:
    return {"Authorization": f"Bearer {me.token}"}


def test_the_server_over_http_is_asked_as_it_is_written(me: Follower) -> None:
    with me.served():
        (server,) = json.loads(me.file("mcp-http.json"))["mcpServers"].values()
        assert server["type"] == "http"
        headers = {name: value.replace("${DREAMD_TOKEN}", me.token) for name, value in server["headers"].items()}

        async def body() -> None:
            async with (
                httpx2.AsyncClient(headers=headers, timeout=PATIENCE_SECONDS) as http,
                Client(streamable_http_client(server["url"], http_client=http)) as client,
            ):
                await shown(client, "working_memory_note", note=NOTE)
                assert NOTE in await shown(client, "memory_search", query="tea")

        run(body)
    assert notes(me.workspace) == [NOTE]


# ---------------------------------------------------------------- programs


@pytest.fixture(scope="module")
def frameworks() -> str:
    """The interpreter of their environment, made once for each lock. Without a package index its tests are skipped.

    What they need does not go together with what dreamd needs (another mcp, another openai): `make lock` locks it.
    """
    digest = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = cache_folder(os.environ) / f"frameworks-{digest}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix="frameworks-", dir=folder.parent)) / "made"
        installed = _uv("venv", "--quiet", "--python", sys.executable, str(made))
        if installed.returncode == 0:
            installed = _uv("pip", "sync", "--quiet", "--require-hashes", "--python", str(made), str(LOCK))
        if installed.returncode:
            shutil.rmtree(made.parent)
            pytest.skip(f"the frameworks could not be installed: {installed.stderr.strip()[-300:]}")
        if not folder.exists():  # else another worker was first
            made.rename(folder)
        shutil.rmtree(made.parent, ignore_errors=True)
    return str(folder / "bin" / "python")


def _uv(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([UV, *words], capture_output=True, text=True, check=False, timeout=600)


OURS, THEIRS = (
    ("langgraph_agent.py", "openai_loop.py"),
    ("langchain_mcp.py", "openai_agents_sdk.py", "pydantic_ai_agent.py"),
)
CLIENT = str(ROOT / "daemon" / "client")


@pytest.mark.full
@pytest.mark.parametrize("program", [*OURS, *THEIRS])
def test_a_program_with_tools_notes_searches_and_dreams(
    me: Follower, program: str, request: pytest.FixtureRequest
) -> None:
    """It begins with the memory, finds its own note, and (those of ours) is told of its mistake."""
    own = program == "openai_loop.py"  # it asks over HTTP
    note, search = ("note", "search") if program in OURS else ("working_memory_note", "memory_search")
    python = sys.executable if program in OURS else request.getfixturevalue("frameworks")
    noted(me.workspace, [OLD])
    wrong = [function_call(search, {"query": 7})] if program in OURS else []
    question = function_call(search, {"query": "what does Ada drink?"})
    noting = function_call(note, {"text" if program == "langgraph_agent.py" else "note": NOTE})
    script = in_turn(noting, question, *wrong, "You prefer tea.")
    with ScriptedModel(script) as model, me.served() as daemon:
        address = f"http://127.0.0.1:{me.port}/v1/workspaces/{me.workspace.name}"
        variables = {"DREAMD_TOKEN": me.token} if own else {"DREAMD": str(me.program), "PYTHONPATH": CLIENT}
        where = address if own else str(me.workspace.root)
        ended = me.example(program, where, "What do I drink?", python=python, **_asking(model), **variables)
        assert (ended.status, ended.out) == (0, "You prefer tea.\n"), ended.err
        daemon.until(lambda: dreamt(me, daemon) if program in OURS else daemon.status(me.workspace).last_dream)
        assert NOTE in daemon.found(me.workspace, "what does Ada drink?")
    assert model.count == 3 + len(wrong)
    assert OLD in model.requests[0]["messages"][0]["content"]
    assert {note, search} <= {tool["function"]["name"] for tool in model.requests[0]["tools"]}
    answers = [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "tool"]
    assert len(answers) == 2 + len(wrong)
    assert NOTE in str(answers[1])
    assert not wrong or "VALIDATION_ERROR" in answers[2]


@pytest.mark.full
def test_a_client_of_fastmcp_wakes_up_notes_and_finds(me: Follower, frameworks: str) -> None:
    noted(me.workspace, [OLD])
    with me.served() as daemon:
        words = (str(me.workspace.root), NOTE, "what does Ada drink?")
        ended = me.example("fastmcp_client.py", *words, python=frameworks, DREAMD=str(me.program))
        assert ended.status == 0, ended.err
        daemon.until(lambda: daemon.status(me.workspace).last_dream)
    woken, _, found = ended.out.partition(OLD)
    assert woken
    assert NOTE in found


@pytest.mark.full
def test_a_program_that_imports_the_client_wakes_up_looks_up_and_notes(me: Follower) -> None:
    noted(me.workspace, [OLD])
    words = (str(me.workspace.root), "Where is the deployment?")
    with ScriptedModel(in_turn("At port 8443.", "Still there.")) as model:
        # Without a daemon it runs the program, and what it noted is there when one runs.
        for answer in ("At port 8443.", "Still there."):
            with me.served() if "Still" in answer else nullcontext():
                ended = me.example("python_client.py", *words, PYTHONPATH=CLIENT, **_asking(model))
                assert (ended.status, ended.out) == (0, f"{answer}\n"), ended.err
        assert model.requests[0]["messages"][0]["content"].count(OLD) == 2  # woken with it, and found
        assert "At port 8443." in model.requests[1]["messages"][0]["content"]


def _asking(model: ScriptedModel) -> dict[str, str]:
    return {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "sk-of-a-test", "AGENT_MODEL": "scripted"}
