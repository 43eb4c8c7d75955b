"""One holder at a time, and a commit that says the truth: whoever dies, stops, goes on, or loses an answer."""

from uuid import uuid4

import pytest

from state.budget import Spend
from state.errors import UnreachableError
from state.fleet import Lease
from state.stores.fleet import leases as processes
from state.stores.fleet.leases import Commit, HeldElsewhereError
from tests.stores.fleet.fleet import Fleet, commit_of, together
from tests.support.serving import until

LOCK = "SELECT 1 FROM workspaces WHERE id = %s FOR UPDATE"


def test_of_many_who_take_at_once_one_owns_it(fleet: Fleet) -> None:
    place, workers = fleet.place(), [fleet.stand_in() for _ in range(12)]
    leases = together(*[lambda one=one: fleet.leases.take(place.id, one) for one in workers])
    [lease] = [lease for lease in leases if isinstance(lease, Lease)]
    assert fleet.holder(place) == lease.owner
    assert {one.address for one in leases if isinstance(one, HeldElsewhereError)} == {"http://127.0.0.1:1"}


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_that_believe_to_own_it_the_later_number_stands(fleet: Fleet, first: int) -> None:
    """As of a process that was stopped after its put, and goes on; the store took one object of each number."""
    place = fleet.place()
    number = fleet.put(place)
    displaced = fleet.lease(place)
    fleet.dead(displaced.owner)
    leases = [displaced, fleet.lease(place)]
    assert fleet.leases.commit(leases[first], Commit(2, 10)).generation == 2
    late = leases[1 - first]
    with pytest.raises(UnreachableError, match="generation 2, committed by another holder while this one put 1"):
        fleet.leases.commit(late, commit_of(late, taken=(number,), dreams=1, spent=Spend(1, 1, 1.0), erased=True))
    assert fleet.row(place)["generation"] == 2
    assert [row.id for row in fleet.inbox.waiting(place.id)] == [number]
    assert fleet.database.rows("SELECT 1 FROM spending") == fleet.database.rows("SELECT 1 FROM erased") == []
    fleet.leases.release(displaced)
    assert fleet.row(place)["owner"] == leases[1].owner


def test_who_is_dead_takes_nothing_and_has_what_nobody_took_when_it_is_heard_again(fleet: Fleet) -> None:
    place, other, worker = fleet.place(), fleet.place(), fleet.stand_in()
    left, taken = fleet.lease(place, worker), fleet.lease(other, worker)
    fleet.dead(worker)
    for one, process in ((fleet.place(), worker), (place, uuid4())):
        with pytest.raises(HeldElsewhereError):
            fleet.leases.take(one.id, process)
    fleet.lease(other)
    fleet.sessions[worker].beat()
    assert fleet.leases.waiting(left) == []
    with pytest.raises(HeldElsewhereError):
        fleet.leases.waiting(taken)
    with pytest.raises(HeldElsewhereError):
        fleet.leases.take(other.id, worker)
    assert fleet.holder(place) == worker
    assert fleet.leases.held(worker) == {place.id}


def test_a_session_that_is_silent_for_too_long_ends_by_itself(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "ALIVE_SECONDS", 0.5)
    place, worker = fleet.place(), fleet.stand_in()
    fleet.lease(place, worker)
    until(lambda: fleet.holder(place) is None)
    assert fleet.sessions[worker].has_ended
    fleet.sessions[worker].beat()
    assert not fleet.sessions[worker].has_ended


def test_a_forgetting_takes_along_the_words_of_a_problem_and_what_was_set_aside(fleet: Fleet) -> None:
    place, other = fleet.place(), fleet.place()
    for one in (place, other):
        fleet.inbox.set_aside([fleet.put(one)])
    lease = fleet.lease(place)
    fleet.leases.settle_failed(place.id, "'the code of the cellar is 4711' is no line")
    lease = fleet.leases.commit(lease, commit_of(lease))
    assert "4711" in fleet.places.find(place.tenant, place.name).problem
    fleet.leases.commit(lease, commit_of(lease, erased=True))
    found = fleet.places.find(place.tenant, place.name)
    assert (found.failures, found.problem) == (1, "it failed before something was forgotten there")
    rows = fleet.database.rows("SELECT workspace FROM inbox WHERE taken_at = 'infinity' AND body <> ''")
    assert [row["workspace"] for row in rows] == [other.id]
