"""Of a deleted row no byte is left in tables, nor in PostgreSQL's log once as much more is written as was said."""

import secrets
from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import psycopg
import pytest

from state.stores.fleet.database import FleetDatabase, migrate
from state.stores.fleet.remains import clean
from tests.stores.fleet.fleet import Fleet
from tests.support.postgres import Postgres

SECRET = "the cellar's code is 4711"


@pytest.fixture
def server() -> Iterator[Postgres]:
    """A server with little log."""
    with Postgres(settings={"max_wal_size": "8MB", "min_wal_size": "8MB", "checkpoint_timeout": "1h"}) as server:
        yield server


@pytest.fixture
def fleet(server: Postgres) -> Iterator[Fleet]:
    url = server.new_database()
    migrate(url, str(uuid4()))
    one = Fleet(url)
    yield one
    one.close()


@pytest.mark.full
def test_deleted_texts_are_nowhere_in_tables_and_leave_the_log_when_it_was_said(
    fleet: Fleet, server: Postgres
) -> None:
    kept, gone = fleet.place(), fleet.place()
    for number in range(30):
        fleet.note(kept, f"tea {number}")
        fleet.note(gone, f"{SECRET} {number}", key=f"{SECRET} {number}")
    fleet.note(gone, SECRET + secrets.token_hex(9_000))  # stored apart from its row
    fleet.leases.settle_failed(gone.id, f"the model said {SECRET}")
    fleet.database.rows("ANALYZE")
    assert server.rooms_with(SECRET) == {"base", "pg_wal"}
    fleet.database.removals.close(gone)
    fleet.database.removals.drop(gone)
    assert server.rooms_with(SECRET) == {"base", "pg_wal"}
    remains = clean(fleet.database)
    assert (remains.tables, remains.is_archived) == ((), False)
    assert fleet.waiting(kept) == 30
    assert server.rooms_with(SECRET) == {"pg_wal"}
    before = _log_position(fleet)
    with closing(FleetDatabase(server.new_database())) as other:
        other.rows("CREATE TABLE filling AS SELECT 1 AS number")
        while _log_position(fleet) - before < remains.log_bytes:
            other.rows("INSERT INTO filling SELECT generate_series(1, 20000)")
            server.checkpoint()
    assert server.rooms_with(SECRET) == set()


def _log_position(fleet: Fleet) -> int:
    [row] = fleet.database.rows("SELECT (pg_current_wal_lsn() - '0/0')::bigint AS position")
    return int(row["position"])


def test_a_table_that_somebody_reads_or_still_sees_the_deleted_rows_of_is_named(fleet: Fleet) -> None:
    gone = fleet.place()
    fleet.note(gone, SECRET)
    with psycopg.connect(fleet.url, options="-c search_path=dreamd") as reader:
        reader.execute("SELECT count(*) FROM inbox")
        assert clean(fleet.database).tables == ("inbox",)
    with psycopg.connect(fleet.url) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT 1")
        fleet.database.removals.close(gone)
        fleet.database.removals.drop(gone)
        assert set(clean(fleet.database).tables) >= {"inbox", "workspaces"}
    assert clean(fleet.database).tables == ()


def test_a_large_table_is_not_written_anew_and_named(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state.stores.fleet.remains._MOST_BYTES", 1)
    assert set(clean(fleet.database).tables) == {"tenants", "tokens", "workspaces", "inbox"}
