"""A failing network between a client and a server: refused, hanging, cut, with answers lost, and healed."""

import socket
import threading
from collections.abc import Iterator

import psycopg
import pytest

from tests.support.partition import Partition
from tests.support.postgres import Postgres

_SHORT, _PATIENCE = 0.2, 60.0


class Echo:
    """A server that says what it hears, and remembers it."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listening.getsockname()[1]
        self.heard = b""
        self.hears = threading.Condition()
        threading.Thread(target=self._serve, daemon=True).start()

    def wait_for(self, said: bytes) -> None:
        with self.hears:
            assert self.hears.wait_for(lambda: said in self.heard, _PATIENCE)

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
                with self.hears:
                    self.heard += said
                    self.hears.notify_all()
                line.sendall(said)


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.listening.shutdown(socket.SHUT_RDWR)
    server.listening.close()


@pytest.fixture
def door(echo: Echo) -> Iterator[Partition]:
    with Partition(echo.port) as opened:
        yield opened


def connected(door: Partition) -> socket.socket:
    return socket.create_connection(("127.0.0.1", door.port), _PATIENCE)


def answer(line: socket.socket, said: bytes) -> bytes:
    line.sendall(said)
    return line.recv(100)


def test_a_network_that_is_well_is_not_noticed(door: Partition) -> None:
    with connected(door) as one, connected(door) as other:
        assert (answer(one, b"one"), answer(other, b"other")) == (b"one", b"other")
        one.shutdown(socket.SHUT_WR)
        assert one.recv(100) == b""


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


def test_what_was_done_and_its_answer_lost(echo: Echo, door: Partition) -> None:
    with connected(door) as line:
        assert answer(line, b"before") == b"before"
        door.hold_answers()
        line.sendall(b"done")
        echo.wait_for(b"done")
        door.cut()
        assert line.recv(100) == b""
    door.heal()
    with connected(door) as line:
        assert answer(line, b"after") == b"after"


def test_a_server_that_is_away_and_connections_that_were_closed_hurt_nobody(echo: Echo, door: Partition) -> None:
    lines = [connected(door) for _ in range(20)]
    for line in lines[:10]:
        line.close()
    door.cut()
    door.cut()
    for line in lines[10:]:
        assert line.recv(100) == b""
        line.close()
    with Partition(target=1) as nowhere, connected(nowhere) as line:
        assert line.recv(100) == b""
    with connected(door) as line:
        assert answer(line, b"after") == b"after"


def test_a_commit_whose_answer_is_lost_was_made(postgres: Postgres, database_url: str) -> None:
    with Partition(postgres.port) as door, psycopg.connect(database_url, autocommit=True) as beside:
        beside.execute("CREATE TABLE said (number int)")
        doubtful = psycopg.connect(door.through(database_url))
        doubtful.execute("INSERT INTO said VALUES (1)")
        door.hold_answers()
        errors: list[psycopg.Error] = []

        def commit() -> None:
            try:
                doubtful.commit()
            except psycopg.OperationalError as error:
                errors.append(error)

        committing = threading.Thread(target=commit)
        committing.start()
        while not beside.execute("SELECT * FROM said").fetchall():
            pass
        door.cut()
        committing.join(_PATIENCE)
        assert errors
        assert doubtful.closed
        doubtful.close()


def test_one_answer_is_lost_and_its_question_was_heard(echo: Echo, door: Partition) -> None:
    told: list[int] = []
    door.lose_answer(b"the second", lambda: told.append(door.lost))
    with connected(door) as line:
        assert answer(line, b"the first") == b"the first"
        assert answer(line, b"the second") == b""
    assert b"the second" in echo.heard
    assert (door.lost, told) == (1, [1])
    with connected(door) as line:
        assert answer(line, b"the second") == b"the second"


def test_one_question_is_lost_and_was_not_heard(echo: Echo, door: Partition) -> None:
    door.lose_question(b"the second")
    with connected(door) as line:
        assert answer(line, b"the first") == b"the first"
        assert answer(line, b"the second") == b""
    assert b"the second" not in echo.heard
    assert door.lost == 1
