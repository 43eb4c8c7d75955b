"""`dreamd init` and the daemon: who wants none in a workspace has none, whatever an agent asks it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.api.operations.table import OPERATIONS
from daemon.config.settings import Config
from daemon.mcp.alone import Calls
from daemon.workspace.adoption import open_workspace
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import Running, running
from tests.support.running import Caller


@pytest.fixture
def dreamd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Caller:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Caller(capsys)


def agent_of(root: Path) -> Callable[[], object]:
    """What an agent's `dreamd mcp` does at a call: it asks the daemon, and has it keep the workspace."""
    asking, mood = Calls(lambda: open_workspace(root), Config), OPERATIONS["mood"]
    return lambda: asking(mood, mood.bind(), lambda _: None, lambda _: None)


def kept(server: Running) -> list[str]:
    assert isinstance(server.house, OwnHouse)
    return [one.root for one in server.house.info().workspaces]


def test_a_workspace_without_a_daemon_is_not_adopted_by_an_agents_call(
    dreamd: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "eve"
    with running(OwnHouse()) as server:
        monkeypatch.setenv("DREAMD_SOCKET", str(server.path))
        assert dreamd("init", root, "--no-daemon", "--json").json["daemon"] is False
        agent_of(root)()
        assert kept(server) == []
        assert dreamd("init", root, "--json").json["daemon"] is True
        assert kept(server) == [str(root)]


def test_one_that_the_daemon_keeps_is_let_go_by_init_and_stays_so(
    dreamd: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "eve"
    with running(OwnHouse()) as server:
        monkeypatch.setenv("DREAMD_SOCKET", str(server.path))
        assert dreamd("init", root).status == 0
        agent_of(root)()
        assert kept(server) == [str(root)]
        assert dreamd("init", root, "--no-daemon").status == 0
        agent_of(root)()
        assert kept(server) == []


def test_a_daemon_keeps_the_global_workspace_from_its_first_note_on(
    dreamd: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with running(OwnHouse()) as server:
        monkeypatch.setenv("DREAMD_SOCKET", str(server.path))
        assert dreamd("note", "--global", "Ada prefers tea").status == 0
        assert kept(server) == [str(tmp_path / "data/dreamd/global")]
        assert dreamd("init", "--global", "--no-daemon").status == 0
        assert dreamd("note", "--global", "Ada prefers tea").status == 0
        assert kept(server) == []
