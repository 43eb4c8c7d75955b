"""The daemon as a real process with its own home folder, and its clients."""

import http.client
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import yaml

from daemon.api.client import Client
from daemon.api.operations.dreams import dream_status
from daemon.api.operations.search import memory_search
from daemon.workspace.adoption import init_workspace
from daemon.workspace.status import Status
from daemon.workspace.vector_index import cache_folder
from state.errors import DreamdError
from state.scratch import Note
from state.stores.disk.places import keep_place
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox
from tests.support import forked
from tests.support.folders import PLACE
from tests.support.ports import free_port
from tests.support.running import ROOT, Ended, on_platform
from tests.support.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from daemon.api.operations.operation import Operation

P = ParamSpec("P")
Answer = TypeVar("Answer")
Event = dict[str, Any]

PATIENCE_SECONDS = 300.0
THINGS = tuple("kettle bicycle garden window piano ladder carpet lamp fence clock stove door".split())
_QUIET: dict[str, dict[str, Any]] = {"http": {"port": 0}, "log": {"form": "json"}}


def until(
    happened: Callable[[], object],
    otherwise: Callable[[], object] = lambda: "it did not happen",
    seconds: float = PATIENCE_SECONDS,
) -> None:
    """Wait until `happened()` is true; fail after `seconds` with the message of `otherwise`."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.02)


def noted(workspace: Workspace, texts: Sequence[str], importance: float = 0.8) -> list[str]:
    for text in texts:
        NoteInbox(workspace).append(Note(text, datetime.now(UTC), importance))
    return list(texts)


def repairs(count: int, where: str = "") -> list[str]:
    """Return `count` different texts for notes."""
    return [f"The {THINGS[n % len(THINGS)]} of house {n}{where} was repaired by Ada" for n in range(count)]


@dataclass(slots=True)
class Home:
    """A daemon's home: configuration, token and socket, all below one short folder."""

    folder: Path
    sections: dict[str, dict[str, Any]] = field(default_factory=lambda: json.loads(json.dumps(_QUIET)))
    tick_seconds: float | None = 2.0  # how often the daemon checks its workspaces; None: twice a minute, the default

    @property
    def socket(self) -> Path:
        return self.folder / "run" / "dreamd" / "dreamd.sock"

    @property
    def token(self) -> Path:
        return self.folder / "state" / "dreamd" / "token"

    @property
    def config(self) -> Path:
        return self.folder / "config" / "dreamd" / "config.yaml"

    @property
    def client(self) -> Client:
        return Client(self.socket)

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of the daemon and its clients, with very little of the test run's own."""
        return {
            "HOME": str(self.folder),
            "PATH": "/usr/bin:/bin",
            "TZ": "UTC",
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            # All tests share one embedding model.
            "XDG_CACHE_HOME": str(cache_folder(os.environ).parent),
            "OPENAI_API_KEY": "sk-of-a-test",
            **on_platform(),
            **more,
        }

    def configure(self, **sections: dict[str, Any]) -> None:
        """Set these keys, in addition to those set before."""
        for name, keys in sections.items():
            self.sections.setdefault(name, {}).update(keys)
        self.config.write_text(yaml.safe_dump(self.sections), encoding="utf-8")

    def with_port(self) -> int:
        """Make the next daemon also listen at a free port, and return it."""
        port = free_port()
        self.configure(http={"port": port})
        return port

    def asks(self, model: ScriptedModel) -> None:
        """Make dreams use this model, at the price of a real one."""
        self.configure(model={"name": "openai/gpt-4o-mini", "api_base": model.url})

    def workspace(self, name: str = "agent", *, kept: bool = True) -> Workspace:
        """Create a workspace; unless `kept`, no daemon looks after it."""
        workspace = init_workspace(self.folder / name, self.environment())
        self.keep(workspace, kept=kept)
        return workspace

    def keep(self, workspace: Workspace, *, kept: bool) -> None:
        """Record whether the daemon looks after the workspace."""
        keep_place(workspace.state.parent, workspace.name, kept=kept)

    def dreamd(self, *words: str | Path, **environment: str) -> Ended:
        ended = forked.run(words, environment=self.environment(**environment), seconds=PATIENCE_SECONDS)
        return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    @contextmanager
    def beginning(self, *words: str | Path, **environment: str) -> "Iterator[subprocess.Popen[str]]":
        """Start a command, to be watched while it runs; kill it at the end of the block."""
        process: forked.Forked[str] = forked.Forked(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=self.environment(**environment),
            text=True,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()

    def start(self, *folders: Path, **environment: str) -> "Daemon":
        """Start `dreamd serve` without waiting until it is ready."""
        said = self.folder / "said"
        with said.open("ab") as log:
            process: forked.Forked[bytes] = forked.Forked(
                ["serve", *folders],
                before=("tests.support.forked:ticking", [self.tick_seconds]) if self.tick_seconds else None,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=self.environment(**environment),
            )
        return Daemon(self, process, said)

    @contextmanager
    def serving(self, *folders: Path, **environment: str) -> "Iterator[Daemon]":
        """Run `dreamd serve` until the end of the block; if it still runs then, stop it as systemd does."""
        daemon = self.start(*folders, **environment)
        try:
            daemon.until_ready()
            yield daemon
            if daemon.process.poll() is None:
                daemon.terminated()
        finally:
            daemon.kill()


@dataclass(frozen=True, slots=True)
class Daemon:
    """A process of `dreamd serve`; the file `said` has the logs of all daemons of this home."""

    home: Home
    process: forked.Forked[bytes]
    said: Path

    @property
    def log(self) -> str:
        return self.said.read_text(encoding="utf-8", errors="replace")

    def events(self, name: str) -> list[Event]:
        """Return the events of this name, from any daemon of this home."""
        rows = [json.loads(row) for row in self.log.splitlines() if row.startswith("{") and row.endswith("}")]
        return [row for row in rows if row["event"] == name]

    @property
    def is_ready(self) -> bool:
        try:
            return bool(self.home.client.get("/readyz") == {"status": "ready"})
        except DreamdError:
            return False

    def until_ready(self) -> None:
        until(lambda: self.is_ready or self.process.poll() is not None, lambda: self.log)
        assert self.process.poll() is None, self.log

    def until(self, happened: Callable[[], object]) -> None:
        """Wait until `happened()` is true; fail if the daemon ends meanwhile."""
        until(lambda: happened() or self.process.poll() is not None, lambda: self.log)
        assert self.process.poll() is None, self.log

    def ask(
        self, workspace: Workspace, operation: "Operation[P, Answer]", *args: P.args, **kwargs: P.kwargs
    ) -> Answer:
        return self.home.client.call(workspace.name, operation, operation.bind(*args, **kwargs))

    def status(self, workspace: Workspace) -> Status:
        return self.ask(workspace, dream_status)

    def found(self, workspace: Workspace, query: str) -> list[str]:
        return [hit.text for hit in self.ask(workspace, memory_search, query=query, limit=20).hits]

    def kept(self, workspace: Workspace) -> Event:
        """Return the workspace's row in the daemon's list; {} if it is not there."""
        listed: list[Event] = self.home.client.get("/v1/workspaces")["workspaces"]
        return next((one for one in listed if one["name"] == workspace.name), {})

    def until_kept(self, workspace: Workspace) -> None:
        """Wait until the daemon looks after the workspace."""
        self.until(lambda: self.kept(workspace)["kept"])

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def is_stopped(self) -> bool:
        """Return whether the daemon is stopped (SIGSTOP)."""
        return self.process.is_stopped

    def ended(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Wait until the daemon ends, and return its exit status."""
        return self.process.wait(seconds)

    def terminated(self) -> None:
        """Stop it as systemd does, and assert that it has logged no defect."""
        self.send(signal.SIGTERM)
        assert self.ended() == 0, self.log
        assert "Traceback" not in self.log
        assert "a defect" not in self.log

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def port_of(daemon: Daemon) -> int:
    """Return the TCP port of the daemon's HTTP address."""
    return int(daemon.home.client.get("/v1/workspaces")["http"].rpartition(":")[2])


def over_tcp(
    port: int, path: str, token: str = "", *, fields: object = None, **headers: str
) -> tuple[int, str, http.client.HTTPMessage]:
    """Send a GET, or a POST of these fields, to the port; return status, body and headers."""
    headers |= {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    method, said = ("GET", None) if fields is None else ("POST", json.dumps(fields))
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as connection:
        connection.request(method, path, said, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers


@contextmanager
def at_home() -> Iterator[Home]:
    """Create a home until the end of the block. Its path is short, as a socket's must be."""
    with tempfile.TemporaryDirectory(prefix="dreamd-", dir=PLACE, ignore_cleanup_errors=True) as folder:
        home = Home(Path(folder))
        for path in (home.folder / "run", home.config.parent):
            path.mkdir(parents=True, mode=0o700)
        home.configure()
        yield home
