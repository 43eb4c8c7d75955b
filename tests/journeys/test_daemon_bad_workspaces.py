"""Workspaces that are taken up: many at once, asked for and killed meanwhile; a bad one is told and holds up none."""

import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from daemon.api.client import NoDaemonError
from daemon.api.operations.notes import working_memory_note
from state.errors import DreamdError
from state.stores.database.opening import open_database
from state.stores.disk.lock import acquire
from state.stores.disk.places import PLACE, Place, write_place
from state.stores.disk.workspace import Workspace
from tests.support import lived
from tests.support.serving import Daemon, Home, noted, repairs, until

NOTES = repairs(6)


@dataclass(frozen=True, slots=True)
class Bad:
    """Something that may befall a workspace, what is said of it, and how it is mended."""

    spoil: Callable[[Workspace], object]
    what: str
    advice: str
    mend: Callable[[Workspace], object]


def newer(workspace: Workspace) -> None:
    with closing(sqlite3.connect(workspace.database)) as connection:
        connection.execute("PRAGMA user_version = 99")


def deleted(folder: Path) -> None:
    """Gone, also when its daemon removes or makes a file of it in the same moment."""
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)


BAD = {
    "garbage": Bad(
        lambda one: one.database.write_bytes(b"this is no database, " * 500),
        "state.db: file is not a database",
        "the notes and MEMORY.md are unharmed, run 'dreamd doctor'",
        lambda one: one.database.unlink(),
    ),
    "newer": Bad(newer, "written by a newer dreamd (schema 99", "upgrade", lambda one: one.database.unlink()),
    "place": Bad(
        lambda one: (one.state / PLACE).write_bytes(b""),
        "so it is not known which folder is meant",
        "dreamd init --resume",
        lambda one: write_place(one.state.parent, Place.of(one.state.name, one.root)),
    ),
    "checkpoints": Bad(
        lambda one: one.checkpoints.rename(one.checkpoints.with_name("once")) and one.checkpoints.write_text(""),
        "checkpoints: a file stands where a folder should be",
        "move it away",
        lambda one: one.checkpoints.unlink(),
    ),
    "unreadable": Bad(
        lambda one: one.state.chmod(0),
        "is not writable by this user",
        "chmod u+rwx",
        lambda one: one.state.chmod(0o700),
    ),
}


def told(daemon: Daemon, workspace: Workspace) -> tuple[str, str]:
    """What is wrong with it, and what to do; of a damaged place the daemon tells, as it does not know whose it is."""
    problems = daemon.home.client.get("/v1/workspaces")["problems"]
    damaged = next((one for one in problems if workspace.name in one["what"]), None)
    problem = damaged or daemon.kept(workspace)["problem"]
    return (problem["what"], problem["advice"]) if problem else ("", "")


@pytest.mark.full
def test_bad_workspaces_do_not_stop_the_others(home: Home) -> None:
    bad = {name: one for name, one in BAD.items() if name != "unreadable" or os.geteuid() != 0}
    workspaces = {name: home.workspace(name) for name in bad}
    fine = home.workspace("fine")
    for workspace in (fine, *workspaces.values()):
        noted(workspace, NOTES)
    for name, one in bad.items():
        one.spoil(workspaces[name])
    gone = home.workspace("gone")
    shutil.rmtree(gone.root)
    with home.serving(Path("/proc")) as daemon:
        daemon.until(lambda: lived.document(fine))
        for name, one in bad.items():
            what, advice = told(daemon, workspaces[name])
            assert one.what in what
            assert one.advice in advice
        shown = home.dreamd("status").out
        assert f"{gone.root} does not exist" in told(daemon, gone)[0]
        for workspace in workspaces.values():
            assert told(daemon, workspace)[0] in shown
        assert "/proc is no workspace yet" in shown
        # A note is taken where notes can be written, whatever else is wrong.
        daemon.ask(workspaces["checkpoints"], working_memory_note, note="The cat is called Miez")

        for name, one in bad.items():
            one.mend(workspaces[name])
        daemon.send(signal.SIGHUP)  # at once, rather than at its next round
        daemon.until(lambda: len(daemon.events("dream_committed")) == 1 + len(bad))
        for name, workspace in workspaces.items():
            assert told(daemon, workspace) == ("", "")
            more = ["The cat is called Miez"] if name == "checkpoints" else []
            lived.assert_once(workspace, [*NOTES, *more])
            lived.assert_valid(workspace)
        assert [one["workspace"] for one in daemon.events("workspace_adopted")].count(daemon.kept(fine)["name"]) == 1


@pytest.mark.full
def test_a_workspace_that_is_deleted_and_made_again_is_another_one(home: Home) -> None:
    gone, fine = home.workspace("gone"), home.workspace("fine")
    noted(gone, NOTES)
    with home.serving() as daemon:
        daemon.until(lambda: daemon.events("dream_committed"))
        deleted(gone.root)
        noted(fine, NOTES)
        daemon.until(lambda: len(daemon.events("dream_committed")) == 2)
        daemon.until(lambda: "does not exist" in told(daemon, gone)[0])
        assert not gone.root.exists()  # nothing was made there
        gone = home.workspace("gone")
        more = noted(gone, repairs(7, " and barn"))
        daemon.until(lambda: len(daemon.events("dream_committed")) == 3)
        assert told(daemon, gone) == ("", "")
        lived.assert_once(gone, more)
        lived.assert_valid(gone)
        # So quickly that nobody has seen it gone.
        deleted(gone.root)
        gone = home.workspace("gone")
        again = noted(gone, repairs(8, " and shed"))
        daemon.until(lambda: len(daemon.events("dream_committed")) == 4)
        lived.assert_once(gone, again)
        lived.assert_valid(gone)


@pytest.mark.full
def test_a_database_that_is_spoilt_while_it_is_served_is_told_and_can_be_mended(home: Home) -> None:
    spoilt, fine = home.workspace("spoilt"), home.workspace("fine")
    with home.serving() as daemon:
        daemon.until(lambda: len(daemon.events("workspace_adopted")) == 2)
        daemon.found(spoilt, "anything")  # it is in use
        for path in spoilt.state.glob("state.db*"):
            path.write_bytes(b"this is no database, " * 500)
        noted(spoilt, NOTES)
        noted(fine, NOTES)
        daemon.until(lambda: lived.document(fine))
        daemon.until(lambda: "state.db" in str(problems(home, spoilt)))
        repaired = home.dreamd("doctor", spoilt.root, "--repair")
        assert repaired.status == 0, repaired
        assert home.dreamd("dream", spoilt.root).status in {0, 3, 5}  # the daemon may be at it already
        daemon.until(lambda: "committed" in lived.outcomes(spoilt))
        lived.assert_once(spoilt, NOTES)
        lived.assert_valid(spoilt)
        assert problems(home, spoilt) == []


def problems(home: Home, workspace: Workspace) -> list[str]:
    """What is wrong with it: the daemon's list, the status, or why there is no status."""
    listed = [one for one in home.client.get("/v1/workspaces")["workspaces"] if one["root"] == str(workspace.root)]
    try:
        name = listed[0]["name"]
        found = home.client.get(f"/v1/workspaces/{name}/dream_status")["problems"]
    except DreamdError as error:
        return [str(error)]
    return [one["what"] for one in found]


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
    return {one.name for one in workspaces}


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
