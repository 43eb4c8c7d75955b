"""How long an agent waits for `working_memory_note` and `memory_search` over MCP.

    python -m benchmarks.note_latency [--notes 300] [--searches 200] [--crystals 10000] [--folder FOLDER]

The official SDK's client talks over stdio to real `dreamd mcp` processes, in a workspace of so many crystals with
vectors. A note is durable when it returns, so a bare append and fsync of as many bytes in the same folder is timed
between any two notes, and an MCP call of the same process that does no work: no note can be without these two. The
file system is that of FOLDER (/tmp).

Each search asks another question, in words of one of the texts, and its embedding is computed: none is remembered.
Notes come without a pause, far faster than agents write; with a daemon they are taken in meanwhile. One row is of
notes, some fifteen a second, while the daemon dreams in that very workspace, again and again.
"""

import argparse
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from benchmarks.serving import ROOT, Daemon, daemon, environment, home, machine, percentile
from benchmarks.workload import Workload, fill
from state.search.query import content_words

if TYPE_CHECKING:
    from mcp import Client

    from state.stores.disk.workspace import Workspace

SEED = 7
WARM_UP = 10
PAUSE_SECONDS = 0.05  # between notes beside a dream: a busy agent's, not a flood
RIGHT_AFTER = 50  # searches, each for the note before it
GOALS = {"note": (0.010, 0.050), "search": (float("nan"), 0.150)}


@dataclass(slots=True)
class Timed:
    """Seconds that calls of one kind took; the first one after a process started stands apart."""

    first: float = float("nan")
    seconds: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Agent:
    """An agent that takes notes and asks, and looks at its watch."""

    client: "Client"
    workload: Workload
    probe: Path
    said: int = 0

    async def note(self, marker: str = "") -> float:
        """Return the seconds for one more note."""
        self.said += 1
        text = f"{self.workload.text('note', self.said)[0]} {marker}".strip()
        return (await self.timed("working_memory_note", note=text))[0]

    async def search(self, query: str) -> tuple[float, Any]:
        """Return the seconds for this search, and what it found."""
        return await self.timed("memory_search", query=query)

    async def timed(self, tool: str, **arguments: Any) -> tuple[float, Any]:  # noqa: ANN401 - of many tools
        began = time.perf_counter()
        result = await self.client.call_tool(tool, arguments)
        seconds = time.perf_counter() - began
        if result.is_error:
            raise SystemExit(f"{tool}: {result.content}")
        return seconds, result.structured_content

    async def idle_call(self) -> float:
        """Return the seconds for a call that does nothing but answer with what it knows."""
        began = time.perf_counter()
        await self.client.list_resources()
        return time.perf_counter() - began

    def bare(self) -> float:
        """Return the seconds to append as much to a file that is there, and to sync it."""
        line = f"- [2026-01-01T00:00:00Z] (0.5) {self.workload.text('note', self.said)[0]}\n".encode()
        began = time.perf_counter()
        with self.probe.open("ab", buffering=0) as file:
            file.write(line)
            os.fsync(file.fileno())
        return time.perf_counter() - began


