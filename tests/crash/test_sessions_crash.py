"""Working memory under faults: killed or failing at any statement, it reopens to what was acknowledged.

The operation that was under way is done (its COMMIT was the last thing that happened), or not done at all.
"""

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import count, product
from pathlib import Path

import pytest

from daemon import sessions
from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal, Origin
from state.errors import DreamdError, StorageError
from tests.support.long_variants import variants
from tests.support.stepping import EVERY_STATEMENT, killed
from tests.support.working import AT, HOUR, add, everything, working, written

WRITTEN = "sessions items item_events forgotten meta crystals occurrences".split()
POLICIES: dict[str, dict[str, object]] = {
    "ttl": {},
    "budget": {"soft_limit": 6, "hard_limit": 9, "batch_size": 3},
    "hybrid": {"max_tokens": 60},
    "bounded": {"max_items": 6, "max_tokens": 60},
}
OPERATIONS = 500


def moment(number: int) -> datetime:
    """When the operation of this number takes place."""
    return AT + timedelta(seconds=40 * number)


def perform(store: Store, number: int, rng: random.Random) -> None:
    """The operation of this number: it follows from the seed, and from the state that it meets."""
    if number < len(POLICIES):
        policy = list(POLICIES)[number]
        sessions.session_open(store, policy, AT, policy, POLICIES[policy])
        return
    now, session = moment(number), rng.choice(list(POLICIES))
    items = everything(store, session)
    if rng.random() < 0.45 or not items:
        _add(store, session, number, rng)
        return
    item = rng.choice(items[-12:])
    calls: list[Callable[[], object]] = [
        lambda: sessions.get(store, session, item.id, now),
        lambda: sessions.promote(store, session, item.id, now),
        lambda: sessions.expire(store.connection, session, item.id, now),
        lambda: sessions.extend_ttl(store.connection, session, item.id, now),
        lambda: sessions.restore(store, session, item.id, now),
        lambda: sessions.relation_add(store, session, item.id, "references", f"skill {number}", now),
        lambda: sessions.forget(store, session, "oldest", now),
        lambda: sessions.forget(store, session, "least important", now, "hard", confirm=True),
        lambda: sessions.recall(store, session, "thing", now),
        lambda: sessions.sweep(store, session, now),
        lambda: sessions.maintain(store, now),
    ]
    if rng.random() < 0.05:
        ends = (sessions.clear_session, sessions.close_session)
        calls = [lambda end=end: end(store.connection, session, now) for end in ends]  # type: ignore[misc]
    try:
        rng.choice(calls)()
    except DreamdError as error:
        if error.code not in ("NOT_FOUND", "EXPIRED", "VALIDATION_ERROR"):
            raise


def _add(store: Store, session: str, number: int, rng: random.Random) -> None:
    sessions.add(
        store,
        session,
        sessions.Draft(
            f"thing {number} {'x' * rng.randrange(50)}",
            rng.choice(("low", "medium", "high", "critical")),
            tags=rng.choice([[], ["decision"], ["todo", "x"]]),
            importance=rng.choice([None, 0.1, 0.5, 0.9]),
            token_count=rng.randint(1, 20),
            step_index=number // 10,
        ),
        moment(number),
    )


def state(store: Store) -> list[tuple[str, tuple[object, ...]]]:
    """Everything that is written, as far as it is the same in each database: not what hangs on its salt."""
    rows = written(store)
    salted = sorted((table, row[1:]) for table, row in rows if table == "forgotten")
    return [*salted, *((table, row) for table, row in rows if table != "forgotten")]


def life(root: Path, seed: int, told: Path) -> Callable[[], None]:
    """All operations of a seed; a byte is told for each one that is acknowledged."""
    with working(root):
        told.touch()

    def live() -> None:
        rng = random.Random(seed)
        with working(root) as store, told.open("ab", buffering=0) as file:
            for number in range(OPERATIONS):
                perform(store, number, rng)
                file.write(b".")

    return live


