"""Nothing of who runs the service is said to a tenant, whatever is asked: no file, key, address, memory of theirs."""

from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from daemon.api.operations.table import OPERATIONS
from tests.daemon.mcp.agents import run
from tests.redteam.operators_house import NAME, TEA, OperatorsHouse, canary, operators_house
from tests.redteam.tenancy import shown
from tests.redteam.tenants_corpus import fields_of
from tests.support.generation_folders import held_in
from tests.support.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from daemon.api.operations.operation import AnyOperation

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

HOSTILE = (
    "/proc/self/environ",
    "../../../../../../../../proc/self/environ",
    "~/.config/dreamd/config.yaml",
    "$SECRET_OF_THE_OPERATOR ${HOME} %(home)s {config} {{config}}",
    "file:///proc/self/environ",
    "@/proc/self/cmdline",
    "!!python/object/apply:os.getcwd []",
    "global",
    "'; SELECT address FROM processes; --",
    "http://127.0.0.1:9/",
    "x\x00y",
    "\ud83d",
    "\u202e" + "a" * 300,
)
# Canaries that are in no name of a file, which a tenant may write into its memory.
UNNAMED = ("key", "model", "environment", "token", "globally", "elsewhere", "notes", "genome", "log", "allowed")
_WRONG: tuple[Any, ...] = (None, [], {"a": []}, 10**30, -1, 1.5, "NaN", True)


@pytest.fixture(scope="module")
def house(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorsHouse]:
    with operators_house(postgres, tmp_path_factory.mktemp("fleet")) as one:
        for text in (TEA, "Grace likes green"):
            assert (
                one.ask(
                    "POST", f"/v1/workspaces/{NAME}/working_memory_note", {"note": text, "importance": 0.9}
                ).status
                == 200
            )
        assert one.ask("POST", f"/v1/workspaces/{NAME}/feel", {"event": "reward", "because": TEA}).status == 200
        yield one


