"""Hostile folders before a real daemon: by a glob, by its registry, and in workspaces that it keeps."""

import json
from pathlib import Path

import pytest

from daemon.config.registry import add
from daemon.workspace.adoption import adopt, own_folder
from state.stores.disk.workspace import Workspace
from tests.redteam.house import OUTSIDE, Watch, changes, everything, house, put
from tests.redteam.trying import kinds
from tests.support.long_variants import IS_LONG
from tests.support.recipes import free_port
from tests.support.serving import Home, at_home, over_tcp, port_of

pytestmark = pytest.mark.timeout(600)
# Each in its own workspace; the folders that a builder makes beside its workspace are the house's.
_NAMES = [name for name in kinds() if "git" not in name and "without end" not in name][:: 1 if IS_LONG else 7]


def _own(home: Home, root: Path) -> Workspace:
    adopted = adopt(Workspace(root.resolve()), home.environment())
    assert own_folder(adopted, home.environment()).is_dir()
    return adopted


def test_a_daemon_keeps_no_foreign_workspace_and_outlives_its_own_ones(good: Path) -> None:
    with at_home() as home, house() as one:
        foreign = list[Path]()
        for number, name in enumerate(_NAMES):
            for group in ("foreign", "own"):
                root = put(good, one).rename(_made(home.folder / group) / f"w{number}")
                if group == "own":
                    add(home.registry, _own(home, root).root)
                else:
                    foreign.append(root)
                kinds()[name](one, root)
        before = {root: everything(root) for root in foreign}
        watch = Watch(one)
        home.configure(
            daemon={"workspaces": [f"{home.folder}/foreign/*"]},
            dream={"idle_minutes": 0.01},
            http={"port": free_port()},
        )
        with home.serving() as daemon:

            def taken() -> set[str]:
                """The foreign ones that it has not refused (yet)."""
                listed = home.client.get("/v1/workspaces")["workspaces"]
                return {str(root) for root in foreign} & {one["root"] for one in listed if one["problem"] is None}

            daemon.until(lambda: not taken())
            token = home.token.read_text(encoding="utf-8").strip()
            for path in ("/v1/workspaces", "/v1/status", "/metrics"):
                _, said = over_tcp(port_of(daemon), path, token)
                assert OUTSIDE not in said
            name = home.client.get("/v1/workspaces")["workspaces"][0]["name"]
            status, _ = over_tcp(port_of(daemon), f"/v1/workspaces/{name}/status")
            assert status == 401
            assert json.loads(home.dreamd("status", "--json").out)["daemon"]["pid"] == daemon.process.pid
            daemon.terminated()
        assert OUTSIDE not in daemon.log
        assert "Traceback" not in daemon.log
        assert [change for root in foreign for change in changes(before[root], root)] == []
        assert watch.now() == []


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder
