"""Nothing of one tenant, nor of who runs the service, is seen by another: every operation, path and tool."""

from collections.abc import Awaitable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.api.operations.operation import AnyOperation
from daemon.api.operations.table import OPERATIONS
from daemon.fleet.access import right_of
from state.fleet import Right
from tests.daemon.fleet.running import OPERATOR, Door
from tests.daemon.fleet.test_mcp import agent
from tests.daemon.http.running import Answer
from tests.daemon.mcp.agents import run
from tests.redteam.tenancy import TEA, WORKSPACE, Occupant, Tenancy, canary, served, shown, tenancy
from tests.redteam.tenants_corpus import (
    FILLED,
    HEADERS,
    HOSTILE,
    PATHS,
    SMUGGLED,
    fields_of,
    hostile_fields,
    others_fields,
    own_words,
    texts_in,
)
from tests.support.fleet_tables import made
from tests.support.folders import files_below
from tests.support.generation_folders import held_in
from tests.support.postgres import Postgres

NOWHERE = "no-such-one"
KEPT = "kept"  # by the process that runs at its operator's
NOBODY = frozenset({"none", "wrong secret", "secret of another", "operator's like", "expired", "revoked", "closed"})


@pytest.fixture(scope="module")
def lived(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenancy]:
    """Two tenants who live here; no test changes what it looks at."""
    url = postgres.new_database(made)
    with tenancy(url, tmp_path_factory.mktemp("fleet")) as one:
        one.settle("acme", "amethystcanary")
        one.settle("beryl-corp", "berylcanary")
        yield one
    postgres.drop_database(url)


@pytest.fixture(scope="module")
def mine(lived: Tenancy) -> Occupant:
    return lived.occupants[0]


@pytest.fixture(scope="module")
def tokens(lived: Tenancy, mine: Occupant) -> dict[Right, str]:
    return {right: lived.token(mine, rights=frozenset({right})) for right in Right}


@pytest.fixture(scope="module")
def other(lived: Tenancy) -> Occupant:
    return lived.occupants[1]


@pytest.fixture(scope="module")
def operated(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Tenancy, Door]]:
    """The same, and the port of a process that runs at its operator's."""
    url = postgres.new_database(made)
    with tenancy(url, tmp_path_factory.mktemp("fleet")) as one, served(one) as door:
        mine = one.settle("acme", "amethystcanary")
        one.settle("beryl-corp", "berylcanary")
        assert door.ask(mine.token, "POST", "/v1/workspaces", {"name": KEPT}).status == 200
        for text in (TEA, "Grace likes green"):
            assert door.note(mine.token, KEPT, text, importance=0.9).status == 200
        felt = {"event": "reward", "because": TEA}
        assert door.ask(mine.token, "POST", f"/v1/workspaces/{KEPT}/feel", felt).status == 200
        yield one, door
    postgres.drop_database(url)


def asked(door: Door, token: str, operation: AnyOperation, name: str, fields: dict[str, Any]) -> Answer:
    """This operation of this workspace, at the port."""
    path = f"/v1/workspaces/{name}/{operation.name}"
    if operation.reads:
        query = urlencode({key: str(value) for key, value in fields.items()}, errors="replace")
        return door.ask(token, "GET", f"{path}?{query}" if query else path)
    return door.ask(token, "POST", path, fields)


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_no_operation_tells_of_another(lived: Tenancy, mine: Occupant, other: Occupant, name: str) -> None:
    operation = OPERATIONS[name]
    theirs = other.names[1]
    there = asked(lived.door, mine.token, operation, theirs, fields_of(operation))
    nowhere = asked(lived.door, mine.token, operation, NOWHERE, fields_of(operation))
    assert shown(there).replace(theirs.encode(), NOWHERE.encode()).splitlines()[0] == shown(nowhere).splitlines()[0]
    assert there.body.replace(theirs.encode(), NOWHERE.encode()) == nowhere.body
    assert there.status in (403, 404, 405)
    if name == "dream_now":
        return  # what its errors tell is looked at where there is a model
    for fields in others_fields(operation, other):
        # They say it to a workspace of their own, which knows it then.
        answer = asked(lived.door, mine.token, operation, mine.names[1], fields)
        assert lived.leaks(shown(answer), mine, other.guessed) == [], (fields, answer.body)
    fields = fields_of(operation)
    if operation.reads:
        answer = asked(lived.door, mine.token, operation, WORKSPACE, fields)
        assert lived.leaks(shown(answer), mine) == [], answer.body


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_no_operation_tells_of_the_operator(operated: tuple[Tenancy, Door], name: str) -> None:
    lived, operators = operated
    mine = lived.occupants[0]
    operation, said = OPERATIONS[name], 0
    for fields in hostile_fields(operation.request.model_json_schema(), fields_of(operation), lived.files):
        answer = asked(operators, mine.token, operation, KEPT, fields)
        said += 1
        assert answer.status != 500, (fields, answer.body)
        assert lived.leaks(shown(answer), mine, own_words(fields)) == [], (fields, answer.body)
    for body in (b"", b"[]", b"{", b'{"note": "\xff"}', b"null", b"9" * 5_000):
        answer = operators.ask(mine.token, "POST", f"/v1/workspaces/{KEPT}/{name}", body=body)
        assert lived.leaks(shown(answer), mine) == [], answer.body
    assert said > 20


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_each_operation_needs_its_right_and_no_other(
    lived: Tenancy, mine: Occupant, tokens: dict[Right, str], name: str
) -> None:
    operation = OPERATIONS[name]
    for right, token in tokens.items():
        may = operation.remote and not operation.operator and right is right_of(operation)
        if may:
            continue  # what is allowed is tried by other tests
        answer = asked(lived.door, token, operation, WORKSPACE, fields_of(operation))
        assert answer.status in (403, 404, 405), (right, answer.body)
        assert answer.status == 403 or not operation.remote
        assert mine.own.encode() not in answer.body


