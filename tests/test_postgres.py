"""The PostgreSQL of the tests is what they take it for: it keeps what it acknowledged, and nothing is left of it."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from tests.support import postgres as support
from tests.support.postgres import Postgres

ROOT = Path(__file__).parents[1]
_PATIENCE = 60.0


def table(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE said (number int PRIMARY KEY)")


def rows(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [number for (number,) in connection.execute("SELECT number FROM said ORDER BY number")]


def until(path: Path) -> str:
    deadline = time.monotonic() + _PATIENCE
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return path.read_text()


@pytest.mark.full
def test_a_server_that_is_killed_while_it_commits_keeps_what_it_acknowledged() -> None:
    acknowledged: list[int] = []
    enough = threading.Event()

    def say(url: str) -> None:
        with suppress(psycopg.OperationalError), psycopg.connect(url, autocommit=True) as connection:
            for number in range(1_000_000):
                connection.execute("INSERT INTO said VALUES (%s)", [number])
                acknowledged.append(number)
                if number == 200:
                    enough.set()

    with Postgres() as server:
        url = server.new_database(table)
        speaker = threading.Thread(target=say, args=[url])
        speaker.start()
        assert enough.wait(_PATIENCE)
        server.kill()
        speaker.join(_PATIENCE)
        server.start()
        kept = rows(url)
    assert kept[: len(acknowledged)] == acknowledged
    assert len(kept) <= len(acknowledged) + 1  # one may have been committed whose answer was lost


def test_each_test_has_a_database_of_its_own(postgres: Postgres, database_url: str) -> None:
    table(database_url)
    other = postgres.new_database(table)
    third = postgres.new_database(table)
    with psycopg.connect(other) as connection:
        connection.execute("INSERT INTO said VALUES (1)")
    assert (rows(database_url), rows(other), rows(third)) == ([], [1], [])
    with psycopg.connect(third) as connected:  # whoever is connected does not keep it
        postgres.drop_database(third)
        with pytest.raises(psycopg.OperationalError):
            connected.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(third)


def test_only_who_knows_the_password_comes_in(postgres: Postgres) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.url.replace("dreamd:", "dreamd:not-"))


@pytest.mark.full
def test_nothing_is_left_of_a_server_whose_tests_were_killed(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = (
        "import sys, time; from pathlib import Path; from tests.support.postgres import Postgres;"
        "server = Postgres(durable=False); server.start(); told = Path(sys.argv[1]);"
        "told.with_suffix('.new').write_text(f'{server.port} {server._folder}');"
        "told.with_suffix('.new').rename(told); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program, told], cwd=ROOT) as process:
        port, folder = until(told).split()
        os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + _PATIENCE
    while Path(folder).exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert support._processes(Path(folder)) == []
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(f"postgresql://nobody@127.0.0.1:{port}/postgres")


@pytest.mark.full
def test_a_pool_finds_the_server_again() -> None:
    with Postgres() as server, ConnectionPool(server.url, min_size=2, max_size=4, open=True) as pool:
        with pool.connection() as connection:
            connection.execute("SELECT 1")
        server.kill()
        with pytest.raises(psycopg.OperationalError), pool.connection() as connection:
            connection.execute("SELECT 1")
        server.start()
        pool.check()
        with pool.connection(_PATIENCE) as connection:
            assert connection.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_a_server_it_says_what_to_install(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(support, "_INSTALLED", Path("/nonexistent"))
    with pytest.raises(outcome, match="apt-get install postgresql"):
        support.binaries()
