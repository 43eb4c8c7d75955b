"""House: a fleet of real processes as one test asks it, and looks at it past every door."""

import http.client
import json
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from state.stores.disk.workspace import Workspace, contained
from state.stores.fleet.database import FleetDatabase
from state.stores.generations.generations import Generations
from tests.fleet.machines import Fleet, Known, Machine


@dataclass(frozen=True, slots=True)
class House:
    """A fleet whose last machine is asked; `database` leads past its doors."""

    fleet: Fleet
    database: FleetDatabase

    @property
    def door(self) -> Machine:
        return self.fleet.machines[-1]

    def ask(self, known: Known, path: str, body: dict[str, Any] | None = None, key: str = "") -> tuple[int, Any]:
        """One question about a workspace to the fleet: the status and the reply."""
        return self.ask_at(f"/v1/workspaces/{known.name}{path}", known.token, body, key)

    def ask_at(
        self, path: str, token: str, body: dict[str, Any] | None = None, key: str = "", method: str = ""
    ) -> tuple[int, Any]:
        """One question at any address."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        headers |= {"Idempotency-Key": key} if key else {}
        with closing(http.client.HTTPConnection("127.0.0.1", self.door.port, timeout=90)) as connection:
            text = None if body is None else json.dumps(body)
            connection.request(method or ("GET" if body is None else "POST"), path, text, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def row(self, known: Known) -> dict[str, Any]:
        """What the registry knows of a workspace."""
        found = self.database.row("SELECT * FROM workspaces WHERE id = %(id)s", {"id": known.id})
        assert found is not None
        return found

    def last(self, known: Known) -> Workspace:
        """The last generation, in a folder of its own."""
        folder = self.fleet.folder / f"look-{uuid4().hex}"
        Generations(self.fleet.objects(), known.prefix).bring_up(folder, self.row(known)["key"])
        return contained(folder)
