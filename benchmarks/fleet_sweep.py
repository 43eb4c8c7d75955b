"""How long a sweep takes over a registry of 100,000 workspaces of 1,000 tenants.

    python -m benchmarks.fleet_sweep [--workspaces 100000] [--tenants 1000] [--ticks 300] [--folder FOLDER]

The sweeper of the processes, tick by tick, in this process, on a PostgreSQL of its own on a disk. There are twenty
processes of twenty slots each in the registry, whose dreams end between two ticks; a week of inbox rows that were
taken, and 30 days of what each tenant's workspaces have spent. Ticks do not wait for each other's second.

**Nothing due**: what every process asks each second. **50 due**: as many workspaces of random tenants got a note and
the end of a session. **All due at once**: every workspace has both, until each was given a job once; 800 jobs may
wait or run. **Lost jobs**: every ten seconds each process looks for jobs whose process died.
"""

import argparse
import random
import time
from pathlib import Path
from uuid import uuid4

from benchmarks.fleet import Ground, database, ground, milliseconds, row
from benchmarks.serving import home, machine, percentile
from daemon.fleet import jobs as sweeping
from daemon.fleet.jobs import Sweeper
from state.stores.fleet import leases as processes
from state.stores.fleet.database import FleetDatabase
from state.stores.fleet.inbox import Arrival, Inbox
from state.stores.fleet.leases import Session
from state.stores.fleet.schedule import Schedule

SEED = 7
GOAL = 0.05
_TAKEN = 5  # rows a workspace
_DAYS = 30


def prepare(made: Ground, tenants: int, workspaces: int) -> None:
    """Make registry, tombstones, spending and processes."""
    made.fill(tenants, workspaces)
    made.execute(
        "INSERT INTO dreamd.inbox (workspace, kind, key, digest, body, at, taken_at)"
        " SELECT w.id, 'note', 'old-' || n, sha256('benchmark'), '', clock_timestamp() - interval '2 days',"
        " clock_timestamp() - interval '1 day' FROM dreamd.workspaces w, generate_series(1, %s) n",
        (_TAKEN,),
    )
    made.execute(
        "INSERT INTO dreamd.spending SELECT current_date - d, w.tenant, w.id, 2, 4, 20000, 0.02"
        " FROM dreamd.workspaces w, generate_series(0, %s) d WHERE w.id %% 10 = d %% 10",
        (_DAYS - 1,),
    )
    made.execute("VACUUM ANALYZE")


def living(fleet: FleetDatabase) -> list[Session]:
    """Return the sessions of processes that live, with 400 slots."""
    vars(processes).update(ALIVE_SECONDS=3_600.0)  # nobody beats
    sessions = [Session(fleet, uuid4(), slots=20) for _ in range(20)]
    for session in sessions:
        session.beat()
    return sessions


def ended(made: Ground) -> None:
    """End all jobs, as their processes' commits would have it."""
    made.execute(
        "WITH jobs AS (DELETE FROM dreamd.procrastinate_jobs) UPDATE dreamd.workspaces SET queued_at = NULL,"
        " due_at = NULL WHERE queued_at IS NOT NULL"
    )


def arrive(inbox: Inbox, chosen: list[int], tenants: int, key: str) -> None:
    """Put a note and the end of a session for each of these workspaces."""
    for kind in ("note", "session_end"):
        arrivals = [
            Arrival(one, 1 + (one - 1) % tenants, kind, f"{key}-{kind}", '{"text": "tea", "importance": 0.5}')
            for one in chosen
        ]
        for start in range(0, len(arrivals), 500):
            inbox.put(arrivals[start : start + 500])


def timed(sweeper: Sweeper) -> tuple[float, int]:
    """Tick once; return the seconds, and how many workspaces it looked at."""
    began = time.perf_counter()
    seen = sweeper.tick()
    return time.perf_counter() - began, seen


def lost_and_all(made: Ground, fleet: FleetDatabase, sweeper: Sweeper, workspaces: int, tenants: int) -> None:
    """Print the rows of what comes seldom."""
    inbox, schedule, looks = Inbox(fleet), Schedule(fleet), list[float]()
    for _ in range(20):
        began = time.perf_counter()
        schedule.clear_lost()
        looks.append(time.perf_counter() - began)
    row("lost jobs", milliseconds(looks))
    began = time.perf_counter()
    inbox.sweep()
    row("forgetting old keys, every 600 s", f"{1000 * (time.perf_counter() - began):.1f} ms")

    began = time.perf_counter()
    arrive(inbox, list(range(1, workspaces + 1)), tenants, "all")
    row("a note and an end for each", f"{time.perf_counter() - began:.1f} s")
    every, jobs = list[float](), 0
    while jobs < workspaces:
        seconds, seen = timed(sweeper)
        if not seen:  # those that found no slot are put off for a second
            time.sleep(0.05)
            continue
        every.append(seconds)
        jobs += made.execute("SELECT count(*) AS jobs FROM dreamd.procrastinate_jobs")[0]["jobs"]
        ended(made)
    row("all due at once", milliseconds(every), "p95 < 50", met=percentile(every, 95) < GOAL)
    row("  jobs", f"{jobs:,}, {jobs / len(every):.0f} a tick of at most {sweeping.MOST_ROWS}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workspaces", type=int, default=100_000)
    parser.add_argument("--tenants", type=int, default=1_000)
    parser.add_argument("--ticks", type=int, default=300)
    parser.add_argument("--folder", type=Path, help="where PostgreSQL is, on the disk that is meant")
    given = parser.parse_args()
    with home(given.folder) as place, ground(place) as made, database(made.url) as fleet:
        prepare(made, given.tenants, given.workspaces)
        sessions = living(fleet)
        print(f"{given.workspaces:,} workspaces, {given.tenants:,} tenants; {machine()}")
        inbox, rng = Inbox(fleet), random.Random(SEED)
        sweeper = Sweeper(fleet)
        timed(sweeper)
        sweeper._look_at = sweeper._old_at = float("inf")  # noqa: SLF001 - they are timed apart

        nothing = [timed(sweeper)[0] for _ in range(given.ticks)]
        row("nothing due, ms p50/p95/p99", milliseconds(nothing), "p95 < 50", met=percentile(nothing, 95) < GOAL)

        some, seen, ours, theirs = list[float](), 0, 0.0, 0.0
        for tick in range(given.ticks):
            arrive(inbox, rng.sample(range(1, given.workspaces + 1), 50), given.tenants, f"some-{tick}")
            used_ours, used_theirs = time.process_time(), made.processor()
            seconds, looked = timed(sweeper)
            ours += time.process_time() - used_ours
            theirs += made.processor() - used_theirs
            some.append(seconds)
            seen += looked
            ended(made)
            made.execute("UPDATE dreamd.inbox SET taken_at = clock_timestamp(), body = '' WHERE taken_at IS NULL")
        row("50 due a tick", milliseconds(some), "p95 < 50", met=percentile(some, 95) < GOAL)
        row("  looked at", f"{seen / given.ticks:.1f} a tick")
        each = 1000 / given.ticks
        row("  processor time", f"{each * ours:.0f} ms of the process, {each * theirs:.0f} ms of PostgreSQL a tick")

        lost_and_all(made, fleet, sweeper, given.workspaces, given.tenants)
        counted = made.counted()
        print(f"  {counted.statements:,} statements, {counted.seconds:.1f} s of PostgreSQL in all")
        for calls, each, query in made.most_frequent():
            print(f"  {calls:>9,} x {each:8.2f} ms  {query}")
        made.show_tables()
        for session in sessions:
            session.drop()
        print(machine())


if __name__ == "__main__":
    main()
