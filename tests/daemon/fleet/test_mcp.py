"""MCP of a tenant, over streamable HTTP with the SDK's own client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from daemon.fleet.bearers import SEPARATOR
from state.fleet import Right
from tests.daemon.fleet.running import Door, Fleet, Here
from tests.daemon.mcp.agents import MODES, refused, run, shown


@asynccontextmanager
async def agent(door: Door, token: str, path: str, mode: str = "auto") -> AsyncIterator[Client]:
    """A client at this path, with this token."""
    url = f"http://127.0.0.1:{door.port}{path}"
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_notes_and_finds_over_mcp(fleet: Fleet, door: Here, mode: str) -> None:
    tenant = fleet.tenant()
    fleet.places.add(tenant, "one")
    fleet.places.add(tenant, "two")
    token = fleet.token(tenant)

    async def talk() -> None:
        async with agent(door, token, "/mcp/one", mode) as client:
            assert "working_memory_note" in {tool.name for tool in (await client.list_tools()).tools}
            noted = await shown(client, "working_memory_note", note="Ada prefers tea over coffee")
            assert noted.startswith("noted ")
            found = await shown(client, "memory_search", query="tea coffee")
            assert found.splitlines()[1] == "1. Ada prefers tea over coffee"
            assert "Ada prefers tea" in await shown(client, "memory_bootstrap")
            page = (await client.read_resource("memory://bootstrap")).contents[0]
            assert "Ada prefers tea" in str(page)
            status = await shown(client, "dream_status")
            assert SEPARATOR not in str(status)
            assert str(fleet.folder) not in str(status)
        async with agent(door, token, "/mcp/two", mode) as client:
            assert "Ada" not in await shown(client, "memory_bootstrap")

    run(talk)


def test_a_token_of_one_workspace_needs_no_name_and_rights_hold(fleet: Fleet, door: Here) -> None:
    tenant = fleet.tenant()
    fleet.places.add(tenant, "one")
    token = fleet.token(tenant, "one", rights=frozenset({Right.READ}))

    async def talk() -> None:
        async with agent(door, token, "/mcp") as client:
            assert "Ada" not in await shown(client, "memory_bootstrap")
            assert (await refused(client, "working_memory_note", note="tea"))["code"] == "FORBIDDEN"

    run(talk)
    unnamed = door.ask(fleet.token(tenant), "POST", "/mcp", {})
    assert (unnamed.status, unnamed.code) == (400, "VALIDATION_ERROR")
    assert SEPARATOR.encode() not in unnamed.body
    foreign = door.ask(fleet.token(fleet.tenant("other")), "POST", "/mcp/one", {})
    assert (foreign.status, foreign.code) == (404, "NOT_FOUND")
