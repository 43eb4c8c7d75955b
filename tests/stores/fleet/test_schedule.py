"""The schedule: in turn among tenants, held up by nobody, and no living job is lost nor a dead one kept."""

from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest

from state.budget import Spend
from state.fleet import Place, Quotas
from state.stores.fleet.schedule import Use
from tests.stores.fleet.fleet import Fleet, commit_of, together, wait_for


@pytest.fixture
def place(fleet: Fleet) -> Place:
    return fleet.place()


def lost(fleet: Fleet, me: UUID, *running: Place) -> list[int]:
    """Whose jobs are lost, as this process finds that has these running, some time after they began."""
    fleet.database.rows("UPDATE workspaces SET job_at = job_at - interval '21 seconds'")
    return sorted(fleet.schedule.clear_lost(me, [one.id for one in running]))


def has_run_for_a_while(fleet: Fleet) -> bool:
    """Whether jobs of 21 seconds ago are younger than the server."""
    return bool(fleet.database.rows("SELECT 1 WHERE pg_postmaster_start_time() < now() - interval '22 seconds'"))


# ------------------------------------------------------------------- jobs that live, and others


def test_a_job_lives_with_the_process_that_has_it(fleet: Fleet) -> None:
    wait_for(lambda: has_run_for_a_while(fleet))
    mine, others, forgotten = fleet.place(), fleet.place(), fleet.place()
    me, other = fleet.process(), fleet.process()
    for place in (mine, forgotten):
        fleet.job(place, me)
    fleet.job(others, other)
    assert lost(fleet, me, mine) == [forgotten.id], "what it has no word of was never told to it"
    assert fleet.row(forgotten)["failures"] == 0
    assert lost(fleet, other, others) == []
    fleet.dead(other)
    assert lost(fleet, me, mine) == [others.id]
    assert fleet.due(others)
    assert fleet.holder(mine) == me


def test_a_job_is_lost_with_its_process_though_another_takes_the_workspace_at_once(
    fleet: Fleet, place: Place
) -> None:
    wait_for(lambda: has_run_for_a_while(fleet))
    fleet.dead(fleet.job(place))
    lease = fleet.lease(place)
    row = fleet.row(place)
    assert (row["failures"], row["job_at"]) == (1, None)
    assert fleet.schedule.claim(lease.owner, 1) == {place.id: ""}


def test_an_outage_of_postgresql_is_no_fault_of_the_workspace(fleet: Fleet, place: Place) -> None:
    wait_for(lambda: has_run_for_a_while(fleet))
    me = fleet.process()
    for is_outage in (False, True):
        fleet.dead(fleet.job(place))
        if is_outage:
            fleet.database.rows("UPDATE workspaces SET job_at = pg_postmaster_start_time() - interval '1 second'")
        assert lost(fleet, me) == [place.id]
        assert fleet.row(place)["failures"] == 1


@pytest.mark.parametrize("others", [0, 1])
def test_who_is_lost_again_and_again_rests_and_with_others_later(fleet: Fleet, place: Place, others: int) -> None:
    """Perhaps a process dies of it; of some that were lost together nobody knows of which."""
    every = [place, *(fleet.place() for _ in range(others))]
    rested, me = [], fleet.process()
    wait_for(lambda: has_run_for_a_while(fleet))
    for number in range(7):
        process = fleet.process()
        for one in every:
            fleet.job(one, process)
        fleet.dead(process)
        assert len(lost(fleet, me)) == len(every)
        rested += [] if fleet.due(place) else [number]
    assert rested == [*range(5 if others else 2, 7)]


# ------------------------------------------------------------------- what is claimed


def test_of_many_that_claim_at_once_each_job_is_had_once(fleet: Fleet) -> None:
    places, processes = [fleet.place() for _ in range(6)], [fleet.process() for _ in range(4)]
    for place in places:
        fleet.put(place)
    claimed = list[int]()
    while fleet.schedule.is_due():
        for one in together(*[lambda one=one: fleet.schedule.claim(one, 3) for one in processes]):
            claimed += one
    assert sorted(claimed) == [place.id for place in places]


