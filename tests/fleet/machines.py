"""Machines: a fleet of real processes, each with a folder, an environment and a clock of its own, behind doors.

machine ──front door──> machine       a door is a `Partition`: it refuses, hangs, cuts, keeps answers back
   │
   └──own doors──> PostgreSQL, object store

Everything is of this machine, and everything is gone when the fleet is closed.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, cast

from state.errors import DreamdError
from state.fleet import Place
from state.stores.fleet.database import KEEP_ALIVE
from tests.daemon.fleet.running import Door
from tests.daemon.fleet.running import Fleet as Tables
from tests.support.clocks import Clock, follow
from tests.support.fleet_tables import made
from tests.support.folders import PLACE
from tests.support.forked import Forked
from tests.support.model_characters import good
from tests.support.partition import Partition
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.running import ROOT
from tests.support.s3 import S3
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.serving import until

START_SECONDS = 60.0
DRAIN_SECONDS = 10.0
_LEFT_SECONDS = 30.0
StoreKind = Literal["folder", "s3"]

# A dream comes a few seconds after its notes; a search goes by words, so that no vectors are computed.
SETTINGS = {
    "DREAMD_DREAM__MIN_CHUNKS": "1",
    "DREAMD_DREAM__IDLE_MINUTES": "0.03",
    "DREAMD_DREAM__INTERVAL_MINUTES": "0.1",
    "DREAMD_DAEMON__PASS_MINUTES": "10",
    "DREAMD_FLEET__IDLE_SECONDS": "4",
    "DREAMD_FLEET__DREAMS_AT_ONCE": "6",
    "DREAMD_LOG__FORM": "json",
    "XDG_CACHE_HOME": "/proc/nowhere",
    "PATH": "/usr/bin:/bin",
}
# Of the machine that asks a model; what that costs is no matter here.
MODEL = {
    "DREAMD_MODEL__NAME": "openai/scripted",
    "DREAMD_MODEL__ON_FAILURE": "extractive",
    "DREAMD_LIMITS__USD_PER_DAY": "1000000",
    "DREAMD_LIMITS__TOKENS_PER_DAY": "1000000000",
    "OPENAI_API_KEY": "sk-of-a-test",
}


@dataclass(frozen=True, slots=True)
class Known(Place):
    """A workspace of the fleet as its agents know it."""

    token: str = ""


@dataclass(slots=True)
class Ending:
    """How a process ended that was asked to. `began`: it had started before."""

    machine: "Machine"
    began: bool
    seconds: float
    status: int | None


def begin(clock: str) -> None:
    """Make this process follow the clock, and send the text of each statement, by which a door knows it."""
    follow(clock)
    cast("dict[str, Any]", KEEP_ALIVE)["prepare_threshold"] = None


class Machine:
    """One process with what is its own. `busy` is held by whoever does something to it."""

    def __init__(self, number: int, folder: Path, fleet: "Fleet", ahead: float) -> None:
        self.name = f"machine-{number}"
        self.has_model = number == 0
        self.folder = folder / self.name
        self.folder.mkdir(mode=0o700)
        self.clock = Clock(self.folder / "clock", ahead)
        self.port = free_port()
        self.busy = threading.Lock()
        self.starts = 0
        self.process: Forked[bytes] | None = None
        self.database = Partition(fleet.postgres.port)
        self.store = Partition(fleet.s3.port) if fleet.s3 is not None else None
        self.front = Partition(self.port)
        self._fleet = fleet

    @property
    def doors(self) -> dict[str, Partition]:
        """The doors between it and others, by name."""
        named = {"database": self.database, "store": self.store, "front": self.front}
        return {name: door for name, door in named.items() if door is not None}

    @property
    def lives(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def said(self) -> Path:
        return self.folder / "said"

    def environment(self) -> dict[str, str]:
        """What the process finds: the fleet through its own doors, and places of its own."""
        fleet, folder = self._fleet, self.folder
        more: dict[str, str] = {
            "DREAMD_FLEET__DATABASE": self.database.through(fleet.tables.url),
            "DREAMD_FLEET__OBJECTS": fleet.tables.objects_url,
            "DREAMD_FLEET__FOLDER": str(folder / "own"),
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_RUNTIME_DIR": str(folder),
            "TMPDIR": str(folder),
        }
        if fleet.s3 is not None and self.store is not None:
            more |= fleet.s3.options | {"AWS_ENDPOINT_URL": self.store.through(fleet.s3.endpoint)}
        more |= {"DREAMD_FLEET__PORT": str(self.port), "DREAMD_FLEET__ADDRESS": f"http://127.0.0.1:{self.front.port}"}
        more |= fleet.model_settings if self.has_model else {}
        return SETTINGS | more | fleet.settings

    def start(self) -> None:
        """Start it; it is ready when it says so, which nobody waits for here."""
        assert not self.lives, f"{self.name} runs already"
        self.starts += 1
        with self.said.open("ab") as said:
            self.process = Forked(
                ["fleet", "serve"],
                before=(f"{__name__}:begin", self.clock.before[1]),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=ROOT,
                env=self.environment(),
            )

    @property
    def has_started(self) -> bool:
        """Whether it has said so; before that a signal ends it as it ends any program."""
        return self.said.read_text("utf-8", "replace").count('"event": "started"') >= self.starts

    def wait_until_started(self, seconds: float = START_SECONDS) -> None:
        """Return when it has said that it started."""
        until(lambda: self.has_started or not self.lives, lambda: f"{self.name}: {self.tail()}", seconds)
        assert self.lives, f"{self.name} ended: {self.tail()}"

    def send(self, number: int) -> None:
        if self.process is not None and self.lives:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def kill(self) -> None:
        """Kill it, as when the machine loses its power; its folder stays."""
        if self.process is not None:
            self.send(signal.SIGKILL)
            self.process.wait(_LEFT_SECONDS)

    def end(self) -> Ending:
        """Ask it to end, and see how long that takes; it is killed when it takes thirty seconds."""
        assert self.process is not None
        had_started, began = self.has_started, time.monotonic()
        self.send(signal.SIGTERM)
        try:
            status: int | None = self.process.wait(_LEFT_SECONDS)
        except subprocess.TimeoutExpired:
            status = None
            self.kill()
        return Ending(self, had_started, time.monotonic() - began, status)

    def heal(self) -> None:
        """Go on if it was stopped, with every door open."""
        for door in self.doors.values():
            door.heal()
        self.send(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        for door in self.doors.values():
            door.close()

    def tail(self) -> str:
        return self.said.read_text("utf-8", "replace")[-1_500:] if self.said.exists() else ""


@dataclass(slots=True)
class Fleet:
    """PostgreSQL, an object store and machines, from `start` to `close`.

    With `model_seconds` the first machine asks a model that thinks for so long; the others have none.
    """

    store: StoreKind = "folder"
    size: int = 4
    clocks: Sequence[float] = (0.0,)
    settings: dict[str, str] = field(default_factory=dict)
    postgres: Postgres = field(default_factory=Postgres)
    s3: S3 | None = None
    model_seconds: float = 0.0
    model_settings: dict[str, str] = field(default_factory=dict)
    folder: Path = field(init=False)
    tables: Tables = field(init=False)
    machines: list[Machine] = field(default_factory=list)
    known: list[Known] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="dreamd-fleet-", dir=PLACE))
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        try:
            self._stack.enter_context(self.postgres)
            if self.store == "s3":
                self.s3 = self._stack.enter_context(S3())
            if self.model_seconds:
                model = self._stack.enter_context(ScriptedModel(self._think))
                self.model_settings = MODEL | {"DREAMD_MODEL__API_BASE": model.url}
            url, options = self.postgres.new_database(made), self.s3.options if self.s3 is not None else {}
            objects = self.s3.url if self.s3 is not None else ""
            self.tables = Tables(url, self.folder, options=options, objects_url=objects)
            self._stack.callback(self.tables.close)
            for number in range(self.size):
                machine = Machine(number, self.folder, self, self.clocks[number % len(self.clocks)])
                self._stack.callback(machine.close)
                self.machines.append(machine)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _think(self, request: dict[str, Any], number: int) -> Reply:
        return Reply(content=good(request, number), wait_seconds=self.model_seconds)

    def settle(self, workspaces: int, tenants: int) -> None:
        """So many workspaces of so many tenants, each of whom has one token for all of theirs."""
        (self.folder / "objects").mkdir(exist_ok=True)
        every = [self.tables.tenant(f"tenant-{number}") for number in range(tenants)]
        tokens = [self.tables.token(tenant) for tenant in every]
        for number in range(workspaces):
            place = self.tables.place(every[number % tenants], f"agent-{number}")
            known = Known(place.id, place.tenant, place.tenant_name, place.name, token=tokens[number % tenants])
            self.known.append(known)

    def start(self) -> None:
        """Start every machine, and wait for each."""
        for machine in self.machines:
            machine.start()
        for machine in self.machines:
            machine.wait_until_started()

    def heal(self) -> None:
        """Everything runs, and everybody reaches everybody."""
        if not self.postgres.lives:
            self.postgres.start()
        if self.s3 is not None and not self.s3.lives:
            self.s3.start()
        for machine in self.machines:
            machine.heal()
            if not machine.lives:
                machine.start()

    def ask(
        self, known: Known, path: str, body: dict[str, Any] | None = None, key: str = "", of: int = -1
    ) -> tuple[int, Any]:
        """One question about a workspace to a machine: the status and the reply."""
        return self.ask_at(f"/v1/workspaces/{known.name}{path}", known.token, body, key, of=of)

    def ask_at(
        self, path: str, token: str, body: object = None, key: str = "", method: str = "", of: int = -1
    ) -> tuple[int, Any]:
        """One question at any address."""
        method, headers = method or ("GET" if body is None else "POST"), {"Idempotency-Key": key} if key else {}
        answer = Door(self.machines[of].port).ask(token, method, path, body, headers)
        return answer.status, answer.json

    def is_at_rest(self) -> tuple[int, int]:
        """How many inbox rows wait, and how many workspaces have a job; -1 while PostgreSQL is away."""
        try:
            row = self.tables.database.row(
                "SELECT (SELECT count(*) FROM inbox WHERE taken_at IS NULL AND kind = 'note') AS waiting,"
                " (SELECT count(*) FROM workspaces WHERE queued_at IS NOT NULL) AS queued"
            )
        except DreamdError:
            return -1, -1
        assert row is not None
        return int(row["waiting"]), int(row["queued"])
