"""A fleet as the tests of gateways have it: PostgreSQL, a folder of objects, gateways on real ports, and workers."""

import asyncio
import http.client
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from daemon.config.settings import Config
from daemon.fleet.connections import Connections
from daemon.fleet.gateways.gateway import Gateway
from daemon.fleet.gateways.serving import LIMITS, serve_gateway
from daemon.http.sockets import open_port
from daemon.workspace.vector_index import Embedding
from state.fleet.tenant import Quotas, Right, Tenant
from state.fleet.workspace import Generation, Place, Worker
from state.stores.disk.workspace import contained, init_workspace
from state.stores.fleet.database import FleetDatabase
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.leases import Commit, Leases
from state.stores.fleet.places import Places
from state.stores.fleet.processes import Session
from state.stores.fleet.tenants import Tenants, Tokens
from state.stores.generations.generations import Generations
from state.stores.generations.objects import open_objects
from state.stores.vectors.embedder import Unavailable
from tests.daemon.http.running import Answer, asked

OPERATOR = "the-operators-token-0123456789"
EVERY = frozenset(Right)


@dataclass(slots=True)
class Door:
    """A gateway under way."""

    gateway: Gateway
    port: int

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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        return asked(connection, method, path, fields, body, {**bearer, **(headers or {})})

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
class Fleet:
    """A database in which there is a fleet, with its store of objects."""

    url: str
    folder: Path
    config: Config = field(init=False)
    connections: Connections = field(init=False)

    def __post_init__(self) -> None:
        objects = f"file://{self.folder / 'objects'}"
        fleet = {"database": self.url, "objects": objects, "folder": str(self.folder / "own")}
        self.config = Config.model_validate({"fleet": fleet})
        self.connections = Connections(FleetDatabase(self.url, 12), open_objects(objects, {}))

    @property
    def database(self) -> FleetDatabase:
        return self.connections.database

    @property
    def inbox(self) -> Inbox:
        return Inbox(self.database)

    @property
    def places(self) -> Places:
        return Places(self.database)

    def tenant(self, name: str = "acme", quotas: Quotas = Quotas()) -> Tenant:  # noqa: B008
        return Tenants(self.database).add(name, quotas)

    def token(
        self, tenant: Tenant, *workspaces: str, rights: frozenset[Right] = EVERY, expires_at: datetime | None = None
    ) -> str:
        name = f"t{os.urandom(4).hex()}"
        return Tokens(self.database, os.urandom).add(tenant, name, rights, workspaces, expires_at)

    def commit(self, place: Place, write: Callable[[Path], None]) -> Place:
        """A generation of this workspace, as a worker commits one that takes in what waits."""
        worker = Worker(uuid4(), "127.0.0.1:9", "secret")
        session = Session(self.database, "worker", worker, "here", "1")
        session.beat()
        leases = Leases(self.database)
        lease = leases.take(place.id, worker.id)
        assert lease is not None
        generations = Generations(self.connections.objects, place.prefix)
        folder = self.folder / "worker" / place.handle
        previous = generations.manifest(lease.generation.key) if lease.generation.key else None
        if previous is not None:
            generations.bring_up(folder, previous)
        init_workspace(contained(folder))
        taken = tuple(row.id for row in self.inbox.waiting(place.id))
        write(folder)
        manifest = generations.put(generations.take(folder, previous), lease, datetime.now(UTC))
        leases.commit(lease, Commit(Generation(manifest.number, manifest.key), manifest.bytes, taken))
        session.end()
        return place

    @contextmanager
    def door(self, **sections: Mapping[str, Any]) -> Iterator[Door]:
        """A gateway at a port of its own, until the end of the context."""
        config = Config.model_validate({**self.config.model_dump(exclude_unset=True), **sections})
        folder = self.folder / f"gateway-{os.urandom(4).hex()}"
        embedding = Embedding.given(Unavailable("no model in this test"))
        gateway = Gateway(lambda: config, self.connections, folder, embedding)
        with running(gateway) as door:
            yield door


@contextmanager
def running(gateway: Gateway) -> Iterator[Door]:
    listener = open_port("127.0.0.1", 0, OPERATOR)
    port = int(listener.socket.getsockname()[1])
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    gateway.start(listener.address, seconds=0.2)

    def serve() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve_gateway(gateway, listener, OPERATOR, stop, LIMITS))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield Door(gateway, port)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)
        assert not thread.is_alive()
        gateway.stop()


@contextmanager
def fleet(url: str, folder: Path) -> Iterator[Fleet]:
    one = Fleet(url, folder)
    with ExitStack() as stack:
        stack.callback(one.connections.close)
        yield one


def until(happens: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until this happens."""
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)