@asynccontextmanager
async def agent(workspace: "Workspace", place: Path, workload: Workload) -> AsyncIterator[Agent]:
    """Run an agent with a `dreamd mcp` of its own."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    words = ["-m", "daemon", "mcp", "-w", str(workspace.root)]
    parameters = StdioServerParameters(command=sys.executable, args=words, env=environment(place), cwd=str(ROOT))
    async with Client(stdio_client(parameters)) as client:
        await client.list_tools()
        yield Agent(client, workload, workspace.scratch.with_name("probe"), time.monotonic_ns() % 1_000_000)


async def notes(one: Agent, count: int, name: str) -> None:
    """Take notes, each after a bare append and an idle call, and print three lines of the table."""
    ours, bare, idle = Timed(first=await one.note()), Timed(first=one.bare()), Timed()
    for _ in range(WARM_UP):
        await one.note()
        await one.idle_call()
    for _ in range(count):
        bare.seconds.append(one.bare())
        idle.seconds.append(await one.idle_call())
        ours.seconds.append(await one.note())
    row("  bare append and fsync", bare)
    row("  resources/list over MCP", idle)
    least = percentile(bare.seconds, 50) + percentile(idle.seconds, 50)
    row(name, ours, GOALS["note"], f"{percentile(ours.seconds, 50) / least:.1f} times these two")


async def searches(one: Agent, queries: Sequence[str]) -> Timed:
    timed = Timed(first=(await one.search(queries[0]))[0])
    for query in queries[1 : WARM_UP + 1]:
        await one.search(query)
    for query in queries[WARM_UP + 1 :]:
        timed.seconds.append((await one.search(query))[0])
    return timed


async def right_after(one: Agent, count: int) -> tuple[Timed, int]:
    """Search for the note that was taken just before; return the times, and how many found it."""
    timed, found = Timed(), 0
    for number in range(count):
        marker = f"zephyr{number}quartz"
        await one.note(marker)
        seconds, answer = await one.search(f"what about {marker}?")
        timed.seconds.append(seconds)
        found += any(marker in hit["text"] for hit in answer["hits"])
    return timed, found


def questions(workload: Workload, count: int, size: int) -> list[str]:
    """Make as many questions, each in words of another text."""
    rng = random.Random(SEED)
    chosen = rng.sample(range(size), min(count, size))
    asked = []
    for number in chosen:
        words = content_words(workload.text("turn", number)[0])
        asked.append(f"What happened with the {' '.join(rng.sample(words, min(len(words), rng.randint(3, 7))))}?")
    return asked


def row(name: str, timed: Timed, goal: tuple[float, float] | None = None, note: str = "") -> None:
    """Print one line of the table, in milliseconds."""
    figures = (timed.first, percentile(timed.seconds, 50), percentile(timed.seconds, 95), max(timed.seconds))
    cells = "".join(f"{figure * 1000:10.1f}" if figure == figure else f"{'':10}" for figure in figures)  # noqa: PLR0124
    said = ""
    if goal:
        names = (("p50", goal[0], figures[1]), ("p95", goal[1], figures[2]))
        said = ", ".join(
            f"{which} goal {most * 1000:g}: {'met' if is_ <= most else 'MISSED'}"
            for which, most, is_ in names
            if most == most  # noqa: PLR0124 - not a number: no goal
        )
    print(f"{name:34}{cells}  {'; '.join(filter(None, (said, note)))}", flush=True)


async def without_daemon(
    workspace: "Workspace", place: Path, workload: Workload, given: argparse.Namespace, asked: Sequence[str]
) -> None:
    async with agent(workspace, place, workload) as one:
        await notes(one, given.notes, "note, no daemon")
    async with agent(workspace, place, workload) as one:
        row("search, no daemon", await searches(one, asked[: max(WARM_UP + 30, len(asked) // 4)]))


async def beside_daemon(
    workspace: "Workspace",
    place: Path,
    running: Daemon,
    workload: Workload,
    given: argparse.Namespace,
    asked: Sequence[str],
) -> None:
    """Search as soon as the daemon is ready, and measure all else when it has nothing to do."""
    async with agent(workspace, place, workload) as one:
        first = (await one.search(asked[0]))[0]
        running.settle()
        rest = await searches(one, asked[1:])
        row("search, daemon", Timed(first, rest.seconds), GOALS["search"])
        await with_daemon(one, running, workspace, given.notes)


async def with_daemon(one: Agent, running: Daemon, workspace: "Workspace", count: int) -> None:
    await notes(one, count, "note, daemon")
    after, found = await right_after(one, RIGHT_AFTER)
    row("search for the note just taken", after, None, f"{found} of {RIGHT_AFTER} found")
    beside, dreams = await beside_dreams(one, running, workspace, count)
    row("note while it dreams", beside, GOALS["note"], f"{dreams} dreams")


async def beside_dreams(one: Agent, running: Daemon, workspace: "Workspace", count: int) -> tuple[Timed, int]:
    """Take notes while the daemon dreams in this workspace; return the times, and how many dreams."""
    from daemon.api.operations.dreams import dream_now

    timed, dreams = Timed(), 0
    while len(timed.seconds) < count:
        running.settle()
        await one.note()
        running.client.call(workspace.name, dream_now, dream_now.bind(wait=False))
        dreams += 1
        while running.dreaming():
            timed.seconds.append(await one.note())
            await anyio.sleep(PAUSE_SECONDS)
    return timed, dreams


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--notes", type=int, default=300)
    parser.add_argument("--searches", type=int, default=200)
    parser.add_argument("--crystals", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, help="where the workspace is, on the disk that is meant")
    given = parser.parse_args()
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    from daemon.config.settings import Config
    from daemon.workspace.adoption import init_workspace
    from daemon.workspace.stores import open_exclusive

    workload = Workload(SEED)
    print(machine())
    with home(given.folder) as place:
        workspace = init_workspace(place / "workspace", environment(place))
        with open_exclusive(workspace, Config(), "benchmark") as store:
            fill(store, workload, given.crystals)
        asked = questions(workload, given.searches + WARM_UP + 1, given.crystals)
        print(f"{f'milliseconds, {given.crystals:,} crystals':34}{'first':>10}{'p50':>10}{'p95':>10}{'worst':>10}")
        anyio.run(without_daemon, workspace, place, workload, given, asked)
        with daemon(place, [workspace]) as running:
            anyio.run(beside_daemon, workspace, place, running, workload, given, asked)
            print(f"daemon: ready after {running.ready_seconds:.1f} s, {running.weight()}")
    print(machine())


if __name__ == "__main__":
    main()
