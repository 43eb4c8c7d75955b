"""The daemon's life as a process: what its signals do, what systemd is told, who can reach it, what it forgets."""

import json
import os
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from daemon.api.operations.sessions import add, list_memories
from daemon.api.operations.upkeep import forget_text
from daemon.workspace.adoption import open_workspace
from state.errors import ConfirmRequiredError
from state.stores.disk.lock import acquire, holder
from tests.support import lived
from tests.support.forgettable import assert_gone
from tests.support.long_variants import spread
from tests.support.model_characters import good, good_when
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.serving import Home, noted, over_tcp, port_of, repairs, until

# So many that a workspace without sections dreams at once.
NOTES = repairs(12)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_an_idle_daemon_that_is_told_to_end_leaves_nothing_behind(home: Home, number: signal.Signals) -> None:
    workspace = home.workspace()
    with home.serving() as daemon:
        daemon.until_kept(workspace)
        who = holder(workspace)
        assert who is not None
        assert who.pid == daemon.process.pid
        daemon.send(number)
        assert daemon.ended() == 0, daemon.log
        assert daemon.events("stopped")[0]["left_behind"] is False
    assert not home.socket.exists()
    acquire(workspace, "test").release()
    assert "Traceback" not in daemon.log


@pytest.mark.full
def test_dreams_that_wait_for_their_model_at_the_end_are_resumed_by_the_next_start(home: Home) -> None:
    """What was answered is paid; what was not is asked for again. A person who waits for one is told."""

    def late_the_first_time(request: dict[str, Any], number: int) -> Reply:
        return Reply(good(request, number), wait_seconds=60 if number in {1, 2} else 0)

    # One dreams by itself, in the other one somebody asks for it.
    workspace, asked, reading = home.workspace(), home.workspace("asked"), home.workspace("reading")
    noted(workspace, NOTES)
    noted(asked, ["The cat is called Miez"])
    long = home.folder / "long.md"
    long.write_text("".join(f"## User\n\nIn house {n} I keep {n % 97} bees.\n\n" for n in range(5_000)))
    with ScriptedModel(late_the_first_time) as model:
        home.asks(model)
        with home.serving() as daemon:
            daemon.until(lambda: model.count == 1)
            dream, ingest = ("dream", asked.root), ("ingest", long, "-w", reading.root)
            with home.beginning(*dream) as dreaming, home.beginning(*ingest) as ingesting:
                daemon.until(lambda: model.count == 2 and lived.rows(reading, "SELECT * FROM crystals LIMIT 1"))
                daemon.terminated()
                for person in (dreaming, ingesting):
                    _, said = person.communicate(timeout=300)
                    assert person.returncode in {1, 5}, said
                    assert said.splitlines()[-1].startswith("dreamd: the daemon ")
                    assert "Traceback" not in said
        assert daemon.events("stopped")[0]["left_behind"] is True
        home.keep(reading, kept=False)
        assert not home.socket.exists()
        for one, notes in ((workspace, NOTES), (asked, ["The cat is called Miez"])):
            assert lived.outcomes(one) == ["running"]
            assert lived.document(one) == ""
            assert sorted(lived.pending(one)) == sorted(notes)
        with home.serving() as daemon:
            daemon.until(lambda: len(daemon.events("dream_committed")) == 2)
        assert [one["resumed"] for one in daemon.events("dream_committed")] == [True, True]
        assert model.count == 4
        unanswered = [json.dumps(request) for request in model.requests[:2]]
        assert sorted(unanswered) == sorted(json.dumps(request) for request in model.requests[2:])
    for one, notes in ((workspace, NOTES), (asked, ["The cat is called Miez"])):
        assert lived.outcomes(one) == ["committed"]
        lived.assert_once(one, notes)
        lived.assert_valid(one)
    # What was cut off may have been paid.
    assert lived.calls(workspace) == lived.calls(asked) == 2


