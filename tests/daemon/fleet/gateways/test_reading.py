"""What is read at a gateway is the last generation and every note that was acknowledged since, owned or not."""

import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from state.fleet.workspace import Place, Worker
from state.stores.database.connection import open_database
from state.stores.disk.workspace import contained, init_workspace
from state.stores.fleet.leases import Leases
from state.stores.fleet.processes import Session
from state.stores.history.bootstraps import carry_receipt, receipts
from tests.daemon.fleet.gateways.running import Door, Fleet, until

MEMORY = "# MEMORY.md\n\n## The Bond\n\n- Ada likes green tea\n"


def remembered(text: str = MEMORY) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "MEMORY.md").write_text(text)
        open_database(contained(folder).database).close()

    return write


def one(home: Fleet) -> tuple[str, Place]:
    tenant = home.tenant()
    return home.token(tenant), home.places.add(tenant, "one")


def test_a_note_is_found_at_once_in_a_workspace_that_nobody_ever_owned(home: Fleet, door: Door) -> None:
    token, _ = one(home)
    assert "tea" not in door.bootstrap(token, "one")
    assert door.search(token, "one", "tea") == []
    door.note(token, "one", "Ada prefers tea over coffee")
    assert door.search(token, "one", "tea coffee") == ["Ada prefers tea over coffee"]
    assert "Ada prefers tea" in door.bootstrap(token, "one")
    door.note(token, "one", "The port is 8443")
    assert "The port is 8443" in door.search(token, "one", "port 8443")
    assert "The port is 8443" in door.bootstrap(token, "one")


def test_the_last_generation_is_read_with_what_came_since(home: Fleet, door: Door) -> None:
    token, place = one(home)
    home.commit(place, remembered())
    state = door.ask(token, "GET", "/v1/workspaces/one/memory_state").json
    assert state["text"] == MEMORY
    door.note(token, "one", "a first note")
    assert "a first note" in door.bootstrap(token, "one")
    assert "green tea" in door.bootstrap(token, "one")
    home.commit(place, remembered(MEMORY.replace("green", "black")))
    again = door.bootstrap(token, "one")
    assert "black tea" in again
    assert "green tea" not in again


def test_a_note_that_a_generation_took_in_is_not_given_twice(home: Fleet, door: Door) -> None:
    token, place = one(home)
    home.commit(place, remembered())
    door.note(token, "one", "only once")
    assert door.bootstrap(token, "one").count("only once") == 1

    def absorb(folder: Path) -> None:
        (folder / "memory").mkdir(exist_ok=True)
        (folder / "memory" / "scratch.md").write_text(
            "# Scratch Buffer (Working Memory WAL)\n\n- [2026-03-12T14:30:00Z] (importance: 0.7) only once\n"
        )

    home.commit(place, absorb)
    assert home.inbox.waiting(place.id) == []
    assert door.bootstrap(token, "one").count("only once") == 1


def test_many_read_while_generations_come_and_each_reads_a_whole_one(home: Fleet, door: Door) -> None:
    token, place = one(home)
    home.commit(place, remembered("version 0\n" * 200))
    seen, stop = list[str](), threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.append(door.ask(token, "GET", "/v1/workspaces/one/memory_state").json["text"])

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(1, 12):
        home.commit(place, remembered(f"version {number}\n" * 200))
    stop.set()
    for reader in readers:
        reader.join()
    assert all(len(set(text.splitlines())) == 1 for text in seen)
    assert door.ask(token, "GET", "/v1/workspaces/one/memory_state").json["text"].startswith("version 11")
    assert len(seen) > 3


