"""A fleet as the tests of workers have it: PostgreSQL, objects, workers in this process and in others."""

import http.client
import json
import os
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from daemon.api.operations.table import OPERATIONS
from daemon.config.settings import Config
from daemon.fleet.connections import Connections
from daemon.fleet.workers.worker import Worker
from state.fleet.tenant import Quotas, Tenant
from state.fleet.workspace import Place
from state.fleet.workspace import Worker as Row
from state.stores.disk.workspace import Workspace, contained
from state.stores.fleet.database import FleetDatabase
from state.stores.fleet.inbox import Arrival, Inbox
from state.stores.fleet.leases import Leases
from state.stores.fleet.places import Places
from state.stores.fleet.processes import Session
from state.stores.fleet.tenants import Tenants
from state.stores.generations.generations import Generations
from state.stores.generations.objects import open_objects
from tests.support.forked import Forked
from tests.support.generation_folders import held_in
from tests.support.notes import pending_notes

PATIENCE_SECONDS = 30.0
_PORTS = ("started", "entrances")


def until(happened: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for something, not for ever."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


@dataclass(slots=True)
class Fleet:
    """A database with its store of objects; `settings` are those of its workers."""

    url: str
    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    objects_url: str = ""
    database: FleetDatabase = field(init=False)

    def __post_init__(self) -> None:
        self.database = FleetDatabase(self.url, 8)
        self.objects_url = self.objects_url or f"file://{self.folder / 'objects'}"

    def close(self) -> None:
        self.database.close()

    def config(self, **fleet: Any) -> Config:
        places = {"database": self.url, "objects": self.objects_url, "folder": str(self.folder / "own")}
        return Config.model_validate(
            {**self.settings, "fleet": {**places, **self.settings.get("fleet", {}), **fleet}}
        )

    def tenant(self, name: str = "acme", quotas: Quotas = Quotas()) -> Tenant:  # noqa: B008 - a value
        return Tenants(self.database).add(name, quotas)

    def place(self, tenant: Tenant | None = None, name: str = "") -> Place:
        return Places(self.database).add(tenant or self.tenant(f"t{uuid4().hex[:8]}"), name or f"w{uuid4().hex[:8]}")

    def note(self, place: Place, text: str, key: str = "") -> int:
        body = json.dumps({"text": text, "importance": 0.8})
        return self.put(place, "note", body, key)

    def put(self, place: Place, kind: str, body: str, key: str = "") -> int:
        [arrived] = Inbox(self.database).put([Arrival(place.id, place.tenant, kind, key or uuid4().hex, body)])
        assert arrived is not None
        return arrived.id

    def row(self, place: Place) -> dict[str, Any]:
        found = self.database.row("SELECT * FROM workspaces WHERE id = %(id)s", {"id": place.id})
        assert found is not None
        return found

    def waiting(self, place: Place) -> int:
        return len(Inbox(self.database).waiting(place.id))

    def settled(self, place: Place) -> bool:
        row = self.row(place)
        return row["owner"] is None and row["queued_at"] is None

    @contextmanager
    def worker(self, **fleet: Any) -> Iterator[Worker]:
        """A worker in this process that takes no jobs by itself; nobody sweeps."""
        config = self.config(**fleet)
        connections = Connections(FleetDatabase(self.url, 16), open_objects(self.objects_url, self.options))
        worker = Worker(lambda: config, connections, self._own_folder(), "http://127.0.0.1:9", "secret")
        worker.start()
        try:
            yield worker
        finally:
            worker.stop(5.0)
            connections.close()

    def _own_folder(self) -> Path:
        folder = self.folder / f"worker-{uuid4().hex[:8]}"
        folder.mkdir()
        return folder

    @contextmanager
    def process(
        self, *, before: tuple[str, list[Any]] | None = None, database: str = "", **environment: str
    ) -> Iterator["Running"]:
        """`dreamd worker` in a process of its own."""
        said = self.folder / f"said-{uuid4().hex[:8]}"
        config = self.config(database=database or self.url)
        path = self.folder / f"config-{uuid4().hex[:8]}.yaml"
        path.write_text(json.dumps({**self.settings, "fleet": config.fleet.model_dump(mode="json")}))
        env = {**os.environ, "HOME": str(self.folder / "home"), "DREAMD_LOG__FORM": "json", **self.options}
        with said.open("wb") as out:
            process: Forked[bytes] = Forked(
                ["worker", "--config", path],
                before=before,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**env, **environment},
            )
        running = Running(process, said, self)
        with process:
            try:
                until(lambda: running.port or process.poll() is not None)
                assert process.poll() is None, running.log
                yield running
            finally:
                process.kill()

    def last(self, place: Place) -> Workspace:
        """The last generation, in a folder of its own."""
        key = self.row(place)["key"]
        assert key, "it has no generation"
        folder = self.folder / f"look-{uuid4().hex[:8]}"
        generations = Generations(open_objects(self.objects_url, self.options), place.prefix)
        generations.bring_up(folder, generations.manifest(key))
        return contained(folder)

    def crystals(self, place: Place) -> list[str]:
        """The texts that the last generation holds: its crystals, and its notes that no dream has read."""
        here = self.last(place)
        with closing(sqlite3.connect(here.database)) as connection:
            texts: Counter[str] = Counter(row[0] for row in connection.execute("SELECT text FROM crystals"))
        # A note that a pass has read is both until it is dreamt.
        pending: Counter[str] = Counter(note.text for note in pending_notes(here))
        return list(Counter(texts | pending).elements())

    def holds(self, text: str) -> list[str]:
        """The objects of a store in a folder that hold these bytes."""
        found = (path for path in (self.folder / "objects").rglob("*") if path.is_file())
        return [str(path) for path in found if text.encode() in held_in(path)]


