"""What changes a workspace is done by its owner: it is found, taken over when it dies, and nothing is done twice."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from daemon.fleet.gateways.worker_calls import chosen
from state.fleet.tenant import Tenant
from state.fleet.workspace import Place, Worker
from state.stores.fleet.leases import Leases
from state.stores.fleet.processes import Processes, Session
from tests.daemon.fleet.gateways.running import OPERATOR, Door, Fleet, until

ROOT = Path(__file__).parents[4]


@contextmanager
def process(home: Fleet, kind: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """`dreamd worker` or `dreamd gateway` in a process of its own."""
    fleet = home.config.fleet
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(home.folder / "home"),
        "XDG_STATE_HOME": str(home.folder / "state"),
        "XDG_CONFIG_HOME": "/nonexistent",
        "DREAMD_FLEET__DATABASE": fleet.database,
        "DREAMD_FLEET__OBJECTS": fleet.objects,
        "DREAMD_FLEET__FOLDER": str(home.folder / "processes"),
        "DREAMD_FLEET__GATEWAY_PORT": "0",
        "DREAMD_LOG__FORM": "json",
        **more,
    }
    with (home.folder / f"{kind}-{os.urandom(3).hex()}.log").open("wb") as log:
        one = subprocess.Popen([sys.executable, "-m", "daemon", kind], cwd=ROOT, env=variables, stderr=log)
        try:
            yield one
        finally:
            if one.poll() is None:
                one.kill()
            one.wait(60)


def ends(one: subprocess.Popen[bytes]) -> float:
    """End it in order; how long that took."""
    began = time.monotonic()
    one.send_signal(signal.SIGTERM)
    one.wait(12)
    return time.monotonic() - began


def workers(home: Fleet, count: int) -> None:
    until(lambda: len(Processes(home.database).workers()) == count, 60)


def owner(home: Fleet, place: Place) -> UUID | None:
    found = Leases(home.database).owner_of(place.id)
    return found.id if found else None


def one(home: Fleet) -> tuple[Tenant, str, Place]:
    tenant = home.tenant()
    return tenant, home.token(tenant), home.places.add(tenant, "one")


@pytest.mark.full
def test_writes_go_to_an_owner_and_the_next_owner_when_it_is_killed(home: Fleet, door: Door) -> None:
    _, token, place = one(home)
    with process(home, "worker") as first:
        workers(home, 1)
        door.note(token, "one", "Ada prefers tea over coffee")
        answer = door.ask(token, "POST", "/v1/workspaces/one/feel", {"event": "error"})
        assert answer.status == 200, answer.body
        assert owner(home, place) is not None
        assert door.search(token, "one", "tea coffee") == ["Ada prefers tea over coffee"]
        before = door.ask(token, "GET", "/v1/workspaces/one/mood").json
        with process(home, "worker"):
            workers(home, 2)
            first.kill()
            first.wait(60)  # while it dies its port takes connections
            began = time.monotonic()
            after = door.ask(token, "POST", "/v1/workspaces/one/feel", {"event": "error"})
            assert after.status == 200, after.body
            assert time.monotonic() - began < 20
            assert after.json["cortisol"] > before["cortisol"] * 0.9
            assert door.search(token, "one", "tea coffee") == ["Ada prefers tea over coffee"]
            dreamt = door.ask(token, "POST", "/v1/workspaces/one/dream_now", {}, {"Accept": "application/x-ndjson"})
            lines = [json.loads(line) for line in dreamt.body.splitlines()]
            assert any("step" in line for line in lines)
            assert "reply" in lines[-1], lines[-1]


@pytest.mark.full
def test_a_gateway_ends_in_order_and_another_goes_on(home: Fleet) -> None:
    _, token, place = one(home)
    with ExitStack() as stack:
        gates = [stack.enter_context(process(home, "gateway", DREAMD_TOKEN=OPERATOR)) for _ in range(2)]
        until(lambda: len(_gateways(home)) == 2, 60)
        ports = sorted(int(address.rpartition(":")[2]) for address in _gateways(home))
        doors = [Door(None, port) for port in ports]  # type: ignore[arg-type]
        stop, sent = threading.Event(), list[tuple[str, int]]()

        def send(index: int) -> None:
            number = 0
            while not stop.is_set():
                number += 1
                text = f"note {index}-{number}"
                for each in (doors[index % 2], doors[(index + 1) % 2]):
                    try:
                        status = each.note(token, "one", text, key=text).status
                    except OSError:
                        continue
                    if status == 200:
                        sent.append((text, status))
                        break

        threads = [threading.Thread(target=send, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        assert ends(gates[0]) < 10
        time.sleep(0.5)
        stop.set()
        for thread in threads:
            thread.join()
        assert ends(gates[1]) < 10
        assert _gateways(home) == []
    texts = [json.loads(row.body)["text"] for row in home.inbox.waiting(place.id)]
    assert len(texts) == len(set(texts))
    assert {text for text, _ in sent} <= set(texts)
    assert len(sent) > 20


def _gateways(home: Fleet) -> list[str]:
    return [process.address for process in Processes(home.database).all() if process.kind == "gateway"]


def test_nobody_owns_it_and_nobody_is_there(home: Fleet, door: Door) -> None:
    _, token, _ = one(home)
    door.gateway.parts.calls._patience = 0.5
    answer = door.ask(token, "POST", "/v1/workspaces/one/feel", {"event": "error"})
    assert (answer.status, answer.code) == (503, "UNREACHABLE")
    assert answer.json["error"] == "the service cannot do this now; try again"


class Listener:
    """A worker that is none: it answers each request with what it was made with."""

    def __init__(self, *answers: bytes) -> None:
        self.requests: list[bytes] = []
        self._answers = list(answers)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.worker = Worker(uuid4(), f"http://127.0.0.1:{self._socket.getsockname()[1]}", "the-secret")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                got = b""
                while b"\r\n\r\n" not in got or not _whole(got):
                    got += connection.recv(65_536)
                self.requests.append(got)
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                connection.sendall(answer)

    def close(self) -> None:
        self._socket.close()


def _whole(got: bytes) -> bool:
    head, _, body = got.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return length is None or len(body) >= int(length.group(1))


def answered(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status, len(body), body)


MOOD = b'{"dopamine": 0.1, "cortisol": 0.2, "oxytocin": 0.3, "mood": "calm", "at": "2026-01-01T00:00:00Z"}'
DONE = answered(200, b'{"notice": "see /home/operator/fleet/ws-1/x"}\n{"reply": ' + MOOD + b"}\n")
NOT_KEPT = answered(503, b'{"error": "another one has it", "code": "NOT_KEPT", "details": {}}')
CUT_OFF = b"HTTP/1.1 200 X\r\nContent-Length: 500\r\n\r\n"


def asked(home: Fleet, door: Door, *answers: bytes) -> tuple[Listener, tuple[int, dict[str, object]]]:
    _, token, place = one(home)
    listener = Listener(*answers)
    session = Session(home.database, "worker", listener.worker, "here", "1")
    session.beat()
    assert Leases(home.database).take(place.id, listener.worker.id) is not None
    door.gateway.parts.calls._patience = 2
    answer = door.ask(token, "POST", "/v1/workspaces/one/feel", {"event": "error"})
    listener.close()
    session.end()
    return listener, (answer.status, answer.json)


def test_a_worker_that_has_it_no_more_is_asked_again_when_it_has(home: Fleet, door: Door) -> None:
    listener, (status, reply) = asked(home, door, NOT_KEPT, NOT_KEPT, DONE)
    assert (status, reply["mood"]) == (200, "calm")
    assert len(listener.requests) == 3
    assert b"Authorization: Bearer the-secret" in listener.requests[0]
    assert b"Host: localhost" in listener.requests[0]
    assert listener.requests[0].count(b"uthorization") == 1


def test_what_may_have_been_done_is_not_sent_again(home: Fleet, door: Door) -> None:
    listener, (status, reply) = asked(home, door, CUT_OFF)
    assert status == 503
    assert "look whether it is there" in str(reply["error"])
    assert reply["code"] == "UNKNOWN_OUTCOME"
    assert len(listener.requests) == 1


def test_an_owners_error_comes_as_it_is_but_for_its_paths(home: Fleet, door: Door) -> None:
    error = b'{"error": "/srv/own/ws-1/x: a dream is under way; wait", "code": "BUSY", "details": {}}'
    listener, (status, reply) = asked(home, door, answered(409, error))
    assert (status, reply["code"]) == (409, "BUSY")
    assert "/srv" not in str(reply["error"])
    assert "a dream is under way" in str(reply["error"])
    assert len(listener.requests) == 1


def test_every_gateway_chooses_the_same_worker_of_the_less_busy() -> None:
    every = [Worker(uuid4(), f"127.0.0.1:{number}", "s") for number in range(8)]
    places = [Place(number, 1, "acme", f"w{number}") for number in range(200)]
    picked = [chosen(place, every, set()) for place in places]
    assert picked == [chosen(place, [*reversed(every[:4]), *every[4:]], set()) for place in places]
    assert {worker.id for worker in picked if worker} == {worker.id for worker in every[:4]}
    assert chosen(places[0], [], set()) is None
    assert chosen(places[0], every[:1], {every[0].id}) == every[0]


@pytest.mark.full
def test_who_has_the_address_of_a_dead_owner_is_not_taken_for_it(home: Fleet, door: Door) -> None:
    _, token, place = one(home)
    processes = Processes(home.database)
    with process(home, "worker"):
        workers(home, 1)
        [living] = processes.workers()
        dead = Worker(uuid4(), living.address, "the secret of the one before")
        session = Session(home.database, "worker", dead, "here", "1")
        session.beat()
        assert Leases(home.database).take(place.id, dead.id)
        noticed = threading.Timer(1.0, session.end)
        noticed.start()

        answer = door.ask(token, "POST", "/v1/workspaces/one/feel", {"event": "reward"})

        noticed.join()
        assert answer.status == 200, answer.body
        assert owner(home, place) == living.id
