"""PostgreSQL did what was asked, and its answer is lost: it is done once, and whoever asked is told the truth.

Real processes; between each of them and PostgreSQL stands a door that loses the answer to one statement.
"""

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.fleet.machines import Fleet, Known
from tests.support import lived
from tests.support.folders import files_below
from tests.support.generation_folders import held_in
from tests.support.partition import Partition
from tests.support.serving import until

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]

_UNKNOWN = (503, "UNKNOWN_OUTCOME")
# A dream comes when somebody asks for it alone.
_CALM = {
    "DREAMD_DREAM__IDLE_MINUTES": "600",
    "DREAMD_DREAM__INTERVAL_MINUTES": "600",
    "DREAMD_DREAM__MIN_CHUNKS": "99",
}


@pytest.fixture(scope="module")
def whole() -> Iterator[Fleet]:
    """Three machines, with a workspace for each test."""
    with Fleet("folder", 3, settings=_CALM) as fleet:
        fleet.settle(12, 1)
        fleet.start()
        yield fleet


@pytest.fixture
def fleet(whole: Fleet) -> Iterator[Fleet]:
    """They are as they were when the test ends."""
    yield whole
    for machine in whole.machines:
        machine.database.lose_answer(b"")
        machine.database.heal()
        assert machine.lives, machine.tail()


def lost(fleet: Fleet) -> int:
    """How many answers were."""
    return sum(one.database.lost for one in fleet.machines)


def touch(fleet: Fleet, known: Known, of: int = -1) -> bool:
    """Whether something small is written."""
    item = {"session_id": "s1", "content": f"it was looked at {uuid4().hex}", "priority": "low"}
    return fleet.ask(known, "/working_memory_add", item, of=of)[0] == 200


def lose_commit(fleet: Fleet, known: Known, *, and_line: bool = False) -> Partition:
    """The answer to the owner's next commit of a generation of this workspace is lost; the owner's door.

    The owner is another machine than the one that is asked, where nobody holds it yet. `and_line`: from then on it
    cannot ask PostgreSQL.
    """
    assert touch(fleet, known, 0 if fleet.tables.row(known)["owner"] is None else -1)
    owner = fleet.tables.row(known)["owner"]
    found = fleet.tables.database.row("SELECT address FROM processes WHERE id = %(id)s", {"id": owner})
    assert found is not None
    [door] = [one.database for one in fleet.machines if found["address"].endswith(f":{one.front.port}")]
    door.lose_answer(b"UPDATE workspaces w SET generation", *([door.refuse] if and_line else []))
    return door


def causes(fleet: Fleet, known: Known) -> list[str]:
    rows = lived.rows(fleet.tables.last(known), "SELECT cause FROM feelings ORDER BY key")
    return [row["cause"] for row in rows]


def test_a_write_whose_commit_was_not_answered_is_there_once(fleet: Fleet) -> None:
    known, before = fleet.known.pop(), lost(fleet)
    for text in ("the first", "the second"):
        lose_commit(fleet, known)
        status, reply = fleet.ask(known, "/feel", {"event": "reward", "because": text})
        assert (status, reply.get("code")) == (200, None)
    assert lost(fleet) == before + 2
    assert causes(fleet, known) == ["the first", "the second"]


def test_a_dream_and_a_version_brought_back_are_there_once(fleet: Fleet) -> None:
    known, before = fleet.known.pop(), lost(fleet)
    for text in ("Ada prefers tea", "Grace prefers coffee"):
        assert fleet.ask(known, "/working_memory_note", {"note": text, "importance": 0.9})[0] == 200
        lose_commit(fleet, known)
        status, reply = fleet.ask(known, "/dream_now", {"wait": True})
        assert status == 200, reply
    lose_commit(fleet, known)
    status, reply = fleet.ask(known, "/restore", {"version": 1})
    assert status == 200, reply
    assert lost(fleet) == before + 3
    here = fleet.tables.last(known)
    made = [(row["cause"], row["dream"]) for row in lived.versions(here) if row["number"]]
    assert [cause for cause, _ in made] == ["dream", "dream", "restore"]
    assert made[2][1] == reply["dream"]["id"]
    assert sorted(row["text"] for row in lived.rows(here, "SELECT text FROM crystals WHERE origin = 'scratch'")) == [
        "Ada prefers tea",
        "Grace prefers coffee",
    ]
    rows = fleet.tables.database.rows("SELECT dreams FROM spending WHERE workspace = %(id)s", {"id": known.id})
    assert [row["dreams"] for row in rows] == [2]


def test_what_was_forgotten_is_gone_though_its_commit_was_not_answered(fleet: Fleet) -> None:
    known, before = fleet.known.pop(), lost(fleet)
    word = "Zanzibarquartz"
    for text in (f"Ada was in {word}", "Grace prefers coffee"):
        assert fleet.ask(known, "/working_memory_note", {"note": text, "importance": 0.9})[0] == 200
    assert fleet.ask(known, "/dream_now", {"wait": True})[0] == 200
    lose_commit(fleet, known)
    status, reply = fleet.ask(known, "/forget", {"text": f"Ada was in {word}", "confirm": True})
    assert status == 200, reply
    assert lost(fleet) == before + 1
    objects = files_below(fleet.folder / "objects" / known.prefix)
    assert [path for path in objects if word.encode() in held_in(path)] == []


