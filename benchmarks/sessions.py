"""Session working memory: what the calls cost in a large session, and many sessions at once.

    python -m benchmarks.sessions [--items 10000] [--calls 500] [--threads 8] [--sessions 100] [--folder FOLDER]

Every call is the one that the tools make, on a workspace of its own; what it wrote is durable when it returns. A bare
insert of as many bytes with the same durability is timed beside it: the ratio says what is ours. The file system is
that of FOLDER (/tmp).
"""

import argparse
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.serving import home, machine, percentile
from benchmarks.workload import Workload
from daemon import sessions
from daemon.config.settings import Config
from daemon.workspace.stores import Store, open_exclusive, open_owned
from daemon.workspace.vector_index import Embedding, Index
from state.errors import DreamdError
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.vectors.embedder import Unavailable

SEED = 7
SESSION = "large"
POLICIES: dict[str, dict[str, object]] = {
    "ttl": {},
    "budget": {"soft_limit": 1_000_000, "hard_limit": 1_000_000},
    "hybrid": {"max_tokens": 100_000_000},
    "bounded": {"max_items": 1_000_000, "max_tokens": 100_000_000},
}
PRIORITIES = ("low", "medium", "high")


@dataclass(frozen=True, slots=True)
class Goal:
    """At most so many milliseconds, at the median and for 95 of a hundred calls; None: whatever it takes."""

    p50: float | None = None
    p95: float | None = None

    def told(self, p50: float, p95: float) -> str:
        said = [
            f"{name} goal {most:g}: {'met' if value <= most else 'MISSED'}"
            for name, most, value in (("p50", self.p50, p50), ("p95", self.p95, p95))
            if most is not None
        ]
        return ", ".join(said)


def now() -> datetime:
    return datetime.now(UTC)


