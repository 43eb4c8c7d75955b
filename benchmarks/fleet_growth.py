"""Dreams an hour of one, two and four processes, and what a dream and an idle workspace cost PostgreSQL.

    python -m benchmarks.fleet_growth [--processes 1 2 4] [--dreams-at-once 1] [--seconds 120] [--answer-seconds 5]
        [--idle-workspaces 10000] [--idle-seconds 60] [--folder FOLDER]

Real `dreamd fleet serve` processes on a real PostgreSQL and a folder of objects, both on a disk. Every workspace is
new, has eight notes and the end of a session in its inbox, and there are more than can be dreamt. The model is a
scripted server in another process behind the real litellm; a dream asks it once, and once before that where its
notes form clusters. All processes share this machine's cores, so a process has as few dreams at once as leave the
cores free: what is shown is whether processes are in each other's way, not how fast this machine is.

Dreams are counted when they are committed, from 20 s after the last process was ready on. **Idle**: the statements of
one process while no workspace of the registry is due, with ten workspaces in it and with many.
"""

import argparse
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from benchmarks.fleet import Ground, Process, Statements, database, ground, process, row
from benchmarks.serving import home, machine, percentile, scripted_model, seconds_of, with_model
from benchmarks.workload import Workload
from state.fleet import Quotas
from state.stores.fleet.inbox import Arrival, Inbox
from state.stores.fleet.registry import Places, Tenants

SEED = 5
NOTES = 8
TENANTS = 10
GROWTH_GOAL, STATEMENTS_GOAL = 1.9, 30
_WARM_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Round:
    """What one number of processes did in so many seconds."""

    processes: int
    seconds: float
    dreams: int
    each: list[float]
    processor: float
    cost: Statements
    failed: int

    @property
    def an_hour(self) -> float:
        """Dreams an hour."""
        return 3600 * self.dreams / self.seconds


def supply(made: Ground, workload: Workload, name: str, wanted: int) -> None:
    """Make so many new workspaces whose dream is due."""
    import json

    with database(made.url) as fleet:
        tenants, places, inbox = Tenants(fleet), Places(fleet), Inbox(fleet)
        owners = [tenants.add(f"{name}-{number}", Quotas()) for number in range(TENANTS)]
        for number in range(wanted):
            owner = owners[number % TENANTS]
            place = places.add(owner, f"agent-{number}")
            arrivals = [
                Arrival(
                    place.id,
                    owner.id,
                    "note",
                    f"n{key}",
                    json.dumps({"text": workload.text("note", NOTES * number + key)[0], "importance": 0.5}),
                )
                for key in range(NOTES)
            ]
            inbox.put([*arrivals, Arrival(place.id, owner.id, "session_end", "end", "{}")])
    made.execute("VACUUM ANALYZE")


def clear(made: Ground) -> None:
    """Have nothing due that was not dreamt."""
    made.execute("UPDATE dreamd.workspaces SET due_at = NULL, queued_at = NULL")
    made.execute("DELETE FROM dreamd.inbox")
    made.execute("DELETE FROM dreamd.procrastinate_jobs")


def dreams_until(processes: list[Process], begin: float, end: float) -> list[float]:
    """Return the seconds of each dream that was committed between these moments, by the processes' own logs."""
    return [
        float(event.get("seconds", 0))
        for one in processes
        for event in one.events("dream_committed")
        if begin <= seconds_of(event) < end
    ]


def round_of(made: Ground, url: str, processes: int, at_once: int, seconds: float) -> Round:
    """Measure so many processes, with enough to do."""
    with ExitStack() as stack:
        variables = with_model(url) | {"DREAMD_FLEET__DREAMS_AT_ONCE": str(at_once)}
        running = [stack.enter_context(process(made, number, **variables)) for number in range(processes)]
        time.sleep(_WARM_SECONDS)
        before, used, begin = made.counted(), sum(one.processor() for one in running), time.time()
        time.sleep(seconds)
        end, cost = time.time(), made.counted() - before
        processor = sum(one.processor() for one in running) - used
        each = dreams_until(running, begin, end)
        failed = sum(len(one.events("job_failed", "dream_failed", "job_ended")) for one in running)
    return Round(processes, end - begin, len(each), each, processor, cost, failed)


