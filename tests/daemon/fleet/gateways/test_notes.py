"""A note at a gateway is in the inbox when it is acknowledged, once, without its secrets."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest

from state.fleet.tenant import Quotas
from state.stores.fleet.inbox import Inbox
from tests.daemon.fleet.gateways.running import Door, Fleet, fleet
from tests.support.fleet_tables import made
from tests.support.postgres import Postgres

AWS = "AKIAIOSFODNN7EXAMPLB"


def test_an_acknowledged_note_waits_in_the_inbox_as_it_was_answered(home: Fleet, door: Door) -> None:
    tenant = home.tenant()
    token, place = home.token(tenant), home.places.add(tenant, "one")
    answer = door.note(token, "one", "  Ada prefers tea  ", importance=0.834)
    assert answer.status == 200
    (row,) = home.inbox.waiting(place.id)
    assert (row.kind, json.loads(row.body)) == ("note", {"text": "Ada prefers tea", "importance": 0.83})
    assert answer.json == {
        "at": row.at.replace(microsecond=0).isoformat().replace("+00:00", "Z"),
        "importance": 0.83,
        "text": "Ada prefers tea",
        "crystal": "pending",
    }
    assert datetime.fromisoformat(answer.json["at"])


def test_what_a_note_replaces_reaches_the_log(home: Fleet, door: Door) -> None:
    tenant = home.tenant()
    token, place = home.token(tenant), home.places.add(tenant, "one")
    fields = {"note": "Ada prefers coffee", "replaces": f"prefers tea, {AWS}"}
    assert door.ask(token, "POST", "/v1/workspaces/one/working_memory_note", fields).status == 200
    (row,) = home.inbox.waiting(place.id)
    assert row.note().replaces == "prefers tea, [redacted: aws key id]"


def test_secrets_are_taken_out_before_anything_is_stored(home: Fleet, door: Door) -> None:
    tenant = home.tenant()
    token, place = home.token(tenant), home.places.add(tenant, "one")
    answer = door.note(token, "one", f"the key is {AWS} and ends there")
    assert answer.status == 200
    assert AWS not in answer.json["text"]
    (row,) = home.inbox.waiting(place.id)
    assert AWS not in row.body


def test_the_same_key_is_the_same_note_and_another_text_is_refused(home: Fleet, door: Door) -> None:
    tenant = home.tenant()
    token, place = home.token(tenant), home.places.add(tenant, "one")
    answers = [door.note(token, "one", "tea", key="k1") for _ in range(3)]
    assert {answer.body for answer in answers} == {answers[0].body}
    refused = door.note(token, "one", "coffee", key="k1")
    assert (refused.status, refused.code) == (409, "CONFLICT")
    assert len(home.inbox.waiting(place.id)) == 1
    home.commit(place, lambda _: None)
    assert home.inbox.waiting(place.id) == []
    assert door.note(token, "one", "tea", key="k1").status == 200
    assert door.note(token, "one", "coffee", key="k1").status == 409
    assert home.inbox.waiting(place.id) == []


@pytest.mark.parametrize("key", ["", " ", "a" * 201, "ä"])
def test_a_key_that_is_none_is_refused(home: Fleet, door: Door, key: str) -> None:
    tenant = home.tenant()
    token, place = home.token(tenant), home.places.add(tenant, "one")
    given = {"Idempotency-Key": key.encode().decode("latin-1")}
    answer = door.ask(token, "POST", "/v1/workspaces/one/working_memory_note", {"note": "tea"}, given)
    assert (answer.status, answer.code) == (400, "VALIDATION_ERROR")
    assert home.inbox.waiting(place.id) == []


@pytest.mark.parametrize("text", ["", "   \n ", "x" * 16_385])
def test_the_limits_of_a_note_are_those_of_the_log(home: Fleet, door: Door, text: str) -> None:
    tenant = home.tenant()
    token, place = home.token(tenant), home.places.add(tenant, "one")
    assert door.note(token, "one", text).status in (400, 422)
    assert home.inbox.waiting(place.id) == []


@pytest.mark.parametrize(
    "text", ["NUL \0 and \u2028", "emoji 🦊 and ümläut", "\x1b[31m red", "ab " * 5_461, "' OR 1=1 --"]
)
def test_any_text_is_taken_that_a_log_takes(home: Fleet, door: Door, text: str) -> None:
    tenant = home.tenant()
    token, place = home.token(tenant), home.places.add(tenant, "one")
    assert door.note(token, "one", text).status == 200
    assert len(home.inbox.waiting(place.id)) == 1


def test_a_sessions_end_waits_in_the_inbox(home: Fleet, door: Door) -> None:
    tenant = home.tenant()
    token, place = home.token(tenant), home.places.add(tenant, "one")
    fields = {"reason": "session-end", "wait": False}
    answer = door.ask(token, "POST", "/v1/workspaces/one/dream_now", fields)
    assert answer.json == {"outcome": None}
    (row,) = home.inbox.waiting(place.id)
    assert (row.kind, json.loads(row.body)) == ("session_end", {})
    assert door.ask(token, "POST", "/v1/workspaces/one/dream_now", {**fields, "mode": "dry"}).status == 400


def test_notes_that_come_together_are_put_together_and_each_is_answered_as_its_own(home: Fleet, door: Door) -> None:
    tenant = home.tenant()
    token = home.token(tenant)
    places = [home.places.add(tenant, f"w{number}") for number in range(4)]
    for number in range(4):
        door.note(token, f"w{number}", "first")
    before = door.gateway.parts.arrivals.batches
    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda n: door.note(token, f"w{n % 4}", f"note {n}", key=f"k{n}"), range(120)))
    assert [answer.json["text"] for answer in answers] == [f"note {n}" for n in range(120)]
    assert door.gateway.parts.arrivals.batches - before < 120
    assert [len(home.inbox.waiting(place.id)) for place in places] == [31] * 4


def test_one_key_at_once_is_one_note(home: Fleet, door: Door) -> None:
    tenant = home.tenant()
    token, place = home.token(tenant), home.places.add(tenant, "one")
    barrier = threading.Barrier(8)

    def send(number: int) -> int:
        barrier.wait()
        return door.note(token, "one", "tea" if number % 2 else "coffee", key="same").status

    with ThreadPoolExecutor(8) as pool:
        statuses = sorted(pool.map(send, range(8)))
    assert statuses == [200] * 4 + [409] * 4
    assert len(home.inbox.waiting(place.id)) == 1


def test_so_many_notes_a_minute_and_then_the_client_is_told_when(home: Fleet, door: Door) -> None:
    limited, free = home.tenant("limited", Quotas(notes_per_minute=3)), home.tenant("free")
    token, other = home.token(limited), home.token(free)
    home.places.add(limited, "one")
    home.places.add(free, "one")
    statuses = [door.note(token, "one", f"note {number}").status for number in range(8)]
    assert statuses.count(200) in (3, 4, 5, 6)  # a minute may end meanwhile
    refused = door.note(token, "one", "one more")
    if refused.status != 200:
        assert (refused.status, refused.code) == (429, "QUOTA")
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert door.note(other, "one", "tea").status == 200


def test_a_full_workspace_takes_no_note_and_no_item(home: Fleet, door: Door) -> None:
    tenant = home.tenant("small", Quotas(bytes_per_workspace=10_000))
    token = home.token(tenant)
    place = home.places.add(tenant, "one")

    def fill(folder: Path) -> None:
        (folder / "MEMORY.md").write_bytes(b"x" * 20_000)

    home.commit(place, fill)
    refused = door.note(token, "one", "tea")
    assert (refused.status, refused.code) == (429, "QUOTA")
    assert "Retry-After" not in refused.headers
    item = {"session_id": "s1", "content": "tea", "priority": "high"}
    refused = door.ask(token, "POST", "/v1/workspaces/one/working_memory_add", item)
    assert (refused.status, refused.code) == (429, "QUOTA")


def test_a_note_for_a_workspace_that_has_gone_is_refused_at_once(home: Fleet, door: Door) -> None:
    tenant = home.tenant()
    token, place = home.token(tenant), home.places.add(tenant, "one")
    assert door.note(token, "one", "tea").status == 200
    home.places.close(place)  # by another gateway
    assert door.note(token, "one", "tea").status == 404
    home.places.drop([place])
    again = home.places.add(tenant, "one")
    assert door.note(token, "one", "tea").status == 200
    assert len(home.inbox.waiting(again.id)) == 1


@pytest.mark.full
def test_a_note_outlives_a_postgresql_that_is_killed_and_comes_back(tmp_path: Path) -> None:
    with Postgres() as server, fleet(server.new_database(made), tmp_path) as home, home.door() as door:
        tenant = home.tenant()
        token, place = home.token(tenant), home.places.add(tenant, "one")
        assert door.note(token, "one", "before").status == 200
        server.kill()
        restart = threading.Timer(2.0, server.start)
        restart.start()
        answers = [door.note(token, "one", f"n{number}", key=f"k{number}").status for number in range(5)]
        restart.join()
        for number, status in enumerate(answers):
            if status != 200:
                assert status == 503
                assert door.note(token, "one", f"n{number}", key=f"k{number}").status == 200
        texts = [json.loads(row.body)["text"] for row in Inbox(home.database).waiting(place.id)]
        assert sorted(texts) == ["before", "n0", "n1", "n2", "n3", "n4"]
