"""The recipes for Python's frameworks, followed: each a program of docs/agents, a real `dreamd`, a scripted model.

What they need does not go together with what dreamd needs (another mcp, another openai). It is locked beside this
file (`make lock`), and installed by uv into an environment of its own, once for each lock, in the folder of what can
be made again.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.workspace.vector_index import cache_folder
from tests.support.recipes import Follower, follower, function_call
from tests.support.scripted_model import ScriptedModel, in_turn
from tests.support.serving import Home, at_home, noted

LOCK = Path(__file__).with_name("requirements.lock")
UV = Path(sys.executable).with_name("uv")
NOTE = "Ada prefers tea over coffee in the morning"
OLD = "The deployment runs on port 8443"

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter of their environment. Without a package index the tests are skipped."""
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


@pytest.fixture
def me() -> Iterator[Follower]:
    with at_home() as home:
        yield _noted(home)


def _noted(home: Home) -> Follower:
    me = follower(home)
    noted(me.workspace, [OLD])
    return me


def _asking(model: ScriptedModel) -> dict[str, str]:
    return {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "sk-of-a-test", "AGENT_MODEL": "scripted"}


@pytest.mark.parametrize("name", ["langchain_mcp.py", "openai_agents_sdk.py", "pydantic_ai_agent.py"])
def test_an_agent_wakes_up_notes_and_finds(me: Follower, python: str, name: str) -> None:
    script = in_turn(
        function_call("working_memory_note", {"note": NOTE}),
        function_call("memory_search", {"query": "what does Ada drink?"}),
        "You prefer tea.",
    )
    with ScriptedModel(script) as model, me.served() as daemon:
        ended = me.example(
            name, str(me.workspace.root), "What do I drink?", python=python, **_asking(model), DREAMD=str(me.program)
        )
        assert (ended.status, ended.out) == (0, "You prefer tea.\n"), ended.err
        daemon.until(lambda: daemon.status(me.workspace).last_dream)
        assert NOTE in daemon.found(me.workspace, "what does Ada drink?")
    first, *_, last = model.requests
    assert OLD in first["messages"][0]["content"]
    assert {"working_memory_note", "memory_search"} <= {tool["function"]["name"] for tool in first["tools"]}
    answers = [message["content"] for message in last["messages"] if message["role"] == "tool"]
    assert len(answers) == 2
    assert NOTE in str(answers[1])


def test_a_client_of_fastmcp_wakes_up_notes_and_finds(me: Follower, python: str) -> None:
    with me.served() as daemon:
        words = (str(me.workspace.root), NOTE, "what does Ada drink?")
        ended = me.example("fastmcp_client.py", *words, python=python, DREAMD=str(me.program))
        assert ended.status == 0, ended.err
        daemon.until(lambda: daemon.status(me.workspace).last_dream)
    woken, _, found = ended.out.partition(OLD)
    assert woken
    assert NOTE in found
