"""What the daemon does in a day: 24 hours of 50 workspaces with ordinary traffic, and what that costs.

    python -m benchmarks.day [--workspaces 50] [--hours 24] [--idle-seconds 60] [--folder FOLDER]

**Traffic**, from a seed. A workspace has three sessions between 8 and 22 o'clock, each of 8 to 12 notes within 20 to
60 minutes. In a third of them an agent writes a transcript as well, three turns at once, and half of them say when a
session has ended.
Nobody works at night, before 8 and after 22. One workspace is silent, and in one a note comes every three minutes,
day and night. All are new when the day begins.

**Time** is real, but leaps where nothing happens. The service is the daemon's own (`daemon.engine.daemon`) in this
process, without its sockets, and in place of its threads one loop takes each workspace's next step
(`ManagedWorkspace.step`) when its time has come. What it reads the time from (`daemon.workspace.stores.utc_now`, and
the monotonic clock of `daemon.engine`) is the machine's plus what was leapt over: after each step the clock leaps to
the next one, or to the next thing that an agent does. So there are as many looks, passes and skips as in a day, and
while a dream runs time passes as it does.

The model is a scripted server in a process of its own. It answers at once and counts a token for every four
characters. Processor time is this process's, without what making the traffic takes; the last rows are measured in
real time, after the day, with nothing to do.
"""

import argparse
import json
import os
import random
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from benchmarks.serving import home, machine, scripted_model
from benchmarks.workload import Workload
from state.scratch import Note
from state.stores.history.inbox import NoteInbox

if TYPE_CHECKING:
    from daemon.engine.daemon import Daemon
    from state.stores.disk.workspace import Workspace

SEED = 3
SESSIONS = 3
TURNS = 3  # that are written to a transcript at once
CHATTY_EVERY = timedelta(minutes=3)
MORNING, EVENING = 8.0, 21.0  # a session begins in between


@dataclass(frozen=True, slots=True, order=True)
class Deed:
    """What an agent does at a moment of the day."""

    after: timedelta
    workspace: int
    kind: str  # note, end, or write: of a transcript
    text: str = ""
    session: int = 0


@dataclass(slots=True)
class Leaping:
    """The machine's time, and what was leapt over."""

    skipped: float = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.skipped)

    def monotonic(self) -> float:
        return time.monotonic() + self.skipped


class Day:
    """Takes the steps of a service through a day, and counts them and their processor time, in seconds."""

    def __init__(self, service: "Daemon", time_: Leaping, deeds: list[Deed], hours: float) -> None:
        self.looks: Counter[str] = Counter()
        self.looking = defaultdict[str, float](float)
        self.deeds: Counter[str] = Counter()
        self.traffic = 0.0
        self._service = service
        self._time = time_
        self._deeds = deeds[::-1]
        self._begin = time_.now()
        self._end = self._begin + timedelta(hours=hours)

    def live(self, act: Callable[[Deed], None]) -> None:
        """Live through the day."""
        self._service.look_up_all()
        due = dict.fromkeys(self._service.all(), self._begin)
        while (now := min(due.values())) < self._end:
            if self._deeds and self._begin + self._deeds[-1].after <= now:
                self._leap(self._begin + self._deeds[-1].after)
                self._do(self._deeds.pop(), act)
                due.update({managed: self._time.now() for managed in due if managed.is_wanted})
                continue
            self._leap(now)
            managed = min(due, key=due.__getitem__)
            changed, used = managed.moment, time.process_time()
            seconds = managed.step()
            kind = "quiet" if seconds and managed.moment == changed else "working"
            self.looks[kind] += 1
            self.looking[kind] += time.process_time() - used
            due[managed] = self._time.now() + timedelta(seconds=max(seconds, 0.05))

    def _leap(self, moment: datetime) -> None:
        self._time.skipped += max(0.0, (moment - self._time.now()).total_seconds())

    def _do(self, deed: Deed, act: Callable[[Deed], None]) -> None:
        used = time.thread_time()
        act(deed)
        self.deeds[deed.kind] += 1
        self.traffic += time.thread_time() - used


