"""Tenants in time: what was removed stays away, quotas are each one's own, and who floods keeps nobody waiting."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from daemon.fleet.upkeep.removal import finish_removals, remove
from state.stores.fleet.leases import Leases, Session
from tests.redteam.tenancy import WORKSPACE, Occupant, Tenancy, canary, shown, tenancy
from tests.support.folders import files_below
from tests.support.generation_folders import held_in
from tests.support.serving import until

QUICK_SECONDS = 2.0


@pytest.fixture
def town(fleet_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tenancy]:
    """A fleet in which what was removed goes soon."""
    monkeypatch.setattr("daemon.fleet.process._LOOK_SECONDS", 0.1)
    with tenancy(fleet_url, tmp_path) as one:
        yield one


def remains(town: Tenancy, text: str) -> list[str]:
    """Where this text still is: in files of anybody, or in rows."""
    found = [str(path) for path in files_below(town.folder) if text.encode() in held_in(path)]
    for table in ("inbox", "workspaces", "spending", "erased", "tenants", "tokens", "procrastinate_jobs"):
        rows = town.database.rows(f"SELECT r::text AS row FROM {table} r")  # noqa: S608 - the names are ours
        found += [table for row in rows if text in row["row"]]
    return found


def test_a_workspace_of_the_same_name_knows_nothing_of_the_one_before(town: Tenancy) -> None:
    acme = town.settle("acme", "amethystcanary")
    assert acme.own in town.door.bootstrap(acme.token, WORKSPACE)
    assert remains(town, acme.own)
    for name in acme.names:
        assert town.door.ask(acme.token, "DELETE", f"/v1/workspaces/{name}").status == 200
    finish_removals(town.home.database, town.door.process.objects)
    assert town.door.ask(acme.token, "POST", "/v1/workspaces", {"name": WORKSPACE}).status == 200
    _is_empty(town, acme.token, acme)
    town.told(acme.token, "POST", WORKSPACE, "working_memory_note", {"note": "A new life"})
    _is_empty(town, acme.token, acme)
    until(lambda: not remains(town, acme.own), seconds=10)


def test_a_tenant_of_the_same_name_knows_nothing_of_the_one_before(town: Tenancy) -> None:
    before = town.settle("acme", "amethystcanary")
    remove(town.home.database, town.door.process.objects, before.tenant)
    again = town.home.tenant("acme")
    token = town.home.token(again)
    assert town.door.ask(token, "POST", "/v1/workspaces", {"name": WORKSPACE}).status == 200
    _is_empty(town, token, before)
    until(lambda: not remains(town, before.own), seconds=10)
    # The old token is remembered for ten seconds, and opens nothing meanwhile.
    answer = town.door.ask(before.token, "GET", f"/v1/workspaces/{WORKSPACE}/memory_bootstrap")
    assert answer.status in (401, 404)
    assert town.door.note(before.token, WORKSPACE, "a note of nobody").status in (401, 404)


def _is_empty(town: Tenancy, token: str, before: Occupant) -> None:
    said = town.door.bootstrap(token, WORKSPACE)
    for method, path, fields in (
        ("POST", "memory_search", {"query": "tea coffee green"}),
        ("GET", "crystals", None),
        ("GET", "session_list", None),
        ("GET", "mood?hours=24", None),
        ("GET", "gaps", None),
        ("GET", "dream_status", None),
    ):
        said += str(town.told(token, method, WORKSPACE, path, fields))
    assert before.own not in said


def test_a_note_under_a_name_that_was_given_anew_is_the_new_ones(town: Tenancy) -> None:
    """A process remembers names for a minute; another one gave this name to another workspace meanwhile."""
    tenant = town.home.tenant("acme")
    token = town.home.token(tenant)
    town.home.places.add(tenant, WORKSPACE)
    with town.home.here() as late:
        assert late.note(token, WORKSPACE, "first").status == 200
        assert town.door.ask(token, "DELETE", f"/v1/workspaces/{WORKSPACE}").status == 200
        finish_removals(town.home.database, town.door.process.objects)
        assert town.door.ask(token, "POST", "/v1/workspaces", {"name": WORKSPACE}).status == 200
        assert late.note(token, WORKSPACE, "second").status == 200
        boot = late.bootstrap(token, WORKSPACE)
        assert "second" in boot
        assert "first" not in boot


@pytest.mark.full
def test_who_floods_keeps_nobody_waiting(town: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: C901
    """A hundred requests under way that wait for a holder, of many workspaces and tokens; slow bodies; guesses."""
    flooder, calm = town.home.tenant("flood"), town.home.tenant("calm")
    names = [f"w{number}" for number in range(10)]
    for name in names:
        town.home.places.add(flooder, name)
    town.home.places.add(calm, WORKSPACE)
    bad, good, new = [town.home.token(flooder) for _ in range(4)], town.home.token(calm), town.home.token(calm)
    assert town.door.note(good, WORKSPACE, "before").status == 200
    # Nobody can be reached who holds its workspaces: each of these waits for long.
    monkeypatch.setattr("daemon.fleet.access.PATIENCE_SECONDS", 4.0)
    session = Session(town.database, uuid4(), "http://127.0.0.1:9")
    session.beat()
    for place in town.home.places.all(flooder.id):
        Leases(town.database).take(place.place.id, session.id)
    slow = _slow_bodies(town, bad[0], names[0], 20)
    stop, sent = threading.Event(), []

    def flood(number: int) -> None:
        name = names[number % 10]
        while not stop.is_set():
            with suppress(OSError):
                if number % 20 == 18:
                    guess = f"dreamd_{number:012x}_{time.monotonic_ns():048x}"
                    sent.append(town.door.ask(guess, "GET", "/").status)
                elif number % 20 == 19:
                    sent.append(town.door.note(bad[0], name, "x" * 15_000).status)
                else:
                    path = f"/v1/workspaces/{name}/feel"
                    sent.append(town.door.ask(bad[number % 4], "POST", path, {"event": "reward"}).status)
            stop.wait(0.02)

    threads = [threading.Thread(target=flood, args=(number,), daemon=True) for number in range(120)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(1.0)
        waited = []
        for number in range(8):
            began = time.monotonic()
            answer = town.door.note(good if number % 2 else new, WORKSPACE, f"calm {number}")
            waited.append(time.monotonic() - began)
            assert answer.status == 200, answer.body
            time.sleep(0.1)
    finally:
        stop.set()
        for connection in slow:
            connection.close()
        for thread in threads:
            thread.join(30)
        session.drop()
    assert max(waited) < QUICK_SECONDS, waited
    assert 401 in sent


def _slow_bodies(town: Tenancy, token: str, name: str, count: int) -> list[socket.socket]:
    head = f"POST /v1/workspaces/{name}/working_memory_note HTTP/1.1\r\nHost: 127.0.0.1:{town.door.port}\r\n"
    head += f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
    connections = [socket.create_connection(("127.0.0.1", town.door.port)) for _ in range(count)]
    for connection in connections:
        connection.sendall(head.encode() + b'{"note": "')
    return connections


@pytest.mark.full
@pytest.mark.parametrize("api_base", ["", "http://127.0.0.1:9"], ids=["refuses the key", "is not there"])
def test_a_model_that_fails_says_nothing_of_where_it_is(fleet_url: str, tmp_path: Path, api_base: str) -> None:
    with tenancy(fleet_url, tmp_path, api_base) as town:
        tenant = town.home.tenant("acme")
        token = town.home.token(tenant)
        place = town.home.places.add(tenant, WORKSPACE)
        mine = Occupant(tenant, "amethystcanary", (WORKSPACE,), token, {}, (place,))
        town.told(token, "POST", WORKSPACE, "working_memory_note", {"note": "Ada prefers tea to coffee"})
        dreamt = town.door.ask(token, "POST", f"/v1/workspaces/{WORKSPACE}/dream_now", {"reason": "manual"})
        assert dreamt.code == "MODEL_ERROR"
        said = shown(dreamt)
        for path in "dream_status dreams acts memory_state memory_bootstrap history crystals lines gaps".split():
            said += shown(town.door.ask(token, "GET", f"/v1/workspaces/{WORKSPACE}/{path}"))
        assert (b"the model cannot be asked now" in said) is bool(api_base)
        assert town.leaks(said, mine) == []
        assert b"127.0.0.1:9" not in said
        assert canary("model") in town.said.getvalue()  # its operator is told
    objects = list(files_below(tmp_path / "objects"))
    assert objects
    assert [path for path in objects if b"c4nary" in held_in(path)] == []


def test_what_others_spend_is_neither_told_nor_a_ceiling(town: Tenancy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine counts what its models cost all who live there."""
    from daemon.config.paths import spent_folder
    from daemon.workspace.stores import utc_now
    from state.budget import Spend, reached
    from state.stores.history.daily_spend import DailySpend

    monkeypatch.setenv("XDG_STATE_HOME", str(town.folder / "state"))
    tenant = town.home.tenant("acme")
    token = town.home.token(tenant)
    town.home.places.add(tenant, WORKSPACE)
    DailySpend(spent_folder(os.environ)).add(Spend(77, 9_876_543, 123.75), utc_now())
    town.told(token, "POST", WORKSPACE, "feel", {"event": "reward"})  # it has an owner from now on
    spending = town.told(token, "GET", WORKSPACE, "dream_status")["spending"]
    assert (spending["all_tokens"], spending["all_usd"], spending["breaker"]) == (0, 0.0, "")
    assert reached(town.door.process.config.daemon.limits, Spend(77, 9_876_543, 123.75)) == ""
