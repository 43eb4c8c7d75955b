"""The recipes for programs that import dreamd, followed: its client, and LangGraph's store with its model."""

import json
import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.recipes import Follower, blocks, follower
from tests.support.running import ROOT
from tests.support.scripted_model import ScriptedModel, in_turn
from tests.support.serving import Home, noted

OLD = "The deployment runs on port 8443"


@pytest.fixture
def me(home: Home) -> Follower:
    return follower(home)


def _asking(model: ScriptedModel) -> dict[str, str]:
    return {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "sk-of-a-test", "AGENT_MODEL": "scripted"}


@pytest.mark.full
def test_a_program_wakes_up_looks_up_and_notes(me: Follower) -> None:
    noted(me.workspace, [OLD])
    with ScriptedModel(in_turn("At port 8443.")) as model, me.served() as daemon:
        words = (str(me.workspace.root), "Where is the deployment?")
        ended = me.example("python_client.py", *words, **_asking(model))
        assert (ended.status, ended.out) == (0, "At port 8443.\n"), ended.err
        daemon.until(lambda: daemon.status(me.workspace).last_dream)
        assert any("At port 8443." in text for text in daemon.found(me.workspace, "the deployment"))
    system, _ = model.requests[0]["messages"]
    assert system["content"].count(OLD) == 2  # woken with it, and found


def test_a_program_without_a_daemon_says_what_to_do(me: Follower) -> None:
    ended = me.example("python_client.py", str(me.workspace.root), "x", OPENAI_API_KEY="sk-of-a-test")
    assert ended.status == 1
    assert "'dreamd serve' starts one" in ended.err
    assert "Traceback" not in ended.err


def test_langgraphs_own_store_keeps_what_an_earlier_dreamd_kept(me: Follower) -> None:
    (recipe,) = (one for one in blocks(ROOT / "docs" / "agents.md", "python") if "SqliteStore" in one)
    (me.home.folder / "entries.json").write_text(
        json.dumps([
            {"namespace": ["users", "ada"], "key": "drink", "value": {"content": "A hot beverage made of leaves"}},
            {"namespace": ["users", "ada"], "key": "car", "value": {"content": "The garage has room for two"}},
        ])
    )  # fmt: skip
    script = recipe.replace("/path/to", str(me.home.folder))
    script += 'print([one.key for one in store.search(("users",), query="what tea does she like?")])\n'
    paths = os.pathsep.join((str(ROOT), *site.getsitepackages()))
    for found in (["drink", "car"], ["drink", "car"]):  # the second time from the file
        run = subprocess.run(
            [_loading_extensions(), "-c", script],
            env=me.environment(PYTHONPATH=paths, XDG_CACHE_HOME=str(Path.home() / ".cache")),
            capture_output=True,
            check=False,
            text=True,
            timeout=300,
        )
        assert (run.returncode, run.stdout) == (0, f"{found}\n"), run.stderr


def _loading_extensions() -> str:
    """Return an interpreter of this version that can load SQLite's extensions: this one, or the system's."""
    can = "import sqlite3; sqlite3.Connection.enable_load_extension"
    for program in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        if (
            Path(program).exists()
            and not subprocess.run([program, "-c", can], capture_output=True, check=False).returncode
        ):
            return program
    return pytest.skip("no interpreter here can load SQLite's extensions")