def test_a_bootstrap_leaves_its_receipt_in_the_inbox_for_the_owner(home: Fleet, door: Door) -> None:
    token, place = one(home)
    home.commit(place, remembered())
    answer = door.ask(token, "GET", "/v1/workspaces/one/memory_bootstrap?agent=claude-code&receipt=HTTP")
    assert answer.status == 200
    assert door.ask(token, "GET", "/v1/workspaces/one/memory_bootstrap?receipt=none").status == 200
    (row,) = [row for row in home.inbox.waiting(place.id) if row.kind == "receipt"]
    workspace = init_workspace(contained(home.folder / "other"))
    carry_receipt(workspace, json.loads(row.body)["line"])
    (receipt,) = receipts(workspace)
    assert (receipt.how, receipt.agent) == ("HTTP", "claude-code")
    shown = door.ask(token, "GET", "/v1/workspaces/one/bootstraps").json
    assert [entry["agent"] for entry in shown["receipts"]] == ["claude-code"]


def test_what_was_forgotten_leaves_every_gateway(home: Fleet, door: Door) -> None:
    token, place = one(home)
    home.commit(place, remembered("a secret thing\n"))
    assert "a secret thing" in door.bootstrap(token, "one")
    folder = door.gateway.parts.replicas._folder
    assert b"a secret thing" in _bytes(folder)
    home.database.rows(
        "INSERT INTO erasures (tenant, workspace) VALUES (%(tenant)s, %(id)s)",
        {"tenant": place.tenant, "id": place.id},
    )
    until(lambda: b"a secret thing" not in _bytes(folder))
    assert "a secret thing" in door.bootstrap(token, "one")  # the generation still has it here


def test_a_removed_workspace_is_gone_for_every_gateway(home: Fleet, door: Door) -> None:
    token, _ = one(home)
    door.note(token, "one", "something to remember")
    assert door.search(token, "one", "something remember")
    with home.door() as other:
        assert other.search(token, "one", "something remember")
        folders = [gate.gateway.parts.replicas._folder for gate in (door, other)]
        assert door.ask(token, "DELETE", "/v1/workspaces/one").json == {"name": "one"}
        for gate in (door, other):
            assert gate.ask(token, "GET", "/v1/workspaces/one/memory_bootstrap").status == 404
        until(lambda: all(b"something to remember" not in _bytes(folder) for folder in folders))


def test_the_copies_that_were_read_longest_ago_go(home: Fleet, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = home.tenant()
    token = home.token(tenant)
    for number in range(6):
        home.places.add(tenant, f"w{number}")
    replicas = door.gateway.parts.replicas
    monkeypatch.setattr("daemon.fleet.gateways.replicas._MOST_REPLICAS", 3)
    for number in range(6):
        door.note(token, f"w{number}", f"number {number}")
        assert f"number {number}" in door.bootstrap(token, f"w{number}")
    assert len(replicas) == 3
    assert len(list(replicas._folder.iterdir())) == 3
    assert "number 0" in door.bootstrap(token, "w0")


def test_an_owner_that_is_silent_holds_up_no_reader(home: Fleet, door: Door) -> None:
    token, place = one(home)
    home.commit(place, remembered())
    owner = Worker(uuid4(), "127.0.0.1:9", "secret")
    session = Session(home.database, "worker", owner, "here", "1")
    session.beat()
    assert Leases(home.database).take(place.id, owner.id) is not None
    door.note(token, "one", "Ada prefers tea over coffee")
    assert door.search(token, "one", "tea coffee")[:1] == ["Ada prefers tea over coffee"]
    assert "green tea" in door.bootstrap(token, "one")
    session.end()


def test_a_store_that_is_away_is_told_without_the_operators_words(home: Fleet, door: Door) -> None:
    token, place = one(home)
    home.commit(place, remembered())
    (home.folder / "objects").rename(home.folder / "away")
    answer = door.ask(token, "GET", "/v1/workspaces/one/memory_bootstrap")
    assert (answer.status, answer.code) == (503, "UNREACHABLE")
    assert answer.json["error"] == "the service cannot do this now; try again"
    assert door.note(token, "one", "still taken").status == 200
    (home.folder / "away").rename(home.folder / "objects")
    assert "still taken" in door.bootstrap(token, "one")


def _bytes(folder: Path) -> bytes:
    """Every byte below the folder, which may go meanwhile."""
    found = b""
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                found += (Path(place) / name).read_bytes()
    return found
