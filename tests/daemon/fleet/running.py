"""A fleet as tests have it: PostgreSQL, a folder of objects, processes of it in this process and in others."""

import asyncio
import http.client
import json
import os
import sqlite3
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from daemon.api.operations.table import OPERATIONS
from daemon.config.settings import Config
from daemon.fleet.access import LeasedAccess
from daemon.fleet.connections import Connections, claim_store
from daemon.fleet.doors import serve_doors
from daemon.fleet.process import FleetProcess
from daemon.http.sockets import open_port
from daemon.workspace.vector_index import Embedding
from state.fleet import Place, Right, Tenant
from state.stores.disk.workspace import Workspace, contained
from state.stores.fleet.registry import Registry
from state.stores.generations.generations import Generations
from state.stores.generations.objects import open_objects
from state.stores.vectors.embedder import Embedder, Unavailable
from tests.daemon.http.running import Answer, asked
from tests.support.fleet_tables import FleetTables
from tests.support.folders import files_below
from tests.support.forked import Forked
from tests.support.generation_folders import held_in
from tests.support.notes import pending_notes
from tests.support.serving import PATIENCE_SECONDS, until

OPERATOR = "the-operators-token-0123456789"
EVERY = frozenset(Right)


@dataclass(slots=True)
class Door:
    """The port of a process, as tenants ask there."""

    port: int
    host: str = field(default="127.0.0.1", kw_only=True)

    def ask(
        self,
        token: str,
        method: str,
        path: str,
        fields: object = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """One request with this token; none when it is empty."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        return asked(connection, method, path, fields, body, {**bearer, **(headers or {})})

    def do(self, token: str, place: Place, operation: str, **fields: Any) -> Answer:
        """One operation."""
        return self.ask(token, "POST", f"/v1/workspaces/{place.name}/{operation}", fields)

    def note(self, token: str, name: str, text: str, key: str = "", importance: float = 0.7) -> Answer:
        fields = {"note": text, "importance": importance}
        return self.ask(
            token,
            "POST",
            f"/v1/workspaces/{name}/working_memory_note",
            fields,
            {"Idempotency-Key": key} if key else None,
        )

    def search(self, token: str, name: str, query: str) -> list[str]:
        answer = self.ask(token, "POST", f"/v1/workspaces/{name}/memory_search", {"query": query})
        assert answer.status == 200, answer.body
        return [hit["text"] for hit in answer.json["hits"]]

    def bootstrap(self, token: str, name: str) -> str:
        answer = self.ask(token, "GET", f"/v1/workspaces/{name}/memory_bootstrap")
        assert answer.status == 200, answer.body
        return str(answer.json["text"])


@dataclass(slots=True)
class Here(Door):
    """A process of the fleet within this one; it takes no jobs by itself, and nobody sweeps."""

    process: FleetProcess

    def run(self, place: Place, operation: str, **fields: Any) -> Any:
        """One operation on a workspace that this process holds, past its doors."""
        one = OPERATIONS[operation]
        with self.process.desk.holding(place.id) as held:
            access = LeasedAccess(held, held.config, lambda _: None, self.process)
            return access.run(one, one.request.model_validate(fields))

    def give_back(self) -> None:
        self.process.desk.give_back_idle(0)


class Fleet(FleetTables):
    """A database with its store of objects; `settings` are those of its processes."""

    def __init__(
        self,
        url: str,
        folder: Path,
        settings: Mapping[str, Any] = MappingProxyType({}),
        options: Mapping[str, str] = MappingProxyType({}),
        objects_url: str = "",
    ) -> None:
        super().__init__(url)
        self.folder, self.settings, self.options = folder, settings, options
        self.objects_url = objects_url or f"file://{folder / 'objects'}"

    def config(self, **fleet: Any) -> Config:
        places = {"database": self.url, "objects": self.objects_url, "folder": str(self.folder / "own")}
        return Config.model_validate(
            {**self.settings, "fleet": {**places, **self.settings.get("fleet", {}), **fleet}}
        )

    def token(
        self, tenant: Tenant, *workspaces: str, rights: frozenset[Right] = EVERY, expires_at: datetime | None = None
    ) -> str:
        name = f"t{os.urandom(4).hex()}"
        return self.database.tokens.add(tenant, name, rights, workspaces, expires_at)

    def one(self) -> tuple[str, Place]:
        """A token that may do everything, and the workspace "one" of the tenant acme."""
        tenant = self.tenant()
        return self.token(tenant), self.places.add(tenant, "one")

    @contextmanager
    def here(
        self,
        database: str = "",
        sections: Mapping[str, Any] | None = None,
        embedder: Embedder | Unavailable = Unavailable("no model in this test"),  # noqa: B008 - a value
        **fleet: Any,
    ) -> Iterator[Here]:
        """A process of the fleet in this one, with its port; `database`: as it reaches it."""
        config = self.config(**fleet)
        config = Config.model_validate({**config.model_dump(exclude_unset=True), **(sections or {})})
        objects = open_objects(self.objects_url, self.options)
        connections = claim_store(Connections(Registry(database or self.url, 16), objects), self.objects_url)
        listener = open_port("127.0.0.1", 0, OPERATOR)
        folder = self.folder / f"process-{uuid4().hex[:8]}"
        process = FleetProcess(config, connections, folder, listener.address, Embedding.given(embedder))
        loop, closing_event = asyncio.new_event_loop(), asyncio.Event()

        def serve() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(serve_doors(process, listener, OPERATOR, closing_event))

        process.start()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Here(int(listener.socket.getsockname()[1]), process)
        finally:
            loop.call_soon_threadsafe(closing_event.set)
            process.stop(5.0)
            thread.join(60)
            assert not thread.is_alive()
            connections.close()

    @contextmanager
    def process(self, *, database: str = "", **environment: str) -> Iterator["Running"]:
        """`dreamd fleet serve` in a process of its own."""
        said = self.folder / f"said-{uuid4().hex[:8]}"
        config = self.config(database=database or self.url, port=0)
        path = self.folder / f"config-{uuid4().hex[:8]}.yaml"
        path.write_text(json.dumps({**self.settings, "fleet": config.fleet.model_dump(mode="json")}))
        env = {**os.environ, "HOME": str(self.folder / "home"), "DREAMD_LOG__FORM": "json", **self.options}
        with said.open("wb") as out:
            process: Forked[bytes] = Forked(
                ["fleet", "serve", "--config", path],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**env, "DREAMD_TOKEN": OPERATOR, **environment},
            )
        running = Running(0, process, said, self)
        with process:
            try:
                until(lambda: running.is_started or process.poll() is not None)
                assert process.poll() is None, running.log
                yield running
            finally:
                process.kill()

    def last(self, place: Place) -> Workspace:
        """The last generation, in a folder of its own."""
        generations = Generations(open_objects(self.objects_url, self.options), place.prefix)
        newest = generations.newest(place, self.row(place)["generation"])
        assert newest is not None, "it has no generation"
        folder = self.folder / f"look-{uuid4().hex[:8]}"
        generations.bring_up(folder, newest)
        generations.close()
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
        return [str(path) for path in files_below(self.folder / "objects") if text.encode() in held_in(path)]


@dataclass(slots=True)
class Running(Door):
    """`dreamd fleet serve` under way."""

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
    def is_started(self) -> bool:
        started = next((one for one in self.events if one.get("event") == "started"), None)
        if started is not None:
            entrance = urlsplit(started["entrances"][0])
            self.host, self.port = entrance.hostname or "", entrance.port or 0
        return started is not None

    @property
    def row(self) -> dict[str, Any] | None:
        return self.fleet.database.row(
            "SELECT * FROM living WHERE address LIKE %(address)s ORDER BY started_at DESC LIMIT 1",
            {"address": f"%:{self.port}"},
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)


@contextmanager
def another_holder(fleet: Fleet, place: Place, address: str = "http://127.0.0.1:9") -> Iterator[UUID]:
    """Another process holds it while the context lasts, as if its holder had been silent for too long."""
    process = fleet.stand_in(address)
    fleet.leases.take_away(place.id)
    fleet.lease(place, process)
    try:
        yield process
    finally:
        fleet.sessions[process].drop()
