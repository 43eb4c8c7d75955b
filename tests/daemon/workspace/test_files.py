"""What the files of a workspace say: read again when they change, whoever changes them, and only then."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.workspace.adoption import init_workspace
from daemon.workspace.files import WorkspaceFiles
from daemon.workspace.status import status
from daemon.workspace.stores import Store, open_exclusive, utc_now
from state.errors import StorageError
from state.scratch import Note
from state.stores.database.connection import open_database
from state.stores.database.meta import Meta
from state.stores.database.migration import ENTRIES_WRITTEN
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox
from state.stores.history.ledger import Ledger


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return init_workspace(tmp_path)


@pytest.fixture
def store(workspace: Workspace) -> Iterator[Store]:
    with open_exclusive(workspace, Config(), "test") as store:
        yield store


def aged(workspace: Workspace) -> None:
    """As if all that was written had been for long: what has just been may be again in the same tick of the clock."""
    long_ago = utc_now().timestamp() - 3600
    for path in (*workspace.root.rglob("*"), *workspace.state.rglob("*")):
        os.utime(path, (long_ago, long_ago))


def seconds(files: WorkspaceFiles, workspace: Workspace) -> float:
    """What a status takes, at best."""
    times = list[float]()
    for _ in range(15):
        began = time.perf_counter()
        status(workspace, Config(), utc_now(), None, files)
        times.append(time.perf_counter() - began)
    return min(times)


def test_each_commit_is_seen_at_once_whoever_made_it(workspace: Workspace, store: Store) -> None:
    files = WorkspaceFiles(workspace)
    assert files.facts(utc_now()).last_dream is None
    with closing(open_database(workspace.database)) as other:
        for number in range(30):  # several in one tick of the kernel's clock
            ledger = store.ledger if number % 2 else Ledger(other)
            ledger.begin(f"d{number:02}", "manual", utc_now())
            last = files.facts(utc_now()).last_dream
            assert last is not None
            assert last.id == f"d{number:02}"
            if number % 7 == 0:
                aged(workspace)
                files.facts(utc_now())


def test_a_note_and_a_line_are_seen_at_once(workspace: Workspace) -> None:
    files = WorkspaceFiles(workspace)
    for number in range(30):
        NoteInbox(workspace).append(Note(f"House {number} was repaired", utc_now()))
        workspace.document.write_text("é" * number, encoding="utf-8")
        assert (files.pending(utc_now()).notes, files.characters(utc_now())) == (number + 1, number)
        if number % 7 == 0:
            aged(workspace)
            assert (files.pending(utc_now()).notes, files.characters(utc_now())) == (number + 1, number)
    assert not files.has_schema(utc_now())


def test_what_has_not_changed_is_not_read_again(workspace: Workspace, store: Store) -> None:
    for number in range(200):
        NoteInbox(workspace).append(Note(f"House {number} was repaired", utc_now()))
    store.ledger.begin("d1", "manual", utc_now())
    aged(workspace)
    files = WorkspaceFiles(workspace)
    known = status(workspace, Config(), utc_now(), None, files)
    assert known.pending.notes == 200
    anew = min(seconds_once(workspace) for _ in range(15))
    assert seconds(files, workspace) < anew / 3
    # The next day nothing of it has changed, and what was spent is another day's.
    assert files.facts(utc_now() + timedelta(days=1)).spent.calls == 0


def seconds_once(workspace: Workspace) -> float:
    began = time.perf_counter()
    status(workspace, Config(), utc_now())
    return time.perf_counter() - began


def test_what_cannot_be_read_is_told_each_time_and_read_when_it_can(workspace: Workspace) -> None:
    with open_exclusive(workspace, Config(), "test") as store:
        store.ledger.begin("d1", "manual", utc_now())
    files = WorkspaceFiles(workspace)
    aged(workspace)
    files.facts(utc_now())
    whole = workspace.database.read_bytes()
    workspace.database.write_bytes(b"this is no database, " * 500)
    for _ in range(2):
        with pytest.raises(StorageError, match="not a database"):
            files.facts(utc_now())
    workspace.database.write_bytes(whole)
    assert files.facts(utc_now()).last_dream is not None


def test_an_owner_is_told_once_where_the_entries_of_programs_are(workspace: Workspace) -> None:
    with open_exclusive(workspace, Config(), "test") as store:
        Meta(store.crystals.connection).put(ENTRIES_WRITTEN, "2")
    for told in (1, 0):
        with open_exclusive(workspace, Config(), "test") as store:
            assert sum(str(workspace.state / "entries.json") in one for one in store.notices) == told
