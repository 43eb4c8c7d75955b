"""The machinery of the tests is what they take it for: what fails does so as it says, and nothing is left of it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import obstore
import psycopg
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError
from obstore.store import S3Store

from tests.support import postgres as server_of_postgres
from tests.support.clocks import Clock, follow
from tests.support.forked import FOLDER, ROOT, Forked, run
from tests.support.partition import Partition
from tests.support.s3 import S3
from tests.support.serving import until

_SHORT, _PATIENCE, _HOUR = 0.2, 60.0, 3600.0


@pytest.mark.parametrize(
    "said",
    [b"", b"\0\0", b"\0\0\1\0", b'\0\0\1\0{"words":'],
    ids=["nothing", "half a length", "no request", "half a request"],
)
def test_whoever_is_killed_while_asking_for_a_process_takes_nobody_along(said: bytes, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    assert run(["--version"], environment=environment).returncode == 0
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(Path(os.environ[FOLDER], "socket")))
        line.sendall(said)
    assert run(["--version"], environment=environment).returncode == 0


# ----------------------------------------------------------------- wrong clocks


def tell_wrong(path: str) -> None:
    """In a process of the test: what the time is, whenever a line comes."""
    follow(path)
    for _ in sys.stdin:
        times = [datetime.now(UTC).timestamp(), datetime.now().timestamp(), time.time(), time.time_ns() / 1e9]
        times.append(datetime(*time.gmtime()[:6], tzinfo=UTC).timestamp())
        assert date.today() == datetime.now().date()  # noqa: DTZ011
        assert time.gmtime(0).tm_year == 1970
        print(json.dumps([*times, time.monotonic()]), flush=True)


def test_a_clock_is_wrong_and_jumps(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock", _HOUR)
    where, words = clock.before
    assert where.endswith(":follow")
    process: Forked[bytes] = Forked(
        [], before=(f"{__name__}:tell_wrong", words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        for seconds in (_HOUR, -_HOUR, 0.0):
            clock.set(seconds)
            before, began = time.time(), time.monotonic()
            process.stdin.write(b"\n")
            process.stdin.flush()
            *times, monotonic = json.loads(process.stdout.readline())
            assert all(abs(one - before - seconds) <= time.time() - before + 2 for one in times), (times, before)
            assert began <= monotonic <= time.monotonic()
        process.kill()


# ------------------------------------------------------------ a network that fails


class Echo:
    """A server that says what it hears, and remembers it."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.heard = b""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=[line], daemon=True).start()

    def _talk(self, line: socket.socket) -> None:
        with line:
            while said := line.recv(100):
                self.heard += said
                line.sendall(said)


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.listening.shutdown(socket.SHUT_RDWR)
    server.listening.close()


@pytest.fixture
def door(echo: Echo) -> Iterator[Partition]:
    with Partition(echo.listening.getsockname()[1]) as opened:
        yield opened


def connected(door: Partition) -> socket.socket:
    return socket.create_connection(("127.0.0.1", door.port), _PATIENCE)


def answer(line: socket.socket, said: bytes) -> bytes:
    line.sendall(said)
    return line.recv(100)


def test_who_is_refused_is_told_at_once_until_it_heals(door: Partition) -> None:
    with connected(door) as line:
        assert answer(line, b"before") == b"before"
        door.refuse()
        assert line.recv(100) == b""
    for _ in range(2):
        door.refuse()
        with pytest.raises(ConnectionRefusedError):
            connected(door)
    door.heal()
    with connected(door) as line:
        assert answer(line, b"after") == b"after"
        line.shutdown(socket.SHUT_WR)
        assert line.recv(100) == b""


def test_what_hangs_is_not_told_and_arrives_when_it_heals(echo: Echo, door: Partition) -> None:
    with connected(door) as old:
        assert answer(old, b"before") == b"before"
        door.hang()
        with connected(door) as new:
            for line in (old, new):
                line.sendall(b"during")
                line.settimeout(_SHORT)
                with pytest.raises(TimeoutError):
                    line.recv(100)
                line.settimeout(_PATIENCE)
            assert echo.heard == b"before"
            door.heal()
            assert (old.recv(100), new.recv(100)) == (b"during", b"during")


@pytest.mark.parametrize("lost", ["answers", "one answer", "one question"])
def test_what_is_lost_was_heard_or_was_not(echo: Echo, door: Partition, lost: str) -> None:
    if lost == "one answer":
        door.lose_answer(b"the second")
    if lost == "one question":
        door.lose_question(b"the second")
    with connected(door) as line:
        assert answer(line, b"the first") == b"the first"
        if lost == "answers":
            door.hold_answers()
        line.sendall(b"the second")
        until(lambda: b"the second" in echo.heard or door.lost)
        if lost == "answers":
            door.cut()
            door.heal()
        assert line.recv(100) == b""
    assert (b"the second" in echo.heard) is (lost != "one question")
    with connected(door) as line:
        assert answer(line, b"the second") == b"the second"


# -------------------------------------------------------------------- the servers


def test_nothing_is_left_of_a_postgresql_whose_tests_were_killed(tmp_path: Path) -> None:
    server_of_postgres.binaries()
    told = tmp_path / "told"
    program = (
        "import sys, time; from pathlib import Path; from tests.support.postgres import Postgres;"
        "server = Postgres(durable=False); server.start(); told = Path(sys.argv[1]);"
        "told.with_suffix('.new').write_text(f'{server.port} {server._folder}');"
        "told.with_suffix('.new').rename(told); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program, told], cwd=ROOT) as process:
        until(told.exists)
        port, folder = told.read_text().split()
        os.kill(process.pid, signal.SIGKILL)
    until(lambda: not Path(folder).exists())
    assert server_of_postgres._processes(Path(folder)) == []
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(f"postgresql://nobody@127.0.0.1:{port}/postgres")


def test_of_those_who_create_an_object_at_once_one_wins_and_it_outlives_a_kill(s3: S3) -> None:
    store = S3Store.from_url(
        s3.url,
        client_options={"allow_http": True, "timeout": "20s", "connect_timeout": "1s"},
        retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=20)},
        virtual_hosted_style_request=False,
        **s3.options,  # type: ignore[arg-type]
    )
    barrier = threading.Barrier(8)

    def create(number: int) -> int | None:
        barrier.wait(_PATIENCE)
        try:
            obstore.put(store, "decided", f"{number}".encode(), mode="create")
        except AlreadyExistsError:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        winners = [number for number in pool.map(create, range(8)) if number is not None]
    s3.kill()
    with pytest.raises(GenericError):
        obstore.put(store, "away", b"1")
    s3.start()
    assert [f"{number}".encode() for number in winners] == [bytes(obstore.get(store, "decided").bytes())]
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "decided", b"late", mode="create")
    assert [row["path"] for batch in obstore.list(store) for row in batch] == ["decided"]
