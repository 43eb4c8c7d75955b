"""Serving goes on whatever clients do, and ends when it is told to."""

import asyncio
import io
import json
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.api.client import Client
from daemon.api.operations.table import OPERATIONS
from daemon.api.workers import Limits, Workers
from daemon.http.serve import serve
from daemon.http.sockets import open_port, open_socket
from daemon.observability import logs
from state.errors import OverloadedError, StorageError
from tests.daemon.http.house import GatedHouse, OwnHouse
from tests.daemon.http.running import TOKEN, Answer, Running, running, spoken
from tests.support.folders import PLACE

LINE = b"POST /v1/workspaces/a-000000/feel HTTP/1.1\r\n"
HEAD = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n".encode()
HALF = (b"", LINE[:9], LINE + HEAD, LINE + HEAD + b'Content-Length: 1000\r\n\r\n{"event')
PATIENT = Limits(head_seconds=3_600, body_seconds=3_600)
NOTE = {"note": "the heron fishes"}
_THREADS = ThreadPoolExecutor(16)


def asking(ask: Callable[[], Answer]) -> "Future[Answer]":
    """A request in a thread, because it is not answered soon."""
    return _THREADS.submit(ask)


def status_of(asked: "Future[Answer]") -> int:
    """The status of its answer; 0 where the connection broke."""
    with suppress(OSError):
        return asked.result(300).status
    return 0


@pytest.fixture
def house(tmp_path: Path) -> Iterator[GatedHouse]:
    """One with an open workspace and one that is shut."""
    house = GatedHouse()
    house.make(tmp_path / "open")
    house.shut.add(house.make(tmp_path / "shut"))
    yield house
    house.gate.set()


def names(house: GatedHouse) -> tuple[str, str]:
    (shut,) = house.shut
    (free,) = house.roots.keys() - house.shut
    return f"/v1/workspaces/{free}", f"/v1/workspaces/{shut}"


@contextmanager
def half_said(server: Running, times: int) -> Iterator[list[socket.socket]]:
    """Connections at both doors that have said half of what they want."""
    with ExitStack() as stack:
        connections = []
        for half in HALF * times:
            for connect in (server.connected, server.connected_to_port):
                connections.append(stack.enter_context(connect()))
                connections[-1].sendall(half)
        yield connections


def hear_whole(connection: socket.socket) -> None:
    """Ask, and hear the whole answer, on a connection that stays open."""
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    heard = b""
    while b'"alive"}' not in heard:
        heard += connection.recv(65_536)
    assert heard.startswith(b"HTTP/1.1 200 ")
    assert b"GMT" in heard


def hears(connection: socket.socket) -> bool:
    """Whether the server still listens to this connection, which has said half of what it wants."""
    connection.settimeout(0)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        connection.settimeout(60)


def test_hundreds_of_slow_connections_keep_nobody_out(house: GatedHouse) -> None:
    free, _ = names(house)
    few = replace(PATIENT, short_threads=1, long_threads=1)
    with running(house, few) as server, ExitStack() as stack:
        slow = [stack.enter_context(server.connected_to_port()) for _ in range(600)]
        for number, connection in enumerate(slow):
            with suppress(OSError):  # it was cut off meanwhile
                connection.sendall(HALF[number % len(HALF)])
        assert server.ask_socket("POST", f"{free}/working_memory_note", NOTE).status == 200
        assert server.ask("GET", f"{free}/mood").status == 200
        hear_whole(stack.enter_context(server.connected_to_port()))
        assert sum(map(hears, slow)) <= PATIENT.waiting


def test_a_request_that_is_being_answered_makes_no_room(house: GatedHouse) -> None:
    _, shut = names(house)
    with running(house, replace(PATIENT, waiting=2)) as server, ExitStack() as stack:
        asked = asking(lambda: server.ask("GET", f"{shut}/mood"))
        assert house.entered.acquire(timeout=300)
        for _ in range(6):
            hear_whole(stack.enter_context(server.connected_to_port()))
        house.gate.set()
        assert status_of(asked) == 200


def test_who_is_too_slow_is_cut_off(house: GatedHouse) -> None:
    with running(house, Limits(head_seconds=0.2, body_seconds=0.2)) as server, half_said(server, 1) as connections:
        assert [connection.recv(1) for connection in connections] == [b""] * len(connections)
    with running(house, Limits(head_seconds=3_600, body_seconds=0.2)) as server:
        assert spoken(server.connected_to_port(), HALF[-1]) == b""
    said = 0
    with running(house, Limits(head_seconds=0.5)) as server, server.connected_to_port() as connection:
        hear_whole(connection)
        with suppress(OSError):  # an endless header, of a second request on the same connection
            connection.sendall(b"GET / HTTP/1.1\r\nX-Long: ")
            while said < 6_000:
                connection.sendall(b"a")
                said += 1
                time.sleep(0.01)
    assert said < 6_000


def test_a_workspace_that_hangs_leaves_threads_to_the_others(house: GatedHouse) -> None:
    free, shut = names(house)
    with running(house, Limits(short_threads=3, threads_of_a_workspace=2)) as server:
        hanging = [asking(lambda: server.ask("GET", f"{shut}/mood")) for _ in range(8)]
        for _ in range(2):
            assert house.entered.acquire(timeout=300)
        assert server.ask("GET", f"{free}/mood").status == 200
        assert not house.entered.acquire(blocking=False)
        house.gate.set()
        assert [*map(status_of, hanging)] == [200] * 8


