"""A workspace and its stores; a server; the scripted server, with every other address out of reach."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store
from state.stores.disk.workspace import Workspace
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import Running, running
from tests.support.conversing import KEY
from tests.support.scripted_model import Script, ScriptedModel
from tests.support.working import working


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    return init_workspace(tmp_path / "here")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """The stores of a workspace, without an embedding model."""
    with working(tmp_path / "w") as opened:
        yield opened


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    """A server over a house without workspaces, for tests that change nothing of its settings."""
    with running(OwnHouse()) as server:
        yield server


@pytest.fixture
def name(served: Running, tmp_path: Path) -> str:
    """A new workspace of that house."""
    return served.house.make(tmp_path / "memory")


@pytest.fixture
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing but 127.0.0.1 is looked up or connected to, and a try is a failure even when it is caught."""
    outside: list[object] = []
    connect = socket.socket.connect

    def guarded(this: socket.socket, address: Any) -> None:
        if this.family != socket.AF_UNIX and address[0] != "127.0.0.1":
            outside.append(address)
            raise OSError(f"the test does not connect to {address}")
        connect(this, address)

    lookup = socket.getaddrinfo

    def guarded_lookup(host: Any, *rest: Any, **named: Any) -> Any:
        if host != "127.0.0.1":
            outside.append(host)
            raise socket.gaierror(f"the test does not look up {host}")
        return lookup(host, *rest, **named)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_lookup)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    yield
    assert outside == []


@pytest.fixture
def serve(only_loopback: None) -> Iterator[Callable[[Script], ScriptedModel]]:
    servers: list[ScriptedModel] = []

    def start(script: Script) -> ScriptedModel:
        servers.append(ScriptedModel(script))
        return servers[-1].__enter__()

    yield start
    for server in servers:
        server.__exit__()
