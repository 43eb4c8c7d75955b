"""Operator's house: a user who has memory, keys and files of their own, and runs processes of a fleet for tenants.

Each place holds a canary that stands nowhere else: what a tenant is told of it shows where it came from.
"""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from daemon.config.paths import global_root, registry_path, state_folder
from daemon.config.registry import add
from daemon.config.settings import Config
from daemon.dream.run import Mode, dream_now
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.dream import Reason
from state.fleet import Right
from state.scratch import Note
from state.stores.fleet.database import FleetDatabase, migrate
from state.stores.fleet.registry import Places, Tenants, Tokens
from state.stores.vectors.embedder import Unavailable
from tests.daemon.http.running import Answer, asked
from tests.redteam.tenancy import OF_MACHINES
from tests.support.postgres import Postgres
from tests.support.running import ROOT
from tests.support.scripted_model import ScriptedModel, error

TEA = "Ada prefers tea to coffee in the morning"
NAME = "plans"
_MARK = "6f0d3a52-2a53-4f6a-9d0b-3d1f3a3cb0ab"
_WORDS_ONLY = Embedding.given(Unavailable("no model in this test"))
_PATIENCE_SECONDS = 90.0
# A shorter one stands in any text.
_SHORTEST_WORD = 6


def canary(place: str) -> str:
    """The word of a place."""
    return f"c4nary{place}"


@dataclass(slots=True)
class OperatorsHouse:
    """The fleet as a tenant reaches it, and all that must not be said to one."""

    folder: Path
    url: str
    environment: dict[str, str]
    database: FleetDatabase
    token: str
    port: int = 0
    secrets: list[str] = field(default_factory=list)

    @property
    def files(self) -> list[str]:
        """Files of the operator that hold a canary."""
        env = self.environment
        memory = global_root(env) / "MEMORY.md"
        return [str(one) for one in (Path(env["XDG_CONFIG_HOME"]) / "dreamd" / "config.yaml", memory)]

    def ask(self, method: str, path: str, fields: object = None, body: bytes | None = None) -> Answer:
        """One request of the tenant."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        return asked(connection, method, path, fields, body, {"Authorization": f"Bearer {self.token}"})

    def leaks(self, said: str, *own: str) -> list[str]:
        """What of the operator and of machines stands there, but for what the tenant itself had said.

        That is `own`, and names of `files`, which it may have written into its memory before.
        """
        for one in sorted({*own, *self.files}, key=len, reverse=True):
            for form in (one, json.dumps(one)[1:-1], json.dumps(one, ensure_ascii=False)[1:-1], repr(one)[1:-1]):
                said = said.replace(form, "") if form else said
        found = [secret for secret in self.secrets if secret in said]
        return [*found, *re.findall("c4nary[a-z]*", said), *OF_MACHINES.findall(said)]


def _live(root: Path, environment: Mapping[str, str], *texts: str) -> None:
    """A workspace of the operator's that has dreamt, and one more note that waits."""
    workspace = init_workspace(root, environment)
    (root / "GENOME.md").write_text(f"- {canary('genome')}\n", encoding="utf-8")
    with open_exclusive(workspace, Config(), "test", embedding=_WORDS_ONLY) as store:
        for text in texts:
            store.notes.inbox.append(Note(text, utc_now(), 0.9))
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        store.notes.inbox.append(Note(f"{TEA}, {canary('notes')}", utc_now(), 0.9))
    add(registry_path(environment), root)


def _furnish(folder: Path, model: str) -> dict[str, str]:
    """What the operator has; their environment."""
    home = folder / canary("home")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "USER": canary("environment"),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_RUNTIME_DIR": str(home),
        "OPENAI_API_KEY": f"sk-{canary('key')}",
        "AWS_SECRET_ACCESS_KEY": canary("environment"),
        "SECRET_OF_THE_OPERATOR": canary("environment"),
        "DREAMD_TOKEN": f"{canary('token')}-0123456789",
    }
    config = Path(environment["XDG_CONFIG_HOME"]) / "dreamd"
    config.mkdir(parents=True)
    settings = {
        "model": {"name": "openai/scripted", "api_base": f"{model}/{canary('model')}", "timeout_seconds": 5},
        "http": {"allowed_hosts": ["127.0.0.1", f"{canary('config')}.example.org"]},
        "log": {"form": "json"},
        "dream": {"idle_minutes": 600, "interval_minutes": 600, "min_chunks": 99},
    }
    (config / "config.yaml").write_text(f"# {canary('config')}\n{json.dumps(settings)}\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        _live(global_root(environment), environment, f"{TEA}, {canary('globally')}", TEA)
        _live(folder / f"work-{canary('elsewhere')}", environment, f"{TEA}, {canary('elsewhere')}", TEA)
    state = state_folder(environment)
    (state / "dreamd.log").write_text(f"{TEA} {canary('log')}\n", encoding="utf-8")
    (state / "allowed.json").write_text(json.dumps([canary("allowed")]), encoding="utf-8")
    return environment


@contextmanager
def operators_house(postgres: Postgres, folder: Path) -> Iterator[OperatorsHouse]:
    """A real process of the operator's, and one tenant with a token that may do all."""
    broken = error(401, f"the key sk-{canary('key')} of {canary('model')} is locked", code="invalid_api_key")
    with ExitStack() as stack:
        model = stack.enter_context(ScriptedModel(lambda _request, _number: broken))
        url = postgres.new_database(lambda one: migrate(one, _MARK))
        stack.callback(postgres.drop_database, url)
        environment = _furnish(folder, model.url)
        objects = folder / f"objects-{canary('objects')}"
        objects.mkdir()
        own = {
            "DREAMD_FLEET__DATABASE": f"{url}?application_name={canary('database')}",
            "DREAMD_FLEET__OBJECTS": str(objects),
            "DREAMD_FLEET__FOLDER": str(folder / f"own-{canary('home')}"),
            "DREAMD_FLEET__PORT": "0",
        }
        database = FleetDatabase(url, 4)
        stack.callback(database.close)
        token = _settled(database)
        house = OperatorsHouse(folder, url, environment | own, database, token)
        stack.enter_context(_process(house))
        _wait(house)
        yield house


def _settled(database: FleetDatabase) -> str:
    """The tenant's token; another tenant lives beside."""
    tenant = Tenants(database).add("acme")
    Places(database).add(tenant, NAME)
    other = Tenants(database).add(f"other-{canary('tenant')}")
    Places(database).add(other, canary("tenant"))
    Tokens(database, os.urandom).add(other, canary("tenant"), list(Right))
    return Tokens(database, os.urandom).add(tenant, "agents", list(Right))


@contextmanager
def _process(house: OperatorsHouse) -> Iterator[None]:
    with (house.folder / "process.log").open("wb") as log:
        one = subprocess.Popen(
            [sys.executable, "-P", "-m", "daemon", "fleet", "serve"],
            cwd=ROOT,
            env=house.environment,
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            one.terminate()
            try:
                one.wait(30)
            finally:
                one.kill()
                one.wait()


def _wait(house: OperatorsHouse) -> None:
    """Until it lives; then what it is is known, and secret."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not (rows := house.database.rows("SELECT address FROM living")):
        log = (house.folder / "process.log").read_text("utf-8", "replace")[-800:]
        assert time.monotonic() < deadline, log
        time.sleep(0.1)
    parts = urlsplit(house.url)
    assert parts.password
    house.secrets += [parts.password, f":{parts.port}", parts.path, str(house.folder)]
    house.secrets += [host for host in [socket.gethostname()] if len(host) > _SHORTEST_WORD]
    house.port = int(rows[0]["address"].rpartition(":")[2])