def traffic(workload: Workload, workspaces: int, hours: float) -> list[Deed]:
    """Return the day's deeds, in order."""
    deeds: list[Deed] = []
    for number in range(1, workspaces):  # the first one is silent
        rng = random.Random(f"{SEED}/{number}")
        if number == 1:
            every = CHATTY_EVERY.total_seconds()
            moments = [timedelta(seconds=every * count) for count in range(1, int(24 * 3600 / every))]
            deeds += [Deed(at, number, "note", workload.text("chat", count)[0]) for count, at in enumerate(moments)]
            continue
        for session in range(SESSIONS):
            deeds += _session(workload, rng, number, session)
    return sorted(deed for deed in deeds if deed.after < timedelta(hours=hours))


def _session(workload: Workload, rng: random.Random, number: int, session: int) -> Iterable[Deed]:
    begin = timedelta(hours=rng.uniform(MORNING, EVENING))
    length = timedelta(minutes=rng.uniform(20, 60))
    key = (number * SESSIONS + session) * 100
    for count in range(rng.randint(8, 12)):
        yield Deed(begin + length * rng.random(), number, "note", workload.text("note", key + count)[0], session)
    if number % 3 == 0:
        for count in range(rng.randint(4, 8)):
            turns = [workload.text("turn", 10 * (key + count) + turn)[0] for turn in range(TURNS)]
            yield Deed(begin + length * rng.random(), number, "write", "\n".join(turns), session)
    if number % 2 == 0:
        yield Deed(begin + length + timedelta(seconds=1), number, "end", "", session)


def acting(service: "Daemon", workspaces: "list[Workspace]", time_: Leaping) -> Callable[[Deed], None]:
    """Return a function that does a deed."""
    from daemon.api.operations.dreams import dream_now

    def act(deed: Deed) -> None:
        workspace = workspaces[deed.workspace]
        name = workspace.name
        if deed.kind == "end":
            with service.open(name, lambda _: None) as access:
                dream_now.run(access, reason="session-end", wait=False)
        elif deed.kind == "note":
            NoteInbox(workspace).append(Note(deed.text, time_.now()))
        else:
            said = {"role": "user", "timestamp": time_.now().isoformat()}
            path = workspace.root / "transcripts" / f"{deed.session}.jsonl"
            path.parent.mkdir(exist_ok=True)
            with path.open("a") as file:
                file.write("".join(json.dumps({**said, "content": text}) + "\n" for text in deed.text.split("\n")))

    return act


def opened(place: Path, url: str, count: int, time_: Leaping) -> "tuple[Daemon, list[Workspace]]":
    """Open the service over so many new workspaces, with this time."""
    os.environ |= {
        "XDG_STATE_HOME": str(place / "state"),
        "XDG_DATA_HOME": str(place / "data"),
        "XDG_RUNTIME_DIR": str(place),
        "OPENAI_API_KEY": "none",
        "ORT_DISABLE_TELEMETRY": "1",
    }
    import daemon.workspace.stores

    daemon.workspace.stores.utc_now = time_.now  # before anybody imports it
    from daemon.config.settings import Config
    from daemon.engine import held, managed, work
    from daemon.engine.daemon import Daemon
    from daemon.workspace.adoption import init_workspace

    for module in (held, managed, work):
        vars(module)["time"] = SimpleNamespace(monotonic=time_.monotonic, sleep=time.sleep)
    config = Config.model_validate({"model": {"name": "openai/scripted", "api_base": url}})
    workspaces = [init_workspace(place / f"workspace-{number:02}") for number in range(count)]
    return Daemon(lambda: config, tuple(one.root for one in workspaces)), workspaces


def ledgers(workspaces: "list[Workspace]") -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """Count runs by reason and outcome; and in all: looks that came to nothing, their rows, calls, tokens."""
    runs: Counter[tuple[str, str]] = Counter()
    totals: Counter[str] = Counter()
    for workspace in workspaces:
        with closing(sqlite3.connect(workspace.database)) as connection:
            for reason, outcome, rows, times in connection.execute(
                "SELECT reason, outcome, count(*), sum(times) FROM dreams GROUP BY reason, outcome"
            ):
                runs[reason, outcome] += rows
                if outcome == "skipped":
                    totals["skips"] += times
                    totals["skip rows"] += rows
            for (reply,) in connection.execute("SELECT reply FROM calls"):
                answer = json.loads(reply)
                totals["calls"] += 1
                totals["tokens in"] += answer["tokens_in"]
                totals["tokens out"] += answer["tokens_out"]
    return runs, totals