def test_no_token_that_may_not_gets_in(lived: Tenancy, mine: Occupant, other: Occupant) -> None:
    bearers = lived.bearers(mine, other)
    for kind, token in bearers.items():
        for name in (*other.names, WORKSPACE):
            for path in ("memory_bootstrap", "crystals", "dream_status"):
                answer = lived.door.ask(token, "GET", f"/v1/workspaces/{name}/{path}")
                assert answer.status == 401 or kind not in NOBODY, (kind, name)
                assert lived.leaks(shown(answer), mine, (name,)) == [], (kind, name)
                if kind == "limited":
                    assert answer.status == 404
        for path in ("/", "/v1/workspaces", "/v1/status", "/v1/openapi.json", "/metrics", "/healthz", "/readyz"):
            answer = lived.door.ask(token, "GET", path)
            assert lived.leaks(shown(answer), mine) == [], (kind, path)
            if kind == "limited" and path != "/v1/openapi.json":
                assert WORKSPACE.encode() not in answer.body
        if kind == "own":
            continue
        for name in (other.names[1], NOWHERE):
            assert lived.door.ask(token, "DELETE", f"/v1/workspaces/{name}").status in (401, 404)
    refused = {shown(lived.door.ask(bearers[kind], "GET", "/")) for kind in ("none", "expired", "revoked", "closed",
                                                                            "wrong secret")}  # fmt: skip
    assert len(refused) == 1


def test_names_are_each_tenants_own(lived: Tenancy, mine: Occupant, other: Occupant) -> None:
    for method, path in (("DELETE", "/v1/workspaces/{}"), ("GET", "/v1/workspaces/{}"), ("POST", "/mcp/{}")):
        there = lived.door.ask(mine.token, method, path.format(other.names[1]), {} if method == "POST" else None)
        nowhere = lived.door.ask(mine.token, method, path.format(NOWHERE), {} if method == "POST" else None)
        assert shown(there).replace(other.names[1].encode(), NOWHERE.encode()) == shown(nowhere).replace(
            b"content-length: " + str(len(nowhere.body)).encode(), f"content-length: {len(there.body)}".encode()
        )
    listed = lived.door.ask(mine.token, "GET", "/v1/workspaces").json["workspaces"]
    assert {one["name"] for one in listed} == set(mine.names)
    assert lived.door.ask(mine.token, "GET", "/v1/status").json["workspaces"] == len(mine.names)
    # A name that another has is as free as any.
    made = lived.door.ask(mine.token, "POST", "/v1/workspaces", {"name": other.names[1]})
    assert made.json == {"name": other.names[1]}
    boot = lived.door.bootstrap(mine.token, other.names[1])
    assert lived.leaks(boot.encode(), mine, (other.names[1],)) == []
    assert lived.door.ask(mine.token, "DELETE", f"/v1/workspaces/{other.names[1]}").status == 200
    assert other.own in lived.door.bootstrap(other.token, other.names[1])