def test_what_a_living_process_holds_is_claimed_by_that_one_alone(fleet: Fleet, place: Place) -> None:
    lease, other = fleet.lease(place), fleet.lease(fleet.place())
    for one in (place, other.place):
        fleet.put(one)
    fleet.dead(other.owner)
    stranger = fleet.process()
    assert fleet.schedule.claim(other.owner, 9) == {}, "it is dead"
    assert fleet.schedule.claim(stranger, 9) == {other.place.id: ""}
    assert fleet.holder(other.place) == stranger
    fleet.schedule.want(place.id, "manual")
    assert fleet.schedule.claim(lease.owner, 9) == {place.id: "manual"}
    fleet.leases.release(place.id, lease.owner)
    assert fleet.holder(place) == lease.owner, "its job has begun there"
    fleet.end(place, stranger)
    assert fleet.row(place)["job_at"] is not None, "it is another's"
    fleet.end(place, lease.owner, due_in=timedelta(0))
    assert fleet.schedule.claim(lease.owner, 9) == {place.id: ""}, "the dream that was asked for is over"


def test_the_one_of_a_tenant_comes_before_the_many_of_another(fleet: Fleet) -> None:
    crowd, alone = fleet.tenant("crowd"), fleet.tenant("alone")
    many = [fleet.place(crowd) for _ in range(30)]
    last = fleet.place(alone)
    for place in (*many, last):
        fleet.put(place)
    me = fleet.process()
    assert {*fleet.schedule.claim(me, 4)} == {last.id, *(place.id for place in many[:3])}
    second = fleet.place(alone)
    fleet.put(second)
    assert {*fleet.schedule.claim(me, 1)} == {second.id}, "of the crowd three are being done"


def uses(fleet: Fleet, place: Place) -> tuple[Use, Use]:
    """What the workspace's tenant and all have used, as who asks for a dream of this workspace is told."""
    found = list[tuple[Use, Use]]()

    def refused(_: Quotas, own: Use, everybody: Use) -> str:
        found.append((own, everybody))
        return "no"

    assert fleet.schedule.admit(place, refused, with_all=True) == "no"
    return found[0]


def test_ceilings_are_of_the_day_in_utc(fleet: Fleet) -> None:
    tenant = fleet.tenants.add("spender", Quotas(dreams_per_day=3))
    place = fleet.places.add(tenant, "w")
    lease = fleet.lease(place)
    before = datetime.now(UTC).date()
    fleet.leases.commit(lease, commit_of(lease, dreams=1, spent=Spend(2, 30, 0.25)))
    [today] = [row["day"] for row in fleet.database.rows("SELECT day FROM spending")]
    assert today in {before, datetime.now(UTC).date()}
    spend(fleet, place, today - timedelta(days=1), 100)
    spend(fleet, place, today + timedelta(days=1), 1_000)
    own, everybody = uses(fleet, place)
    if fleet.database.now().date() == today:  # it is not midnight just now
        assert own == everybody == Use(0, 1, 30, 0.25)


def test_a_dream_is_counted_from_its_admission_to_its_commit(fleet: Fleet) -> None:
    tenant = fleet.tenant()
    place, other = fleet.place(tenant), fleet.place(tenant)
    lease = fleet.lease(place)
    assert fleet.schedule.admit(place, lambda *_: "") == ""
    assert uses(fleet, other)[0].dreaming == 1
    assert uses(fleet, place)[0].dreaming == 0, "it does not stand in its own way"
    lease = fleet.leases.commit(lease, commit_of(lease))
    assert uses(fleet, other)[0].dreaming == 1
    fleet.leases.commit(lease, commit_of(lease, answered=True))
    assert uses(fleet, other)[0].dreaming == 0


def spend(fleet: Fleet, place: Place, day: date, tokens: int) -> None:
    fleet.database.rows(
        "INSERT INTO spending (day, tenant, workspace, tokens)"
        " VALUES (%(day)s, %(tenant)s, %(workspace)s, %(tokens)s)",
        {"day": day, "tenant": place.tenant, "workspace": place.id, "tokens": tokens},
    )
