"""Working memory under faults: a kill or a failure at any statement of a call leaves it done, or not done at all."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, product
from pathlib import Path

import pytest

from daemon import sessions
from daemon.workspace.stores import Store
from tests.crash.session_life import Work, lived, statements
from tests.support.long_variants import variants
from tests.support.working import AT, HOUR, add, everything, working, written

TEXT = "worth keeping"
WRITTEN = ("sessions items item_events forgotten meta crystals occurrences to_embed").split()


def then_get(store: Store, number: int, _: random.Random) -> None:
    if number == 0:
        add(store, TEXT, priority="critical")
    else:
        sessions.get(store, "s", everything(store)[0].id, AT)


def then_promote(store: Store, number: int, _: random.Random) -> None:
    if number == 0:
        add(store, TEXT)
    else:
        sessions.promote(store, "s", everything(store)[0].id, AT)


@pytest.mark.full
@pytest.mark.parametrize("every", variants(5, 1))
@pytest.mark.parametrize("work", [then_get, then_promote])
def test_a_kill_leaves_an_item_and_its_crystal_or_neither_promoted(tmp_path: Path, work: Work, every: int) -> None:
    made, first = statements(tmp_path / "counted", work, 0, 2)
    for kill_at in range(first, len(made)):
        if kill_at % every and "COMMIT" not in made[kill_at - 1 : kill_at + 1]:
            continue
        root = tmp_path / f"{kill_at}"
        assert lived(root, work, 0, 2, kill_at, tmp_path / f"told {kill_at}") == 1
        with working(root) as store:
            assert store.crystals.count() == sessions.list_promoted(store, "s").count
            work(store, 1, random.Random())
            (crystal,) = store.crystals.by_keys([1]).values()
            assert store.crystals.count() == 1
            assert (crystal.text, len(store.crystals.sources(crystal.id))) == (TEXT, 1)
            (memory,) = sessions.list_promoted(store, "s").memories
            assert memory.promoted_to_id is not None


@contextmanager
def failing(store: Store, nth: int) -> Iterator[None]:
    """The write of this number (from 0) to any table of working memory or of the crystals fails."""
    writes, connection = count(), store.crystals.connection
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    wanted = [table for table in tables if table in WRITTEN]
    assert len(wanted) == len(WRITTEN)

    def fault() -> None:
        if next(writes) == nth:
            raise OSError("torn")

    connection.create_function("fault", 0, fault)
    for table, verb in product(wanted, ("INSERT", "UPDATE", "DELETE")):
        body = f"BEFORE {verb} ON main.{table} BEGIN SELECT fault(); END"
        connection.execute(f"CREATE TEMP TRIGGER torn_{table}_{verb} {body}")
    try:
        yield
    finally:
        for table, verb in product(wanted, ("INSERT", "UPDATE", "DELETE")):
            connection.execute(f"DROP TRIGGER torn_{table}_{verb}")


def _evicting(store: Store) -> Callable[[], object]:
    sessions.session_open(store, "s", AT, "bounded", {"max_items": 3})
    for number in range(3):
        add(store, f"thing {number}")
    return lambda: add(store, "the fourth")


def _forgetting(store: Store) -> Callable[[], object]:
    add(store, "one"), add(store, "two")
    return lambda: sessions.forget(store, "s", "oldest", AT, "hard", confirm=True)


def _clearing(store: Store) -> Callable[[], object]:
    add(store, "one"), add(store, "two")
    return lambda: sessions.clear_session(store, "s", AT)


def _restoring(store: Store) -> Callable[[], object]:
    id_ = add(store, "one")
    sessions.clear_session(store, "s", AT)
    return lambda: sessions.restore(store, "s", id_, AT)


def _relating(store: Store) -> Callable[[], object]:
    id_ = add(store, "one")
    return lambda: sessions.relation_add(store, "s", id_, "references", "x", AT)


def _opening(store: Store) -> Callable[[], object]:
    return lambda: sessions.session_open(store, "s", AT, "budget")


def _cleaning(store: Store) -> Callable[[], object]:
    for number in range(3):
        add(store, f"thing {number}")
    return lambda: sessions.maintain(store, AT + 5 * HOUR)


SCENES = (_evicting, _forgetting, _clearing, _restoring, _relating, _opening, _cleaning)


@pytest.mark.parametrize("scene", SCENES)
def test_a_call_whose_nth_write_fails_changes_nothing(
    tmp_path: Path, scene: Callable[[Store], Callable[[], object]]
) -> None:
    with working(tmp_path / "w") as store:
        call = scene(store)
        before = written(store)
        for nth in count():
            with failing(store, nth):
                try:
                    call()
                except sqlite3.OperationalError:
                    failed = True
                else:
                    failed = False
            if not failed:
                break
            assert written(store) == before, nth
            assert not store.crystals.connection.in_transaction
        assert nth > 0
        assert written(store) != before
        assert store.crystals.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
