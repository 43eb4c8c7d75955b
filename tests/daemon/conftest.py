"""The scripted server as a fixture, with every other address out of reach."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.conversing import KEY
from tests.support.scripted_model import Script, ScriptedModel


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
