"""MCP over streamable HTTP: a real server, the SDK's client, and plain requests."""

import http.client
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from daemon.api.workers import Limits
from daemon.config.settings import Config, HttpSection
from daemon.mcp.http import Endpoint
from daemon.workspace.adoption import init_workspace
from daemon.workspace.vector_index import Embedding
from state.stores.disk.workspace import Workspace
from tests.daemon.http.house import GatedHouse, OwnHouse
from tests.daemon.http.running import BEARER, asked, running
from tests.daemon.mcp.agents import MODES, TEA, notes, run, shown

CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "working_memory_note", "arguments": {"note": TEA}},
}
RIO = "Ada has a parrot named Rio"
HEADERS = {**BEARER, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@pytest.fixture
def there(tmp_path: Path) -> Workspace:
    return init_workspace(tmp_path / "there")


def house(*workspaces: Workspace) -> OwnHouse:
    roots = {one.name: one.root for one in workspaces}
    return OwnHouse(roots=roots, embedding=Embedding())


@contextmanager
def served(own: OwnHouse, port: int = 0, limits: Limits | None = None) -> Iterator[str]:
    """The address of /mcp at a port over this house."""
    with running(own, limits, Endpoint.of(own, limits), port=port) as server:
        yield f"http://127.0.0.1:{server.port}/mcp"


@asynccontextmanager
async def agent(url: str, mode: str = "auto") -> AsyncIterator[Client]:
    """A client with the token."""
    async with (
        httpx2.AsyncClient(headers=BEARER, timeout=300) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


def request(url: str, method: str = "POST", body: Any = CALL, **headers: str) -> tuple[int, bytes]:
    place, content = urlsplit(url), body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection(place.netloc, timeout=300)
    answer = asked(connection, method, place.path, None, content, {**HEADERS, **headers})
    return answer.status, answer.body


@pytest.mark.parametrize("mode", MODES)
def test_the_only_workspace_needs_no_name_and_a_restart_is_not_noticed(here: Workspace, mode: str) -> None:
    async def body() -> None:
        async with AsyncExitStack() as connected:
            with served(house(here)) as url:
                client = await connected.enter_async_context(agent(url, mode))
                await shown(client, "working_memory_note", note=TEA)
            with served(house(here), urlsplit(url).port or 0):
                assert TEA in await shown(client, "memory_search", query="tea")

    run(body)


def test_addresses_that_mean_no_workspace(here: Workspace, there: Workspace) -> None:
    both = house(here, there)
    with served(both) as url:
        status, body = request(url)
        assert (status, json.loads(body)["code"]) == (400, "VALIDATION_ERROR")
        assert all(name in json.loads(body)["error"] for name in both.roots)
        status, body = request(f"{url}/elsewhere")
        assert (status, json.loads(body)["code"]) == (404, "NOT_FOUND")
        both.unregister(there.name)
        assert request(url)[0] == 200
        assert request(f"{url}/{there.name}")[0] == 404
        both.register(there.root)
        assert request(f"{url}/{there.name}", body=call_of("working_memory_note", note=RIO))[0] == 200
    assert (notes(here), notes(there)) == ([TEA], [RIO])


def test_requests_that_are_no_mcp(here: Workspace) -> None:
    with served(house(here)) as url:
        for method in ("GET", "DELETE", "PUT"):
            assert request(url, method, b"")[0] == 405
        assert request(url, body=b"no json")[0] == 400
        assert request(url, body=b" " * (2 << 20))[0] == 413
        assert request(url, **{"Content-Type": "text/plain"})[0] in (400, 415)
        assert request(url, Accept="text/html")[0] == 406
        assert request(url)[0] == 200  # it still answers
        half = json.dumps(CALL).replace(TEA, r"half \ud83d an emoji").encode()
        status, body = request(url, body=half)
        assert status == 200
        assert b'"id":1' in body
        assert b'"isError":false' in body
    assert notes(here) == [TEA, "half \ufffd an emoji"]


def test_a_name_that_the_guard_outside_lets_pass_is_not_refused_here(here: Workspace) -> None:
    config = Config(http=HttpSection(allowed_hosts=("memory.example",)))
    with served(replace(house(here), config=config)) as url:
        assert request(url, Host="memory.example", Origin="https://memory.example")[0] == 200
    assert notes(here) == [TEA]


def call_of(tool: str, **arguments: object) -> dict[str, Any]:
    return {**CALL, "params": {"name": tool, "arguments": arguments}}


def test_dreams_leave_threads_to_notes(here: Workspace) -> None:
    gated = GatedHouse(roots=house(here).roots, shut={here.name}, embedding=Embedding())
    limits = Limits(short_threads=1, long_threads=1, threads_of_a_workspace=1)
    with served(gated, limits=limits) as url, ThreadPoolExecutor(3) as clients:
        try:
            waiting = [clients.submit(request, url, body=call_of("dream_now")) for _ in range(2)]
            assert gated.entered.acquire(timeout=20)
            waiting.append(clients.submit(request, url))
            assert gated.entered.acquire(timeout=20)
        finally:
            gated.gate.set()
        assert [one.result(30)[0] for one in waiting] == [200] * 3
