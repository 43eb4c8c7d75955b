"""With 100,000 workspaces of 1,000 tenants: what the sweep asks goes by indexes, and nothing due costs nothing."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from state.stores.fleet import schedule
from state.stores.fleet.database import FleetDatabase
from tests.stores.fleet.fleet import Fleet, session
from tests.support.fleet_tables import made
from tests.support.postgres import Postgres

pytestmark = pytest.mark.full

_FILLED = """
INSERT INTO tenants (name) SELECT 't' || n FROM generate_series(1, 1000) n;
INSERT INTO workspaces (tenant, name, due_at)
    SELECT 1 + n % 1000, 'w' || n, CASE WHEN n % 10 < 7 THEN now() + interval '1 hour' * (1 + n % 24) END
    FROM generate_series(1, 100000) n;
INSERT INTO inbox (workspace, kind, key, digest, body, taken_at)
    SELECT 1 + n % 100000, 'note', 'k' || n, '', '', now() FROM generate_series(1, 300000) n;
INSERT INTO inbox (workspace, kind, key, digest, body)
    SELECT n * 20, 'note', 'waits', '', '{}' FROM generate_series(1, 2000) n;
INSERT INTO spending (day, tenant, workspace, tokens)
    SELECT (now() AT TIME ZONE 'UTC')::date - d, 1 + n % 1000, n, 1
    FROM generate_series(1, 10000) n, generate_series(0, 9) d;
INSERT INTO procrastinate_jobs (queue_name, task_name, lock, queueing_lock, status)
    SELECT 'fleet', 'dream', 'ws-' || n, 'ws-' || n, 'succeeded' FROM generate_series(1, 20000) n;
INSERT INTO procrastinate_events (job_id, type) SELECT id, 'started' FROM procrastinate_jobs;
ANALYZE
"""


@pytest.fixture(scope="module")
def many(postgres: Postgres) -> Iterator[Fleet]:
    url = postgres.new_database(made)
    with session(url) as filling:  # the fleet's own connections wait for nothing that takes so long
        filling.execute(_FILLED)
    database = FleetDatabase(url, size=2)
    yield Fleet(database)
    database.close()
    postgres.drop_database(url)


def scanned(plan: dict[str, Any]) -> list[str]:
    """The tables that are read from end to end."""
    here = [str(plan["Relation Name"])] if plan["Node Type"] == "Seq Scan" else []
    return here + [name for part in plan.get("Plans", ()) for name in scanned(part)]


def plan_of(fleet: Fleet, statement: str, **values: Any) -> dict[str, Any]:
    [row] = fleet.database.rows("EXPLAIN (FORMAT JSON) " + statement, values)
    plan: dict[str, Any] = row["QUERY PLAN"][0]["Plan"]
    return plan


_SMALL = {"processes", "procrastinate_workers", "tenants"}


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        (schedule._QUEUE_DUE, {"most": 200}),
        (schedule._CLEAR_LOST, {"begin": 20.0, "silent": 45.0}),
        (schedule._USE, {"tenant": 7, "id": 1}),
    ],
    ids=["due", "lost", "use"],
)
def test_the_sweep_goes_by_indexes(many: Fleet, statement: str, values: dict[str, Any]) -> None:
    assert set(scanned(plan_of(many, statement, **values))) <= _SMALL


def test_the_net_and_the_deletion_of_a_workspace_go_by_indexes(many: Fleet) -> None:
    waiting = plan_of(many, "SELECT workspace FROM inbox WHERE taken_at IS NULL AND kind <> 'receipt'")
    assert scanned(waiting) == []
    assert scanned(plan_of(many, "DELETE FROM spending WHERE workspace = 7")) == []


def seconds(call: Any, times: int = 40) -> float:
    """The slowest but one of so many."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return sorted(taken)[-2]


def test_nothing_due_is_told_by_reading_next_to_nothing(many: Fleet) -> None:
    many.schedule.is_due()
    statement = (
        "SELECT 1 FROM workspaces WHERE due_at <= statement_timestamp() AND queued_at IS NULL"
        " AND removed_at IS NULL LIMIT 1"
    )
    [row] = many.database.rows("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement)
    plan = row["QUERY PLAN"][0]["Plan"]
    assert scanned(plan) == []
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 20


def test_a_sweep_of_two_hundred_is_quick(many: Fleet) -> None:
    def sweep() -> None:
        many.database.rows(
            "UPDATE workspaces SET queued_at = NULL, due_at = clock_timestamp() - interval '1 hour' WHERE id <= 200"
        )
        many.database.rows("DELETE FROM procrastinate_jobs WHERE status = 'todo'")
        assert many.schedule.queue_due(200) == 200

    slowest = seconds(sweep)
    assert slowest < 0.25, "the goal is 0.05; a machine of tests has other things to do"
    assert seconds(many.inbox.wake_waiting, 5) < 0.25
