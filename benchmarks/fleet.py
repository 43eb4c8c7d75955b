"""A fleet for benchmarks: its own PostgreSQL on a disk, an object store, real processes, and what was counted.

Statements are those of pg_stat_statements: every one that PostgreSQL has executed for anybody but the benchmark, with
Procrastinate's, and without BEGIN and COMMIT, which are counted apart.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from benchmarks.serving import ROOT, end, environment, logged, percentile
from state.stores.fleet.database import FleetDatabase, migrate
from tests.support.postgres import Postgres

if TYPE_CHECKING:
    from psycopg import Connection

# Of a small server; the tests' own has less memory than its tables need.
_SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.max": "5000",
    "shared_buffers": "256MB",
    "max_wal_size": "1GB",
}
_READY_SECONDS = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")
_COUNTED = """
SELECT coalesce(sum(calls) FILTER (WHERE query !~* '^(begin|commit|rollback)'), 0)::bigint AS statements,
    coalesce(sum(calls) FILTER (WHERE query ~* '^begin'), 0)::bigint AS transactions,
    coalesce(sum(total_exec_time), 0) / 1000 AS seconds,
    coalesce(sum(calls) FILTER (WHERE query ~ %s), 0)::bigint AS sweeps
FROM public.pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid
WHERE r.rolname = 'dreamd' AND query !~ 'benchmark'
"""

# What a sweep asks once a second, for the whole fleet: it is no dream's.
_SWEEPS = "(pg_try_advisory_xact_lock|WHERE due_at <=|WITH lost AS)"


@dataclass(frozen=True, slots=True)
class Statements:
    """What PostgreSQL has executed for the fleet, and for how many seconds."""

    statements: int
    transactions: int
    seconds: float
    sweeps: int
    """Of the statements, those of the sweep."""

    def __sub__(self, before: "Statements") -> "Statements":
        return Statements(
            self.statements - before.statements,
            self.transactions - before.transactions,
            self.seconds - before.seconds,
            self.sweeps - before.sweeps,
        )


class Ground:
    """PostgreSQL with the tables of a fleet, and a folder of objects."""

    def __init__(self, server: Postgres, place: Path) -> None:
        self._server = server
        self.place = place
        self.url = server.new_database()
        migrate(self.url, str(uuid4()))
        self.objects = str(place / "objects")
        self._admin_url = server.url_of(self.url.rpartition("/")[2], user="postgres")
        self.execute("CREATE EXTENSION pg_stat_statements SCHEMA public")

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Execute a statement as the administrator, who is not counted."""
        with self._connected() as connection:
            done = connection.execute(statement.encode(), values or None)
            return done.fetchall() if done.description is not None else []

    def counted(self) -> Statements:
        """Return what was executed until now."""
        return Statements(**self.execute(_COUNTED, (_SWEEPS,))[0])

    def processor(self) -> float:
        """Return the seconds of processor time that PostgreSQL has used."""
        process = self._server._process  # noqa: SLF001
        return _processor(process.pid) if process is not None else 0.0

    def most_frequent(self, most: int = 12) -> list[tuple[int, float, str]]:
        """Return the statements that were executed most often: calls, milliseconds each, and how they begin."""
        rows = self.execute(
            "SELECT calls, mean_exec_time AS each, left(regexp_replace(query, '\\s+', ' ', 'g'), 90) AS query"
            " FROM public.pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid WHERE r.rolname = 'dreamd'"
            " ORDER BY calls DESC LIMIT %s",
            (most,),
        )
        return [(row["calls"], row["each"], row["query"]) for row in rows]

    def tables(self) -> list[dict[str, Any]]:
        """Return each table's rows, bytes, bytes of indexes, updates and the share of those that were HOT."""
        return self.execute(
            "SELECT relname AS name, n_live_tup AS rows, n_dead_tup AS dead, pg_table_size(relid) AS bytes,"
            " pg_indexes_size(relid) AS indexes, n_tup_upd AS updates,"
            " n_tup_hot_upd::float8 / greatest(n_tup_upd, 1) AS hot"
            " FROM pg_stat_user_tables WHERE schemaname = 'dreamd' AND pg_total_relation_size(relid) > 65536"
            " ORDER BY pg_total_relation_size(relid) DESC"
        )

    def fill(self, tenants: int, workspaces: int) -> None:
        """Make so many workspaces that rest, as a dream leaves them, a fifth of them due some day."""
        self.execute(
            "INSERT INTO dreamd.tenants (name) SELECT 'tenant-' || n FROM generate_series(1, %s) n", (tenants,)
        )
        self.execute(
            "INSERT INTO dreamd.workspaces (tenant, name, generation, bytes, committed_at, due_at)"
            " SELECT 1 + (n - 1) %% %s, 'agent-' || n, 3, 120000,"
            " clock_timestamp(), CASE WHEN n %% 5 = 0 THEN clock_timestamp() + n * interval '1 second' END"
            " FROM generate_series(1, %s) n",
            (tenants, workspaces),
        )
        self.execute("VACUUM ANALYZE dreamd.tenants, dreamd.workspaces")

    def show_tables(self) -> None:
        """Print what lies in the tables."""
        for one in self.tables():
            sizes = f"{one['rows']:>9,} rows, {one['bytes'] / 1e6:7.1f} MB, indexes {one['indexes'] / 1e6:7.1f} MB"
            updates = f", {one['updates']:,} updates, {one['hot']:.0%} HOT" if one["updates"] else ""
            print(f"  {one['name']:28}{sizes}{updates}")

    def _connected(self) -> "Connection[dict[str, Any]]":
        import psycopg
        from psycopg.rows import dict_row

        return psycopg.connect(
            self._admin_url, autocommit=True, row_factory=dict_row, options="-c search_path=dreamd,public"
        )


