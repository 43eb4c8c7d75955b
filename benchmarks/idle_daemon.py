"""What the daemon costs while nothing happens: ten workspaces of a thousand crystals each.

    python -m benchmarks.idle_daemon [--workspaces 10] [--crystals 1000] [--seconds 60] [--folder FOLDER]

A real daemon (`dreamd serve`), measured by /proc: after its start; after one search in each workspace, which loads
the embedding model; after each has dreamt once, extractive, which loads ChromaDB; and another daemon after each has
dreamt once with a (scripted) model, in a process of its own, and again when the daemon has let go of the embedding
model (`embeddings.idle_minutes`, here its least, 1). Each time so many seconds pass in which nobody asks for
anything. What the daemon does by itself meanwhile (it looks, and consolidates each workspace once soon after its
start) is among the figures, and passes are counted. Memory is that of the daemon and its processes together; "most"
is the largest PSS of a moment, looked at twice a second.
"""

import argparse
import os
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.serving import Daemon, daemon, environment, home, machine, scripted_model, with_model
from benchmarks.workload import Workload, fill

if TYPE_CHECKING:
    from collections.abc import Callable

    from state.stores.disk.workspace import Workspace

SEED = 13
NOTES = 8
CPU_GOAL = 0.01
MEMORY_GOAL, MOST_GOAL = 300.0, 500.0  # MiB
_IDLE = {"DREAMD_EMBEDDINGS__IDLE_MINUTES": "1"}
_UNTIL_IDLE = 100.0  # seconds: a minute, and the daemon's next look


def prepared(place: Path, workload: Workload, count: int, crystals: int) -> "list[Workspace]":
    """Make workspaces with crystals, vectors and an index."""
    from daemon.config.settings import Config
    from daemon.workspace.adoption import init_workspace
    from daemon.workspace.stores import open_exclusive
    from daemon.workspace.vector_index import Embedding

    made, embedding = [], Embedding()
    for number in range(count):
        workspace = init_workspace(place / f"workspace-{number:02}", environment(place))
        with open_exclusive(workspace, Config(), "benchmark", embedding=embedding) as store:
            fill(store, workload, crystals)
        made.append(workspace)
    return made


def searched(running: Daemon, workspaces: "list[Workspace]") -> None:
    """Search once in each."""
    from daemon.api.operations.search import memory_search

    for workspace in workspaces:
        running.client.call(
            workspace.name, memory_search, memory_search.bind(query="where is the gateway's certificate?")
        )


def dreamt(running: Daemon, workspaces: "list[Workspace]", workload: Workload, batch: int) -> None:
    """Dream once in each, over a few notes."""
    from daemon.api.operations.dreams import dream_now
    from state.stores.history.inbox import NoteInbox

    for number, workspace in enumerate(workspaces):
        log = NoteInbox(workspace)
        for note in workload.notes(batch + number, NOTES, datetime.now(UTC)):
            log.append(note._replace(at=datetime.now(UTC)))
        _dreamt(partial(running.client.call, workspace.name, dream_now, dream_now.bind()))


def _dreamt(ask: "Callable[[], object]") -> None:
    """Ask for a dream until it is done: the daemon may have begun one by itself."""
    from state.errors import BusyError, NothingToDoError

    while True:
        try:
            ask()
        except BusyError:
            time.sleep(0.1)
        except NothingToDoError:
            return
        else:
            return


def row(name: str, running: Daemon, seconds: float, most: "list[float]") -> None:
    """Print what it costs from now on, when it has settled."""
    running.settle()
    passes = len(running.events("pass_done"))
    used, began = running.processor(), time.perf_counter()
    time.sleep(seconds)
    share = (running.processor() - used) / (time.perf_counter() - began)
    weight = running.weight()
    passes = len(running.events("pass_done")) - passes
    folder = Path(f"/proc/{running.process.pid}")
    threads, files = (len(list((folder / kind).iterdir())) for kind in ("task", "fd"))
    missed = [
        said
        for said, is_met in (
            ("CPU", share < CPU_GOAL),
            ("memory", weight.rss < MEMORY_GOAL),
            ("most", most[0] < MOST_GOAL),
        )
        if not is_met
    ]
    print(
        f"{name:34}{share:9.2%}{weight.rss:9.0f}{weight.pss:9.0f}{most[0]:9.0f}{len(running.children()):9}{threads:9}{files:9}{passes:9}"
        f"  {'goal missed: ' + ', '.join(missed) if missed else 'goals met'}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workspaces", type=int, default=10)
    parser.add_argument("--crystals", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--folder", type=Path, help="where the workspaces are, on the disk that is meant")
    given = parser.parse_args()
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    workload = Workload(SEED)
    with ExitStack() as stack:
        place = stack.enter_context(home(given.folder))
        workspaces = prepared(place, workload, given.workspaces, given.crystals)
        print(f"{given.workspaces} workspaces of {given.crystals:,} crystals, {given.seconds:g} s each; {machine()}")
        columns = ("CPU", "RSS MiB", "PSS", "most", "workers", "threads", "files", "passes")
        goals = f"goals {CPU_GOAL:.0%}, {MEMORY_GOAL:.0f} and {MOST_GOAL:.0f} MiB"
        print(f"{goals:34}" + "".join(f"{one:>9}" for one in columns))
        with daemon(place, workspaces) as running, running.heaviest() as most:
            row("after its start", running, given.seconds, most)
            searched(running, workspaces)
            row("after a search in each", running, given.seconds, most)
            dreamt(running, workspaces, workload, 0)
            row("after a dream in each, extractive", running, given.seconds, most)
        url = stack.enter_context(scripted_model(0.0))
        with daemon(place, workspaces, **with_model(url), **_IDLE) as running, running.heaviest() as most:
            dreamt(running, workspaces, workload, 1_000)
            row("after a dream in each, with model", running, given.seconds, most)
            time.sleep(_UNTIL_IDLE)
            row("the same, idle", running, given.seconds, most)
        print(machine())


if __name__ == "__main__":
    main()
