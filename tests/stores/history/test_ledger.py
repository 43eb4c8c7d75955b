"""What dreams did and cost: it adds up; what is over goes after a while, and what is needed stays."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from sqlite3 import Connection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.document.operations import Refusal
from state.stores.database.opening import memory_database, open_database
from state.stores.history.ledger import Call, Finished, Ledger
from tests.support.long_variants import examples

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
    Ledger(connection).add_steps(dream, [Finished("gather", at, 0.1, "1 notes")])
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


# What is paid (tokens) before each step; None: the process is killed before the step is recorded.
paid = st.lists(st.tuples(st.lists(st.integers(0, 9_000), max_size=3), st.sampled_from(["one", "other", None])))


@examples(30)
@given(paid)
def test_whatever_was_killed_the_steps_add_up_to_what_was_paid_until_the_last_of_them(
    life: list[tuple[list[int], str | None]],
) -> None:
    with closing(memory_database()) as connection:
        ledger, number = Ledger(connection), count()
        ledger.record_call("another", Call("d", "m", "{}", usable=True, tokens=5, usd=1.0), NOW)
        calls, spent, until = 0, 0, (0, 0)
        nodes = []
        for tokens, node in life:
            for one in tokens:
                ledger.record_call("d", Call(str(next(number)), "m", "{}", usable=True, tokens=one, usd=0.1), NOW)
            calls, spent = calls + len(tokens), spent + sum(tokens)
            if node:
                nodes.append(node)
                until = calls, spent
                ledger.add_steps("d", [Finished(node, NOW + timedelta(seconds=len(nodes)), 1.5, "done")])
        found = ledger.steps("d", 1_000)
        assert [one.node for one in found] == nodes
        assert (sum(one.calls for one in found), sum(one.tokens for one in found)) == until
        assert all(one.calls >= 0 and one.tokens >= 0 for one in found)
        assert ledger.count_steps("d") == len(nodes)
        assert ledger.steps("d", 1) == found[:1]
