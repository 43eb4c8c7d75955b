"""A day of 100,000 workspaces: simulated traffic through the real scheduler and database.

    python -m benchmarks.fleet_day [--workspaces 100000] [--tenants 1000] [--hours 24] [--step 5] [--folder FOLDER]

**Real**: PostgreSQL, on a disk, with fsync; `Inbox.put` in batches from two threads; `Sweeper.tick`;
Procrastinate's tables and functions; leases, decisions, commits, heartbeats. **Not real**: folders, models and
objects. A dream or a pass is a lease, a look at the inbox, the real decision and a commit, and lasts as long as is
said here; Procrastinate's Python worker, with its waits, is a call of the same SQL function.

**Time** is simulated: `clock_timestamp()` in the schema of the fleet hides PostgreSQL's own, and says what the
benchmark has set. It goes on by a step (5 s) when all that belongs to the step is done, so a slow machine changes
how long the day takes, and nothing in it. What is given in milliseconds is measured in real time.

**Traffic**, from a seed: a fifth of the workspaces has one to three sessions between 7 and 23 o'clock, each with 3
to 8 notes in 5 to 40 minutes; half of the sessions say when they end. A tenth of the tenants has half of the
traffic. One process of four is gone at noon with all that it had; another one comes five minutes later.
"""

import argparse
import json
import random
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

from benchmarks.fleet import Ground, ground, milliseconds, row
from benchmarks.serving import home, machine, percentile
from daemon.engine.schedule import Action, Decision, History, Pending, Thresholds, phase, work
from daemon.fleet import jobs as sweeping
from daemon.fleet.jobs import Sweeper
from state.budget import Spend
from state.errors import NotKeptError
from state.fleet import Lease
from state.stores.fleet import database as fleet_database
from state.stores.fleet.inbox import Arrival, Inbox
from state.stores.fleet.leases import Commit, Condition, Leases, Session
from state.stores.fleet.schedule import ANYBODYS_QUEUE

SEED = 11
WORKERS, SLOTS = 4, 16
BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
DREAM_SECONDS, PASS_SECONDS, IDLE_SECONDS = 15.0, 1.0, 60.0
GATEWAYS = 2
SWEEP_GOAL, NOTE_GOAL = 0.05, 0.05
_CLOCK = """
CREATE UNLOGGED TABLE dreamd.simulated (at timestamptz NOT NULL) WITH (fillfactor = 10);
INSERT INTO dreamd.simulated VALUES ('{begin}');
CREATE FUNCTION dreamd.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS 'SELECT at FROM dreamd.simulated';
CREATE FUNCTION dreamd.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT at FROM dreamd.simulated';
CREATE FUNCTION dreamd.now() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT at FROM dreamd.simulated';
GRANT ALL ON dreamd.simulated TO dreamd;
ALTER TABLE dreamd.inbox ALTER at SET DEFAULT dreamd.clock_timestamp();
ALTER TABLE dreamd.processes ALTER started_at SET DEFAULT dreamd.clock_timestamp();
ALTER TABLE dreamd.procrastinate_workers ALTER last_heartbeat SET DEFAULT dreamd.now();
ALTER TABLE dreamd.procrastinate_events ALTER at SET DEFAULT dreamd.now();
"""


@dataclass(slots=True)
class Rested:
    """What the folder of a workspace would hold."""

    notes: int = 0
    characters: int = 0
    oldest: datetime | None = None
    latest: datetime | None = None
    session_ended: datetime | None = None
    awake_since: datetime = BEGIN
    last_dream: datetime | None = None
    last_pass: datetime | None = None
    changed: bool = False

    def absorb(self, kind: str, body: str, at: datetime) -> None:
        """Take in a row of the inbox."""
        if kind == "session_end":
            self.session_ended = at
            return
        self.notes += 1
        self.characters += len(json.loads(body)["text"])
        self.oldest, self.latest, self.changed = self.oldest or at, at, True

    def decision(self, name: str, now: datetime) -> Decision | None:
        """Return what the owner would do now, or later."""
        history = History(
            awake_since=self.awake_since,
            last_look=self.last_dream,
            last_dream=self.last_dream,
            last_pass=self.last_pass,
            schema=self.last_dream is not None,
            phase=phase(name),
        )
        pending = Pending(
            notes=self.notes,
            characters=self.characters,
            bytes=self.characters,
            new=self.notes,
            oldest=self.oldest,
            latest=self.latest,
            session_ended=self.session_ended,
            changed=self.changed,
        )
        return work(now, history, pending, Thresholds())


@dataclass(slots=True)
class Running:
    """A job of a process, until when."""

    job: int
    does: str
    lease: Lease
    until: datetime


