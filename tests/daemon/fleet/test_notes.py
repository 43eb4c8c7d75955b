"""A note is in the inbox when it is acknowledged, once, without its secrets, whoever holds its workspace."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from state.fleet import Quotas
from tests.daemon.fleet.running import Fleet, Here

AWS = "AKIAIOSFODNN7EXAMPLB"


def test_an_acknowledged_note_waits_as_it_was_answered_without_its_secrets(fleet: Fleet, door: Here) -> None:
    token, place = fleet.one()
    answer = door.note(token, "one", f"  Ada prefers tea, {AWS} ", importance=0.834)
    assert answer.status == 200
    (row,) = fleet.inbox.waiting(place.id)
    text = "Ada prefers tea, [redacted: aws key id]"
    assert (row.kind, json.loads(row.body)) == ("note", {"text": text, "importance": 0.83})
    at = row.at.replace(microsecond=0).isoformat().replace("+00:00", "Z")
    assert answer.json == {"at": at, "importance": 0.83, "text": text, "crystal": "pending"}
    fields = {"note": "Ada prefers coffee", "replaces": f"prefers tea, {AWS}"}
    assert door.ask(token, "POST", "/v1/workspaces/one/working_memory_note", fields).status == 200
    assert fleet.inbox.waiting(place.id)[1].note().replaces == "prefers tea, [redacted: aws key id]"


def test_the_same_key_is_the_same_note_and_another_text_is_refused(fleet: Fleet, door: Here) -> None:
    token, place = fleet.one()
    answers = [door.note(token, "one", "tea", key="k1") for _ in range(3)]
    assert {answer.body for answer in answers} == {answers[0].body}
    for _ in range(2):
        refused = door.note(token, "one", "coffee", key="k1")
        assert (refused.status, refused.code) == (409, "CONFLICT")
        assert door.note(token, "one", "tea", key="k1").status == 200
        # And when a generation has it.
        door.do(token, place, "session_open", session_id="s1")
        assert fleet.waiting(place) == 0
    assert fleet.crystals(place) == ["tea"]


@pytest.mark.parametrize("key", ["", " ", "a" * 201, "ä"])
def test_a_key_that_is_none_is_refused(fleet: Fleet, door: Here, key: str) -> None:
    token, place = fleet.one()
    given = {"Idempotency-Key": key.encode().decode("latin-1")}
    answer = door.ask(token, "POST", "/v1/workspaces/one/working_memory_note", {"note": "tea"}, given)
    assert (answer.status, answer.code, fleet.waiting(place)) == (400, "VALIDATION_ERROR", 0)


def test_the_limits_of_a_note_are_those_of_the_log(fleet: Fleet, door: Here) -> None:
    token, place = fleet.one()
    for text in ("", "   \n ", "x" * 16_385):
        assert door.note(token, "one", text).status in (400, 422)
    taken = ["NUL \0 and \u2028", "emoji 🦊 and ümläut", "\x1b[31m red", "ab " * 5_461, "' OR 1=1 --"]
    for text in taken:
        assert door.note(token, "one", text).status == 200
    assert fleet.waiting(place) == len(taken)


def test_a_sessions_end_waits_in_the_inbox(fleet: Fleet, door: Here) -> None:
    token, place = fleet.one()
    fields = {"reason": "session-end", "wait": False}
    answer = door.ask(token, "POST", "/v1/workspaces/one/dream_now", fields)
    assert answer.json == {"outcome": None}
    (row,) = fleet.inbox.waiting(place.id)
    assert (row.kind, json.loads(row.body)) == ("session_end", {})
    assert door.ask(token, "POST", "/v1/workspaces/one/dream_now", {**fields, "mode": "dry"}).status == 400


def test_notes_that_come_together_are_put_together_and_each_is_answered_as_its_own(fleet: Fleet, door: Here) -> None:
    tenant = fleet.tenant()
    token = fleet.token(tenant)
    places = [fleet.place(tenant, f"w{number}") for number in range(4)]
    door.note(token, "w0", "first")
    before = door.process.arrivals.batches
    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda n: door.note(token, f"w{n % 4}", f"note {n}", key=f"k{n}"), range(120)))
        statuses = list(
            pool.map(lambda n: door.note(token, "w0", "tea" if n % 2 else "coffee", "one").status, range(8))
        )
    assert [answer.json["text"] for answer in answers] == [f"note {n}" for n in range(120)]
    assert sorted(statuses) == [200] * 4 + [409] * 4
    assert door.process.arrivals.batches - before < 120
    assert [fleet.waiting(place) for place in places] == [32, 30, 30, 30]


def test_so_many_notes_a_minute_and_then_the_client_is_told_when(fleet: Fleet, door: Here) -> None:
    limited, free = fleet.tenant("limited", Quotas(notes_per_minute=3)), fleet.tenant("free")
    token, other = fleet.token(limited), fleet.token(free)
    for tenant in (limited, free):
        fleet.place(tenant, "one")
    statuses = [door.note(token, "one", f"note {number}").status for number in range(8)]
    assert statuses.count(200) in (3, 4, 5, 6)  # a minute may end meanwhile
    refused = door.note(token, "one", "one more")
    if refused.status != 200:
        assert (refused.status, refused.code) == (429, "QUOTA")
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert door.note(other, "one", "tea").status == 200


def test_a_full_workspace_takes_no_note_and_no_item(fleet: Fleet, door: Here) -> None:
    tenant = fleet.tenant("small", Quotas(bytes_per_workspace=10_000))
    token, place = fleet.token(tenant), fleet.place(tenant, "one")
    assert door.do(token, place, "session_open", session_id="s1").status == 200
    item = {"session_id": "s1", "content": "tea", "priority": "high"}
    for refused in (door.note(token, "one", "tea"), door.do(token, place, "working_memory_add", **item)):
        assert (refused.status, refused.code) == (429, "QUOTA")
        assert "Retry-After" not in refused.headers


def test_a_note_for_a_workspace_that_has_gone_is_refused_at_once(fleet: Fleet, door: Here) -> None:
    tenant = fleet.tenant()
    token, place = fleet.token(tenant), fleet.place(tenant, "one")
    assert door.note(token, "one", "tea").status == 200
    fleet.database.removals.close(place)  # by another process
    assert door.note(token, "one", "tea").status == 404
    fleet.database.removals.drop(place)
    again = fleet.place(tenant, "one")
    assert door.note(token, "one", "tea").status == 200
    assert fleet.waiting(again) == 1
