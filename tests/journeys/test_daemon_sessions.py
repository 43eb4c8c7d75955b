"""Working memory in the real daemon: its ticks, its kills, and what it tells of them."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from typing import Any

import pytest

from daemon import sessions
from daemon.api.operations.sessions import add, close, open_, stats
from daemon.workspace.stores import utc_now
from state.stores.database.connection import open_database
from state.stores.disk.workspace import Workspace
from tests.journeys.test_daemon_dreams import SHORT, reasons, with_sections
from tests.support import lived
from tests.support.serving import Daemon, Home
from tests.support.working import working

SMALL = {"soft_limit": 4, "hard_limit": 6, "batch_size": 2}


def added(daemon: Daemon, workspace: Workspace, text: str, *tags: str, session: str = "count") -> Any:
    return daemon.ask(workspace, add, session_id=session, content=text, priority="high", tags=tags)


def story(home: Home, workspace: Workspace, session: str) -> list[tuple[str, str]]:
    """`dreamd session events`, from the beginning: (action, reason)."""
    ended = home.dreamd("session", "events", session, "-w", workspace.root, "--json")
    assert ended.status == 0, ended.err
    return [(one["action"], one["reason"]) for one in reversed(json.loads(ended.out)["events"])]


@contextmanager
def no_crystals(workspace: Workspace) -> Iterator[None]:
    """Nothing can become a crystal meanwhile, for whoever has the database open already."""
    with closing(open_database(workspace.database)) as connection:
        connection.execute("CREATE TRIGGER torn BEFORE INSERT ON crystals BEGIN SELECT RAISE(ABORT, 'torn'); END")
        yield
        connection.execute("DROP TRIGGER torn")


@contextmanager
def illegible_items(workspace: Workspace) -> Iterator[None]:
    """Nobody can read when an item came."""
    with closing(open_database(workspace.database)) as connection:
        before = connection.execute("SELECT key, created_at FROM items").fetchall()
        connection.execute("UPDATE items SET created_at = 'never'")
        yield
        connection.executemany("UPDATE items SET created_at = ? WHERE key = ?", [(at, key) for key, at in before])


def test_what_could_not_be_a_crystal_stays_until_it_can_be_one_and_a_kill_loses_nothing(home: Home) -> None:
    workspace = home.workspace()
    with home.serving() as daemon, ExitStack() as stack:
        daemon.ask(workspace, open_, session_id="count", policy="budget", config=SMALL)
        stack.enter_context(no_crystals(workspace))
        for number in range(3):
            assert added(daemon, workspace, f"Plain {number} is repaired").evicted == ()
        assert added(daemon, workspace, "Plain 3 is repaired").evicted == ()
        assert daemon.found(workspace, "Plain 0 is repaired") == []
        daemon.kill()
    with home.serving() as daemon:
        gone = added(daemon, workspace, "Plain 4 is repaired").evicted
        assert [(one.content, one.action) for one in gone] == [
            ("Plain 0 is repaired", "promote"),
            ("Plain 1 is repaired", "promote"),
        ]
        daemon.until(lambda: len(daemon.found(workspace, "Plain is repaired")) == 2)
        standing = daemon.ask(workspace, stats, session_id="count")
        assert (standing.total_count, standing.capacity.status) == (3, "healthy")
        assert story(home, workspace, "count") == [
            ("opened", "budget"),
            *[("added", "")] * 5,
            *[("promoted", "soft_limit"), ("left", "soft_limit")] * 2,
        ]
    rows = lived.rows(workspace, "SELECT text, origin FROM crystals ORDER BY text")
    assert [(row["text"], row["origin"]) for row in rows] == [
        ("Plain 0 is repaired", "working"),
        ("Plain 1 is repaired", "working"),
    ]


def test_what_was_due_while_no_daemon_ran_is_done_when_one_can(home: Home) -> None:
    """Maintenance that fails is told once in a while, and tried again by the next daemon."""
    workspace = home.workspace()
    with working(workspace.root, environment=home.environment()) as store:
        before = utc_now() - timedelta(hours=2)
        sessions.add(store, "chat", sessions.Draft("The safe is behind the clock", "critical"), before)
        sessions.add(store, "chat", sessions.Draft("It rains", "low"), before)
        assert sessions.stats(store, "chat", utc_now()).total_count == 2
    with illegible_items(workspace), home.serving() as daemon:
        daemon.until(lambda: daemon.events("sessions_not_maintained"))
        assert daemon.found(workspace, "safe behind the clock") == []
        added(daemon, workspace, "Meanwhile it works", session="other")
        daemon.terminated()
        assert len(daemon.events("sessions_not_maintained")) <= 3
    with home.serving() as daemon:
        daemon.until(lambda: daemon.events("sessions_maintained"))
        assert daemon.found(workspace, "safe behind the clock") == ["The safe is behind the clock"]
        standing = daemon.ask(workspace, stats, session_id="chat")
        assert (standing.total_count, standing.promoted_count) == (1, 1)
        assert story(home, workspace, "chat") == [
            ("opened", "ttl"),
            *[("added", "")] * 2,
            ("archived", "expired"),
            ("promoted", "critical_and_accessed"),
        ]


@pytest.mark.full
def test_a_closed_session_is_dreamt_of_without_a_note(home: Home) -> None:
    home.configure(dream=SHORT)
    workspace = with_sections(home.workspace())
    with home.serving() as daemon:
        for number in range(5):
            added(daemon, workspace, f"The ferry number {number} goes to Bergen", session="chat")
        assert daemon.events("dream_committed") == []
        assert daemon.ask(workspace, close, session_id="chat").archived == 5
        daemon.until(lambda: daemon.events("dream_committed"))
        assert reasons(daemon, workspace)[0] in {"interval", "catch-up"}
        assert "The ferry number 4 goes to Bergen" in workspace.document.read_text(encoding="utf-8")
    lived.assert_valid(workspace)