@dataclass(slots=True)
class Hand:
    """One simulated process."""

    session: Session
    number: int  # as Procrastinate knows it
    running: list[Running] = field(default_factory=list)
    owned: dict[int, tuple[Lease, datetime]] = field(default_factory=dict)
    dead: bool = False


@dataclass(slots=True)
class Figures:
    """What was counted."""

    counts: Counter[str] = field(default_factory=Counter)
    puts: list[float] = field(default_factory=list)
    sweeps: list[float] = field(default_factory=list)
    quiet: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    taken: Counter[int] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Day:
    """All that happens, step by step."""

    def __init__(self, made: Ground, fleet: fleet_database.FleetDatabase, step: float) -> None:
        self.now, self.step = BEGIN, timedelta(seconds=step)
        self.figures = Figures()
        self._made = made
        self._database = fleet
        self._inbox, self._leases = Inbox(fleet, Thresholds().passes_every), Leases(fleet)
        self._rested: dict[int, Rested] = defaultdict(Rested)
        self._waits = False
        self.hands = [self._hand() for _ in range(WORKERS)]
        vars(sweeping)["time"] = SimpleNamespace(monotonic=lambda: (self.now - BEGIN).total_seconds() + 1e6)
        self._sweeper = Sweeper(fleet)
        self._pool = ThreadPoolExecutor(WORKERS + GATEWAYS)

    def pass_step(self, arrivals: list[Arrival]) -> None:
        """Let the next seconds pass, with what arrives in them."""
        self.now += self.step
        self._database.rows("UPDATE simulated SET at = %(now)s /* benchmark */", {"now": self.now})
        # As Procrastinate's NOTIFY would.
        self._waits = bool(self._database.row("SELECT 1 FROM procrastinate_jobs WHERE status = 'todo' LIMIT 1"))
        parts = [part for number in range(GATEWAYS) if (part := arrivals[number::GATEWAYS])]
        doing = [self._pool.submit(self._put, part) for part in parts]
        doing += [self._pool.submit(self._work, hand) for hand in self.hands if not hand.dead]
        for one in doing:
            one.result()
        began = time.perf_counter()
        seen = self._sweeper.tick()
        (self.figures.sweeps if seen else self.figures.quiet).append(time.perf_counter() - began)
        self.figures.counts["looked at"] += seen

    def lose_a_process(self) -> None:
        """Lose a process with its jobs and leases."""
        self.hands[0].dead = True
        self.hands[0].session.drop()
        self.figures.counts["jobs that died"] += len(self.hands[0].running)

    def start_a_process(self) -> None:
        """Start another process."""
        self.hands[0] = self._hand()

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing runs."""
        return not any(hand.running for hand in self.hands if not hand.dead)

    # ------------------------------------------------------------ in threads

    def _put(self, arrivals: list[Arrival]) -> None:
        for start in range(0, len(arrivals), 500):
            began = time.perf_counter()
            put = self._inbox.put(arrivals[start : start + 500])
            taken = time.perf_counter() - began
            with self.figures.lock:
                self.figures.puts += [taken] * len(put)
                self.figures.counts["lost"] += put.count(None)

    def _work(self, hand: Hand) -> None:
        if (self.now - BEGIN).total_seconds() % 10 < self.step.total_seconds():
            hand.session.beat(Condition(len(hand.owned), len(hand.running)))
            self._database.rows("SELECT procrastinate_update_heartbeat_v1(%(number)s)", {"number": hand.number})
        for one in [one for one in hand.running if one.until <= self.now]:
            hand.running.remove(one)
            self._end(hand, one)
        for lease, until in [*hand.owned.values()]:
            if until <= self.now and all(one.lease.place.id != lease.place.id for one in hand.running):
                self._leases.release(lease)
                del hand.owned[lease.place.id]
        while self._waits and len(hand.running) < SLOTS and self._begin(hand):
            pass

    def _begin(self, hand: Hand) -> bool:
        job = self._database.row(
            "SELECT id, args FROM procrastinate_fetch_job_v2(%(queues)s::varchar[], %(worker)s)",
            {"queues": [ANYBODYS_QUEUE, f"w{hand.session.id.hex}"], "worker": hand.number},
        )
        if job is None or job["id"] is None:
            return False
        workspace = job["args"]["workspace"]
        held = hand.owned.get(workspace)
        try:
            lease = held[0] if held else self._leases.take(workspace, hand.session.id)
        except NotKeptError:
            self._leases.settle(workspace, timedelta(seconds=1), done=False)
            self._finish(job["id"])
            self.figures.counts["refused"] += 1
            return True
        rested = replace(self._rested[workspace])
        for got in self._inbox.waiting(workspace):
            rested.absorb(got.kind, got.body, got.at)
        decision = rested.decision(lease.place.handle, self.now)
        does = decision.action.value if decision is not None else "wait"
        seconds = DREAM_SECONDS if does == Action.DREAM else PASS_SECONDS
        hand.owned[workspace] = lease, self.now + timedelta(seconds=seconds + IDLE_SECONDS)
        hand.running.append(Running(job["id"], does, lease, self.now + timedelta(seconds=seconds)))
        return True

    def _end(self, hand: Hand, one: Running) -> None:
        place, rested = one.lease.place, self._rested[one.lease.place.id]
        rows = self._inbox.waiting(place.id)
        for got in rows:
            rested.absorb(got.kind, got.body, got.at)
        ended = rested.session_ended
        if ended is not None and rested.oldest is not None:
            ended = max(ended, rested.oldest)  # before that there was nothing to dream of
        if one.does == Action.DREAM:
            self._rested[place.id] = rested = Rested(last_dream=self.now, last_pass=rested.last_pass)
        rested.last_pass, rested.changed = self.now, False
        decision = rested.decision(place.handle, self.now)
        commit = Commit(
            one.lease.generation + 1,
            120_000,
            tuple(got.id for got in rows),
            int(one.does == Action.DREAM),
            Spend(2, 9_000, 0.01) if one.does == Action.DREAM else Spend(),
            max(timedelta(0), decision.at - self.now) if decision is not None else None,
        )
        lease = self._leases.commit(one.lease, commit)
        self._leases.settle(place.id, commit.due_in)
        hand.owned[place.id] = lease, self.now + timedelta(seconds=IDLE_SECONDS)
        self._finish(one.job)
        with self.figures.lock:
            self.figures.counts[one.does] += 1
            self.figures.taken.update(got.id for got in rows if got.kind == "note")
            if ended is not None and one.does == Action.DREAM:
                begun = one.until - timedelta(seconds=DREAM_SECONDS)
                self.figures.waits.append(max(0.0, (begun - ended).total_seconds()))

    def _finish(self, job: int) -> None:
        self._database.rows("SELECT procrastinate_finish_job_v1(%(job)s, 'succeeded', true)", {"job": job})

    def _hand(self) -> Hand:
        session = Session(self._database, uuid4(), "http://127.0.0.1:1", slots=SLOTS)
        session.beat()
        registered = self._database.row("SELECT worker_id FROM procrastinate_register_worker_v1()")
        assert registered is not None
        return Hand(session, registered["worker_id"])


def traffic(workspaces: int, tenants: int, hours: float, step: float) -> dict[int, list[Arrival]]:
    """Return what arrives in each step of the day."""
    rng, steps = random.Random(SEED), defaultdict[int, list[Arrival]](list)
    busy = max(1, tenants // 10)
    text = "The gateway of the northern site needs another certificate before Friday, said Mira."

    def add(workspace: int, hour: float, kind: str, key: str, body: str) -> None:
        if hour < hours:
            owner = 1 + (workspace - 1) % tenants
            steps[int(hour * 3600 / step)].append(Arrival(workspace, owner, kind, key, body))

    for number in range(workspaces // 5):
        tenant = rng.randrange(busy) if number % 2 else rng.randrange(tenants)
        workspace = 1 + tenant + tenants * rng.randrange(workspaces // tenants)
        for session in range(rng.randint(1, 3)):
            begin, length = rng.triangular(7, 23, 15), rng.uniform(5, 40) / 60
            key = f"{number}-{session}"
            for count in range(rng.randint(3, 8)):
                body = json.dumps({"text": f"{text} {key}-{count}", "importance": 0.5})
                add(workspace, begin + length * rng.random(), "note", f"{key}-{count}", body)
            if rng.random() < 0.5:
                add(workspace, begin + length + 0.001, "session_end", f"{key}-end", "{}")
    return steps


def prepare(made: Ground, tenants: int, workspaces: int) -> None:
    """Make the registry of workspaces that have all dreamt the day before, and the simulated clock."""
    made.fill(tenants, workspaces)
    made.execute("UPDATE dreamd.workspaces SET due_at = NULL")
    made.execute("VACUUM FULL dreamd.workspaces")
    made.execute("ALTER TABLE dreamd.workspaces SET (fillfactor = 70)")
    for statement in filter(str.strip, _CLOCK.format(begin=BEGIN.isoformat()).split(";\n")):
        made.execute(statement)
    made.execute("VACUUM ANALYZE")
    made.execute("SELECT pg_stat_reset(), public.pg_stat_statements_reset()")
    # Found before PostgreSQL's own, because it is named before it.
    fleet_database._OPTIONS = fleet_database._OPTIONS.replace(  # noqa: SLF001
        "search_path=dreamd,public", "search_path=dreamd,pg_catalog,public"
    )


def show(day: Day, made: Ground, sent: int, seconds: float, hours: float) -> None:
    """Print the table."""
    figures = day.figures
    counts = figures.counts
    row("the day took", f"{seconds:.0f} s for {hours:g} hours: compressed {hours * 3600 / seconds:.0f} times")
    row("arrivals", f"{sent:,}, {sent / seconds:.0f} a second of real time")
    p95 = percentile(figures.puts, 95)
    row("acknowledged, ms p50/p95/p99", milliseconds(figures.puts), "p95 < 50", met=p95 < NOTE_GOAL)
    row("dreams, passes", f"{counts['dream']:,}, {counts['pass']:,}; of another owner {counts['refused']:,}")
    row("jobs that found nothing to do", f"{counts['wait']:,}")
    wait50, wait95 = percentile(figures.waits, 50), percentile(figures.waits, 95)
    row(
        "from a session's end to its dream",
        f"{wait50:.0f} / {wait95:.0f} s, longest {max(figures.waits):.0f} s of the simulated day",
    )
    p95 = percentile(figures.sweeps, 95)
    row("sweeps with work, ms", milliseconds(figures.sweeps), "p95 < 50", met=p95 < SWEEP_GOAL)
    row("sweeps without", milliseconds(figures.quiet))
    row("  looked at", f"{counts['looked at']:,} rows")
    cost = made.counted()
    jobs = counts["dream"] + counts["pass"] + counts["wait"]
    row(
        "statements",
        f"{cost.statements:,}, {cost.statements / max(1, jobs):.1f} a job; {cost.seconds:.0f} s of PostgreSQL",
    )
    [left] = made.execute(
        "SELECT count(*) AS notes, count(*) FILTER (WHERE taken_at IS NULL) AS waiting,"
        " count(*) FILTER (WHERE taken_at IS NOT NULL AND body <> '') AS kept FROM dreamd.inbox WHERE kind = 'note'"
    )
    once = sum(1 for times in figures.taken.values() if times == 1)
    right = once == left["notes"] and not left["waiting"] and not left["kept"] and not counts["lost"]
    row("notes taken exactly once", f"{once:,} of {left['notes']:,}; {left['waiting']} wait", "all", met=right)
    [ends] = made.execute("SELECT count(*) AS waiting FROM dreamd.inbox WHERE taken_at IS NULL AND kind <> 'note'")
    row("ends without a new note", f"{ends['waiting']} wait for the next job")
    [due] = made.execute(
        "SELECT count(*) FILTER (WHERE queued_at IS NOT NULL) AS queued, count(*) FILTER (WHERE due_at IS NOT NULL)"
        " AS due, count(*) FILTER (WHERE failures > 0) AS failed FROM dreamd.workspaces"
    )
    row(
        "left at the end",
        f"{due['queued']} queued, {due['due']:,} foreseen, {due['failed']} failed",
        "0 queued",
        met=not due["queued"],
    )
    row("jobs that died with a process", str(counts["jobs that died"]))
    made.show_tables()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workspaces", type=int, default=100_000)
    parser.add_argument("--tenants", type=int, default=1_000)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--step", type=float, default=5.0)
    parser.add_argument("--folder", type=Path, help="where PostgreSQL is, on the disk that is meant")
    given = parser.parse_args()
    with ExitStack() as stack:
        made = stack.enter_context(ground(stack.enter_context(home(given.folder))))
        prepare(made, given.tenants, given.workspaces)
        fleet = fleet_database.FleetDatabase(made.url, WORKERS + GATEWAYS + 2)
        stack.callback(fleet.close)
        steps = traffic(given.workspaces, given.tenants, given.hours, given.step)
        sent = sum(map(len, steps.values()))
        print(f"{given.workspaces:,} workspaces, {given.tenants:,} tenants; {machine()}", flush=True)
        day, last = Day(made, fleet, given.step), int(given.hours * 3600 / given.step)
        noon = int(12 * 3600 / given.step)
        began = time.perf_counter()
        for number in range(last):
            if number == noon:
                day.lose_a_process()
            elif number == noon + int(300 / given.step):
                day.start_a_process()
            day.pass_step(steps[number])
            if number % int(3600 / given.step) == 0:
                print(f"  {number * given.step / 3600:.0f}:00 after {time.perf_counter() - began:.0f} s", flush=True)
        seconds = time.perf_counter() - began
        day.step = timedelta(seconds=10)
        for _ in range(360):  # an hour in which nobody writes
            day.pass_step([])
        show(day, made, sent, seconds, given.hours)
        print(machine())


if __name__ == "__main__":
    main()
