"""Tenancy: a fleet of several tenants, each with words of its own, and whatever says one of them to another.

PostgreSQL, a folder of objects, and two processes with their whole applications at ports: one is asked, and the other
holds what the first one does not. Every word of a
tenant that nobody else may see holds its canary; so do the operator's.
"""

import io
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from daemon.observability import logs
from state.fleet import Place, Quotas, Right, Tenant
from state.stores.fleet.database import FleetDatabase
from state.stores.fleet.registry import Tenants, Tokens
from tests.daemon.fleet.running import Fleet, Here
from tests.daemon.http.running import Answer

OPERATOR_CANARY = "0peratorscanary"
WORKSPACE = "plans"  # of each tenant


@dataclass(slots=True)
class Occupant:
    """A tenant: its canary, in every name and id that others might guess, and `own`, a word of what it wrote.

    `ids` are those that its replies named.
    """

    tenant: Tenant
    canary: str
    names: tuple[str, ...]
    token: str
    ids: dict[str, str] = field(default_factory=dict)
    places: tuple[Place, ...] = ()

    @property
    def token_id(self) -> str:
        return self.token.split("_")[1]

    @property
    def own(self) -> str:
        return f"{self.canary[::-1]}words"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What of it nobody else may ever be told."""
        return (self.own, self.token.split("_")[2], *self.guessed)

    @property
    def guessed(self) -> tuple[str, ...]:
        """What of it others may name, and are told of only what they said."""
        return (self.canary, self.token_id, *self.ids.values())


@dataclass(slots=True)
class Tenancy:
    """The fleet, the process that is asked, another one, and who lives there. `said` is the log."""

    home: Fleet
    door: Here
    other: Here
    folder: Path
    said: io.StringIO
    occupants: list[Occupant] = field(default_factory=list)

    @property
    def database(self) -> FleetDatabase:
        return self.home.database

    def settle(self, name: str, canary: str, quotas: Quotas = Quotas()) -> Occupant:  # noqa: B008 - a frozen value
        """A tenant that has lived here for a while."""
        tenant = self.home.tenant(name, quotas)
        names = (WORKSPACE, f"own-{canary}")
        places = tuple(self.home.places.add(tenant, one) for one in names)
        token = Tokens(self.database, os.urandom).add(tenant, f"t-{canary}", frozenset(Right))
        occupant = Occupant(tenant, canary, names, token, {}, places)
        for one, place in zip(names, places, strict=True):
            if one != WORKSPACE:  # it is asked of a process that passes it on
                assert self.other.do(token, place, "mood").status == 200
            self._live(occupant, one)
        self.occupants.append(occupant)
        return occupant

    def _live(self, who: Occupant, name: str) -> None:
        canary, own, told = who.canary, who.own, self.told
        note = {"note": f"Ada of {own} prefers tea to coffee", "importance": 0.9}
        told(who.token, "POST", name, "working_memory_note", note, {"Idempotency-Key": f"key-{canary}"})
        if name == WORKSPACE:
            self._talk(who, name)
        told(who.token, "POST", name, "working_memory_note", {"note": f"Waits: {own} likes green"})

    def _talk(self, who: Occupant, name: str) -> None:
        canary, own, told = who.canary, who.own, self.told
        told(who.token, "POST", name, "feel", {"event": "reward", "because": f"of {own}"})
        session = f"session-{canary}"
        told(who.token, "POST", name, "session_open", {"session_id": session})
        turn = {"session_id": session, "content": f"A turn of {own}: user asks for tea", "importance": 0.8}
        turn |= {
            "tags": [f"tag-{own}"],
            "metadata": {f"meta-{own}": own},
            "agent_id": f"agent-{own}",
            "source": "user",
        }
        memorized = told(who.token, "POST", name, "memory_memorize", turn)
        work = {"session_id": f"{session}-2", "content": f"Work of {own}", "priority": "high", "tags": [own]}
        working = told(who.token, "POST", name, "working_memory_add", work)
        found = told(who.token, "POST", name, "memory_search", {"query": f"gap {own} nobody knows"})
        crystals = told(who.token, "GET", name, "crystals")
        for kind, text in (("item", memorized), ("work", working), ("hit", found), ("crystal", crystals)):
            for number, one in enumerate(_identities(text)):
                who.ids[f"{kind} {number}"] = one

    def told(
        self,
        token: str,
        method: str,
        name: str,
        rest: str,
        fields: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The reply of an operation that is done."""
        answer = self.door.ask(token, method, f"/v1/workspaces/{name}/{rest}", fields, headers)
        assert answer.status == 200, (rest, answer.body)
        return answer.json

    def token(
        self, who: Occupant, *workspaces: str, rights: frozenset[Right] = frozenset(Right), days: float = 0
    ) -> str:
        """Another token of the tenant; with `days` before 0 it has expired."""
        expires = datetime.now(UTC) + timedelta(days=days) if days else None
        return self.home.token(who.tenant, *workspaces, rights=rights, expires_at=expires)

    def bearers(self, mine: Occupant, other: Occupant) -> dict[str, str]:
        """Tokens that may do less than everything, or nothing."""
        secret = mine.token.split("_")[2]
        revoked = Tokens(self.database, os.urandom).add(mine.tenant, "revoked", frozenset(Right))
        Tokens(self.database, os.urandom).revoke(mine.tenant, "revoked")
        closed = self.home.tenant("closed")
        of_closed = self.home.token(closed)
        Tenants(self.database).close(closed)
        return {
            "none": "",
            "wrong secret": f"dreamd_{other.token_id}_{'0' * 48}",
            "secret of another": f"dreamd_{other.token_id}_{secret}",
            "operator's like": f"{OPERATOR_CANARY}",
            "expired": self.token(mine, days=-1),
            "revoked": revoked,
            "closed": of_closed,
            "own": mine.token,
            "limited": self.token(mine, mine.names[1]),
            **{one.value: self.token(mine, rights=frozenset({one})) for one in Right},
        }

    def raw(self, head: bytes, body: bytes = b"") -> bytes:
        """What is answered to these bytes, until the connection ends or says nothing more for a second.

        The client's side stays open: who sees it end gives up what it would have answered.
        """
        answer = b""
        with socket.create_connection(("127.0.0.1", self.door.port), timeout=30) as connection, suppress(OSError):
            connection.sendall(head + body)
            while part := connection.recv(1 << 16):
                answer += part
                connection.settimeout(1)
        return answer

    def leaks(self, what: bytes, to: Occupant, beside: tuple[str, ...] = ()) -> list[str]:
        """What of others, of machines and of the operator stands there; `beside`: what the client itself said."""
        text = what.decode("utf-8", "replace")
        for own in beside:
            text = text.replace(own, "")
        found = [secret for one in self.occupants if one is not to for secret in one.secrets if secret in text]
        return [*found, *machine_words(text, self)]


