"""Maintenance on a clock that the test holds: what is due, what is promoted before it is dropped, what is free."""

from datetime import timedelta

from daemon import sessions
from daemon.workspace.stores import Store
from tests.support.working import AT, HOUR, MINUTE, SECOND, add, contents, written


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


def test_an_eligible_item_is_promoted_before_it_is_dropped(store: Store) -> None:
    add(store, "critical", priority="critical"), add(store, "low", priority="low")
    early = sessions.maintain(store, AT + 5 * MINUTE)
    assert (early.promoted, early.delivered, early.archived) == (1, 1, 0)
    assert contents(sessions.list_promoted(store, "s")) == ["critical"]  # it stays until it expires
    late = sessions.maintain(store, AT + 24 * HOUR)
    assert (late.promoted, late.archived) == (0, 2)
    assert store.crystals.count() == 1


def test_maintenance_with_nothing_due_writes_nothing(store: Store) -> None:
    add(store, "there")
    sessions.session_open(store, "idle", AT, "budget")
    sessions.session_open(store, "bounded", AT, "bounded")
    add(store, "in it", session="bounded")
    before = written(store)
    for seconds in range(0, 300, 30):
        assert not sessions.maintain(store, AT + timedelta(seconds=seconds)).changed
    assert written(store) == before


def test_an_empty_session_is_not_looked_at_again(store: Store) -> None:
    add(store, "short", priority="low")
    assert sessions.maintain(store, AT + HOUR).sessions == 1
    assert sessions.maintain(store, AT + 100 * HOUR).sessions == 0
    add(store, "next", priority="low", now=AT + 200 * HOUR)
    assert sessions.maintain(store, AT + 201 * HOUR).archived == 1


def test_a_clock_that_was_set_back_does_not_keep_a_session_from_maintenance(store: Store) -> None:
    add(store, "from the future", priority="low", now=AT + 1_000 * HOUR)
    add(store, "now", priority="low", now=AT)
    assert sessions.maintain(store, AT + HOUR).sessions == 1
    assert contents(sessions.export(store, "s")) == ["from the future"]
