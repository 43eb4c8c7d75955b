"""Who may what at the doors: tokens, rights, names; and that nothing of one tenant is ever told another."""

import re
import socket
import time
from datetime import UTC, datetime, timedelta

import pytest

from state.fleet import Quotas, Right
from state.stores.fleet.registry import Tokens
from tests.daemon.fleet.running import OPERATOR, Fleet, Here
from tests.daemon.http.running import spoken

READ, WRITE, DREAM, MANAGE = Right.READ, Right.WRITE, Right.DREAM, Right.MANAGE


def raw(door: Here, *lines: str) -> bytes:
    """What is answered to a request as it stands here."""
    connection = socket.create_connection(("127.0.0.1", door.port), timeout=60)
    head = "\r\n".join([*lines, f"Host: 127.0.0.1:{door.port}", "Content-Length: 0", "Connection: close"])
    return spoken(connection, head.encode("latin-1") + b"\r\n\r\n")


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_a_tenant_makes_lists_and_removes_its_workspaces(fleet: Fleet, door: Here) -> None:
    token = fleet.token(fleet.tenant("acme", Quotas(workspaces=2)))
    assert door.ask(token, "POST", "/v1/workspaces", {"name": "b"}).json == {"name": "b"}
    assert door.ask(token, "POST", "/v1/workspaces", {"name": "a"}).json == {"name": "a"}
    assert door.ask(token, "POST", "/v1/workspaces", {"name": "a"}).code == "QUOTA"
    listed = door.ask(token, "GET", "/v1/workspaces").json
    assert [row["name"] for row in listed["workspaces"]] == ["a", "b"]
    assert listed["after"] is None
    assert [row["name"] for row in door.ask(token, "GET", "/v1/workspaces?after=a").json["workspaces"]] == ["b"]
    assert door.ask(token, "DELETE", "/v1/workspaces/a").json == {"name": "a"}
    assert door.ask(token, "DELETE", "/v1/workspaces/a").status == 404
    assert door.ask(token, "POST", "/v1/workspaces", {"name": "b"}).code == "CONFLICT"
    assert door.ask(token, "POST", "/v1/workspaces", {"name": "a"}).json == {"name": "a"}  # at once, an empty one
    assert door.ask(token, "GET", "/v1/workspaces/a/memory_state").status == 200
    assert door.ask(token, "DELETE", "/v1/workspaces/a").json == {"name": "a"}
    for fields in ({}, {"name": "Big"}, {"name": "a~b"}, {"name": ""}, {"path": "/etc"}, {"name": 5}):
        assert door.ask(token, "POST", "/v1/workspaces", fields).status in (400, 422)
    assert door.ask(token, "GET", "/").json["mcp"] == "/mcp/NAME"
    own = door.ask(token, "GET", "/v1/status").json
    assert (own["tenant"], own["workspaces"], own["quotas"]["workspaces"]) == ("acme", 1, 2.0)


def test_a_workspace_has_a_time_zone_of_its_own(fleet: Fleet, door: Here) -> None:
    token = fleet.token(fleet.tenant("acme"))
    assert door.ask(token, "POST", "/v1/workspaces", {"name": "a", "timezone": "Asia/Kolkata"}).status == 200
    for fields in ({"name": "b", "timezone": "Kolkata"}, {"name": "b", "timezone": 5}):
        assert door.ask(token, "POST", "/v1/workspaces", fields).status == 422
    door.note(token, "a", "The kettle was mended.")
    assert door.ask(token, "POST", "/v1/workspaces/a/dream_now", {}).status == 200
    history = "/v1/workspaces/a/history?as=text"
    assert "when (IST)" in door.ask(token, "GET", history).body.decode()
    changed = door.ask(token, "PATCH", "/v1/workspaces/a", {"timezone": "America/New_York"})
    assert changed.json == {"name": "a", "timezone": "America/New_York"}
    assert re.search(r"when \(E[SD]T\)", door.ask(token, "GET", history).body.decode())
    (row,) = door.ask(token, "GET", "/v1/workspaces").json["workspaces"]
    assert row["timezone"] == "America/New_York"
    # What the workspace reads is in its zone too: a day of a search, and the times that a dream is told.
    with door.process.desk.holding(fleet.places.find(fleet.tenants.find("acme").id, "a").place.id) as held:
        assert str(held.config.zone) == "America/New_York"
    assert door.ask(token, "PATCH", "/v1/workspaces/a", {"timezone": "Nowhere"}).status == 422
    assert door.ask(token, "PATCH", "/v1/workspaces/none", {"timezone": ""}).status == 404
    reading = fleet.token(fleet.tenants.find("acme"), rights=frozenset({READ}))
    assert door.ask(reading, "PATCH", "/v1/workspaces/a", {"timezone": ""}).code == "FORBIDDEN"