def machine_words(text: str, tenancy: Tenancy) -> list[str]:
    """What of machines, databases and the operator's configuration a text says."""
    words = [str(tenancy.folder), f":{tenancy.other.port}", tenancy.home.url, OPERATOR_CANARY]
    found = [word for word in words if word in text]
    return [*found, *OF_MACHINES.findall(text)]


OF_MACHINES = re.compile(
    r"PostgreSQL|psycopg|obstore|SQLSTATE|relation \"|sqlite3?\.|Traceback|File \"|\bws-\d+\b|model\.api_base|\.py\b"
    r"|/tmp/|/root/|/dev/shm|localhost|DREAMD_[A-Z]+"
)
_IDENTITY = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{16,64}\b")


def _identities(told: object) -> list[str]:
    return sorted(set(_IDENTITY.findall(str(told))))


def shown(answer: Answer) -> bytes:
    """All that a client sees of a reply, but the moment at which it came."""
    lines = [f"{name}: {value}" for name, value in answer.headers.items() if name.lower() != "date"]
    return "\n".join([str(answer.status), *lines]).encode("utf-8", "surrogateescape") + b"\n\n" + answer.body


@contextmanager
def tenancy(url: str, folder: Path, **sections: Mapping[str, Any]) -> Iterator[Tenancy]:
    """An empty fleet with two processes; sections of the configuration are the operator's."""
    said = io.StringIO()
    model = {"name": "openai/nobody", "api_base": f"http://127.0.0.1:9/{OPERATOR_CANARY}/v1", "timeout_seconds": 2}
    home = Fleet(url, folder, {"model": model, **sections})
    logs.configure("json", "info", said)
    with home.here() as other, home.here() as door:
        yield Tenancy(home, door, other, folder, said)
    home.close()