def tried(house: OperatorsHouse, schema: dict[str, Any], base: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Ordinary fields, and hostile ones: every text at once, each by itself, and what is no such field at all."""
    rows = schema.get("properties", {})
    texts = [name for name, row in rows.items() if "string" in str(row) and "array" not in str(row)]
    lists = [name for name, row in rows.items() if "array" in str(row)]
    flags = {name: True for name, row in rows.items() if row.get("type") == "boolean"}
    yield base
    yield {**base, **flags, **{name: TEA for name in texts if name in ("text", "query", "prompt", "note", "id")}}
    for one in (*HOSTILE, *house.files):
        yield {**base, **dict.fromkeys(texts, one)}
    for number, name in enumerate(texts):
        yield {**base, name: (*HOSTILE, *house.files)[number % (len(HOSTILE) + 2)]}
    for name in lists:
        yield {**base, name: house.files}
    for wrong in _WRONG:
        yield {**base, **dict.fromkeys(rows, wrong)}
    yield {**base, "workspace": house.files[0], "root": house.files[0], "config": house.files[0]}


def own_words(fields: dict[str, Any]) -> list[str]:
    """Every text that it sent; of a long one also what messages quote of it."""
    found = [text for text in _texts(fields) if len(text) > 2]
    return [*found, *(text[:length] for text in found for length in (60, 80, 100, 200) if len(text) > length)]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_no_operation_tells_of_the_operator(house: OperatorsHouse, name: str) -> None:
    operation: AnyOperation = OPERATIONS[name]
    path, said = f"/v1/workspaces/{NAME}/{operation.name}", 0
    for fields in tried(house, operation.request.model_json_schema(), fields_of(operation)):
        if operation.reads:
            query = urlencode({key: str(value) for key, value in fields.items()}, errors="replace")
            answer = house.ask("GET", f"{path}?{query}")
        else:
            answer = house.ask("POST", path, fields)
        said += 1
        assert answer.status != 500, (fields, answer.body)
        text = shown(answer).decode("utf-8", "replace")
        assert house.leaks(text, *own_words(fields)) == [], (fields, text)
    for body in (b"", b"[]", b"{", b'{"note": "\xff"}', b"null", b"9" * 5_000):
        answer = house.ask("POST", path, body=body)
        assert house.leaks(shown(answer).decode("utf-8", "replace")) == [], answer.body
    assert said > 20


def test_nothing_that_the_fleet_answers_itself_tells_of_the_operator(house: OperatorsHouse) -> None:
    paths = [
        "/",
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/status",
        "/v1/workspaces",
        "/v1/openapi.json",
        "/v1/workers",
    ]
    for one in (*HOSTILE, *house.files, canary("tenant")):
        named = quote(one.encode("utf-8", "replace"), safe="")
        paths += [
            f"/v1/workspaces/{named}/memory_bootstrap",
            f"/v1/workspaces?after={named}",
            f"/mcp/{named}",
            f"/{named}",
        ]
        paths += [f"/v1/workspaces/{NAME}/{named}", f"/w/{named}/now", f"/static/{named}"]
    for path in paths:
        for method in ("GET", "POST", "DELETE", "PUT", "OPTIONS", "TRACE"):
            answer = house.ask(method, path, {"name": path[-40:]} if method == "POST" else None)
            text = shown(answer).decode("utf-8", "replace")
            assert house.leaks(text, path, path[-40:], canary("tenant")) == [], (method, path, text)


def test_no_tool_and_no_resource_of_mcp_tells_of_the_operator(house: OperatorsHouse) -> None:
    calls: list[tuple[str, list[str]]] = []

    async def talk() -> None:
        async with _agent(house) as client:
            tools = (await client.list_tools()).tools
            calls.append((str(tools), []))
            calls.append((str(await client.list_resources()), []))
            for tool in tools:
                required = dict.fromkeys(tool.input_schema.get("required", ()), "x")
                for fields in tried(house, tool.input_schema, required):
                    if any("\ud83d" in one for one in _texts(fields)) or tool.name == "dream_now":
                        continue  # no client can send half a character
                    try:
                        answer = str(await client.call_tool(tool.name, fields))
                    except Exception as error:  # noqa: BLE001 - an error of the protocol tells something too
                        answer = repr(error)
                    calls.append((answer, own_words(fields)))
            for uri in ("memory://bootstrap", "memory://global", *(f"file://{one}" for one in house.files)):
                try:
                    answer = str(await client.read_resource(uri))
                except Exception as error:  # noqa: BLE001
                    answer = repr(error)
                calls.append((answer, [uri]))

    run(talk)
    assert len(calls) > 100
    for answer, own in calls:
        assert house.leaks(answer, *own) == [], (own, answer)


def test_a_dream_whose_model_refuses_tells_nothing_of_the_key(house: OperatorsHouse) -> None:
    answer = house.ask("POST", f"/v1/workspaces/{NAME}/dream_now", {"wait": True})
    assert answer.status != 200
    texts = [shown(answer)]
    paths = (
        "dream_status",
        "dreams",
        "acts",
        "memory_state",
        "memory_bootstrap",
        "history",
        "crystals",
        "lines",
        "gaps",
    )
    texts += [shown(house.ask("GET", f"/v1/workspaces/{NAME}/{path}")) for path in paths]
    for text in texts:
        assert house.leaks(text.decode()) == [], text
    # Their operator is told, and the tenant's objects hold nothing of it.
    assert canary("model") in (house.folder / "process.log").read_text("utf-8", "replace")
    objects = [path for path in (house.folder / f"objects-{canary('objects')}").rglob("*") if path.is_file()]
    assert objects
    for path in objects:
        content = held_in(path)
        assert [place for place in UNNAMED if canary(place).encode() in content] == [], path


@asynccontextmanager
async def _agent(house: OperatorsHouse) -> "AsyncIterator[Client]":
    url, headers = f"http://127.0.0.1:{house.port}/mcp/{NAME}", {"Authorization": f"Bearer {house.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client
