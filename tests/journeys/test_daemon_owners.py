"""One owner of a workspace: two daemons, a daemon and the command line, a daemon that was stopped or killed."""

import json
import signal
import threading

import pytest

from daemon.api.operations.signals import feel_event
from state.errors import BusyError, FencedError
from state.signals.hormones import Feeling
from state.stores.disk.lock import acquire, holder
from state.stores.disk.workspace import Workspace
from tests.support import lived
from tests.support.long_variants import variants
from tests.support.model_characters import good_when
from tests.support.scripted_model import ScriptedModel
from tests.support.serving import Home, noted, until

DAEMON = "dreamd serve"


def owner(workspace: Workspace) -> str:
    who = holder(workspace)
    return who.command if who else ""


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


@pytest.mark.full
def test_a_workspace_that_the_command_line_holds_is_named_and_taken_up_when_it_is_free(home: Home) -> None:
    """A dream by hand waits for its model while the daemon starts."""
    done = threading.Event()
    workspace, other = home.workspace(), home.workspace("other")
    noted(workspace, ["The cat is called Miez"])
    with ScriptedModel(good_when(done)) as model:
        home.asks(model)
        with home.beginning("dream", workspace.root) as person:
            until(lambda: model.count == 1 or person.poll() is not None)
            with home.serving() as daemon:
                assert daemon.kept(other)["problem"] is None
                daemon.until(lambda: daemon.kept(workspace)["problem"] is not None)
                problem = daemon.kept(workspace)["problem"]
                assert f"is held by process {person.pid} ('dreamd dream'" in problem["what"]
                assert f"process {person.pid}" in home.dreamd("status").out
                for command in ("status", "search kettle"):
                    ended = home.dreamd(*command.split(), "-w", workspace.root)
                    assert ended.status == 0, ended
                    assert f"process {person.pid}" in ended.out + ended.err
                refused = home.dreamd("dream", workspace.root)
                assert refused.status == 5
                assert f"process {person.pid}" in refused.err
                done.set()
                assert person.wait(300) == 0
                # Whoever asks for it has it taken up; else it is at the daemon's next round.
                daemon.until(lambda: daemon.status(workspace).problems == ())
                assert owner(workspace) == DAEMON
        assert model.count == 1
    lived.assert_valid(workspace)
    assert lived.outcomes(workspace) == ["committed"]


@pytest.mark.full
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