def idle(made: Ground, seconds: float) -> Statements:
    """Return what one process asks while nothing is due."""
    with process(made, 0):
        time.sleep(8)
        before = made.counted()
        time.sleep(seconds)
        return made.counted() - before


def show(one: Round, before: Round | None, at_once: int) -> None:
    """Print the rows of one number of processes."""
    growth = one.an_hour / before.an_hour if before is not None and before.dreams else None
    wanted = GROWTH_GOAL if before is None else GROWTH_GOAL ** (one.processes / before.processes / 2)
    row(
        f"{one.processes} processes, {at_once} at once",
        f"{one.an_hour:,.0f} dreams an hour ({one.dreams} in {one.seconds:.0f} s)"
        + (f", {growth:.2f} x" if growth else ""),
        f">= {wanted:.1f} x" if growth else "",
        met=not growth or growth >= wanted,
    )
    row("  one dream", f"p50 {percentile(one.each, 50):.1f} s, p95 {percentile(one.each, 95):.1f} s")
    dreams = max(one.dreams, 1)
    row("  processor time", f"{one.processor / dreams:.2f} s a dream, {one.processor / one.seconds:.2f} cores")
    each = one.cost.statements / dreams
    row("  statements a dream", f"{each:.1f}, {1000 * one.cost.seconds / dreams:.0f} ms of PostgreSQL")
    row("  of them the fleet's one sweep", f"{one.cost.sweeps / one.seconds:.1f} a second, whatever is dreamt")
    beats = one.processes * one.seconds * max(0.0, _IDLE_A_SECOND[0] - 1)  # one is the sweep's
    own = (one.cost.statements - one.cost.sweeps - beats) / dreams
    row("  the dream's own", f"{own:.1f}", f"< {STATEMENTS_GOAL}", met=own < STATEMENTS_GOAL)
    if one.failed:
        row("  jobs that failed", str(one.failed))


_IDLE_A_SECOND = [0.0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--dreams-at-once", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--answer-seconds", type=float, default=5.0)
    parser.add_argument("--idle-workspaces", type=int, default=10_000)
    parser.add_argument("--idle-seconds", type=float, default=60.0)
    parser.add_argument("--folder", type=Path, help="where everything is, on the disk that is meant")
    given = parser.parse_args()
    workload, names = Workload(SEED, width=1), count()
    with ExitStack() as stack:
        made = stack.enter_context(ground(stack.enter_context(home(given.folder))))
        url = stack.enter_context(scripted_model(given.answer_seconds))
        print(f"a model of {given.answer_seconds:g} s, {NOTES} notes a dream; {machine()}")
        made.fill(10, 10)
        made.execute("UPDATE dreamd.workspaces SET due_at = NULL")
        few = idle(made, given.idle_seconds)
        made.execute("DELETE FROM dreamd.workspaces")
        made.execute("TRUNCATE dreamd.tenants RESTART IDENTITY CASCADE")
        made.fill(10, given.idle_workspaces)
        made.execute("UPDATE dreamd.workspaces SET due_at = due_at + interval '1 day'")
        many = idle(made, given.idle_seconds)
        _IDLE_A_SECOND[0] = many.statements / given.idle_seconds
        hourly = 3600 / given.idle_seconds
        row(
            "an idle process",
            f"{many.statements * hourly:,.0f} statements an hour ({_IDLE_A_SECOND[0]:.1f} a second)",
        )
        more = (many.statements - few.statements) * hourly / given.idle_workspaces
        row("an idle workspace", f"{more:.4f} statements an hour", "0", met=round(more, 2) <= 0)
        before = None
        for processes in given.processes:
            slots = processes * given.dreams_at_once
            supply(made, workload, f"round-{next(names)}", int(slots * (given.seconds + 60) / given.answer_seconds))
            one = round_of(made, url, processes, given.dreams_at_once, given.seconds)
            show(one, before, given.dreams_at_once)
            clear(made)
            before = one
        for calls, each, query in made.most_frequent():
            print(f"  {calls:>9,} x {each:8.2f} ms  {query}")
        print(machine())


if __name__ == "__main__":
    main()