@pytest.mark.full
@pytest.mark.parametrize("lives", variants(8, 120))
def test_a_killed_run_reopens_to_the_acknowledged_prefix(tmp_path: Path, lives: int) -> None:
    for seed in range(2 if lives < 20 else 6):
        told = tmp_path / f"told {seed}"
        steps = killed(life(tmp_path / f"whole {seed}", seed, told), steps=EVERY_STATEMENT)
        assert steps is not None
        assert told.stat().st_size == OPERATIONS
        rng = random.Random(seed)
        for number in range(4 if lives < 20 else lives // 2):
            killed_and_opened(tmp_path / f"{seed} {number}", seed, rng.randrange(steps))


def killed_and_opened(folder: Path, seed: int, kill_at: int) -> None:
    folder.mkdir()
    assert killed(life(folder / "killed", seed, folder / "told"), kill_at, steps=EVERY_STATEMENT) is None
    done, rng = (folder / "told").stat().st_size, random.Random(seed)
    with working(folder / "killed") as left, working(folder / "whole") as whole:
        for number in range(done):
            perform(whole, number, rng)
        found = state(left)
        if found != state(whole):
            perform(whole, done, rng)
            wanted = state(whole)
            # What was under way is several transactions when it tends several sessions: those that are missing are
            # made up for by the next maintenance.
            if found != wanted:
                sessions.maintain(left, moment(done))
            assert wanted in (found, state(left)), (seed, kill_at, done)
        assert left.crystals.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        for number in range(done + 1, done + 20):  # and it goes on
            perform(left, number, rng)


@contextmanager
def failing(store: Store, nth: int) -> Iterator[None]:
    """The write of this number (from 0) to any table of working memory or of the crystals fails."""
    writes, connection = count(), store.connection
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


def _restoring(store: Store) -> Callable[[], object]:
    id_ = add(store, "one")
    sessions.clear_session(store.connection, "s", AT)
    return lambda: sessions.restore(store, "s", id_, AT)


def _merging(store: Store) -> Callable[[], object]:
    """Two crystals that say the same."""
    said, again = (Crystal(text, Origin.SCRATCH, AT) for text in ("Ada prefers tea", "ADA prefers  tea"))
    store.crystals.learn([said])
    return lambda: store.crystals.learn([again])


def _of_items(count: int, call: Callable[[Store, list[str]], object]) -> Callable[[Store], Callable[[], object]]:
    """A call that meets so many items; it is told their ids."""

    def scene(store: Store) -> Callable[[], object]:
        ids = [add(store, f"thing {number}") for number in range(count)]
        return lambda: call(store, ids)

    return scene


SCENES = {
    "evicting": _evicting,
    "forgetting": _of_items(2, lambda store, _: sessions.forget(store, "s", "oldest", AT, "hard", confirm=True)),
    "clearing": _of_items(2, lambda store, _: sessions.clear_session(store.connection, "s", AT)),
    "restoring": _restoring,
    "relating": _of_items(1, lambda store, ids: sessions.relation_add(store, "s", ids[0], "references", "x", AT)),
    "opening": _of_items(0, lambda store, _: sessions.session_open(store, "s", AT, "budget")),
    "cleaning": _of_items(3, lambda store, _: sessions.maintain(store, AT + 5 * HOUR)),
    "promoting": _of_items(1, lambda store, ids: sessions.promote(store, "s", ids[0], AT)),
    "merging": _merging,
}


@pytest.mark.parametrize("scene", SCENES)
def test_a_call_whose_nth_write_fails_changes_nothing(tmp_path: Path, scene: str) -> None:
    with working(tmp_path / "w") as store:
        call = SCENES[scene](store)
        before = written(store)
        for nth in count():
            with failing(store, nth):
                try:
                    call()
                except (sqlite3.OperationalError, StorageError):
                    failed = True
                else:
                    failed = False
            if not failed:
                break
            assert written(store) == before, nth
            assert not store.connection.in_transaction
        assert nth > 0
        assert written(store) != before
        assert store.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
