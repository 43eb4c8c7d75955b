"""Two hundred workspaces whose dreams are due at once, against a model that takes five seconds to answer.

    python -m benchmarks.many_workspaces [--workspaces 200] [--answer-seconds 5] [--concurrency 4 8] [--folder FOLDER]

Each workspace is new and has eight notes: with its first look the real daemon (`dreamd serve`, otherwise as it comes)
finds all of them due (first breath). The model is a scripted server in a process of its own. A dream asks it once,
and once before that where its notes form clusters to reflect on; that is counted.

**Wall** is from the daemon's readiness, when every note has been there for long, to the last commit, by the daemon's
own log. A workspace's **wait** is from that same readiness to its commit: what its owner waits, the queue included.
Dreams taken in strict turn have a longest wait of just under twice the median; one that others overtake has more.

That depends on what dreams cost too, so the queue is shown apart: how many due later began earlier, at most.

Meanwhile notes are taken in twenty more workspaces, whose own dreams queue behind. Two threads take them, two a
second each: one asks the daemon over its socket (HTTP, a connection for each note, as the command line does), one
appends as `dreamd mcp` and `dreamd note` do. Acknowledged is what is durable. A bare append and fsync beside them
shows what of it is the disk.
"""

import argparse
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.serving import (
    Daemon,
    daemon,
    environment,
    home,
    machine,
    percentile,
    scripted_model,
    seconds_of,
    with_model,
)
from benchmarks.workload import Workload
from state.scratch import Note
from state.stores.history.inbox import NoteInbox

if TYPE_CHECKING:
    from state.stores.disk.workspace import Workspace

SEED = 5
NOTES = 8
BUSY = 20  # workspaces with agents at work
NOTES_A_SECOND = 2.0  # of each of the two
WALL_GOAL = 3.0  # times what one answer for each would take
WAIT_GOAL = 2.0  # times the median
MEMORY_GOAL = 1536.0  # MiB
NOTE_GOAL = 0.1  # seconds, p95


@dataclass(slots=True)
class Taking:
    """A thread that takes notes until it is told to stop, and how long each took."""

    take: Callable[["Workspace", str], None]
    workspaces: "Sequence[Workspace]"
    workload: Workload
    kind: str
    seconds: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def run(self, stop: threading.Event) -> None:
        for number, workspace in enumerate(cycle(self.workspaces)):
            if stop.wait(1 / NOTES_A_SECOND):
                return
            text = self.workload.text(self.kind, number)[0]
            began = time.perf_counter()
            try:
                self.take(workspace, text)
            except Exception as error:  # noqa: BLE001 - told in the table
                self.failed.append(repr(error))
            self.seconds.append(time.perf_counter() - began)


@dataclass(frozen=True, slots=True)
class Round:
    """One concurrency's figures; seconds and MiB."""

    concurrency: int
    starting: float
    wall: float
    waits: list[float]
    dreams: list[float]
    calls: int
    missing: int
    others: int
    overtaken: int
    processor: float
    peak: float
    statuses: list[float]
    takings: tuple[Taking, ...]


def prepared(place: Path, workload: Workload, count: int) -> "tuple[list[Workspace], list[Workspace]]":
    """Make new workspaces, each with notes of its own; return them, and those where agents will be at work."""
    from daemon.workspace.adoption import init_workspace

    due = [init_workspace(place / f"workspace-{number:03}", environment(place)) for number in range(count)]
    for number, workspace in enumerate(due):
        for note in workload.notes(number, NOTES, datetime.now(UTC)):
            NoteInbox(workspace).append(note)
    return due, [init_workspace(place / f"busy-{number:02}", environment(place)) for number in range(BUSY)]


def asked(running: Daemon) -> Callable[["Workspace", str], None]:
    """Return a function that takes a note over the daemon's socket."""
    from daemon.api.operations.notes import working_memory_note

    return lambda workspace, text: void(
        running.client.call(workspace.name, working_memory_note, working_memory_note.bind(note=text))
    )


def appended(workspace: "Workspace", text: str) -> None:
    """Take a note as a window does that needs no daemon."""
    NoteInbox(workspace).append(Note(text, datetime.now(UTC)))


def bare(workspace: "Workspace", text: str) -> None:
    """Append as many bytes, and sync them."""
    with workspace.root.with_name("probe").open("ab", buffering=0) as file:
        file.write(f"- [2026-01-01T00:00:00Z] (0.5) {text}\n".encode())
        os.fsync(file.fileno())


def void(_: object) -> None:
    """Throw away a reply."""


def round_of(place: Path, workload: Workload, count: int, answer: float, concurrency: int) -> Round:
    """Make all of the workspaces anew, and have each dream once."""
    place.mkdir()
    due, busy = prepared(place, workload, count)
    with ExitStack() as stack:
        url = stack.enter_context(scripted_model(answer))
        variables = {**with_model(url), "DREAMD_DAEMON__CONCURRENT_DREAMS": str(concurrency)}
        running = stack.enter_context(daemon(place, [*due, *busy], **variables))
        ways = {"over the socket": asked(running), "appended": appended, "bare append and fsync": bare}
        takings = tuple(Taking(take, busy, workload, kind) for kind, take in ways.items())
        stop = threading.Event()
        threads = [threading.Thread(target=one.run, args=(stop,)) for one in takings]
        for thread in threads:
            thread.start()
        try:
            names = {one.name for one in due}
            awaited(running, names, deadline=time.monotonic() + 10 * WALL_GOAL * count * answer / concurrency + 120)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        return read(running, names, concurrency, takings)