def test_who_cannot_learn_of_its_commit_says_that_nobody_knows(fleet: Fleet) -> None:
    """PostgreSQL did it, and cannot be asked by its holder for longer than it asks."""
    known, before = fleet.known.pop(), lost(fleet)
    assert fleet.ask(known, "/feel", {"event": "reward", "because": "the first"})[0] == 200
    door = lose_commit(fleet, known, and_line=True)
    status, reply = fleet.ask(known, "/feel", {"event": "reward", "because": "the second"})
    assert lost(fleet) == before + 1
    assert (status, reply["code"]) == _UNKNOWN
    assert "look whether it is there" in reply["error"]
    door.heal()
    until(lambda: fleet.ask(known, "/feel", {"event": "reward", "because": "the third"})[0] == 200)
    assert causes(fleet, known) == ["the first", "the second", "the third"]


def test_who_lost_the_answer_to_a_dream_says_that_nobody_knows(fleet: Fleet) -> None:
    known, before = fleet.known.pop(), lost(fleet)
    assert fleet.ask(known, "/working_memory_note", {"note": "Ada prefers tea", "importance": 0.9})[0] == 200
    door = lose_commit(fleet, known, and_line=True)
    status, reply = fleet.ask(known, "/dream_now", {"wait": True})
    assert lost(fleet) == before + 1
    door.heal()
    until(lambda: touch(fleet, known))
    here = fleet.tables.last(known)
    assert [row["cause"] for row in lived.versions(here) if row["number"]] == ["dream"]
    lived.assert_once(here, ["Ada prefers tea"])
    # It is there: to be told to try again would be wrong.
    assert (status, reply["code"]) == _UNKNOWN


def test_who_is_displaced_before_it_learns_of_its_commit_says_that_nobody_knows(fleet: Fleet) -> None:
    known, before = fleet.known.pop(), lost(fleet)
    assert fleet.ask(known, "/feel", {"event": "reward", "because": "the first"})[0] == 200
    door = lose_commit(fleet, known, and_line=True)
    first = fleet.tables.row(known)["owner"]
    answers: list[tuple[int, Any]] = []
    fields = {"event": "reward", "because": "the second"}
    asking = threading.Thread(target=lambda: answers.append(fleet.ask(known, "/feel", fields)))
    asking.start()
    until(lambda: lost(fleet) == before + 1)
    of_another = {"event": "reward", "because": "of another"}
    until(lambda: fleet.ask(known, "/feel", of_another, of=0)[0] == 200)
    assert fleet.tables.row(known)["owner"] != first
    door.heal()
    asking.join(90)
    [(status, reply)] = answers
    assert (status, reply["code"]) == _UNKNOWN
    assert causes(fleet, known) == ["the first", "the second", "of another"]


def test_a_note_whose_row_was_not_answered_is_taken_once(fleet: Fleet) -> None:
    known, before, key = fleet.known.pop(), lost(fleet), f"key-{uuid4().hex}"
    fleet.machines[-1].database.lose_answer(key.encode())
    body = {"note": "Ada prefers tea", "importance": 0.9}
    assert fleet.ask(known, "/working_memory_note", body, key)[0] == 200
    assert lost(fleet) == before + 1
    # PostgreSQL has it, and cannot be asked for longer than the machine asks.
    other = f"key-{uuid4().hex}"
    fleet.machines[-1].database.lose_answer(other.encode(), fleet.machines[-1].database.refuse)
    second = {"note": "Grace prefers coffee", "importance": 0.9}
    status, reply = fleet.ask(known, "/working_memory_note", second, other)
    assert lost(fleet) == before + 2
    assert (status, reply["code"]) in {(503, "UNREACHABLE"), _UNKNOWN}
    fleet.machines[-1].database.heal()
    until(lambda: fleet.ask(known, "/working_memory_note", second, other)[0] == 200)
    for given, same in ((key, body), (other, second)):
        assert fleet.ask(known, "/working_memory_note", same, given)[0] == 200
    assert fleet.ask(known, "/working_memory_note", body, other)[0] == 409
    rows = fleet.tables.database.rows("SELECT key FROM inbox WHERE workspace = %(id)s ORDER BY id", {"id": known.id})
    assert [row["key"] for row in rows] == [key, other]
    assert fleet.ask(known, "/dream_now", {"wait": True})[0] == 200
    lived.assert_once(fleet.tables.last(known), ["Ada prefers tea", "Grace prefers coffee"])


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_workspace_that_is_made_or_removed_without_an_answer(fleet: Fleet, method: str) -> None:
    token, name, before = fleet.known[0].token, f"made-{uuid4().hex[:8]}", lost(fleet)
    if method == "DELETE":
        assert fleet.ask_at("/v1/workspaces", token, {"name": name})[0] == 200
    assert fleet.ask_at("/v1/workspaces", token)[0] == 200
    fleet.machines[-1].database.lose_answer(b"COMMIT")
    if method == "DELETE":
        status, reply = fleet.ask_at(f"/v1/workspaces/{name}", token, method=method)
    else:
        status, reply = fleet.ask_at("/v1/workspaces", token, {"name": name})
    assert lost(fleet) == before + 1
    there = name in str(fleet.ask_at("/v1/workspaces", token)[1])
    assert there == (method == "POST")
    assert status == 200 or (status, reply["code"]) == _UNKNOWN, reply