@pytest.mark.full
def test_a_dream_is_stopped_between_two_nodes_and_pays_for_nothing_twice(home: Home) -> None:
    told, workspace = threading.Event(), home.workspace()
    noted(workspace, NOTES)
    with ScriptedModel(good_when(told, 1)) as model:
        home.asks(model)
        with home.serving() as daemon:
            daemon.until(lambda: model.count == 1)
            daemon.send(signal.SIGTERM)
            daemon.until(lambda: daemon.events("stop_begun"))
            time.sleep(1)  # it is said before the dream is told
            told.set()
            assert daemon.ended() == 0, daemon.log
        assert daemon.events("stopped")[0]["left_behind"] is False
        assert "checkpointed after synthesize" in daemon.events("dream_interrupted")[0]["why"]
        assert lived.outcomes(workspace) == ["running"]
        assert model.count == 1
        with home.serving() as daemon:
            daemon.until(lambda: daemon.events("dream_committed"))
        assert model.count == 1
    assert lived.outcomes(workspace) == ["committed"]
    lived.assert_once(workspace, NOTES)
    lived.assert_valid(workspace)


def test_a_new_configuration_is_taken_on_sighup_and_a_bad_one_is_refused(home: Home) -> None:
    first, second = home.workspace("first"), home.workspace("second", kept=False)
    noted(first, ["Ada prefers tea"])
    noted(second, ["Bob prefers coffee"])
    with home.serving() as daemon:
        assert daemon.kept(second) == {}
        before = daemon.status(first).service
        home.keep(second, kept=True)
        home.configure(dream={"idle_minutes": 7.0, "min_chunks": 1})
        daemon.send(signal.SIGHUP)
        daemon.until(lambda: daemon.events("config_reloaded"))
        assert daemon.kept(second)["problem"] is None
        after = daemon.status(first).service
        assert before is not None
        assert after is not None
        assert after.upcoming == "idle: nothing has then been appended for 7 minutes"
        assert (before.pid, before.since) == (after.pid, after.since)

        good_text = home.config.read_text()
        for bad in ("dream: {interval_minutes: -1}\n", "dream: [\n", "\0\0"):
            refused = len(daemon.events("config_refused"))
            home.config.write_text(bad)
            daemon.send(signal.SIGHUP)
            daemon.until(partial(lambda before: len(daemon.events("config_refused")) > before, refused))
            service = daemon.status(second).service
            assert service is not None
            assert service.upcoming == after.upcoming
        problems = [one["what"] for one in home.client.get("/v1/workspaces")["problems"]]
        assert len(problems) == 1
        assert "config" in problems[0]

        home.config.write_text(good_text)
        daemon.send(signal.SIGHUP)
        daemon.until(lambda: len(daemon.events("config_reloaded")) == 2)
        assert home.client.get("/v1/workspaces")["problems"] == []


@pytest.mark.full
def test_a_workspace_that_is_made_known_is_kept_after_a_restart(home: Home) -> None:
    given = home.workspace("given", kept=False)
    noted(given, NOTES)
    with home.serving(given.root) as daemon:
        made = home.folder / "made"
        assert json.loads(home.dreamd("init", made, "--json").out)["daemon"] is True
        assert json.loads(home.dreamd("init", given.root, "--json").out)["daemon"] is True
        noted(open_workspace(made, home.environment()), NOTES)
        daemon.until(lambda: len(daemon.events("dream_committed")) == 2)
    with home.serving() as daemon:
        for workspace in (open_workspace(made, home.environment()), given):
            assert daemon.kept(workspace)["problem"] is None
            lived.assert_once(workspace, NOTES)


