"""Taking up many workspaces: the daemon is ready before, is asked and killed meanwhile; a bad one holds up none."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from daemon.api.client import NoDaemonError
from daemon.api.operations.notes import working_memory_note
from daemon.config.registry import name_of
from state.stores.database.connection import open_database
from state.stores.disk.lock import acquire
from state.stores.disk.workspace import Workspace
from tests.support import lived
from tests.support.serving import Daemon, Home, noted, repairs, until

NOTES = repairs(6)
LATER = "The cat is called Miez"


def several(home: Home, count: int) -> list[Workspace]:
    """Workspaces in which a dream is due."""
    found = [home.workspace(f"agent-{number}") for number in range(count)]
    for workspace in found:
        noted(workspace, NOTES)
    return found


@contextmanager
def occupied(workspace: Workspace) -> Iterator[sqlite3.Connection]:
    """Its state.db cannot be opened until this connection is closed: whoever tries waits for ten seconds."""
    open_database(workspace.database).close()
    with closing(sqlite3.connect(workspace.database, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")  # the lock stays
        yield connection


def committed(daemon: Daemon) -> set[str]:
    return {one["workspace"] for one in daemon.events("dream_committed")}


def names(workspaces: list[Workspace]) -> set[str]:
    return {name_of(one.root) for one in workspaces}


@pytest.mark.full
def test_what_cannot_be_taken_up_yet_holds_up_no_other_and_is_waited_for(home: Home) -> None:
    fine, (slow, slower) = several(home, 8), (home.workspace("a-slow"), home.workspace("b-slow"))
    bad = home.workspace("c-bad")
    bad.database.write_bytes(b"this is no database, " * 500)
    noted(slow, NOTES)
    with occupied(slower) as held, occupied(slow) as holding, home.serving() as daemon:
        for one in (slow, slower):  # it is ready without them, and says so
            assert not daemon.kept(one)["kept"]
        house = home.client.get("/v1/status")
        assert str(slow.root) not in {one["workspace"] for one in house["workspaces"]}
        assert len(house["daemon"]["workspaces"]) == 11
        shown = home.dreamd("status").out
        assert "yet to be taken up" in shown or "another process is writing" in shown
        with fine[0].scratch.open("a", encoding="utf-8") as log:
            log.write(f"- {LATER}\n")
        daemon.ask(fine[1], working_memory_note, note=LATER)
        daemon.until(lambda: names(fine) <= committed(daemon))
        assert all(daemon.kept(one)["kept"] for one in fine)
        assert not daemon.kept(slow)["kept"]
        held.close()
        holding.close()
        daemon.until(lambda: name_of(slow.root) in committed(daemon))
        for workspace in (*fine[2:], slow):
            lived.assert_once(workspace, NOTES)
            lived.assert_valid(workspace)
        for workspace in fine[:2]:  # what came later was in time for the first dream, or waits for the next one
            lived.assert_once(workspace, [*NOTES, LATER], consumed=False)
        assert "file is not a database" in daemon.kept(bad)["problem"]["what"]
        daemon.terminated()
    assert "Traceback" not in daemon.log


def test_who_asks_for_one_that_is_being_taken_up_is_answered_when_it_is(home: Home) -> None:
    workspace, answers = home.workspace(), list[list[str]]()
    with occupied(workspace) as connection, home.serving() as daemon:
        asking = threading.Thread(target=lambda: answers.append(daemon.found(workspace, LATER)))
        asking.start()
        asking.join(0.5)
        assert answers == []
        connection.close()
        asking.join()
        assert answers == [[]]
        assert daemon.kept(workspace)["kept"]


@pytest.mark.full
@pytest.mark.parametrize("taken_up", [0, 1, 4])
def test_killed_while_it_takes_up_workspaces_it_leaves_each_free_and_whole(home: Home, taken_up: int) -> None:
    workspaces = several(home, 8)
    daemon = home.start()
    daemon.until(lambda: len(daemon.events("workspace_adopted")) >= taken_up)
    daemon.kill()
    for workspace in workspaces:
        acquire(workspace, "test").release()
    noted(workspaces[0], [LATER])
    with home.serving() as daemon:
        daemon.until(lambda: names(workspaces) <= committed(daemon))
        for workspace in workspaces[1:]:
            lived.assert_once(workspace, NOTES)
            lived.assert_valid(workspace)
        lived.assert_once(workspaces[0], [*NOTES, LATER], consumed=False)
        assert "Traceback" not in daemon.log


def test_the_first_who_is_answered_at_all_is_answered_for_any_workspace(home: Home) -> None:
    """Whoever comes while the list is still being looked up waits for that; nobody is sent away."""
    workspaces = [home.workspace(f"agent-{number}") for number in range(20)]
    daemon = home.start()

    def is_taken() -> bool:
        try:
            daemon.ask(workspaces[-1], working_memory_note, note=LATER)
        except NoDaemonError:
            return False
        return True

    until(is_taken, lambda: daemon.log)
    daemon.until_ready()
    assert lived.pending(workspaces[-1]) == [LATER]
    daemon.terminated()


@pytest.mark.full
def test_those_with_notes_are_taken_up_before_those_without(home: Home) -> None:
    quiet, (one, other) = (
        [home.workspace(f"agent-{n}") for n in range(20)],
        (home.workspace("y"), home.workspace("z")),
    )
    noted(one, NOTES)
    noted(other, NOTES)
    with home.serving() as daemon:
        daemon.until(lambda: len(daemon.events("workspace_adopted")) == len(quiet) + 2)
        order = [event["workspace"] for event in daemon.events("workspace_adopted")]
        # Of four at once any may be the last to be ready.
        assert names([one, other]) <= set(order[:8])
        daemon.terminated()