@pytest.mark.parametrize("shape", PATHS)
def test_no_path_leads_to_another(lived: Tenancy, mine: Occupant, other: Occupant, shape: str) -> None:
    numbers = [str(place.id) for place in other.places]
    for number in numbers:
        path = shape.format(name=other.names[1], id=number, tenant=other.tenant.id, theirs=other.token_id,
                            mine=mine.token_id, own=WORKSPACE)  # fmt: skip
        for method in ("GET", "POST"):
            head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{lived.door.port}\r\nContent-Length: 2\r\n"
            head += (
                f"Content-Type: application/json\r\nConnection: close\r\nAuthorization: Bearer {mine.token}\r\n\r\n"
            )
            answer = lived.raw(head.encode("latin-1"), b"{}")
            assert answer.startswith(b"HTTP/1.1 "), method
            said = (path, *path.split("/"), other.names[1], other.token_id)
            assert lived.leaks(answer, mine, said) == [], answer


@pytest.mark.full
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "OPTIONS", "TRACE"])
def test_no_path_leads_to_the_operator(operated: tuple[Tenancy, Door], method: str) -> None:
    lived, operators = operated
    mine = lived.occupants[0]
    paths = "/ /healthz /readyz /metrics /v1/status /v1/workspaces /v1/openapi.json /v1/workers".split()
    for one in (*HOSTILE, *lived.files, canary("tenant")):
        named = quote(one.encode("utf-8", "replace"), safe="")
        paths += [f"/v1/workspaces/{named}/memory_bootstrap", f"/v1/workspaces?after={named}", f"/mcp/{named}"]
        paths += [f"/{named}", f"/v1/workspaces/{KEPT}/{named}", f"/w/{named}/today", f"/static/{named}"]
    for path in paths:
        answer = operators.ask(mine.token, method, path, {"name": path[-40:]} if method == "POST" else None)
        assert lived.leaks(shown(answer), mine, (path, path[-40:], canary("tenant"))) == [], (path, answer.body)


@pytest.mark.parametrize("lines", HEADERS)
def test_no_header_leads_to_another(lived: Tenancy, mine: Occupant, other: Occupant, lines: str) -> None:
    given = lines.format(name=other.names[1], id=other.places[1].id, theirs=other.token_id, port=lived.door.port,
                         mine=mine.token, folder=lived.folder)  # fmt: skip
    for path in (
        f"/v1/workspaces/{WORKSPACE}/memory_bootstrap",
        "/v1/workspaces",
        f"/v1/workspaces/{other.names[1]}/memory_state",
    ):
        head = f"GET {path} HTTP/1.1\r\nConnection: close\r\n{given}\r\n\r\n"
        answer = lived.raw(head.encode("latin-1"))
        assert answer.startswith(b"HTTP/1.1 "), path
        assert lived.leaks(answer, mine, (other.names[1], other.token_id)) == [], answer


@pytest.mark.parametrize("shape", SMUGGLED)
def test_no_request_hides_in_another(lived: Tenancy, mine: Occupant, other: Occupant, shape: bytes) -> None:
    hidden = f"GET /v1/workspaces/{other.names[1]}/memory_bootstrap HTTP/1.1\r\nHost: 127.0.0.1:{lived.door.port}\r\n"
    hidden += "Connection: close\r\n\r\n"
    head = shape.replace(b"@PORT", str(lived.door.port).encode()).replace(b"@TOKEN", mine.token.encode())
    answer = lived.raw(head.replace(b"@LENGTH", str(len(hidden)).encode()).replace(b"@HIDDEN", hidden.encode()))
    assert answer.startswith(b"HTTP/1.1 ")
    assert lived.leaks(answer, mine, (other.names[1],)) == [], answer
    # The one that hides has no token of its own: were it answered as one, it would be refused.
    assert answer.count(b"HTTP/1.1 200") <= 1


def test_a_key_of_another_is_no_key(lived: Tenancy, mine: Occupant, other: Occupant) -> None:
    key = f"key-{other.canary}"
    answers = [lived.door.note(mine.token, mine.names[1], text, key) for text in ("once", "once", "twice")]
    assert [one.status for one in answers] == [200, 200, 409]
    assert lived.leaks(b"".join(map(shown, answers)), mine, (key,)) == []
    assert (
        lived.door.note(other.token, WORKSPACE, f"Ada of {other.own} prefers tea to coffee", key, 0.9).status == 200
    )