@contextmanager
def systemd(folder: Path) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """NOTIFY_SOCKET, and what was told there so far."""
    told: list[dict[str, str]] = []
    address = str(folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(address)

        def hear() -> None:
            while row := listening.recv(65_536).decode():
                told.append(dict(line.split("=", 1) for line in row.splitlines()))

        thread = threading.Thread(target=hear)
        thread.start()
        try:
            yield address, told
        finally:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ending:
                ending.sendto(b"", address)
            thread.join()


def test_systemd_is_told_how_the_daemon_is(home: Home) -> None:
    workspace = home.workspace()
    with systemd(home.folder) as (address, told):

        def keys() -> list[str]:
            return [name for one in told for name in one]

        with home.serving(NOTIFY_SOCKET=address, WATCHDOG_USEC="400000") as daemon:
            until(lambda: "READY" in keys(), lambda: told)
            ready = next(one for one in told if "READY" in one)
            assert ready == {"READY": "1", "STATUS": "1 workspace, 0 dreaming"}
            assert told[0] == {"STATUS": "looking up the workspaces"}
            assert daemon.kept(workspace)["problem"] is None
            until(lambda: keys().count("WATCHDOG") >= 3, lambda: told)

            home.workspace("another")
            told.clear()
            daemon.send(signal.SIGHUP)
            until(lambda: "READY" in keys(), lambda: told)
            assert keys().index("RELOADING") < keys().index("READY")
            reloading = next(one for one in told if "RELOADING" in one)
            assert int(reloading["MONOTONIC_USEC"]) > 0
            assert next(one for one in told if "READY" in one)["STATUS"].startswith("2 workspaces")

            home.config.write_text("dream: 7\n")
            told.clear()
            daemon.send(signal.SIGHUP)
            until(lambda: "READY" in keys(), lambda: told)
            assert "refused" in next(one for one in told if "READY" in one)["STATUS"]

            told.clear()
            daemon.terminated()
            until(lambda: "STOPPING" in keys(), lambda: told)


@pytest.mark.parametrize("umask", spread([0o000, 0o077], 2))
def test_nobody_else_may_read_what_is_kept(home: Home, umask: int) -> None:
    """By a command or by the daemon, whatever they are told of modes; what somebody opened is closed."""
    port, before = home.with_port(), os.umask(umask)
    try:
        root = home.folder / "agent"
        for words in (("init", root), ("note", "-w", root, "Ada repaired the kettle"), ("dream", root)):
            assert home.dreamd(*words).status == 0
        workspace = open_workspace(root, home.environment())
        workspace.database.chmod(0o644)
        with home.serving() as daemon:
            daemon.until_kept(workspace)
            assert daemon.found(workspace, "kettle")
            daemon.ask(workspace, add, session_id="s", content="An item", priority="low")
            assert port_of(daemon) == port
            assert over_tcp(port, "/v1/status")[0] == 401
            assert over_tcp(port, "/v1/status", home.token.read_text().strip())[0] == 200
            every = [home.socket, home.socket.parent, home.token, workspace.state, *workspace.state.rglob("*")]
            every += [root / "memory", root / "memory/scratch.md"]
            assert len(every) > 10
            assert [path for path in every if stat.S_IMODE(path.lstat().st_mode) & 0o077] == []
    finally:
        os.umask(before)


SECRET = "the launch crew is 7731 blue"
KEPT = "The kettle of house 9 was repaired by Ada"


def test_the_daemon_forgets_and_goes_on(home: Home) -> None:
    """Its index, its sessions and its watch go on."""
    workspace = home.workspace()
    with home.serving() as daemon:
        noted(workspace, [f"{KEPT}. And {SECRET}."])
        assert home.dreamd("dream", workspace.root).status == 0
        daemon.ask(workspace, add, session_id="s", content=f"{KEPT}. Then {SECRET}.", priority="high")
        noted(workspace, [f"It waits: {SECRET}"])
        assert any(SECRET in text for text in daemon.found(workspace, SECRET))
        with pytest.raises(ConfirmRequiredError):
            daemon.ask(workspace, forget_text, text=SECRET)
        ended = home.dreamd("forget", SECRET, "--yes", "--json", "-w", workspace.root)
        assert ended.status == 0, ended
        assert ended.json["clean"] is True
        assert_gone(workspace, SECRET)
        assert SECRET not in daemon.log
        # What is open is of the new files: searches, sessions, a further dream, notes that are met again.
        assert any(KEPT in text for text in daemon.found(workspace, KEPT))
        assert [one.content for one in daemon.ask(workspace, list_memories, session_id="s").memories] == [f"{KEPT}."]
        noted(workspace, [f"Once more: {SECRET}", "The fence of house 8 was painted"])
        assert home.dreamd("dream", workspace.root).status == 0
        assert "The fence of house 8 was painted" in lived.document(workspace)
        assert_gone(workspace, SECRET)
        assert home.dreamd("doctor", workspace.root).status == 0
    lived.assert_valid(workspace)
    assert_gone(workspace, SECRET)
