"""The status says how the whole fleet stands, and names what is wrong; the metrics say the same to Prometheus."""

import re
import time
from datetime import timedelta
from uuid import uuid4

import pytest
from prometheus_client.parser import text_string_to_metric_families

from daemon.fleet.upkeep import status as metrics
from daemon.fleet.upkeep.status import FleetMetrics, FleetStatus, fleet_status
from daemon.observability.metrics import Metrics
from state.budget import Spend
from state.codec import encode
from state.stores.fleet.leases import Condition
from tests.daemon.fleet.upkeep.kept import Kept

SECRET = "the cellar's code is 4711"


def text_of(process: Metrics, accept: str = "") -> str:
    return process.render(accept)[0].decode()


def status_of(fleet: Kept, oldest_minutes: float | None = None, **section: float) -> FleetStatus:
    config = fleet.config()
    config = config.model_copy(update={"fleet": config.fleet.model_copy(update=section)})
    return fleet_status(fleet.database, config, oldest_minutes)


def problems(status: FleetStatus) -> list[str]:
    return [one.what for one in status.problems]


def age(fleet: Kept, table: str, column: str, minutes: int) -> None:
    fleet.database.rows(f"UPDATE {table} SET {column} = {column} - interval '{minutes} minutes'")  # noqa: S608 - ours


def test_it_counts_workspaces_by_how_they_stand_and_never_shows_a_word_of_theirs(fleet: Kept) -> None:
    fleet.live()
    acme = fleet.tenant("acme")
    due, queued, owned, rests = (fleet.place(acme, name) for name in ("due", "queued", "owned", "rests"))
    fleet.note(due, SECRET)
    fleet.schedule.queue(queued.id)
    fleet.lease(owned)
    fleet.commit(rests, SECRET, spent=Spend(2, 300, 0.5))
    status = status_of(fleet)
    counts = status.counts
    assert (counts.workspaces, counts.owned, counts.queued, counts.running, counts.failing) == (4, 1, 1, 0, 0)
    assert counts.due >= 1
    assert counts.bytes > 0
    assert (status.inbox.waiting, status.inbox.workspaces) == (1, 1)
    assert (status.spent.usd, status.spent.tokens, status.spent.dreams) == (0.5, 300, 1)
    assert [one.tenant for one in status.spenders] == ["acme"]
    assert "4711" not in encode(status)


def test_what_is_wrong_has_a_line_each(fleet: Kept) -> None:
    fleet.live()
    acme = fleet.tenant("acme")
    place = fleet.place(acme, "notes")
    fleet.note(place, "tea")
    assert problems(status_of(fleet, 60)) == []
    age(fleet, "workspaces", "due_at", 5)
    age(fleet, "inbox", "at", 90)
    fleet.commit(fleet.place(acme, "dear"), "milk", spent=Spend(1, 10, 3.0))
    fleet.leases.settle_failed(fleet.place(acme, "bad").id, "the model said no")
    age(fleet, "workspaces", "failed_at", 10)
    fleet.leases.settle_failed(fleet.places.find(acme.id, "bad").place.id, "the model said no again")
    fleet.schedule.queue(fleet.place(acme, "stuck").id)
    fleet.database.rows("UPDATE workspaces SET queued_at = queued_at - interval '1 hour'")
    [session] = fleet.sessions.values()
    session.beat(Condition(problem="the object store cannot be reached"))
    age(fleet, "processes", "healthy_at", 20)
    session.beat(Condition(problem="the object store cannot be reached"))
    status = status_of(fleet, 60, usd_per_day=2.0, tokens_per_day=10)
    said = "\n".join(problems(status))
    for expected in (
        "says: the object store cannot be reached",
        "the sweep does not keep up: a workspace is due for 5 minutes",
        "the queue does not move: a job waits for 60 minutes",
        "1 workspace fails; acme/bad, 2 in a row: the model said no again",
        "what was acknowledged 90 minutes ago still waits",
        "the fleet's ceiling of $2.00 a day is reached",
        "the fleet's ceiling of 10 tokens a day is reached",
    ):
        assert expected in said
    assert len(status.problems) == 7
    kinds = {one.kind: one for one in status.problems}
    assert set(kinds) == {"process", "sweep", "queue", "failing", "inbox", "ceiling"}
    began = {kind: one.since and round((status.at - one.since).total_seconds() / 60) for kind, one in kinds.items()}
    assert began == {"process": 20, "sweep": 5, "queue": 60, "failing": 10, "inbox": 90, "ceiling": None}
    assert all(one.advice for one in status.problems)
    assert [(one.handle, one.problem) for one in status.failing] == [
        (fleet.places.find(acme.id, "bad").place.handle, "the model said no again")
    ]