def test_figures_and_logs_name_nobody(lived: Tenancy, mine: Occupant, other: Occupant) -> None:
    figures = lived.door.ask(OPERATOR, "GET", "/metrics").body.decode()
    log = lived.said.getvalue()
    assert "workspace_taken" in log
    for one in (mine, other):
        for secret in (one.own, one.token.split("_")[2], f"key-{one.canary}", f"session-{one.canary}"):
            assert secret not in figures
            assert secret not in log, [line for line in log.splitlines() if secret in line][:3]


def test_folders_are_of_one_each(lived: Tenancy, mine: Occupant, other: Occupant) -> None:
    for who in (mine, other):
        lived.door.bootstrap(who.token, WORKSPACE)
    prefixes = {who.tenant.id: who.own for who in (mine, other)}
    owners = {f"ws-{place.id}": who for who in (mine, other) for place in who.places}
    looked = 0
    for path in sorted(files_below(lived.folder)):
        whole = held_in(path)
        for part in path.parts:
            if (owner := owners.get(part)) is not None:
                looked += 1
                assert not [one for one in (mine, other) if one is not owner and one.own.encode() in whole], path
        below = path.relative_to(lived.folder).parts
        if below[0] == "objects" and below[1].isdigit():
            looked += 1
            rest = [canary for tenant, canary in prefixes.items() if str(tenant) != below[1]]
            assert not [canary for canary in rest if canary.encode() in whole], path
    assert looked > 20


@pytest.mark.full
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_fields_at_all_tell_of_another(
    lived: Tenancy, mine: Occupant, other: Occupant, data: st.DataObject
) -> None:
    operation = data.draw(st.sampled_from([one for one in OPERATIONS.values() if one.remote and not one.long]))
    # What keeps what it is told is not told the handle: a later answer may say it again.
    handles = [f"ws-{other.places[0].id}"] if operation.reads else []
    texts = st.sampled_from([*other.guessed, *other.names, *handles, f"{other.token_id}~{WORKSPACE}"])
    schema = operation.request.model_json_schema().get("properties", {})
    fields = {
        name: data.draw(texts) if row.get("type") == "string" else data.draw(st.integers(1, 9)) for name, row in
        schema.items() if data.draw(st.booleans())
    }  # fmt: skip
    answer = asked(lived.door, mine.token, operation, mine.names[1], fields)
    # What it said itself it may be told again.
    leaks = lived.leaks(shown(answer), mine, (*other.guessed, *other.names))
    assert [one for one in leaks if not any(one in str(given) for given in fields.values())] == []


@pytest.mark.full
@pytest.mark.timeout(600)
def test_no_tool_of_mcp_tells_of_another_or_of_the_operator(operated: tuple[Tenancy, Door]) -> None:
    lived, operators = operated
    mine, other = lived.occupants
    said: list[tuple[str, tuple[str, ...]]] = []

    async def hear(asked: Awaitable[object], *own: str) -> None:
        try:
            answer = str(await asked)
        except Exception as error:  # noqa: BLE001 - an error of the protocol tells something too
            answer = repr(error)
        said.append((answer, own))

    async def talk() -> None:
        async with agent(operators, mine.token, f"/mcp/{KEPT}") as client:
            tools = (await client.list_tools()).tools
            await hear(client.list_tools())
            await hear(client.list_resources())
            for uri in ("memory://bootstrap", "memory://global", *(f"file://{one}" for one in lived.files)):
                await hear(client.read_resource(uri), uri)
            for tool in (tool for tool in tools if tool.name != "dream_now"):
                rows = tool.input_schema.get("properties", {})
                base = {name: FILLED.get(name, "x") for name in tool.input_schema.get("required", ())}
                ids = {name: next(iter(other.ids.values())) for name in ("session_id", "id", "memory_id", "text")}
                theirs = {**base, **{name: one for name, one in ids.items() if name in rows}}
                for fields in (theirs, *hostile_fields(tool.input_schema, base, lived.files)):
                    if not any("\ud83d" in one for one in texts_in(fields)):  # no client can send half a character
                        await hear(client.call_tool(tool.name, fields), *own_words(fields))

    run(talk)
    assert len(said) > 100
    for answer, own in said:
        assert lived.leaks(answer.encode("utf-8", "replace"), mine, (*own, *other.guessed)) == [], (own, answer)
