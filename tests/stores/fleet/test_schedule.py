"""The schedule: in turn among tenants, held up by nobody, and no living job is lost nor a dead one kept."""

from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest

from state.budget import Spend
from state.fleet import Place, Quotas
from state.stores.fleet import schedule
from state.stores.fleet.schedule import ANYBODYS_QUEUE, Use
from tests.stores.fleet.fleet import Fleet, commit_of, session, together
from tests.support.serving import until


class Procrastinating:
    """What Procrastinate's own functions do with jobs."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        row = fleet.database.row("INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id")
        assert row is not None
        self.worker = row["id"]

    def fetch(self, queue: str = ANYBODYS_QUEUE) -> int:
        row = self._fleet.database.row(
            "SELECT id FROM procrastinate_fetch_job_v2(ARRAY[%(queue)s]::varchar[], %(worker)s)",
            {"queue": queue, "worker": self.worker},
        )
        assert row is not None
        assert row["id"] is not None
        return int(row["id"])

    def silent(self) -> None:
        self._fleet.database.rows(
            "UPDATE procrastinate_workers SET last_heartbeat = last_heartbeat - interval '1 minute'"
        )


@pytest.fixture
def place(fleet: Fleet) -> Place:
    return fleet.place()


@pytest.fixture
def procrastinating(fleet: Fleet) -> Procrastinating:
    return Procrastinating(fleet)


def lost_of(fleet: Fleet) -> list[int]:
    """Whose jobs, which have been queued for a while, are taken for dead; nothing is changed."""
    fleet.database.rows("UPDATE workspaces SET queued_at = clock_timestamp() - interval '1 hour'")
    with session(fleet.database.url) as look:
        values = {"begin": schedule._BEGIN_SECONDS, "silent": schedule._SILENT_SECONDS}
        lost = [row["id"] for row in look.execute(schedule._CLEAR_LOST.encode(), values).fetchall()]
        look.rollback()
    return sorted(lost)


def begun_long_ago(fleet: Fleet) -> None:
    fleet.database.rows("UPDATE procrastinate_events SET at = at - interval '1 minute'")


def queue_of(worker: UUID) -> str:
    return f"w{worker.hex}"


# ------------------------------------------------------------------- jobs that live, and others


def test_a_job_lives_with_whoever_is_to_do_it(fleet: Fleet, procrastinating: Procrastinating) -> None:
    """Each lives, and is lost when its process dies, or when nobody of those who might have it took the workspace."""
    waits, begins, runs = fleet.place(), fleet.place(), fleet.place()
    worker = fleet.stand_in()
    fleet.schedule.queue(waits.id, "", queue_of(worker))
    for one in (begins, runs):
        fleet.schedule.queue(one.id)
    begun_long_ago(fleet)
    for _ in range(2):
        procrastinating.fetch()
    assert lost_of(fleet) == [], "nobody owns what has begun just now"
    lease = fleet.lease(runs)
    begun_long_ago(fleet)
    assert lost_of(fleet) == [begins.id], "it never had an owner"
    fleet.dead(worker)
    assert lost_of(fleet) == [waits.id, begins.id]
    fleet.dead(lease.owner)
    assert lost_of(fleet) == [waits.id, begins.id, runs.id]


@pytest.mark.parametrize("pruned", [True, False])
def test_a_dead_workers_job_is_lost_though_another_process_owns_the_workspace(
    fleet: Fleet, place: Place, procrastinating: Procrastinating, *, pruned: bool
) -> None:
    fleet.schedule.queue(place.id)
    procrastinating.fetch()
    fleet.lease(place)
    procrastinating.silent()
    if pruned:
        fleet.database.rows("DELETE FROM procrastinate_workers")
    assert lost_of(fleet) == [place.id]


def test_after_a_lost_job_another_can_be_queued_fetched_and_lives(
    fleet: Fleet, place: Place, procrastinating: Procrastinating
) -> None:
    fleet.schedule.queue(place.id)
    first = procrastinating.fetch()
    begun_long_ago(fleet)
    assert lost_of(fleet) == fleet.schedule.clear_lost() == [place.id]
    fleet.stand_in()
    assert fleet.queued() == [place.id]
    assert procrastinating.fetch() != first
    assert lost_of(fleet) == []


def test_a_job_that_ended_and_could_not_say_so_hides_no_lost_one(
    fleet: Fleet, place: Place, procrastinating: Procrastinating
) -> None:
    fleet.schedule.queue(place.id)
    procrastinating.fetch()
    fleet.lease(place)
    fleet.leases.settle(place.id, None)
    begun_long_ago(fleet)
    fleet.schedule.queue(place.id)
    fleet.database.rows("DELETE FROM procrastinate_jobs WHERE status = 'todo'")
    fleet.database.rows("UPDATE workspaces SET queued_at = queued_at - interval '21 seconds'")
    assert fleet.schedule.clear_lost() == [place.id]


def test_what_dead_workers_had_is_taken_away(fleet: Fleet, place: Place, procrastinating: Procrastinating) -> None:
    fleet.schedule.queue(place.id)
    procrastinating.fetch()
    fleet.leases.settle(place.id, None)
    for left in (1, 0):
        assert fleet.schedule.clear_lost() == []
        assert len(fleet.database.rows("SELECT 1 FROM procrastinate_jobs")) == left
        procrastinating.silent()


def has_run_for_a_while(fleet: Fleet) -> bool:
    return bool(fleet.database.rows("SELECT 1 WHERE pg_postmaster_start_time() < now() - interval '22 seconds'"))


def lost(fleet: Fleet, *places: Place) -> None:
    """Their jobs die."""
    for place in places:
        fleet.schedule.queue(place.id)
    fleet.database.rows("DELETE FROM procrastinate_jobs")
    fleet.database.rows("UPDATE workspaces SET queued_at = queued_at - interval '21 seconds'")


def test_an_outage_of_postgresql_is_no_fault_of_the_workspace(fleet: Fleet, place: Place) -> None:
    until(lambda: has_run_for_a_while(fleet))
    for is_outage in (False, True):
        lost(fleet, place)
        if is_outage:
            fleet.database.rows("UPDATE workspaces SET queued_at = pg_postmaster_start_time() - interval '1 second'")
        assert fleet.schedule.clear_lost() == [place.id]
        assert fleet.row(place)["failures"] == 1


@pytest.mark.parametrize("others", [0, 1])
def test_who_is_lost_again_and_again_rests_and_with_others_later(fleet: Fleet, place: Place, others: int) -> None:
    """Perhaps a worker dies of it; of some that were lost together nobody knows of which."""
    every = [place, *(fleet.place() for _ in range(others))]
    rested = []
    until(lambda: has_run_for_a_while(fleet))
    for number in range(7):
        lost(fleet, *every)
        assert len(fleet.schedule.clear_lost()) == len(every)
        rested += [] if fleet.due(place) else [number]
    assert rested == [*range(5 if others else 2, 7)]


def test_a_workspace_with_a_waiting_job_does_not_spoil_the_others(fleet: Fleet, place: Place) -> None:
    """As when a process that was stopped goes on and ends a job that was given to another since."""
    other = fleet.place()
    fleet.stand_in()
    fleet.schedule.queue(place.id)
    fleet.leases.settle(place.id, timedelta(0))
    fleet.put(other)
    assert fleet.queued() == [place.id, other.id]
    assert fleet.row(place)["queued_at"] is not None


# ------------------------------------------------------------------- what is queued


def test_of_two_that_queue_at_once_each_job_is_queued_once(fleet: Fleet) -> None:
    places = [fleet.place() for _ in range(6)]
    fleet.stand_in()
    for place in places:
        fleet.put(place)
    together(*[lambda: fleet.schedule.queue_due(3)] * 4)
    until(lambda: len(fleet.queued()) == len(places))
    assert sorted(fleet.queued()) == [place.id for place in places]


def test_the_owners_queue_gets_the_job_while_it_lives(fleet: Fleet, place: Place) -> None:
    lease, other = fleet.lease(place), fleet.lease(fleet.place())
    for one in (place, other.place):
        fleet.put(one)
    fleet.dead(other.owner)
    assert fleet.queued() == [place.id, other.place.id]
    jobs = fleet.database.rows("SELECT queue_name FROM procrastinate_jobs ORDER BY id")
    assert [job["queue_name"] for job in jobs] == [queue_of(lease.owner), "fleet"]


def test_the_one_of_a_tenant_comes_before_the_many_of_another(fleet: Fleet) -> None:
    crowd, alone = fleet.tenant("crowd"), fleet.tenant("alone")
    many = [fleet.place(crowd) for _ in range(30)]
    last = fleet.place(alone)
    for place in (*many, last):
        fleet.put(place)
    fleet.stand_in()
    queued = fleet.queued()
    assert len(queued) == 8, "two for each slot"
    assert last.id in queued[:2]
    later = [fleet.row(place)["due_at"] for place in many if place.id not in queued]
    assert later == sorted(later)
    other = fleet.place(alone)
    fleet.put(other)
    assert fleet.queued() == queued
    now = fleet.database.now()
    assert fleet.row(other)["due_at"] < now + timedelta(seconds=1.5)
    assert later[-1] > now + timedelta(seconds=2)


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
    fleet.leases.commit(lease, commit_of(lease, dreams=0))
    assert uses(fleet, other)[0].dreaming == 0


def spend(fleet: Fleet, place: Place, day: date, tokens: int) -> None:
    fleet.database.rows(
        "INSERT INTO spending (day, tenant, workspace, tokens)"
        " VALUES (%(day)s, %(tenant)s, %(workspace)s, %(tokens)s)",
        {"day": day, "tenant": place.tenant, "workspace": place.id, "tokens": tokens},
    )


def test_a_process_that_drains_gets_no_job_and_its_waiting_ones_are_everybodys(fleet: Fleet) -> None:
    fleet.live()
    owner = fleet.owner
    assert owner is not None
    waits, comes = fleet.place(), fleet.place()
    for place in (waits, comes):
        fleet.lease(place)
    fleet.schedule.queue(waits.id, queue=f"w{owner.hex}")
    fleet.sessions[owner].drain()
    fleet.stand_in()  # another one has slots
    fleet.note(comes, "tea")
    fleet.database.rows("UPDATE workspaces SET due_at = clock_timestamp() WHERE id = %(id)s", {"id": comes.id})
    fleet.schedule.queue_due(10)
    jobs = fleet.database.rows("SELECT queueing_lock, queue_name FROM procrastinate_jobs ORDER BY id")
    assert [tuple(job.values()) for job in jobs] == [(waits.handle, ANYBODYS_QUEUE), (comes.handle, ANYBODYS_QUEUE)]