def test_without_a_process_it_says_since_when(fleet: Kept) -> None:
    [never] = status_of(fleet).problems
    assert (never.kind, never.since) == ("processes", None)
    fleet.live()
    assert status_of(fleet).problems == ()
    fleet.die()
    age(fleet, "processes", "seen_at", 7)
    status = status_of(fleet)
    [gone] = status.problems
    assert gone.since is not None
    assert round((status.at - gone.since).total_seconds() / 60) == 7
    assert [one.has_died for one in status.processes] == [True]
    fleet.live()
    fleet.sessions[fleet.owner or uuid4()].end()
    status = status_of(fleet)
    [ended] = status.problems
    assert ended.since is not None
    assert round((status.at - ended.since).total_seconds() / 60) == 0
    assert sorted(one.has_died for one in status.processes) == [False, True]


def test_versions_side_by_side_are_a_problem_until_the_older_processes_end(fleet: Kept) -> None:
    fleet.live()
    fleet.stand_in("http://10.0.0.2:7350")
    assert problems(status_of(fleet)) == []
    fleet.database.rows(
        "UPDATE processes SET version = '2', started_at = started_at + interval '1 hour'"
        " WHERE address = 'http://10.0.0.2:7350'"
    )
    [problem] = status_of(fleet).problems
    assert problem.what.startswith("dreamd 2 and 1 live side by side")
    assert (problem.kind, problem.advice) == ("versions", "finish the upgrade: restart http://127.0.0.1:1")
    fleet.die()
    assert [one.kind for one in status_of(fleet).problems] == ["processes"]


def test_the_end_of_a_session_without_a_note_is_no_problem_while_it_waits(fleet: Kept) -> None:
    fleet.live()
    place = fleet.place(fleet.tenant("acme"), "notes")
    fleet.commit(place, "tea")
    fleet.put(place, kind="session_end")
    age(fleet, "inbox", "at", 600)
    status = status_of(fleet)
    assert (status.inbox.waiting, status.inbox.oldest_seconds) == (1, 0.0)
    assert problems(status) == []
    fleet.note(place, "coffee")
    age(fleet, "inbox", "at", 600)
    [problem] = problems(status_of(fleet))
    assert "acknowledged 600 minutes ago still waits" in problem


def test_a_removal_that_does_not_end_is_a_problem(fleet: Kept) -> None:
    fleet.live()
    acme = fleet.tenant("acme")
    fleet.database.removals.close(fleet.place(acme, "notes"))
    assert (problems(status_of(fleet)), status_of(fleet).removing.workspaces) == ([], 1)
    age(fleet, "workspaces", "removed_at", 120)
    assert problems(status_of(fleet)) == ["what was removed 2 hours ago is not deleted yet"]


@pytest.mark.full
def test_the_metrics_are_read_by_prometheus_with_few_statements_and_few_labels(
    fleet: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.live()
    for number in range(metrics.MOST_TENANTS + 5):
        place = fleet.place(fleet.tenant(f"tenant-{number}"), "notes")
        fleet.commit(place, spent=Spend(1, 10, float(number)))
        fleet.note(place, SECRET)
    process = Metrics("1.0", 0.0)
    process.include(FleetMetrics(fleet.database, fleet.config(), str))
    before = fleet.database.statements
    text = text_of(process)
    assert fleet.database.statements - before <= 6
    text_of(process)
    assert fleet.database.statements - before <= 6
    families = {one.name: one for one in text_string_to_metric_families(text)}
    assert "dreamd_dreams" in families  # the process's own
    values = {
        (sample.name.removeprefix("dreamd_fleet_"), *sample.labels.values()): sample.value
        for name, one in families.items()
        if name.startswith("dreamd_fleet_")
        for sample in one.samples
    }
    assert (values["up",], values["processes_alive",]) == (1, 1)
    assert (values["workspaces",], values["inbox_waiting",], values["failing",]) == (25, 25, 0)
    assert (values["spent_today_usd",], values["spent_today_dreams",]) == (sum(range(25)), 25)
    spenders = [key[1] for key in values if key[0] == "tenant_spent_today_usd"]
    assert spenders == [f"tenant-{number}" for number in range(24, 4, -1)]
    assert not re.search('4711|notes"', text)
    monkeypatch.setattr(metrics, "KEPT_SECONDS", 0.0)
    fleet.die()
    time.sleep(timedelta(milliseconds=1).total_seconds())
    assert "dreamd_fleet_processes_alive 0.0\n" in text_of(process)
    assert "dreamd_fleet_processes_died 1.0\n" in text_of(process)
    assert 'dreamd_fleet_problems{kind="processes"} 1.0\n' in text_of(process)
    assert 'dreamd_fleet_problems{kind="sweep"} 0.0\n' in text_of(process)
    assert "dreamd_fleet_processes_alive 0.0\n" in text_of(process, "application/openmetrics-text")


def test_without_postgresql_the_metrics_say_that_it_is_away(fleet: Kept) -> None:
    process = Metrics("1.0", 0.0)
    away = ["", "it is away"]
    process.include(FleetMetrics(fleet.database, fleet.config(), lambda: away[-1]))
    fleet.database.close()
    text = text_of(process)
    assert "dreamd_fleet_up 0.0\n" in text
    assert "dreamd_fleet_store_up 0.0\n" in text
    away.pop()
    assert "dreamd_fleet_store_up 1.0\n" in text_of(process)
    assert "dreamd_fleet_workspaces" not in text