@contextmanager
def ground(place: Path) -> Iterator[Ground]:
    """Run PostgreSQL with objects in this folder, on its disk: what is acknowledged survives a power cut."""
    place.chmod(0o711)  # PostgreSQL runs as another user
    with Postgres(durable=True, place=str(place), settings=_SETTINGS) as server:
        yield Ground(server, place)


@contextmanager
def database(url: str) -> Iterator[FleetDatabase]:
    """Open the database as a process of the fleet has it."""
    made = FleetDatabase(url, 8)
    try:
        yield made
    finally:
        made.close()


class Process:
    """A real process of the fleet."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self.log = log

    def processor(self) -> float:
        """Return the seconds of processor time that it and its children have used."""
        return _processor(self.process.pid)

    def events(self, *names: str) -> list[dict[str, Any]]:
        """Return what it has logged under these names, in order."""
        return logged(self.log, *names)


@contextmanager
def process(made: Ground, number: int, **variables: str) -> Iterator[Process]:
    """Run `dreamd fleet serve` at any free port, once it says that it has started; stop it in order afterwards."""
    log = made.place / f"process-{number}-{time.monotonic_ns()}.log"
    own = {
        "DREAMD_FLEET__DATABASE": made.url,
        "DREAMD_FLEET__OBJECTS": made.objects,
        "DREAMD_FLEET__FOLDER": str(made.place / "own"),
        "DREAMD_FLEET__PORT": "0",
        "DREAMD_LOG__FORM": "json",
    }
    with log.open("wb") as stream:
        started = subprocess.Popen(
            [sys.executable, "-m", "daemon", "fleet", "serve"],
            env=environment(made.place, **(own | variables)),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
    one = Process(started, log)
    try:
        deadline = time.monotonic() + _READY_SECONDS
        while not one.events("started"):
            if started.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the process did not start:\n{log.read_text()[-3000:]}")
            time.sleep(0.05)
        yield one
    finally:
        end(started)


def milliseconds(seconds: Sequence[float]) -> str:
    """Return p50, p95, p99 and the worst."""
    p50, p95, p99 = (1000 * percentile(seconds, percent) for percent in (50, 95, 99))
    return f"{p50:.1f} / {p95:.1f} / {p99:.1f}, worst {1000 * max(seconds):.0f} ({len(seconds):,})"


def row(name: str, figures: str, goal: str = "", *, met: bool = True) -> None:
    """Print a line of a table."""
    print(f"  {name:34}{figures:58}{f'goal {goal}: ' + ('met' if met else 'MISSED') if goal else ''}", flush=True)


def _processor(pid: int) -> float:
    total = 0.0
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(int(fields[at]) for at in (11, 12, 13, 14)) / _TICKS  # with children that have ended
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            total += sum(_processor(int(child)) for child in file.read_text().split())
    return total
