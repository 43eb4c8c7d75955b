"""A real daemon for benchmarks: in a home of its own, asked over its socket, weighed by /proc. Linux only."""

import json
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import quantiles
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from daemon.api.client import Client
from daemon.config.paths import data_folder
from state.errors import DreamdError
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

ROOT = Path(__file__).parents[1]
_READY_SECONDS = 600.0
_STOP_SECONDS = 30.0
_LOOK_SECONDS = 2.0
_WEIGH_SECONDS = 0.5
_QUIET_SHARE = 0.1  # of a core
_TICKS = os.sysconf("SC_CLK_TCK")


def machine() -> str:
    """Name the machine, and say how busy it is: what a process waits for a core is in every latency."""
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    late = 1000 * percentile([_late() for _ in range(200)], 95)
    return f"{os.cpu_count()} cores, load {load}, p95 {late:.1f} ms late, Python {platform.python_version()}"


def _late() -> float:
    """Return how much longer than a millisecond a sleep of one takes."""
    began = time.perf_counter()
    time.sleep(0.001)
    return time.perf_counter() - began - 0.001


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the value that so many per cent do not exceed; NaN without values."""
    if len(values) < 2:
        return values[0] if values else float("nan")
    return quantiles(values, n=100, method="inclusive")[percent - 1]


@contextmanager
def home(folder: Path | None) -> Iterator[Path]:
    """Make a folder for workspaces, sockets and logs, removed afterwards; in `folder`, else where it is short."""
    made = Path(tempfile.mkdtemp(prefix="dreamd-", dir=folder or "/tmp"))  # noqa: S108 - a socket's path must be short
    try:
        yield made
    finally:
        shutil.rmtree(made)


def environment(place: Path, **variables: str) -> dict[str, str]:
    """Return this process's variables without its configuration; the daemon's own things are in `place`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DREAMD_")}
    runtime = place / "run"
    runtime.mkdir(exist_ok=True)
    own = {
        "XDG_STATE_HOME": str(place / "state"),
        "XDG_DATA_HOME": str(place / "data"),
        # The embedding model may lie in one of these.
        "XDG_DATA_DIRS": f"{data_folder(os.environ).parent}:/usr/local/share:/usr/share",
        "XDG_RUNTIME_DIR": str(runtime),
        "XDG_CONFIG_HOME": str(place / "none"),
        "DREAMD_HTTP__PORT": "0",
    }
    return {**kept, **own, **variables}


@dataclass(frozen=True, slots=True)
class Weight:
    """MiB of the daemon and the worker that it has: resident, resident with shared pages shared out, and the peak.

    The peak is the sum of what each had resident at most, if not at the same moment.
    """

    rss: float
    pss: float
    peak: float

    def __str__(self) -> str:
        return f"RSS {self.rss:,.0f} MiB, PSS {self.pss:,.0f} MiB, peak {self.peak:,.0f} MiB"


