"""What runs at every turn of an agent, or is imported by other programs, loads next to nothing."""

import sys
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import open_exclusive
from tests.support.running import RUNNING, loaded

SLOW = {"litellm", "openai", "httpx", "tenacity", "chromadb", "langgraph", "onnxruntime", "numpy", "mcp"}
HEAVY = SLOW | {"pydantic", "starlette", "rich", "cryptography", "yaml", "sqlite3", "json", "shutil", "dataclasses"}


@pytest.mark.parametrize(
    ("words", "lived", "may"),
    [
        ("note -w HERE tea", False, {"shutil"}),
        ("bootstrap HERE", False, {"shutil", "json"}),
        ("bootstrap HERE", True, {"shutil", "json", "sqlite3", "dataclasses"}),
        ("status HERE --json", False, HEAVY - SLOW),
    ],
)
def test_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, may: AbstractSet[str], *, lived: bool
) -> None:
    """In a workspace with a memory; one that has lived has its state as well, and a global workspace beside it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    here = init_workspace(tmp_path / "here")
    for workspace in (here, init_workspace(tmp_path / "data/dreamd/global")) if lived else (here,):
        workspace.document.write_text("## The Bond\n\n- Ada prefers tea.\n")
        if lived:
            with open_exclusive(workspace, Config(), "test"):
                pass
    command = words.replace("HERE", str(here.root)).split()
    loaded(RUNNING, *command)  # texts are looked through for secrets once
    assert loaded(RUNNING, *command) & HEAVY <= may


@pytest.mark.parametrize(
    ("modules", "may"),
    [
        ("daemon.mcp.pump, daemon.cli.mcp", sys.stdlib_module_names | {"daemon", "state"}),
        ("daemon.mcp.http", HEAVY - {"mcp"}),
        ("daemon.mcp.server, daemon.mcp.alone", HEAVY - SLOW | {"mcp"}),
        ("daemon.models.litellm_model", HEAVY - SLOW - {"pydantic"}),
        ("sys; sys.path.append('daemon/client'); import dreamd_client", sys.stdlib_module_names | {"dreamd_client"}),
    ],
)
def test_a_module(modules: str, may: AbstractSet[str]) -> None:
    found = {name.partition(".")[0] for name in loaded(f"import {modules}")}
    assert (found if may >= sys.stdlib_module_names else found & HEAVY) <= may


def test_an_idle_daemon_has_not_loaded_what_only_requests_and_dreams_need() -> None:
    found = loaded("import daemon.cli.service, daemon.process.run, daemon.engine.daemon")
    late = ("daemon.api.operations.table", "daemon.journal", "daemon.pages", "daemon.upkeep", "daemon.dream.run")
    assert not {one for one in found if one.startswith((*late, "graphs.sheet", "prometheus_client"))}
