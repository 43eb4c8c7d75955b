"""Tenancy: a fleet of several tenants, each with words of its own, and whatever says one of them to another.

PostgreSQL, a folder of objects, and two processes with their whole applications at ports: one is asked, and the other
holds what the first one does not. Every word of a tenant that nobody else may see holds its canary. The operator has
memory, keys and files of their own, and each place of theirs has a canary that stands nowhere else.
"""

import io
import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from daemon.config.paths import global_root, state_folder
from daemon.dream.run import Mode, dream_now
from daemon.observability import logs
from daemon.workspace.adoption import init_workspace
from state.dream import Reason
from state.fleet import Place, Quotas, Right, Tenant
from state.stores.fleet.database import FleetDatabase
from state.stores.fleet.registry import Removals, Tokens
from tests.daemon.fleet.running import Door, Fleet, Here
from tests.daemon.http.running import Answer
from tests.support.committing import opened
from tests.support.scripted_model import ScriptedModel, error
from tests.support.working import noted

TEA = "Ada prefers tea to coffee in the morning"
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
    files: tuple[str, ...] = ()  # of the operator, each with a canary in it
    occupants: list[Occupant] = field(default_factory=list)

    @property
    def database(self) -> FleetDatabase:
        return self.home.database

    def settle(self, name: str, canary: str, quotas: Quotas = Quotas()) -> Occupant:  # noqa: B008 - a frozen value
        """A tenant that has lived here for a while."""
        tenant = self.home.tenant(name, quotas)
        names = (WORKSPACE, f"own-{canary}")
        places = tuple(self.home.places.add(tenant, one) for one in names)
        token = Tokens(self.database).add(tenant, f"t-{canary}", frozenset(Right))
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
        revoked = Tokens(self.database).add(mine.tenant, "revoked", frozenset(Right))
        Tokens(self.database).revoke(mine.tenant, "revoked")
        closed = self.home.tenant("closed")
        of_closed = self.home.token(closed)
        Removals(self.database).close(closed)
        return {
            "none": "",
            "wrong secret": f"dreamd_{other.token_id}_{'0' * 48}",
            "secret of another": f"dreamd_{other.token_id}_{secret}",
            "operator's like": canary("token"),
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
        """What of others, of machines and of the operator stands there.

        `beside`: what the client itself said; it may have written names of the operator's `files` into its memory.
        """
        text = what.decode("utf-8", "replace")
        for own in sorted({*beside, *self.files}, key=len, reverse=True):
            for form in (own, json.dumps(own)[1:-1], json.dumps(own, ensure_ascii=False)[1:-1], repr(own)[1:-1]):
                text = text.replace(form, "") if form else text
        url = urlsplit(self.home.url)
        machines = [str(self.folder), f":{self.other.port}", url.password or "", f":{url.port}", url.path]
        secrets = [secret for one in self.occupants if one is not to for secret in one.secrets]
        found = [secret for secret in (*secrets, *machines) if secret in text]
        return [*found, *re.findall("c4nary[a-z]*", text), *OF_MACHINES.findall(text)]


def canary(place: str) -> str:
    """The word of a place of the operator's."""
    return f"c4nary{place}"


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


def _remember(root: Path, environment: Mapping[str, str], *texts: str) -> None:
    """A workspace of the operator's that has dreamt, and one more note that waits."""
    workspace = init_workspace(root, environment)
    (root / "GENOME.md").write_text(f"- {canary('genome')}\n", encoding="utf-8")
    with opened(workspace) as store:
        noted(store, *texts)
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        noted(store, f"{TEA}, {canary('notes')}")


def _furnished(folder: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """What the operator has around a process: its environment, and files that hold a canary."""
    home = folder / canary("home")
    own = {f"XDG_{name.upper()}_HOME": str(home / name) for name in ("state", "data", "config")}
    own |= {"HOME": str(home), "USER": canary("environment"), "OPENAI_API_KEY": f"sk-{canary('key')}"}
    own |= dict.fromkeys(("AWS_SECRET_ACCESS_KEY", "SECRET_OF_THE_OPERATOR"), canary("environment"))
    config = home / "config" / "dreamd" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(f"# {canary('config')}\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in own.items():
            patch.setenv(name, value)
        _remember(global_root(own), own, f"{TEA}, {canary('globally')}", TEA)
        _remember(folder / f"work-{canary('elsewhere')}", own, f"{TEA}, {canary('elsewhere')}", TEA)
    state = state_folder(own)
    state.mkdir(parents=True, exist_ok=True)
    (state / "dreamd.log").write_text(f"{TEA} {canary('log')}\n", encoding="utf-8")
    (state / "allowed.json").write_text(json.dumps([canary("allowed")]), encoding="utf-8")
    return own, (str(config), str(global_root(own) / "MEMORY.md"))


@contextmanager
def tenancy(url: str, folder: Path, api_base: str = "", **sections: Mapping[str, Any]) -> Iterator[Tenancy]:
    """An empty fleet with two processes, whose model refuses the operator's key unless it is at another address."""
    said = io.StringIO()
    locked = error(401, f"the key sk-{canary('key')} of {canary('model')} is locked", code="invalid_api_key")
    with ExitStack() as stack:
        server = stack.enter_context(ScriptedModel(lambda _request, _number: locked))
        address = f"{api_base or server.url}/{canary('model')}"
        hosts = {"allowed_hosts": ["127.0.0.1", f"{canary('config')}.example.org"]}
        model = {"name": "openai/scripted", "api_base": address, "timeout_seconds": 5}
        home = Fleet(url, folder, {"model": model, "http": hosts, **sections})
        stack.callback(home.close)
        logs.configure("json", "info", said)
        other, door = (stack.enter_context(home.here()) for _ in range(2))
        yield Tenancy(home, door, other, folder, said)


@contextmanager
def served(one: Tenancy) -> Iterator[Door]:
    """A process of its own, as the operator runs it at home."""
    environment, one.files = _furnished(one.folder)
    reached = f"{one.home.url}?application_name={canary('database')}"
    with one.home.process(database=reached, **environment) as process:
        yield process