@dataclass(frozen=True, slots=True)
class Daemon:
    """One that runs; `ready_seconds` after its process was started it had taken up its workspaces."""

    process: "subprocess.Popen[bytes]"
    client: Client
    log: Path
    ready_seconds: float

    def weight(self) -> Weight:
        """Return what it weighs now, its children included."""
        rss, pss, peak = 0, 0, 0
        for number in (self.process.pid, *self.children()):
            with suppress(OSError, KeyError):  # it has ended
                status = _kibibytes(Path(f"/proc/{number}/status").read_text())
                pss += _kibibytes(Path(f"/proc/{number}/smaps_rollup").read_text())["Pss"]
                rss, peak = rss + status["VmRSS"], peak + status["VmHWM"]
        return Weight(rss / 1024, pss / 1024, peak / 1024)

    def children(self) -> tuple[int, ...]:
        """Return the process ids of its children, also of those that a thread of it started."""
        found = ""
        for file in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with suppress(OSError):  # the thread has ended
                found += file.read_text()
        return tuple(map(int, found.split()))

    @contextmanager
    def heaviest(self) -> "Iterator[list[float]]":
        """Give a list with the largest PSS of a moment so far, in MiB, while the block lasts."""
        most, stop = [0.0], Event()

        def look() -> None:
            while not stop.wait(_WEIGH_SECONDS):
                most[0] = max(most[0], self.weight().pss)

        watching = Thread(target=look)
        watching.start()
        try:
            yield most
        finally:
            stop.set()
            watching.join()

    def processor(self) -> float:
        """Return the seconds of processor time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def dreaming(self) -> int:
        """Return how many dreams run or wait for a slot."""
        household = self.client.get("/v1/workspaces")
        return int(household["dreaming"]) + int(household["waiting"])

    def settle(self) -> None:
        """Wait until it has nothing to do."""
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            used = self.processor()
            time.sleep(_LOOK_SECONDS)
            if not self.dreaming() and self.processor() - used < _QUIET_SHARE * _LOOK_SECONDS:
                return
        raise SystemExit(f"the daemon was not quiet within {_READY_SECONDS:g} s")

    def events(self, *names: str) -> list[dict[str, Any]]:
        """Return what it has logged under these names, in order."""
        return logged(self.log, *names)


def logged(log: Path, *names: str) -> list[dict[str, Any]]:
    """Return the events of these names in a log, in order."""
    found = []
    for line in log.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError):  # the last one may be half written
            event = json.loads(line)
            if isinstance(event, dict) and event.get("event") in names:
                found.append(event)
    return found


def seconds_of(event: dict[str, Any]) -> float:
    """Return when an event was logged, since the epoch."""
    return datetime.fromisoformat(str(event["at"])).timestamp()


@contextmanager
def daemon(place: Path, workspaces: Sequence[Workspace], **variables: str) -> Iterator[Daemon]:
    """Run `dreamd serve` for these workspaces, once it is ready; stop it afterwards."""
    log = place / f"daemon-{time.monotonic_ns()}.log"
    command = [sys.executable, "-m", "daemon", "serve", *(str(one.root) for one in workspaces)]
    client = Client(place / "run" / "dreamd" / "dreamd.sock")
    began = time.perf_counter()
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            env=environment(place, **variables),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
    try:
        _await(client, process, log)
        yield Daemon(process, client, log, time.perf_counter() - began)
    finally:
        end(process)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Stop a process in order, or kill it if it does not stop."""
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def scripted_model(answer_seconds: float) -> Iterator[str]:
    """Run a model whose answers are good, and so late, in another process; give its address."""
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    process = spawning.Process(target=_serve_model, args=[there, answer_seconds], daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.kill()
        process.join()


def _serve_model(address: "Connection", answer_seconds: float) -> None:
    from tests.support.model_characters import good
    from tests.support.scripted_model import ScriptedModel, slowly

    with ScriptedModel(slowly(good, answer_seconds)) as model:
        address.send(model.url)
        Event().wait()


def with_model(url: str) -> dict[str, str]:
    """Return the variables of a daemon that asks the model at this address."""
    return {"DREAMD_MODEL__NAME": "openai/scripted", "DREAMD_MODEL__API_BASE": url, "OPENAI_API_KEY": "none"}


def _await(client: Client, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"the daemon ended with {process.returncode}:\n{log.read_text()}")
        with suppress(DreamdError):
            client.get("/readyz")
            return
        time.sleep(0.1)
    raise SystemExit(f"the daemon was not ready in {_READY_SECONDS:g} s:\n{log.read_text()}")


def _kibibytes(table: str) -> dict[str, int]:
    """Return the rows `Name: number kB` of a file of /proc."""
    rows = (line.partition(":") for line in table.splitlines())
    return {name: int(rest.split()[0]) for name, _, rest in rows if rest.strip().endswith("kB")}