def test_each_right_lets_do_what_it_says_and_no_more(fleet: Fleet, door: Here) -> None:
    tenant = fleet.tenant()
    fleet.places.add(tenant, "one")
    asked = {
        READ: ("GET", "/v1/workspaces/one/memory_bootstrap", None),
        WRITE: ("POST", "/v1/workspaces/one/working_memory_note", {"note": "tea"}),
        DREAM: ("POST", "/v1/workspaces/one/dream_now", {"reason": "session-end", "wait": False}),
        MANAGE: ("POST", "/v1/workspaces", {"name": "two"}),
    }
    for right in Right:
        token = fleet.token(tenant, rights=frozenset({right}))
        for needed, (method, path, fields) in asked.items():
            answer = door.ask(token, method, path, fields)
            assert (answer.status == 200) is (needed is right), (right, needed, answer.body)
            assert answer.status == 200 or answer.code == "FORBIDDEN"
        assert (door.ask(token, "GET", "/v1/workspaces").status == 200) is (right is READ)
        if right is not MANAGE:
            assert door.ask(token, "DELETE", "/v1/workspaces/one").code == "FORBIDDEN"


def test_a_token_is_shown_once_and_as_it_is(fleet: Fleet, door: Here) -> None:
    tenant = fleet.tenant()
    token = fleet.token(tenant)
    other = fleet.token(tenant)
    fleet.places.add(tenant, "one")
    bearer, path = f"Authorization: Bearer {token}", "GET /v1/workspaces/one/memory_bootstrap HTTP/1.1"
    assert status_of(raw(door, path, bearer)) == 200
    assert status_of(raw(door, path, bearer.replace("Bearer", "bEARER"))) == 200
    for headers in (
        (),
        (bearer, bearer),
        (bearer, f"Authorization: Bearer {other}"),
        (bearer, "authorization: x"),
        (f"Authorization: Basic {token}",),
        (f"Authorization: {token}",),
        ("Authorization: Bearer",),
        ("Authorization: Bearer  ",),
        (f"Authorization: Bearer {token}, {other}",),
        (f"Authorization: Bearer {token}x",),
        (f"Authorization: Bearer {token.upper()}",),
        (f"Authorization: Bearer {token[:-1]}",),
        (f"Authorization: Bearer {'x' * 5000}",),
        (f"X-Authorization: Bearer {token}",),
        (f"Cookie: dreamd={token}",),
    ):
        assert status_of(raw(door, path, *headers)) == 401, headers