@dataclass(frozen=True, slots=True)
class Running:
    """`dreamd worker` under way."""

    process: Forked[bytes]
    said: Path
    fleet: Fleet

    @property
    def log(self) -> str:
        return self.said.read_text(errors="replace")

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]

    @property
    def port(self) -> int:
        for one in self.events:
            if one.get("event") == "started":
                return int(one["entrances"][0].rpartition(":")[2])
        return 0

    @property
    def row(self) -> dict[str, Any] | None:
        address = f"http://127.0.0.1:{self.port}"
        return self.fleet.database.row(
            "SELECT * FROM living WHERE address = %(address)s ORDER BY started_at DESC LIMIT 1",
            {"address": address},
        )

    def ask(self, place: Place, operation: str, fields: object) -> tuple[int, Any]:
        """One operation by HTTP, as a gateway asks it."""
        row = self.row
        assert row is not None
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with closing(connection):
            connection.request(
                "POST",
                f"/v1/workspaces/{place.handle}/{operation}",
                json.dumps(fields),
                {"Authorization": f"Bearer {row['secret']}", "Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            content = answer.read()
        return answer.status, json.loads(content) if content else None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)


def run(worker: Worker, place: Place, operation: str, **fields: Any) -> Any:
    """One operation at a worker of this process."""
    one = OPERATIONS[operation]
    with worker.open(place.handle, lambda _: None) as access:
        return access.run(one, one.request.model_validate(fields))


@contextmanager
def another_owner(fleet: Fleet, place: Place) -> Iterator[UUID]:
    """Another process owns it while the context lasts, as if the owner's had been silent for too long."""
    session = Session(fleet.database, "worker", Row(uuid4(), "http://127.0.0.1:9", "secret"), "elsewhere", "1")
    session.beat()
    fleet.database.rows("UPDATE workspaces SET owner = NULL WHERE id = %(id)s", {"id": place.id})
    assert Leases(fleet.database).take(place.id, session.worker.id) is not None
    try:
        yield session.worker.id
    finally:
        session.drop()
