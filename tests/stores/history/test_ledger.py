"""What is over goes after a while; what is needed, and what was asked for often, stays."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sqlite3 import Connection

import pytest

from state.document.operations import Refusal
from state.stores.database.connection import open_database
from state.stores.history.ledger import Call, Ledger
from state.stores.history.steps import Finished, Steps

NOW = datetime(2026, 3, 12, tzinfo=UTC)
OLD, RECENT = NOW - timedelta(days=200), NOW - timedelta(days=3)
BEFORE, ANSWERS_BEFORE = NOW - timedelta(days=100), NOW - timedelta(days=14)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with closing(open_database(tmp_path / "state.db")) as opened:
        opened.execute("PRAGMA synchronous = OFF")
        yield opened


def run(connection: Connection, dream: str, at: datetime, outcome: str = "committed") -> None:
    ledger = Ledger(connection)
    ledger.begin(dream, "manual", at)
    ledger.record_call(
        dream, Call("d", "m", '{"text": "long"}', usable=True, tokens=3, usd=0.5, request='["longer"]'), at
    )
    Steps(connection).add(dream, [Finished("gather", at, 0.1, "1 notes")])
    ledger.reject(dream, [Refusal("citation", "operation", "cites nothing")], at)
    if outcome != "running":
        ledger.end(dream, outcome, "", at)


def test_what_is_old_goes_with_all_that_belongs_to_it_but_for_the_latest_runs(connection: Connection) -> None:
    ledger = Ledger(connection)
    for number in range(130):
        run(connection, f"{number:03}", OLD + timedelta(minutes=number))
    run(connection, "recent", RECENT)
    assert ledger.sweep(BEFORE, ANSWERS_BEFORE) > 0
    kept = {one.id for one in ledger.runs(1_000)}
    assert kept == {"recent", *(f"{number:03}" for number in range(31, 130))}
    for table in ("calls", "rejections", "steps"):
        assert {row[0] for row in connection.execute(f"SELECT dream FROM {table}")} == kept  # noqa: S608
    assert ledger.spent(since=RECENT).calls == 1
    assert ledger.rejections("recent") != []
    assert ledger.sweep(BEFORE, ANSWERS_BEFORE) == 0


def test_answers_go_earlier_and_those_of_a_dream_that_goes_on_stay(connection: Connection) -> None:
    ledger = Ledger(connection)
    for dream, outcome in (("done", "committed"), ("killed", "running")):
        run(connection, dream, OLD, outcome)
    run(connection, "recent", RECENT)
    ledger.sweep(BEFORE, ANSWERS_BEFORE)
    assert [ledger.replay(dream, "d") for dream in ("done", "killed", "recent")] == [
        None, '{"text": "long"}', '{"text": "long"}',
    ]  # fmt: skip
    assert [bool(row[0]) for row in connection.execute("SELECT request FROM calls ORDER BY key")] == [
        False, True, True,
    ]  # fmt: skip
    assert ledger.spent(dream="done").usd == 0.5