def passes(service: "Daemon") -> int:
    """Count the consolidation passes."""
    text = service.metrics.render()[0].decode()
    rows = [line for line in text.splitlines() if line.startswith("dreamd_passes_total")]
    return round(sum(float(line.rpartition(" ")[2]) for line in rows))


def show(day: Day, service: "Daemon", workspaces: "list[Workspace]", seconds: dict[str, float], hours: float) -> None:
    runs, totals = ledgers(workspaces)
    dreams = sum(count for (_, outcome), count in runs.items() if outcome == "committed")

    def row(name: str, said: str) -> None:
        print(f"  {name:26}{said}")

    row("traffic", ", ".join(f"{count:,} {kind}{'s' * (count != 1)}" for kind, count in sorted(day.deeds.items())))
    for reason in sorted({reason for reason, _ in runs}):
        ends = {end: count for (why, end), count in sorted(runs.items()) if why == reason and end != "skipped"}
        if ends:
            row(f"dreams, {reason}", ", ".join(f"{count} {end}" for end, count in ends.items()))
    row("dreams committed", f"{dreams}, {dreams / len(workspaces):.1f} a workspace")
    row("model calls", f"{totals['calls']}, {totals['calls'] / max(dreams, 1):.1f} a dream")
    tokens = totals["tokens in"] + totals["tokens out"]
    row("tokens", f"{totals['tokens in']:,} in, {totals['tokens out']:,} out; {tokens / max(dreams, 1):,.0f} a dream")
    row("looks that were skipped", f"{totals['skips']} in {totals['skip rows']} rows of the ledgers")
    row("passes", f"{passes(service):,}")
    row("looks", ", ".join(f"{count:,} {kind}" for kind, count in sorted(day.looks.items())))
    work, quiet, day_seconds = day.looking["working"], day.looking["quiet"], hours * 3600
    each = 1000 * quiet / max(day.looks["quiet"], 1)
    row("processor, work", f"{work:,.0f} s (dreams, passes, taking in), {work / day_seconds:.2%} of a core")
    row("processor, looking", f"{quiet:.1f} s, {each:.2f} ms a look, {quiet / day_seconds:.3%} of a core")
    row("idle afterwards", f"{seconds['idle']:.2%} of a core over {seconds['idle seconds']:.0f} real seconds")
    row("this took", f"{seconds['wall']:,.0f} s")


def idle(seconds: float) -> float:
    """Return the share of a core that this process uses now."""
    used, began = time.process_time(), time.perf_counter()
    time.sleep(seconds)
    return (time.process_time() - used) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workspaces", type=int, default=50)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--idle-seconds", type=float, default=60.0)
    parser.add_argument("--folder", type=Path, help="where the workspaces are, on the disk that is meant")
    given = parser.parse_args()
    midnight = (datetime.now(UTC) + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    time_ = Leaping((midnight - datetime.now(UTC)).total_seconds())
    print(f"{given.workspaces} workspaces, {given.hours:g} hours; {machine()}")
    with ExitStack() as stack:
        place = stack.enter_context(home(given.folder))
        url = stack.enter_context(scripted_model(0.0))
        service, workspaces = opened(place, url, given.workspaces, time_)
        stack.callback(service.stop, 30.0)
        deeds = traffic(Workload(SEED, width=1), given.workspaces, given.hours)
        day = Day(service, time_, deeds, given.hours)
        began = time.perf_counter()
        day.live(acting(service, workspaces, time_))
        seconds = {"wall": time.perf_counter() - began}
        service.start()
        seconds["idle seconds"] = given.idle_seconds
        seconds["idle"] = idle(given.idle_seconds)
        show(day, service, workspaces, seconds, given.hours)
    print(machine())


if __name__ == "__main__":
    main()
