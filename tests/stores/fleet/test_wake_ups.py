"""An arrival is never left alone: whatever is written at the same moment, the workspace is due, or has a job."""

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from state.stores.fleet.inbox import Arrival, Inbox
from tests.stores.fleet.fleet import Fleet, commit_of, session, waits

LOCK = "SELECT 1 FROM workspaces WHERE id = %s FOR UPDATE"


def ordered(fleet: Fleet, url: str, place: int, *calls: Callable[[], object]) -> None:
    """Each call waits for the workspace's row in this order, with what its statement saw before."""
    threads = [threading.Thread(target=call) for call in calls]
    with session(url) as other:
        other.execute(LOCK, [place])
        for number, thread in enumerate(threads, 1):
            thread.start()
            waits(fleet, number)
    for thread in threads:
        thread.join()


def test_the_same_key_again_wakes_nobody(fleet: Fleet) -> None:
    place = fleet.place()
    fleet.put(place, "same")
    fleet.postpone(place, None)
    fleet.put(place, "same")
    assert not fleet.due(place)


@pytest.mark.parametrize("commit_first", [True, False])
@pytest.mark.parametrize("queued", [True, False])
def test_a_commit_and_an_arrival_at_once(fleet: Fleet, fleet_url: str, *, queued: bool, commit_first: bool) -> None:
    place = fleet.place()
    lease = fleet.lease(place)
    if queued:
        fleet.schedule.queue(place.id)

    def commit() -> None:
        fleet.leases.commit(lease, commit_of(lease, due_in=timedelta(days=1)))

    calls = [commit, lambda: fleet.put(place)]
    ordered(fleet, fleet_url, place.id, *(calls if commit_first else reversed(calls)))
    fleet.leases.settle(place.id, timedelta(days=1))
    assert fleet.due(place)


@pytest.mark.parametrize("settle_first", [True, False])
@pytest.mark.parametrize("due_in", [None, timedelta(days=1)])
def test_the_end_of_a_job_and_an_arrival_at_once(
    fleet: Fleet, fleet_url: str, due_in: timedelta | None, *, settle_first: bool
) -> None:
    place = fleet.place()
    fleet.schedule.queue(place.id)
    calls = [lambda: fleet.leases.settle(place.id, due_in), lambda: fleet.put(place)]
    ordered(fleet, fleet_url, place.id, *(calls if settle_first else reversed(calls)))
    assert fleet.due(place)


def test_a_note_wakes_after_a_while_and_the_end_of_a_session_at_once(fleet: Fleet) -> None:
    place, inbox = fleet.place(), Inbox(fleet.database, timedelta(minutes=5))
    inbox.put([Arrival(place.id, place.tenant, "note", "first", "{}")])
    due = fleet.row(place)["due_at"]
    assert timedelta(minutes=4) < due - fleet.database.now() <= timedelta(minutes=5)
    inbox.put([Arrival(place.id, place.tenant, "note", "second", "{}")])
    assert fleet.row(place)["due_at"] == due
    inbox.put([Arrival(place.id, place.tenant, "session_end", "end", "{}")])
    assert fleet.due(place)


def test_what_was_there_when_the_job_was_queued_wakes_nobody_at_its_end(fleet: Fleet) -> None:
    place = fleet.place()
    fleet.put(place)
    fleet.schedule.queue(place.id)
    fleet.leases.settle(place.id, timedelta(days=1))
    assert not fleet.due(place)


def test_a_failure_is_tried_again_when_it_is_time_whatever_came(fleet: Fleet) -> None:
    place = fleet.place()
    fleet.schedule.queue(place.id)
    fleet.put(place)
    fleet.leases.settle_failed(place.id, "the model\0 is \ud800 away")
    fleet.put(place, kind="session_end")
    assert not fleet.due(place)
    assert (fleet.row(place)["failures"], fleet.row(place)["problem"]) == (1, "the model\ufffd is \ufffd away")
