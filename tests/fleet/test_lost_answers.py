"""PostgreSQL did what was asked, and its answer is lost: it is done once, and whoever asked is told the truth.

Real processes; between each of them and PostgreSQL stands a door that loses the answer to one statement.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from tests.fleet.house import House
from tests.fleet.machines import Fleet, Known, Machine
from tests.support import lived
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


@dataclass(frozen=True, slots=True)
class Doubtful(House):
    """A fleet of three machines, with a new workspace for each test, which is asked of one of them."""

    def workspace(self) -> Known:
        return self.fleet.known.pop()

    asked: int = 0

    @property
    def door(self) -> Machine:
        return self.fleet.machines[self.asked % len(self.fleet.machines)]

    @property
    def elsewhere(self) -> "Doubtful":
        """The same fleet, with another machine to be asked."""
        return Doubtful(self.fleet, self.database, self.asked + 1)

    @property
    def lost(self) -> int:
        """How many answers were."""
        return sum(one.database.lost for one in self.fleet.machines)

    def touch(self, known: Known) -> bool:
        """Whether something small is written."""
        item = {"session_id": "s1", "content": f"it was looked at {uuid4().hex}", "priority": "low"}
        return self.ask(known, "/working_memory_add", item)[0] == 200

    def owner(self, known: Known) -> Machine:
        """The machine that holds it: another than the one that is asked, where nobody does yet."""
        row = self.row(known)
        if row["owner"] is None:
            assert self.elsewhere.touch(known)
        else:
            assert self.touch(known)
        found = self.database.row("SELECT p.address FROM workspaces w JOIN processes p ON p.id = w.owner"
                                  " WHERE w.id = %(id)s", {"id": known.id})  # fmt: skip
        assert found is not None
        [holder] = [one for one in self.fleet.machines if found["address"].endswith(f":{one.front.port}")]
        return holder

    def lose_commit(self, known: Known) -> Partition:
        """The answer to the owner's next commit of a generation of this workspace is lost; the owner's door."""
        door = self.owner(known).database
        door.lose_answer(f"{known.prefix}/generations/".encode())
        return door

    def lose_commit_and_line(self, known: Known) -> Partition:
        """And from then on the owner cannot ask PostgreSQL."""
        door = self.owner(known).database
        door.lose_answer(f"{known.prefix}/generations/".encode(), door.refuse)
        return door

    def causes(self, known: Known) -> list[str]:
        rows = lived.rows(self.last(known), "SELECT cause FROM feelings ORDER BY key")
        return [row["cause"] for row in rows]


@pytest.fixture(scope="module")
def house() -> Iterator[Doubtful]:
    with Fleet("folder", 3, settings=_CALM) as fleet, fleet.database() as database:
        fleet.settle(12, 1)
        fleet.start()
        yield Doubtful(fleet, database)


@pytest.fixture(autouse=True)
def _healed(house: Doubtful) -> Iterator[None]:
    yield
    for machine in house.fleet.machines:
        machine.database.lose_answer(b"")
        machine.database.heal()
        assert machine.lives, machine.tail()


def test_a_write_whose_commit_was_not_answered_is_there_once(house: Doubtful) -> None:
    known, before = house.workspace(), house.lost
    for text in ("the first", "the second"):
        house.lose_commit(known)
        status, reply = house.ask(known, "/feel", {"event": "reward", "because": text})
        assert (status, reply.get("code")) == (200, None)
    assert house.lost == before + 2
    assert house.causes(known) == ["the first", "the second"]


def test_a_dream_and_a_version_brought_back_are_there_once(house: Doubtful) -> None:
    known, before = house.workspace(), house.lost
    for text in ("Ada prefers tea", "Grace prefers coffee"):
        assert house.ask(known, "/working_memory_note", {"note": text, "importance": 0.9})[0] == 200
        house.lose_commit(known)
        status, reply = house.ask(known, "/dream_now", {"wait": True})
        assert status == 200, reply
    house.lose_commit(known)
    status, reply = house.ask(known, "/restore", {"version": 1})
    assert status == 200, reply
    assert house.lost == before + 3
    here = house.last(known)
    made = [(row["cause"], row["dream"]) for row in lived.versions(here) if row["number"]]
    assert [cause for cause, _ in made] == ["dream", "dream", "restore"]
    assert made[2][1] == reply["dream"]["id"]
    assert sorted(row["text"] for row in lived.rows(here, "SELECT text FROM crystals WHERE origin = 'scratch'")) == [
        "Ada prefers tea",
        "Grace prefers coffee",
    ]
    rows = house.database.rows("SELECT dreams FROM spending WHERE workspace = %(id)s", {"id": known.id})
    assert [row["dreams"] for row in rows] == [2]


def test_what_was_forgotten_is_gone_though_its_commit_was_not_answered(house: Doubtful) -> None:
    known, before = house.workspace(), house.lost
    word = "Zanzibarquartz"
    for text in (f"Ada was in {word}", "Grace prefers coffee"):
        assert house.ask(known, "/working_memory_note", {"note": text, "importance": 0.9})[0] == 200
    assert house.ask(known, "/dream_now", {"wait": True})[0] == 200
    house.lose_commit(known)
    status, reply = house.ask(known, "/forget", {"text": f"Ada was in {word}", "confirm": True})
    assert status == 200, reply
    assert house.lost == before + 1
    objects = (house.fleet.folder / "objects" / known.prefix).rglob("*")
    assert [path for path in objects if path.is_file() and word.encode() in held_in(path)] == []


def test_who_cannot_learn_of_its_commit_says_that_nobody_knows(house: Doubtful) -> None:
    """PostgreSQL did it, and cannot be asked by its holder for longer than it asks."""
    known, before = house.workspace(), house.lost
    assert house.ask(known, "/feel", {"event": "reward", "because": "the first"})[0] == 200
    door = house.lose_commit_and_line(known)
    status, reply = house.ask(known, "/feel", {"event": "reward", "because": "the second"})
    assert house.lost == before + 1
    assert (status, reply["code"]) == _UNKNOWN
    assert "look whether it is there" in reply["error"]
    door.heal()
    until(lambda: house.ask(known, "/feel", {"event": "reward", "because": "the third"})[0] == 200)
    assert house.causes(known) == ["the first", "the second", "the third"]


def test_who_lost_the_answer_to_a_dream_says_that_nobody_knows(house: Doubtful) -> None:
    known, before = house.workspace(), house.lost
    assert house.ask(known, "/working_memory_note", {"note": "Ada prefers tea", "importance": 0.9})[0] == 200
    door = house.lose_commit_and_line(known)
    status, reply = house.ask(known, "/dream_now", {"wait": True})
    assert house.lost == before + 1
    door.heal()
    until(lambda: house.touch(known))
    here = house.last(known)
    assert [row["cause"] for row in lived.versions(here) if row["number"]] == ["dream"]
    lived.assert_once(here, ["Ada prefers tea"])
    # It is there: to be told to try again would be wrong.
    assert (status, reply["code"]) == _UNKNOWN


def test_who_is_displaced_before_it_learns_of_its_commit_says_that_nobody_knows(house: Doubtful) -> None:
    known, before = house.workspace(), house.lost
    assert house.ask(known, "/feel", {"event": "reward", "because": "the first"})[0] == 200
    door = house.lose_commit_and_line(known)
    first = house.row(known)["owner"]
    answers: list[tuple[int, Any]] = []
    fields = {"event": "reward", "because": "the second"}
    asking = threading.Thread(target=lambda: answers.append(house.ask(known, "/feel", fields)))
    asking.start()
    until(lambda: house.lost == before + 1)
    of_another = {"event": "reward", "because": "of another"}
    until(lambda: house.elsewhere.ask(known, "/feel", of_another)[0] == 200)
    assert house.row(known)["owner"] != first
    door.heal()
    asking.join(90)
    [(status, reply)] = answers
    assert (status, reply["code"]) == _UNKNOWN
    assert house.causes(known) == ["the first", "the second", "of another"]


def test_a_note_whose_row_was_not_answered_is_taken_once(house: Doubtful) -> None:
    known, before, key = house.workspace(), house.lost, f"key-{uuid4().hex}"
    house.door.database.lose_answer(key.encode())
    body = {"note": "Ada prefers tea", "importance": 0.9}
    assert house.ask(known, "/working_memory_note", body, key)[0] == 200
    assert house.lost == before + 1
    # PostgreSQL has it, and cannot be asked for longer than the machine asks.
    other = f"key-{uuid4().hex}"
    house.door.database.lose_answer(other.encode(), house.door.database.refuse)
    second = {"note": "Grace prefers coffee", "importance": 0.9}
    status, reply = house.ask(known, "/working_memory_note", second, other)
    assert house.lost == before + 2
    assert (status, reply["code"]) in {(503, "UNREACHABLE"), _UNKNOWN}
    house.door.database.heal()
    until(lambda: house.ask(known, "/working_memory_note", second, other)[0] == 200)
    for given, same in ((key, body), (other, second)):
        assert house.ask(known, "/working_memory_note", same, given)[0] == 200
    assert house.ask(known, "/working_memory_note", body, other)[0] == 409
    rows = house.database.rows("SELECT key FROM inbox WHERE workspace = %(id)s ORDER BY id", {"id": known.id})
    assert [row["key"] for row in rows] == [key, other]
    assert house.ask(known, "/dream_now", {"wait": True})[0] == 200
    lived.assert_once(house.last(known), ["Ada prefers tea", "Grace prefers coffee"])


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_workspace_that_is_made_or_removed_without_an_answer(house: Doubtful, method: str) -> None:
    token, name, before = house.fleet.known[0].token, f"made-{uuid4().hex[:8]}", house.lost
    if method == "DELETE":
        assert house.ask_at("/v1/workspaces", token, {"name": name})[0] == 200
    assert house.ask_at("/v1/workspaces", token)[0] == 200
    house.door.database.lose_answer(b"COMMIT")
    if method == "DELETE":
        status, reply = house.ask_at(f"/v1/workspaces/{name}", token, method=method)
    else:
        status, reply = house.ask_at("/v1/workspaces", token, {"name": name})
    assert house.lost == before + 1
    there = name in str(house.ask_at("/v1/workspaces", token)[1])
    assert there == (method == "POST")
    assert status == 200 or (status, reply["code"]) == _UNKNOWN, reply
