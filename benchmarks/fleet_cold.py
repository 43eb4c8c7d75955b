"""How long the first search takes in a workspace that nobody holds: 10,000 crystals come from the object store.

    python -m benchmarks.fleet_cold [--crystals 10000] [--runs 5] [--stores folder s3] [--folder FOLDER]

A process of the fleet, this one, with its own PostgreSQL on a disk. Before each run it has given the workspace back,
and has nothing of it; its embedding model is loaded. **Cold** is from the call to the reply of the search: lease,
generation, opening of the stores, inbox, search. What of it is the generation is timed apart. Then thirty notes are
put into the inbox, dreamt without a model, and the new generation is committed: how many bytes it puts, and how long
its put takes. The folder is on the disk; S3 is a server of the tests on this machine, in Python, which answers one
request at a time: slower than any that is bought.
"""

import argparse
import json
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.fleet import Ground, ground, milliseconds, row
from benchmarks.serving import home, machine, percentile
from benchmarks.workload import Workload, fill
from daemon.api.operations.search import memory_search
from daemon.config.settings import Config
from daemon.dream.run import Mode
from daemon.fleet.access import LeasedAccess
from daemon.fleet.connections import Connections, claim_store
from daemon.fleet.process import FleetProcess
from daemon.workspace.stores import utc_now
from state.dream import Reason
from state.stores.disk.workspace import contained, init_workspace
from state.stores.fleet.inbox import Arrival, Inbox
from state.stores.fleet.leases import Commit, Leases
from state.stores.fleet.registry import Places, Registry, Tenants
from state.stores.generations.generations import Generations
from state.stores.generations.objects import Objects, open_objects
from tests.support.s3 import S3

if TYPE_CHECKING:
    from state.fleet import Place

SEED = 17
GOAL = 2.0
NOTES = 30


def made_workspace(place: Path, crystals: int) -> Path:
    """Make a workspace of so many crystals."""
    from daemon.workspace.stores import open_exclusive

    workspace = init_workspace(contained(place / "made"))
    with open_exclusive(workspace, Config(), "benchmark") as store:
        fill(store, Workload(SEED), crystals)
    return workspace.root


class Cold:
    """One process over one object store, with one workspace in it."""

    def __init__(self, made: Ground, objects: Objects, folder: Path, own: Path) -> None:
        self.database = Registry(made.url, 8)
        self.objects = objects
        own.mkdir()
        both = claim_store(Connections(self.database, objects), "the store")
        self.process = FleetProcess(Config(), both, own, "http://127.0.0.1:1")
        self.process.start()
        self.own = own / "workspaces"
        places, tenants = Places(self.database), Tenants(self.database)
        tenant = tenants.add(f"tenant-{own.name}")
        self.place = places.add(tenant, "large")
        self.bytes = self._put(folder)
        self.other = places.add(tenant, "small")

    def search(self, place: "Place", query: str = "Who renewed the certificate of the gateway?") -> float:
        """Search, and return the seconds until the answer."""
        began = time.perf_counter()
        with self.process.desk.holding(place.id) as held:
            LeasedAccess(held, held.config, lambda _: None, self.process).run(
                memory_search, memory_search.bind(query)
            )
        return time.perf_counter() - began

    def give_back(self) -> None:
        """Own nothing any more."""
        while self.process.desk.all():
            self.process.desk.give_back_idle(0)

    def stored(self) -> tuple[int, int]:
        """Count the objects of the workspace, and their bytes."""
        sizes = [one.size for one in self.objects.list(self.place.prefix)]
        return len(sizes), sum(sizes)

    def bring_up(self, folder: Path) -> float:
        """Bring up the generation alone into an empty folder; return the seconds."""
        generations = Generations(self.objects, self.place.prefix)
        began = time.perf_counter()
        if (newest := generations.newest(self.place, 1)) is not None:
            generations.bring_up(folder, newest)
        return time.perf_counter() - began

    def dream(self) -> tuple[float, float]:
        """Dream over thirty notes without a model; return the seconds of all, and of the commit."""
        workload, inbox = Workload(SEED), Inbox(self.database)
        bodies = [json.dumps({"text": one.text, "importance": 0.5}) for one in workload.notes(1, NOTES, utc_now())]
        inbox.put(
            [
                Arrival(self.place.id, self.place.tenant, "note", f"n-{time.time_ns()}-{at}", body)
                for at, body in enumerate(bodies)
            ]
        )
        with self.process.desk.holding(self.place.id) as owned:
            commits = list[float]()
            commit = owned.commit

            def timed(*, dreams: int | None = None) -> None:
                began = time.perf_counter()
                commit(dreams=dreams)
                commits.append(time.perf_counter() - began)

            vars(owned)["commit"] = timed
            owned.absorb()
            began = time.perf_counter()
            self.process.work.dream(owned, Reason.PRESSURE, Mode.AUTO, lambda _: None)
            return time.perf_counter() - began, commits[-1]

    def _put(self, folder: Path) -> int:
        leases = Leases(self.database)
        lease = leases.take(self.place.id, self.process.lifetime.id)
        generations = Generations(self.objects, self.place.prefix)
        taken = generations.take(folder)
        number = generations.put(taken, self.place, 1)
        leases.release(leases.commit(lease, Commit(number, taken.bytes)))
        return taken.bytes


def measure(cold: Cold, kind: str, runs: int, place: Path) -> None:
    """Print the rows of one object store."""
    cold.search(cold.other)  # the embedding model
    row(f"{kind}: the workspace", f"{cold.bytes / 1e6:.1f} MB in {cold.stored()[0]} objects")
    first, alone = list[float](), list[float]()
    for number in range(runs):
        first.append(cold.search(cold.place, f"Who renewed the certificate of gateway {number}?"))
        cold.give_back()
        alone.append(cold.bring_up(place / f"{kind}-{number}"))
    row("  cold, ms p50/p95/p99", milliseconds(first), "p95 < 2,000", met=percentile(first, 95) < GOAL)
    row("  of it the generation", milliseconds(alone))
    cold.search(cold.place)
    for _ in range(2):  # the first one adapts what an older dreamd made
        objects, stored = cold.stored()
        whole, commit = cold.dream()
        after, now = cold.stored()
        row(
            "  a dream of 30 notes, no model",
            f"{whole:.2f} s, put and commit {1000 * commit:.0f} ms, {(now - stored) / 1e6:.2f} MB,"
            f" {after - objects} objects",
        )
    cold.give_back()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crystals", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--stores", nargs="+", choices=("folder", "s3"), default=["folder", "s3"])
    parser.add_argument("--folder", type=Path, help="where everything is, on the disk that is meant")
    given = parser.parse_args()
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    with ExitStack() as stack:
        place = stack.enter_context(home(given.folder))
        made = stack.enter_context(ground(place))
        print(f"{given.crystals:,} crystals; {machine()}")
        folder = made_workspace(place, given.crystals)
        for kind in given.stores:
            if kind == "s3":
                server = stack.enter_context(S3())
                objects = open_objects(server.url, server.options)
            else:
                objects = open_objects(made.objects, {})
            cold = Cold(made, objects, folder, place / f"own-{kind}")
            measure(cold, kind, given.runs, place)
            cold.process.stop(8.0)
            cold.database.close()
        print(machine())


if __name__ == "__main__":
    main()