def timed(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Return the milliseconds of each."""
    found = []
    for one in calls:
        began = time.perf_counter()
        one()
        found.append((time.perf_counter() - began) * 1000)
    return found


def row(name: str, values: Sequence[float], goal: Goal, note: str = "") -> None:
    p50, p95 = percentile(values, 50), percentile(values, 95)
    said = "; ".join(filter(None, (goal.told(p50, p95), note)))
    print(f"{name:38}{p50:10.2f}{p95:10.2f}{max(values):10.2f}  {said}", flush=True)


def draft(workload: Workload, number: int, rng: random.Random) -> dict[str, object]:
    return {
        "content": workload.text("turn", number)[0],
        "priority": rng.choice(PRIORITIES),
        "importance": round(rng.random(), 2),
        "tags": [f"topic{number % 50}"],
        "metadata": {"turn": str(number)},
        "step_index": number // 10,
    }


def add(store: Store, session: str, given: dict[str, object]) -> str:
    return sessions.add(store, session, sessions.Draft(**given), now()).id  # type: ignore[arg-type]


@contextmanager
def bare(folder: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(folder, isolation_level=None, timeout=60)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE IF NOT EXISTS one (key INTEGER PRIMARY KEY, content TEXT)")
        yield connection


def insert(connection: sqlite3.Connection, content: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO one (content) VALUES (?)", (content,))
    connection.execute("COMMIT")


def large(store: Store, place: Path, given: argparse.Namespace, workload: Workload) -> None:
    """Print what a call costs in one session with so many items."""
    rng = random.Random(SEED)
    ids = [add(store, SESSION, draft(workload, number, rng)) for number in range(given.items - given.calls)]
    new = [draft(workload, number, rng) for number in range(len(ids), given.items)]
    with bare(place / "bare.db") as connection:
        plain = timed([lambda one=one: insert(connection, str(one["content"])) for one in new])  # type: ignore[misc]
    row("bare insert", plain, Goal())
    adds = timed([lambda one=one: ids.append(add(store, SESSION, one)) for one in new])  # type: ignore[misc]
    row("add", adds, Goal(5, 50), f"{percentile(adds, 50) / percentile(plain, 50):.1f} times the bare one")
    asked = rng.sample(ids, given.calls)
    row("get", timed([lambda id_=id_: sessions.get(store, SESSION, id_, now()) for id_ in asked]), Goal(p95=20))  # type: ignore[misc]
    texts = [str(one["content"]) for one in rng.sample(new, given.calls // 5)]
    rare = [text[len(text) // 3 :][:24] for text in texts]
    found = [sessions.search(store.connection, SESSION, now(), query).count for query in rare]
    searches = timed([lambda query=query: sessions.search(store.connection, SESSION, now(), query) for query in rare])  # type: ignore[misc]
    row("search, rare", searches, Goal(p95=20), f"{sum(found) / len(found):.0f} results each")
    missing = [lambda: sessions.search(store.connection, SESSION, now(), "xyzzy plugh")] * 50
    row("search, nothing", timed(missing), Goal(p95=20))
    tags = [lambda tag=f"topic{n}": sessions.search(store.connection, SESSION, now(), tags=[tag]) for n in range(50)]
    row("search, one of fifty tags", timed(tags), Goal(), f"{given.items // 50} results each")
    row("stats", timed([lambda: sessions.stats(store.connection, SESSION, now())] * 50), Goal(10))


def previews(store: Store, given: argparse.Namespace, workload: Workload) -> None:
    """Print what it costs to tell who leaves next, under each policy."""
    for policy, config in POLICIES.items():
        rng = random.Random(SEED)
        sessions.session_open(store, policy, now(), policy, config)
        with store.connection:
            store.connection.execute("BEGIN IMMEDIATE")
            for number in range(given.items):
                add(store, policy, draft(workload, number, rng))
        previews = timed([lambda p=policy: sessions.preview(store.connection, p, now())] * 50)  # type: ignore[misc]
        row(f"preview, {policy}", previews, Goal(p95=10))


def evicting(store: Store, given: argparse.Namespace, workload: Workload) -> None:
    rng = random.Random(SEED)
    full = {"hybrid": {"max_tokens": 30 * given.items}, "bounded": {"max_items": given.items, "max_tokens": 10**9}}
    for policy, config in full.items():
        name = f"full {policy}"
        sessions.session_open(store, name, now(), policy, config)
        with store.connection:
            store.connection.execute("BEGIN IMMEDIATE")
            for number in range(given.items):
                add(store, name, draft(workload, number, rng))
        more = [draft(workload, number, rng) for number in range(given.items, given.items + 200)]
        adds = timed([lambda one=one, name=name: add(store, name, one) for one in more])  # type: ignore[misc]
        items = sessions.stats(store.connection, name, now()).total_count
        row(f"add that evicts, {policy}", adds, Goal(5, 50), f"{items:,} items")


def many(workspace: Workspace, place: Path, given: argparse.Namespace, workload: Workload) -> None:
    """Use many sessions from several threads, each with a connection of its own."""
    each = given.adds // given.threads
    refused: list[str] = []

    def ours(thread: int) -> None:
        store = opened(workspace)
        rng = random.Random(thread)
        try:
            for number in range(each):
                session = f"session {(thread + number * given.threads) % given.sessions}"
                add(store, session, draft(workload, number, rng))
        except DreamdError as error:
            refused.append(str(error))
        finally:
            store.close()

    def plain(_: int) -> None:
        with bare(place / "many.db") as connection:
            for number in range(each):
                insert(connection, workload.text("turn", number)[0])

    with bare(place / "many.db"):
        pass
    speeds = {"bare": 0.0, "ours": 0.0}
    for name, work in (("bare", plain), ("ours", ours)):
        began = time.perf_counter()
        threads = [threading.Thread(target=work, args=(number,)) for number in range(given.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        speeds[name] = each * given.threads / (time.perf_counter() - began)
    ratio = speeds["ours"] / speeds["bare"]
    print(f"{given.sessions} sessions, {given.threads} threads: {speeds['ours']:,.0f} adds a second, bare inserts")
    print(f"  {speeds['bare']:,.0f} a second, ratio {ratio:.2f} (goal .35: {'met' if ratio >= 0.35 else 'MISSED'})")
    print(f"  refused: {len(refused)} {refused[:1]}")


def opened(workspace: Workspace) -> Store:
    none = Embedding.given(Unavailable("not measured here"))
    return open_owned(Index(workspace, lambda: None, none), Config())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--adds", type=int, default=4_000, help="together, from all threads")
    parser.add_argument("--folder", type=Path, help="where the workspace is, on the disk that is meant")
    given = parser.parse_args()
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    workload = Workload(SEED)
    print(machine())
    with home(given.folder) as place:
        workspace = init_workspace(contained(place / "workspace"))
        print(f"{f'milliseconds, {given.items:,} items':38}{'p50':>10}{'p95':>10}{'worst':>10}")
        with open_exclusive(
            workspace, Config(), "benchmark", embedding=Embedding.given(Unavailable("not measured"))
        ) as store:
            large(store, place, given, workload)
            previews(store, given, workload)
            evicting(store, given, workload)
            many(workspace, place, given, workload)
    print(machine())


if __name__ == "__main__":
    main()
