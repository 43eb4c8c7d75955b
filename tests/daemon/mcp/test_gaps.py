"""What an agent searches over MCP and does not find becomes its open question."""

from pathlib import Path

import pytest

from daemon.api.operations.table import OPERATIONS
from daemon.workspace.adoption import init_workspace
from tests.daemon.mcp.agents import TEA, asking, in_process, run, shown


@pytest.mark.parametrize("name", ["codex-mcp-client", ""])
def test_what_an_agent_does_not_find_is_its_open_question(tmp_path: Path, name: str) -> None:
    asking_it = asking(init_workspace(tmp_path / "here"))

    async def body() -> None:
        async with in_process(asking_it, name=name) as client:
            await shown(client, "working_memory_note", note=TEA)
            await shown(client, "memory_search", query="lattice quantum chromodynamics")

    run(body)
    gaps = asking_it(OPERATIONS["gaps"], OPERATIONS["gaps"].bind(), lambda _: None, lambda _: None).gaps
    assert [(one.question, one.cause) for one in gaps] == [
        ("What is known about: lattice quantum chromodynamics?", "miss")
    ]
