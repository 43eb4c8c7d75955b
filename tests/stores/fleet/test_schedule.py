"""The sweep: one at a time, held up by nobody, and no living job is lost nor a dead one kept."""

import threading
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest

from state.fleet.tenant import Quotas
from state.fleet.workspace import Place
from state.stores.fleet.leases import Spent
from state.stores.fleet.schedule import ANYBODYS_QUEUE, DueRow, Job
from tests.stores.fleet.fleet import Fleet, commit_of, session


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

    def finish(self, job: int, status: str) -> None:
        self._fleet.database.rows(
            "SELECT procrastinate_finish_job_v1(%(job)s, %(status)s::procrastinate_job_status, false)",
            {"job": job, "status": status},
        )

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


def looked(fleet: Fleet, place: Place) -> DueRow:
    """What the sweep says of a workspace that has been queued for a while."""
    fleet.database.rows(
        "UPDATE workspaces SET due_at = clock_timestamp(), queued_at = queued_at - interval '1 minute'"
    )
    with fleet.sweep() as sweep:
        [row] = sweep.due(10)
    assert row.place == place
    assert row.queued
    return row


def begun_long_ago(fleet: Fleet) -> None:
    fleet.database.rows("UPDATE procrastinate_events SET at = at - interval '1 minute'")


def queue_of(worker: UUID) -> str:
    return f"w{worker.hex}"


# ------------------------------------------------------------------- jobs that live, and others


def test_a_job_that_waits_for_anybody_lives(fleet: Fleet, place: Place) -> None:
    fleet.queue(place)
    assert not looked(fleet, place).lost


def test_a_job_that_waits_for_a_living_worker_lives_and_is_lost_with_it(fleet: Fleet, place: Place) -> None:
    worker = fleet.worker()
    fleet.queue(place, queue_of(worker))
    assert not looked(fleet, place).lost
    fleet.dead(worker)
    assert looked(fleet, place).lost


def test_a_job_that_waited_long_and_has_begun_just_now_lives(
    fleet: Fleet, place: Place, procrastinating: Procrastinating
) -> None:
    fleet.queue(place)
    begun_long_ago(fleet)
    procrastinating.fetch()
    assert not looked(fleet, place).lost, "it has no owner yet"
    begun_long_ago(fleet)
    assert looked(fleet, place).lost, "it never had one"


def test_a_job_of_a_living_owner_lives_however_long_and_is_lost_with_it(
    fleet: Fleet, place: Place, procrastinating: Procrastinating
) -> None:
    fleet.queue(place)
    procrastinating.fetch()
    begun_long_ago(fleet)
    lease = fleet.lease(place)
    assert not looked(fleet, place).lost
    fleet.dead(lease.owner)
    assert looked(fleet, place).lost


@pytest.mark.parametrize("pruned", [True, False])
def test_a_dead_workers_job_is_lost_though_another_process_owns_the_workspace(
    fleet: Fleet, place: Place, procrastinating: Procrastinating, *, pruned: bool
) -> None:
    fleet.queue(place)
    procrastinating.fetch()
    fleet.lease(place)
    procrastinating.silent()
    if pruned:
        fleet.database.rows("DELETE FROM procrastinate_workers")
    assert looked(fleet, place).lost


@pytest.mark.parametrize("status", ["succeeded", "failed", "aborted"])
def test_a_job_that_has_ended_is_lost_when_nobody_said_so(
    fleet: Fleet, place: Place, procrastinating: Procrastinating, status: str
) -> None:
    fleet.queue(place)
    procrastinating.finish(procrastinating.fetch(), status)
    fleet.lease(place)
    assert looked(fleet, place).lost


def test_a_job_that_somebody_deleted_is_lost(fleet: Fleet, place: Place) -> None:
    fleet.queue(place)
    fleet.database.rows("DELETE FROM procrastinate_jobs")
    assert looked(fleet, place).lost


def test_after_a_lost_job_another_can_be_queued_fetched_and_lives(
    fleet: Fleet, place: Place, procrastinating: Procrastinating
) -> None:
    fleet.queue(place)
    first = procrastinating.fetch()
    begun_long_ago(fleet)
    assert looked(fleet, place).lost
    with fleet.sweep() as sweep:
        sweep.clear_lost([place.id], [])
        sweep.defer([Job(place.id, "dream", "pending", ANYBODYS_QUEUE)])
    assert procrastinating.fetch() != first
    assert not looked(fleet, place).lost


def test_an_outage_of_postgresql_is_no_fault_of_the_workspace(fleet: Fleet, place: Place) -> None:
    fleet.queue(place)
    fleet.database.rows("DELETE FROM procrastinate_jobs")
    for seconds, outage in ((90, False), (30, True)):  # a minute after which it looks
        fleet.database.rows(
            "UPDATE workspaces SET queued_at = pg_postmaster_start_time() + make_interval(secs => %(seconds)s)",
            {"seconds": seconds},
        )
        assert looked(fleet, place).outage == outage
    for blamed, failures in (([], 0), ([place.id], 1)):
        with fleet.sweep() as sweep:
            sweep.clear_lost([place.id], blamed)
        assert (fleet.row(place)["failures"], fleet.row(place)["problem"] != "") == (failures, bool(failures))