def awaited(running: Daemon, names: set[str], deadline: float) -> None:
    """Wait until each of these workspaces has dreamt, or it takes all too long."""
    while time.monotonic() < deadline and running.process.poll() is None:
        if names <= {one["workspace"] for one in running.events("dream_committed")}:
            return
        time.sleep(1)


def overtaken(running: Daemon, names: set[str]) -> int:
    """Return how many of these workspaces, at most, were due later than another and began earlier."""
    due = [one["workspace"] for one in running.events("dream_due") if one["workspace"] in names]
    begun = [one["workspace"] for one in running.events("dream_started") if one["workspace"] in names]
    place: dict[str, int] = {name: number for number, name in reversed(list(enumerate(due)))}
    order = [place[name] for name in dict.fromkeys(begun)]
    return max(sum(other > one for other in order[:number]) for number, one in enumerate(order))


def read(running: Daemon, names: set[str], concurrency: int, takings: tuple[Taking, ...]) -> Round:
    """Read the figures from the daemon's log."""
    (started,) = running.events("started")
    ready = seconds_of(started)
    every = running.events("dream_committed")
    committed = [one for one in every if one["workspace"] in names]
    waits: dict[str, float] = {}
    dreams: dict[str, float] = {}
    for one in committed:
        waits.setdefault(one["workspace"], seconds_of(one) - ready)
        dreams.setdefault(one["workspace"], one["seconds"])
    return Round(
        concurrency=concurrency,
        starting=running.ready_seconds,
        wall=max(waits.values()),
        waits=sorted(waits.values()),
        dreams=sorted(dreams.values()),
        calls=sum(one["calls"] for one in committed),
        missing=len(names) - len(waits),
        others=len(every) - len(waits),
        overtaken=overtaken(running, names),
        processor=running.processor(),
        peak=running.weight().peak,
        statuses=[status_seconds(running) for _ in range(20)],
        takings=takings,
    )


def status_seconds(running: Daemon) -> float:
    """Return the seconds that it takes to tell how all workspaces are."""
    began = time.perf_counter()
    running.client.get("/v1/status")
    return time.perf_counter() - began


def show(one: Round, count: int, answer: float) -> None:
    """Print one table."""
    share = count * answer / one.concurrency
    print(f"\n{count} workspaces, {one.concurrency} dreams at once, {answer:g} s an answer; {machine()}")

    def row(name: str, figures: str, goal: str = "", *, met: bool = True) -> None:
        print(f"  {name:28}{figures:44}{f'goal {goal}: ' + ('met' if met else 'MISSED') if goal else ''}")

    row("ready after", f"{one.starting:.1f} s")
    row(
        "wall",
        f"{one.wall:.0f} s, {one.wall / share:.2f} x {share:.0f} s",
        f"under {WALL_GOAL:g} x",
        met=one.wall < WALL_GOAL * share and not one.missing,
    )
    middle = median(one.waits)
    row(
        "wait, readiness to commit",
        f"median {middle:.0f} s, longest {one.waits[-1]:.0f} s, {one.waits[-1] / middle:.2f} x",
        f"under {WAIT_GOAL:g} x",
        met=one.waits[-1] < WAIT_GOAL * middle,
    )
    row("one dream", f"median {median(one.dreams):.1f} s, longest {one.dreams[-1]:.1f} s")
    row("model calls", f"{one.calls}, {one.calls / len(one.dreams):.2f} a dream")
    row("not dreamt", f"{one.missing} of {count}", "0", met=not one.missing)
    row("overtaken by, at most", f"{one.overtaken}; {one.others} dreams of other workspaces")
    row("memory, peak", f"{one.peak:,.0f} MiB", f"under {MEMORY_GOAL:,.0f} MiB", met=one.peak < MEMORY_GOAL)
    row("processor time", f"{one.processor:.0f} s, {one.processor / one.wall:.2f} cores")
    p50, p95 = (percentile(one.statuses, percent) * 1000 for percent in (50, 95))
    row("status of all, ms", f"{p50:.0f} / {p95:.0f}")
    for taking in one.takings:
        p50, p95 = (percentile(taking.seconds, percent) for percent in (50, 95))
        figures = (
            f"{p50 * 1000:.1f} / {p95 * 1000:.1f}, worst {max(taking.seconds) * 1000:.0f} ({len(taking.seconds)})"
        )
        is_note = taking.take is not bare
        met = p95 < NOTE_GOAL and not taking.failed
        name = f"note {taking.kind}" if is_note else taking.kind
        row(f"{name}, ms", figures, "p95 under 100 ms" if is_note else "", met=met)
        for failure in sorted(set(taking.failed))[:3]:
            row("  failed", f"{taking.failed.count(failure)} x {failure}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workspaces", type=int, default=200)
    parser.add_argument("--answer-seconds", type=float, default=5.0)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--folder", type=Path, help="where the workspaces are, on the disk that is meant")
    given = parser.parse_args()
    workload = Workload(SEED, width=1)
    for concurrency in given.concurrency:
        with home(given.folder) as place:
            one = round_of(place / f"at-{concurrency}", workload, given.workspaces, given.answer_seconds, concurrency)
            show(one, given.workspaces, given.answer_seconds)


if __name__ == "__main__":
    main()
