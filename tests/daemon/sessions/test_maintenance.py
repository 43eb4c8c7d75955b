"""Maintenance on a clock that the test holds: what is due, what is promoted before it is dropped, what is free."""

from daemon import sessions
from daemon.workspace.stores import Store
from tests.support.working import AT, HOUR, MINUTE, SECOND, add, contents


def test_a_ttl_session_is_cleaned_every_five_minutes_and_not_between(store: Store) -> None:
    add(store, "short", priority="low")
    add(store, "shorter", priority="low", now=AT + SECOND)
    assert sessions.maintain(store, AT + 5 * MINUTE - SECOND).sessions == 0
    assert sessions.maintain(store, AT + HOUR).archived == 1
    assert sessions.maintain(store, AT + HOUR + 5 * MINUTE - SECOND).sessions == 0
    assert contents(sessions.list_expired(store, "s", AT + HOUR + SECOND)) == ["shorter"]
    assert sessions.maintain(store, AT + HOUR + 5 * MINUTE).archived == 1
    assert sessions.export(store, "s").count == 0


def test_a_budget_session_is_checked_every_thirty_seconds(store: Store) -> None:
    sessions.session_open(store, "s", AT, "budget")
    for number in range(19):
        add(store, f"n{number}")
    assert sessions.maintain(store, AT + 29 * SECOND).sessions == 0
    assert sessions.maintain(store, AT + 30 * SECOND).sessions == 1
    assert sessions.stats(store, "s", AT).total_count == 19
    assert sessions.maintain(store, AT + 59 * SECOND).sessions == 0
    assert sessions.maintain(store, AT + 60 * SECOND).sessions == 1


def test_a_clock_that_was_set_back_does_not_keep_a_session_from_maintenance(store: Store) -> None:
    add(store, "from the future", priority="low", now=AT + 1_000 * HOUR)
    add(store, "now", priority="low", now=AT)
    assert sessions.maintain(store, AT + HOUR).sessions == 1
    assert contents(sessions.export(store, "s")) == ["from the future"]