@pytest.mark.full
def test_revoked_and_expired_tokens_end(fleet: Fleet, door: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = fleet.tenant()
    door.process.bearers._shown._seconds = 0.3
    late = fleet.token(tenant, expires_at=datetime.now(UTC) + timedelta(seconds=1.5))
    revoked, gone = fleet.token(tenant), fleet.token(fleet.tenant("gone"))
    assert [door.ask(one, "GET", "/v1/workspaces").status for one in (late, revoked, gone)] == [200] * 3
    (facts,) = [one for one in Tokens(fleet.database).all(tenant) if one.id in revoked]
    Tokens(fleet.database).revoke(tenant, facts.name)
    fleet.database.removals.close(fleet.database.tenants.find("gone"))
    time.sleep(1.8)
    assert [door.ask(one, "GET", "/v1/workspaces").status for one in (late, revoked, gone)] == [401] * 3


def test_guesses_lock_nobody_out_and_the_same_one_is_looked_up_once(fleet: Fleet, door: Here) -> None:
    tenant = fleet.tenant()
    token, new = fleet.token(tenant), fleet.token(tenant)
    assert door.ask(token, "GET", "/v1/workspaces").status == 200
    before = door.process.database.statements
    for _ in range(50):
        assert door.ask(f"dreamd_{'0' * 12}_{'0' * 48}", "GET", "/").status == 401
        assert door.ask("nonsense", "GET", "/").status == 401
    looks = door.process.database.statements - before
    answers = [door.ask(f"dreamd_{number:012x}_{'1' * 48}", "GET", "/").status for number in range(60)]
    assert set(answers) == {401}
    assert looks < 30  # of which its heartbeat has its own
    assert door.ask(token, "GET", "/v1/workspaces").status == 200
    assert door.ask(new, "GET", "/v1/workspaces").status == 200


def test_figures_are_the_operators_and_nothing_else_is(fleet: Fleet, door: Here) -> None:
    tenant = fleet.tenant()
    token = fleet.token(tenant)
    fleet.places.add(tenant, "one")
    door.note(token, "one", "tea")
    figures = door.ask(OPERATOR, "GET", "/metrics")
    assert b"dreamd_fleet_up 1" in figures.body
    assert figures.status == 200
    assert b'operation="working_memory_note"' in figures.body
    assert b'"one"' not in figures.body
    assert door.ask(token, "GET", "/metrics").code == "FORBIDDEN"
    assert door.ask("", "GET", "/metrics").status == 401
    for path in ("/v1/workspaces", "/v1/workspaces/one/memory_bootstrap", "/", "/v1/status", "/mcp/one"):
        assert door.ask(OPERATOR, "GET", path).code == "FORBIDDEN"
    assert door.ask("", "GET", "/healthz").status == 200
    assert door.ask("", "GET", "/readyz").status == 200
    assert door.ask(token, "GET", "/v1/openapi.json").status == 200


def test_what_shows_the_operators_machines_is_refused(fleet: Fleet, door: Here) -> None:
    tenant = fleet.tenant()
    token = fleet.token(tenant)
    fleet.places.add(tenant, "one")
    for method, path in (("GET", "configuration"), ("POST", "doctor")):
        answer = door.ask(token, method, f"/v1/workspaces/one/{path}", {} if method == "POST" else None)
        assert answer.code == "FORBIDDEN", answer.body
    for path in ("ingest", "export", "repair", "supersede"):
        answer = door.ask(token, "POST", f"/v1/workspaces/one/{path}", {})
        assert answer.status == 403, answer.body
    assert door.ask(token, "POST", "/v1/login", {}).status in (403, 404)
    status = door.ask(token, "GET", "/v1/workspaces/one/dream_status")
    assert status.json["workspace"] == "one"
    assert str(fleet.folder).encode() not in status.body
    assert status.json["holder"] is None


def test_pages_of_other_hosts_and_origins_are_refused_everywhere(fleet: Fleet, door: Here) -> None:
    token = fleet.token(fleet.tenant())
    for path in ("/", "/v1/workspaces", "/v1/status", "/v1/workspaces/one/memory_bootstrap", "/mcp/one"):
        assert door.ask(token, "GET", path, headers={"Host": "evil.example"}).status == 421
        assert door.ask(token, "GET", path, headers={"Origin": "https://evil.example"}).status == 403
    json = {"Content-Type": "application/json"}
    big = door.ask(token, "POST", "/v1/workspaces", body=b"x" * (1 << 21), headers=json)
    assert big.status == 413


def test_without_postgresql_a_client_is_told_to_try_again(fleet: Fleet, door: Here) -> None:
    token = fleet.token(fleet.tenant())
    door.process.database._pool.close()
    answer = door.ask(token, "GET", "/v1/workspaces")
    assert (answer.status, answer.code) == (503, "UNREACHABLE")
    assert answer.json["error"] == "the service cannot do this now; try again"
    assert "PostgreSQL" not in str(answer.json)
