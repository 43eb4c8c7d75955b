"""What a person did is listed with its author, the newest first, until it is swept."""

from contextlib import closing
from datetime import UTC, datetime, timedelta

from state.stores.database.connection import memory_database
from state.stores.database.tables import Act
from state.stores.history.acts import Acts

AT = datetime(2026, 3, 12, tzinfo=UTC)


def _act(at: datetime, act: str, about: str, outcome: str, version: int | None = None) -> Act:
    return Act(at=at, author="owner, in the window", act=act, about=about, outcome=outcome, version=version)


def test_acts_are_listed_part_by_part_and_swept() -> None:
    with closing(memory_database()) as connection:
        acts = Acts(connection)
        done = [_act(AT + timedelta(days=day), "restore", f"version {day}", "done", day) for day in range(5)]
        for one in done:
            acts.record(one)
        acts.record(_act(AT + timedelta(days=5), "decide", "change 3", "NOT_FOUND"))
        first = acts.latest(2)
        assert [(one.number, one.about, one.outcome) for one in first] == [
            (6, "change 3", "NOT_FOUND"),
            (5, "version 4", "done"),
        ]
        rest = acts.latest(100, before=first[-1].number)
        assert [one.version for one in rest] == [3, 2, 1, 0]
        assert acts.sweep(AT + timedelta(days=3)) == 3
        assert [one.version for one in acts.latest(100)] == [None, 4, 3]
