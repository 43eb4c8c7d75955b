"""One owner of a workspace: two daemons, a daemon and the command line, a daemon that was stopped or killed."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.api.operations.signals import feel_event
from state.errors import BusyError, FencedError
from state.signals.hormones import Feeling
from state.stores.disk.lock import acquire, holder
from state.stores.disk.workspace import Workspace
from tests.support import lived
from tests.support.long_variants import variants
from tests.support.running import ROOT, Ended
from tests.support.serving import Home, noted, until

DAEMON = "dreamd serve"


def owner(workspace: Workspace) -> str:
    who = holder(workspace)
    return who.command if who else ""


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("asked", variants(True, False))  # noqa: FBT003 - else it waits for the daemon's next round
def test_a_second_daemon_says_so_and_the_first_one_goes_on(home: Home, asked: bool) -> None:  # noqa: FBT001
    workspace = home.workspace()
    with home.serving() as first:
        second = home.start()
        assert second.ended() == 5
        said = [row for row in second.log.splitlines() if not row.startswith("{")]
        told = f"dreamd: {home.socket}: a daemon listens here already; stop that one, or set DREAMD_SOCKET to another"
        assert said == [f"{told} path for this one"]
        assert first.is_ready
        # Under another address it comes up, and says who has the workspace.
        elsewhere = home.folder / "run" / "second.sock"
        third = home.start(DREAMD_SOCKET=str(elsewhere))
        try:
            until(lambda: third.events("workspace_refused"), lambda: third.log)
            assert f"process {first.process.pid}" in third.events("workspace_refused")[0]["error"]
            status = home.dreamd("status", DREAMD_SOCKET=str(elsewhere))
            assert f"is held by process {first.process.pid} ('dreamd serve'" in status.out
            # When the first one ends, it takes over by itself.
            first.terminated()
            if asked:
                third.send(signal.SIGHUP)
            until(lambda: (who := holder(workspace)) is not None and who.pid == third.process.pid)
            until(lambda: "is held by" not in home.dreamd("status", DREAMD_SOCKET=str(elsewhere)).out)
            third.terminated()
        finally:
            third.kill()
    assert owner(workspace) == ""


def test_a_daemon_of_another_version_is_told_with_how_to_restart_it(home: Home) -> None:
    workspace = home.workspace()
    with home.serving() as daemon:
        assert "this is" not in home.dreamd("status", workspace.root).err
        installed = Path(home.folder / "later" / "dreamd-99.0.dist-info")
        installed.mkdir(parents=True)
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: dreamd\nVersion: 99.0\n")

        def later(*words: str | Path) -> Ended:
            command = [sys.executable, "-m", "daemon", *map(str, words)]
            environment = home.environment(PYTHONPATH=f"{installed.parent}:{ROOT}")
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            return Ended(ended.returncode, ended.stdout, ended.stderr)

        told = f"and this is 99.0; restart it: 'kill {daemon.process.pid}', then 'dreamd serve'"
        noted(workspace, ["The cat is called Miez"])
        for words in (("status", workspace.root), ("status",), ("dream", workspace.root)):
            assert told in later(*words).err.split("\n")[0]
        doctor = later("doctor", workspace.root, "--json")
        assert [one["level"] for one in doctor.json["findings"] if "99.0" in one["what"]] == ["warning"]


@pytest.mark.full
@pytest.mark.usefixtures("platform")
def test_a_daemon_that_has_lost_its_workspace_writes_nothing_in_it(home: Home) -> None:
    workspace = home.workspace()
    with home.serving() as daemon:
        daemon.ask(workspace, feel_event, event=Feeling.REWARD)  # its stores are open from now on
        daemon.send(signal.SIGSTOP)
        until(daemon.is_stopped)
        with acquire(workspace, "somebody else"):
            daemon.send(signal.SIGCONT)
            with pytest.raises((BusyError, FencedError)):
                daemon.ask(workspace, feel_event, event=Feeling.ERROR)
            noted(workspace, ["The cat is called Miez"])
            daemon.until(lambda: "somebody else" in str(daemon.kept(workspace)["problem"]))
            assert [row["event"] for row in lived.rows(workspace, "SELECT event FROM feelings")] == ["reward"]
            assert lived.rows(workspace, "SELECT * FROM crystals") == []
        daemon.until(lambda: owner(workspace) == DAEMON)
        assert daemon.found(workspace, "cat") == ["The cat is called Miez"]


@pytest.mark.full
@pytest.mark.usefixtures("platform")
def test_a_daemon_that_is_stopped_is_named_and_not_waited_for(home: Home) -> None:
    with home.serving() as daemon:
        assert json.loads(home.dreamd("status", "--json").out)["daemon"]["pid"] == daemon.process.pid
        daemon.send(signal.SIGSTOP)
        try:
            ended = home.dreamd("status")
        finally:
            daemon.send(signal.SIGCONT)
        assert ended.status != 0
        assert "it is stopped, or overrun" in ended.err