def test_long_things_leave_threads_to_the_short_ones(house: GatedHouse) -> None:
    free, shut = names(house)
    with running(house, Limits(short_threads=1, long_threads=2)) as server:
        dreams = [asking(lambda: server.ask("POST", f"{shut}/dream_now", {})) for _ in range(4)]
        for _ in range(2):
            assert house.entered.acquire(timeout=300)
        assert server.ask("POST", f"{free}/working_memory_note", NOTE).status == 200
        assert server.ask("POST", f"{free}/dream_now", {"wait": False}).status == 200  # only asked for, it is short
        house.gate.set()
        assert [*map(status_of, dreams)] == [409] * 4  # there is nothing to dream


def test_past_the_limit_a_request_is_told_to_come_again(house: GatedHouse) -> None:
    free, shut = names(house)
    with running(house, Limits(requests=3)) as server:
        hanging = [asking(lambda: server.ask("GET", f"{shut}/mood")) for _ in range(3)]
        for _ in range(3):
            assert house.entered.acquire(timeout=300)
        refused = server.ask("GET", f"{free}/mood")
        assert (refused.status, refused.code) == (503, "OVERLOADED")
        assert int(refused.headers["Retry-After"]) > 0
        assert server.ask("GET", "/readyz").status == 200
        mood = OPERATIONS["mood"]
        with pytest.raises(OverloadedError):
            server.client.call(free.rpartition("/")[2], mood, mood.bind())
        house.gate.set()
        assert [*map(status_of, hanging)] == [200] * 3
        assert server.ask("GET", f"{free}/mood").status == 200


def test_past_the_limit_of_connections_requests_are_refused(house: GatedHouse) -> None:
    with running(house, replace(PATIENT, connections=8)) as server, ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(server.connected_to_port())
        assert server.ask("GET", "/healthz").status == 503
        assert server.ask_socket("GET", "/healthz").status == 200


def test_it_stops_beside_idle_and_slow_clients(house: GatedHouse) -> None:
    patient = replace(PATIENT, keep_alive_seconds=3_600, grace_seconds=3_600)
    with running(house, patient) as server, half_said(server, 3) as connections:
        idle = [server.connected(), server.connected_to_port()]
        for connection in idle:
            hear_whole(connection)
        server.tell_to_stop()
        assert server.ended()
        assert not server.path.exists()
        for connection in (*connections, *idle):
            assert connection.recv(1) == b""
            connection.close()
        with pytest.raises(ConnectionRefusedError):
            server.connected_to_port()


def test_what_is_being_answered_is_answered_before_the_end(house: GatedHouse) -> None:
    _, shut = names(house)
    with running(house, Limits(grace_seconds=3_600)) as server:
        whole = asking(lambda: server.ask("GET", f"{shut}/mood"))
        lines = asking(lambda: server.ask_socket("GET", f"{shut}/mood", headers={"Accept": "application/x-ndjson"}))
        for _ in range(2):
            assert house.entered.acquire(timeout=300)
        server.tell_to_stop()
        while server.path.exists():
            time.sleep(0.01)
        assert not server.ended(0)
        house.gate.set()
        assert status_of(whole) == 200
        assert b'"reply"' in lines.result(300).body.splitlines()[-1]
        assert server.ended()


def test_what_does_not_end_does_not_hold_up_the_end(house: GatedHouse) -> None:
    _, shut = names(house)
    with running(house, Limits(grace_seconds=1, long_threads=1)) as server:
        asked = [asking(lambda: server.ask("POST", f"{shut}/dream_now", {})) for _ in range(3)]
        assert house.entered.acquire(timeout=300)
        server.tell_to_stop()
        assert server.ended()
        house.gate.set()
        assert {*map(status_of, asked)} <= {0, 500, 503}
    assert not house.entered.acquire(blocking=False)  # those that had not begun never did


@pytest.mark.parametrize("half", HALF)
def test_who_connects_at_the_very_end_is_not_left_waiting(half: bytes) -> None:
    """Whatever the loop had done with the connection at the stop: accepted it, made it, heard it, or nothing."""
    folder = Path(tempfile.mkdtemp(prefix="dreamd-http-", dir=PLACE))

    async def served(rounds: int) -> socket.socket:
        stop = asyncio.Event()
        entrances = [open_socket(folder / "s"), open_port("127.0.0.1", 0, TOKEN)]
        serving = asyncio.create_task(serve(OwnHouse(), entrances, stop, limits=replace(PATIENT, grace_seconds=1)))
        assert await asyncio.to_thread(Client(folder / "s").get, "/healthz") == {"status": "alive"}
        connection = socket.create_connection(entrances[1].socket.getsockname(), timeout=60)
        connection.sendall(half)
        for _ in range(rounds):
            await asyncio.sleep(0)
        stop.set()
        await serving
        return connection

    try:
        for rounds in range(8):
            with asyncio.run(served(rounds)) as connection:
                assert not hears(connection)
    finally:
        shutil.rmtree(folder)


def test_an_error_after_the_caller_has_left_is_logged_in_one_line() -> None:
    told: list[dict[str, object]] = []
    going = threading.Event()

    def failing() -> None:
        going.wait(30)
        raise StorageError("state.db is unwell", "run 'dreamd doctor'")

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        workers = Workers(Limits())
        caller = asyncio.create_task(workers.run(failing))
        await asyncio.sleep(0.01)
        caller.cancel()
        with suppress(asyncio.CancelledError):
            await caller
        going.set()
        await asyncio.wait(workers._tasks)
        await workers.close()

    logs.configure("json", stream=(stream := io.StringIO()))
    try:
        asyncio.run(main())
    finally:
        logs._Sink.write = None
    (event,) = map(json.loads, stream.getvalue().splitlines())
    assert (event["event"], event["level"]) == ("call_failed_after_its_caller_left", "warning")
    assert "state.db is unwell" in str(event)
    assert told == []