def test_a_workspace_with_a_waiting_job_does_not_spoil_the_sweep_of_the_others(fleet: Fleet, place: Place) -> None:
    """As when a process that was stopped goes on and ends a job that was given to another since."""
    other = fleet.place()
    fleet.queue(place)
    fleet.leases.settle(place.id, timedelta(0))
    with fleet.sweep() as sweep:
        sweep.defer([Job(one.id, "dream", "pending", ANYBODYS_QUEUE) for one in (place, other)])
    jobs = fleet.database.rows("SELECT lock FROM procrastinate_jobs WHERE status = 'todo' ORDER BY id")
    assert [job["lock"] for job in jobs] == [place.handle, other.handle]
    assert fleet.row(place)["queued_at"] is not None


# ------------------------------------------------------------------- the sweep itself


def test_of_two_sweeps_at_once_one_is_done(fleet: Fleet, place: Place) -> None:
    fleet.put(place)
    with fleet.sweep() as first, fleet.schedule.sweep() as second:
        assert second is None
        assert len(first.due(10)) == 1
    with fleet.sweep() as again:
        assert len(again.due(10)) == 1


def test_a_sweep_that_dies_has_decided_nothing(fleet: Fleet, place: Place) -> None:
    fleet.put(place)

    def dies() -> None:
        with fleet.sweep() as sweep:
            sweep.defer([Job(place.id, "dream", "pending", ANYBODYS_QUEUE)])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        dies()
    assert fleet.database.rows("SELECT 1 FROM procrastinate_jobs") == []
    assert fleet.due(place)


def test_a_row_that_somebody_holds_is_looked_at_later_and_holds_up_nothing(fleet: Fleet, fleet_url: str) -> None:
    held, free = fleet.place(), fleet.place()
    fleet.put(held)
    fleet.put(free)
    with session(fleet_url) as holder:
        holder.execute("SELECT 1 FROM workspaces WHERE id = %s FOR UPDATE", [held.id])
        swept = threading.Thread(target=lambda: found.append(fleet.due(free)))
        found: list[bool] = []
        swept.start()
        swept.join(5)
        assert found == [True]
        assert not fleet.due(held)
    assert fleet.due(held)


def test_the_sweep_says_what_waits(fleet: Fleet, place: Place) -> None:
    for _ in range(3):
        fleet.put(place)
    fleet.put(place, kind="receipt")
    fleet.put(place, kind="session_end")
    with fleet.sweep() as sweep:
        [row] = sweep.due(10)
    waiting = row.waiting
    assert (waiting.notes, waiting.characters) == (3, 6)
    assert waiting.oldest is not None
    assert waiting.latest is not None
    assert waiting.session_ended is not None
    assert waiting.oldest < waiting.latest < waiting.session_ended
    assert waiting.oldest.utcoffset() == timedelta(0)
    assert (row.queued, row.lost, row.queue) == (False, False, "")


def test_the_owners_queue_is_told_while_it_lives(fleet: Fleet, place: Place) -> None:
    lease = fleet.lease(place)
    fleet.put(place)
    with fleet.sweep() as sweep:
        assert [row.queue for row in sweep.due(10)] == [queue_of(lease.owner)]
    fleet.dead(lease.owner)
    with fleet.sweep() as sweep:
        assert [row.queue for row in sweep.due(10)] == [""]


def test_ceilings_are_of_the_day_in_utc(fleet: Fleet) -> None:
    tenant = fleet.tenants.add("spender", Quotas(dreams_per_day=3))
    place = fleet.places.add(tenant, "w")
    lease = fleet.lease(place)
    before = datetime.now(UTC).date()
    fleet.leases.commit(lease, commit_of(lease, spent=Spent(1, 2, 30, 0.25)))
    [today] = [row["day"] for row in fleet.database.rows("SELECT day FROM spending")]
    assert today in {before, datetime.now(UTC).date()}
    spend(fleet, place, today - timedelta(days=1), 100)
    spend(fleet, place, today + timedelta(days=1), 1_000)
    with fleet.sweep() as sweep:
        use, capacity = sweep.use([tenant.id])[tenant.id], sweep.capacity(spent=True)
    if capacity.now.date() == today:  # it is not midnight just now
        assert (use.dreams, use.tokens, use.usd, use.quotas.dreams_per_day) == (1, 30, 0.25, 3)
        assert (capacity.tokens, capacity.usd) == (30, 0.25)
    with fleet.sweep() as sweep:
        assert sweep.capacity(spent=False).tokens == 0


def spend(fleet: Fleet, place: Place, day: date, tokens: int) -> None:
    fleet.database.rows(
        "INSERT INTO spending (day, tenant, workspace, tokens)"
        " VALUES (%(day)s, %(tenant)s, %(workspace)s, %(tokens)s)",
        {"day": day, "tenant": place.tenant, "workspace": place.id, "tokens": tokens},
    )


def test_slots_are_those_of_living_workers(fleet: Fleet, place: Place) -> None:
    one, other, draining = fleet.worker(), fleet.worker(), fleet.worker()
    fleet.dead(other)
    fleet.sessions[draining].drain()
    fleet.queue(place)
    with fleet.sweep() as sweep:
        capacity = sweep.capacity(spent=False)
    assert (capacity.slots, capacity.busy) == (4, 1)
    assert [worker.id for worker in fleet.processes.workers()] == [one]


def test_a_job_that_is_given_up_in_order_is_due_at_once_and_no_failure(fleet: Fleet) -> None:
    place, gone = fleet.place(), fleet.place()
    for one in (place, gone):
        fleet.put(one)
        fleet.queue(one)
    fleet.places.close(gone)
    fleet.schedule.abandon([place.id, gone.id])
    row = fleet.row(place)
    assert (row["queued_at"], row["failures"]) == (None, 0)
    assert fleet.due(place)
    assert fleet.row(gone)["due_at"] is None
    assert fleet.database.rows("SELECT 1 FROM procrastinate_jobs") == []
