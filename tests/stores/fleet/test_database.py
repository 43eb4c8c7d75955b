"""PostgreSQL as the fleet meets it: away, silent, killed, somebody else's; and its schema, made once."""

import re
import time
from collections.abc import Iterator
from uuid import UUID, uuid4

import psycopg
import pytest

from state.errors import ConfigError, UnreachableError
from state.stores.fleet.database import FleetDatabase, conninfo, migrate
from tests.stores.fleet.fleet import Fleet, together
from tests.support.fleet_tables import made
from tests.support.postgres import Postgres

PASSWORD = "s3cret-of-nobody"


def opened(url: str) -> FleetDatabase:
    return FleetDatabase(url, size=4)


@pytest.fixture
def unmade(database_url: str) -> Iterator[FleetDatabase]:
    database = opened(database_url)
    yield database
    database.close()


# ------------------------------------------------------------------- the schema


def test_ten_who_migrate_at_once_make_one_fleet(database_url: str, unmade: FleetDatabase) -> None:
    marks = [str(UUID(int=number)) for number in range(1, 11)]
    assert together(*[lambda mark=mark: migrate(database_url, mark) for mark in marks]) == [2] * 10
    unmade.require_schema()
    [row] = unmade.rows("SELECT mark FROM fleet")
    assert migrate(database_url, str(UUID(int=99))) == 2
    assert unmade.rows("SELECT mark FROM fleet") == [row]
    assert unmade.rows("SELECT schema FROM meta") == [{"schema": 2}]


def test_a_database_without_a_fleet_is_told_with_the_command(unmade: FleetDatabase) -> None:
    with pytest.raises(ConfigError, match=r"has no tables of a fleet; run 'dreamd migrate --database URL'"):
        unmade.require_schema()
    with pytest.raises(ConfigError, match=r"lacks tables of the fleet.*dreamd migrate"):
        unmade.rows("SELECT 1 FROM workspaces")


@pytest.mark.parametrize(
    ("version", "said", "migrated"),
    [
        (
            1,
            "has tables of a dreamd before 0.2.0, which was never released (schema 1); give the fleet a new database",
            "",
        ),
        (
            3,
            "has schema 3 of the fleet, and this dreamd knows 2; start a dreamd as new as",
            "migrate with a newer dreamd",
        ),
    ],
)
def test_another_schema_is_told_and_left_alone(
    fleet: Fleet, fleet_url: str, version: int, said: str, migrated: str
) -> None:
    fleet.database.rows("UPDATE meta SET schema = %(version)s", {"version": version})
    with pytest.raises(ConfigError, match=re.escape(said)):
        fleet.database.require_schema()
    with pytest.raises(ConfigError, match=re.escape(migrated or said)):
        migrate(fleet_url, str(uuid4()))
    assert fleet.database.rows("SELECT schema FROM meta") == [{"schema": version}]


@pytest.mark.parametrize(
    "theirs",
    [
        "CREATE TABLE dreamd.tenants (x int)",
        "CREATE TABLE dreamd.meta (theirs text)",
        "CREATE VIEW dreamd.fleet AS SELECT 1",
    ],
)
def test_tables_of_somebody_else_are_left_alone(database_url: str, theirs: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE SCHEMA dreamd")
        connection.execute(theirs)
    with pytest.raises(ConfigError, match="has tables that are not the fleet's"):
        migrate(database_url, str(uuid4()))
    with psycopg.connect(database_url) as connection:
        found = connection.execute("SELECT count(*) FROM pg_class WHERE relnamespace = 'dreamd'::regnamespace")
        assert found.fetchone() == (1,), "nothing was added"


# ------------------------------------------------------------------- away, and back


def answers_within(database: FleetDatabase, seconds: float) -> int:
    """After how many UnreachableErrors it answers."""
    deadline, errors = time.monotonic() + seconds, 0
    while True:
        try:
            database.rows("SELECT 1 AS one")
        except UnreachableError:
            errors += 1
            assert time.monotonic() < deadline
        else:
            assert time.monotonic() < deadline
            return errors


@pytest.mark.full
def test_after_the_server_was_killed_and_started_the_next_call_works() -> None:
    with Postgres() as server:
        database = opened(server.new_database(made))
        assert together(*[lambda: database.rows("SELECT pg_sleep(0.2)")] * 4)
        server.kill()
        server.start()
        assert answers_within(database, 2.0) <= 1
        server.kill()
        for seconds in (15, 3, 3):  # a restart is waited for once
            began = time.monotonic()
            with pytest.raises(UnreachableError, match="try again"):
                database.rows("SELECT 1")
            assert time.monotonic() - began < seconds
        server.start()
        assert answers_within(database, 15.0) <= 1
        database.close()


# ------------------------------------------------------------------- what is told


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://user:{PASSWORD}/x@127.0.0.1:5432/fleet",
        f"postgresql://user:1/{PASSWORD}@127.0.0.1:5432/fleet",
        f"postgresql://user:{PASSWORD}@[127.0.0.1:5432/fleet",
        f"postgresql://user:{PASSWORD}@127.0.0.1:port/fleet",
        f"host=127.0.0.1 password={PASSWORD}",
        f"mysql://user:{PASSWORD}@127.0.0.1/fleet",
        f"password={PASSWORD} '",
    ],
)
def test_an_address_that_is_none_is_told_without_its_password(address: str) -> None:
    with pytest.raises(ConfigError) as told:
        conninfo(address)
    error: BaseException | None = told.value
    while error is not None:
        assert PASSWORD not in str(error)
        error = error.__cause__
