"""The process of a dream with a model: what its death costs the dream, and when it ends."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from daemon.api.operations.dreams import dream_now
from state.stores.disk.workspace import Workspace
from tests.support import lived
from tests.support.model_characters import good
from tests.support.scripted_model import Reply, Script, ScriptedModel
from tests.support.serving import Daemon, Home, noted, repairs, until

NEVER = {"interval_minutes": 10_000, "idle_minutes": 10_000}


def late_the_first_time(request: dict[str, Any], number: int) -> Reply:
    return Reply(good(request, number), wait_seconds=600 if number == 1 else 0)


@contextmanager
def a_model(home: Home, script: Script) -> Iterator[tuple[Workspace, ScriptedModel]]:
    """A workspace whose dreams ask this model, and begin when somebody says so."""
    home.configure(dream=NEVER)
    workspace = home.workspace()
    with ScriptedModel(script) as model:
        home.asks(model)
        yield workspace, model


def processes(daemon: Daemon) -> list[int]:
    """The numbers of those that were started."""
    return [int(one["process"]) for one in daemon.events("dream_process_started")]


def calls(workspace: Workspace) -> list[int]:
    return [row["usable"] for row in lived.rows(workspace, "SELECT usable FROM calls ORDER BY rowid")]


def is_there(number: int) -> bool:
    return Path(f"/proc/{number}").exists()


@pytest.mark.full
def test_a_process_that_is_killed_costs_a_try_and_not_the_dream(home: Home) -> None:
    with a_model(home, late_the_first_time) as (workspace, model):
        with home.serving() as daemon:
            notes = noted(workspace, repairs(3))
            assert daemon.ask(workspace, dream_now, wait=False).outcome is None
            daemon.until(lambda: model.count == 1)
            os.kill(processes(daemon)[0], signal.SIGKILL)
            daemon.until(lambda: daemon.events("dream_committed"))
            assert len(processes(daemon)) == 2
            (died,) = daemon.events("dream_process_died")
            assert (died["level"], died["process"]) == ("warning", processes(daemon)[0])
            assert daemon.events("dream_failed") == []
            assert "sk-of-a-test" not in daemon.log
            until(lambda: not any(map(is_there, processes(daemon))))  # it ends with its dream, the daemon goes on
        # What was asked twice was charged twice: the provider may have answered both times.
        assert model.requests[0] == model.requests[1]
    lived.assert_once(workspace, notes)
    assert calls(workspace) == [0, 1]
    assert lived.calls(workspace) == model.count


def test_a_process_ends_with_its_daemon_however_that_ends(home: Home) -> None:
    """And the dream goes on at the next start."""
    with a_model(home, late_the_first_time) as (workspace, model):
        with home.serving() as daemon:
            notes = noted(workspace, repairs(3))
            daemon.ask(workspace, dream_now, wait=False)
            daemon.until(lambda: model.count == 1)
            (number,) = processes(daemon)
            daemon.send(signal.SIGKILL)
            daemon.ended()
            until(lambda: not is_there(number))
        with home.serving() as daemon:
            daemon.until(lambda: daemon.events("dream_committed"))
        assert model.count == 2
    lived.assert_once(workspace, notes)
    assert lived.outcomes(workspace) == ["committed"]


def test_an_agent_that_is_asked_ends_with_its_daemon_and_the_dream_goes_on(home: Home) -> None:
    home.configure(dream=NEVER, model={"name": "claude-code"})
    workspace, program = home.workspace(), home.folder / ".local" / "bin" / "claude"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho $$ > {home.folder}/asked\nsleep 600\n")
    program.chmod(0o755)
    with home.serving() as daemon:
        notes = noted(workspace, repairs(3))
        daemon.ask(workspace, dream_now, wait=False)
        daemon.until((home.folder / "asked").exists)
        number = int((home.folder / "asked").read_text())
        daemon.terminated()
        until(lambda: not is_there(number))
    program.unlink()  # its user has taken it away: the dream goes on without a model
    with home.serving() as daemon:
        daemon.until(lambda: daemon.events("dream_committed"))
        assert "there is no program 'claude'" in daemon.events("dream_noticed")[0]["problem"]
    lived.assert_once(workspace, notes)
    assert lived.outcomes(workspace) == ["committed"]
