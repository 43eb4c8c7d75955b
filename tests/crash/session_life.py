"""A process that works on sessions and is killed as a chosen statement begins: BEGIN, an UPDATE, the COMMIT itself.

What it does follows from a seed and from the state that it meets, so that the same can be done again without a kill.
"""

import multiprocessing
import os
import random
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

from daemon import sessions
from daemon.workspace.stores import Store
from state.errors import DreamdError
from tests.support.working import AT, everything, working, written

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload([__name__])
POLICIES: dict[str, dict[str, object]] = {
    "ttl": {},
    "budget": {"soft_limit": 6, "hard_limit": 9, "batch_size": 3},
    "hybrid": {"max_tokens": 60},
    "bounded": {"max_items": 6, "max_tokens": 60},
}
PRIORITIES = ("low", "medium", "high", "critical")
Work = Callable[[Store, int, random.Random], None]


def moment(number: int) -> datetime:
    """When the operation of this number takes place."""
    return AT + timedelta(seconds=40 * number)


def act(store: Store, number: int, rng: random.Random) -> None:
    """One operation on one of the sessions."""
    now, session = moment(number), rng.choice(list(POLICIES))
    items = everything(store, session)
    if rng.random() < 0.45 or not items:
        _add(store, session, number, rng)
        return
    item = rng.choice(items[-12:])
    calls: list[Callable[[], object]] = [
        lambda: sessions.get(store, session, item.id, now),
        lambda: sessions.promote(store, session, item.id, now),
        lambda: sessions.expire(store, session, item.id, now),
        lambda: sessions.extend_ttl(store, session, item.id, now),
        lambda: sessions.restore(store, session, item.id, now),
        lambda: sessions.relation_add(store, session, item.id, "references", f"skill {number}", now),
        lambda: sessions.forget(store, session, "oldest", now),
        lambda: sessions.forget(store, session, "least important", now, "hard", confirm=True),
        lambda: sessions.recall(store, session, "thing", now),
        lambda: sessions.sweep(store, session, now),
        lambda: sessions.maintain(store, now),
    ]
    if rng.random() < 0.05:
        calls = [
            lambda: sessions.clear_session(store, session, now),
            lambda: sessions.close_session(store, session, now),
        ]
    try:
        rng.choice(calls)()
    except DreamdError as error:
        if error.code not in ("NOT_FOUND", "EXPIRED", "VALIDATION_ERROR"):
            raise


def perform(store: Store, number: int, rng: random.Random) -> None:
    """The operation of this number: the first ones open the sessions."""
    if number < len(POLICIES):
        policy = list(POLICIES)[number]
        sessions.session_open(store, policy, AT, policy, POLICIES[policy])
    else:
        act(store, number, rng)


def lived(root: Path, work: Work, seed: int, operations: int, kill_at: int | None, told: Path) -> int:
    """One life of a process; returns how many operations it acknowledged. It must have been killed, or be done."""
    told.touch()
    process = _FORKING.Process(target=_live, args=(root, work, seed, operations, kill_at, told))
    process.start()
    process.join(120)
    status = process.exitcode
    process.kill()
    process.join()
    process.close()
    acknowledged = told.stat().st_size
    assert status == (0 if acknowledged == operations and status == 0 else -signal.SIGKILL), status
    return acknowledged


def state(store: Store) -> list[tuple[str, tuple[object, ...]]]:
    """Everything that is written, as far as it is the same in each database: not what hangs on its salt."""
    rows = written(store)
    salted = sorted((table, row[1:]) for table, row in rows if table == "forgotten")
    return [*salted, *((table, row) for table, row in rows if table != "forgotten")]


def statements(root: Path, work: Work, seed: int, operations: int) -> tuple[list[str], int]:
    """The statements of these operations, and how many of them are the first one's."""
    rng, seen, ends = random.Random(seed), list[str](), list[int]()
    with working(root) as store:
        store.crystals.connection.set_trace_callback(seen.append)
        for number in range(operations):
            work(store, number, rng)
            ends.append(len(seen))
    return seen[: ends[-1]], ends[0]


def _live(root: Path, work: Work, seed: int, operations: int, kill_at: int | None, told: Path) -> None:
    rng, seen = random.Random(seed), count()
    with working(root) as store:
        if kill_at is not None:
            connection = store.crystals.connection
            connection.set_trace_callback(
                lambda _: os.kill(os.getpid(), signal.SIGKILL) if next(seen) == kill_at else None
            )
        with told.open("ab", buffering=0) as file:
            for number in range(operations):
                work(store, number, rng)
                file.write(b".")


def _add(store: Store, session: str, number: int, rng: random.Random) -> None:
    sessions.add(
        store,
        session,
        sessions.Draft(
            f"thing {number} {'x' * rng.randrange(50)}",
            rng.choice(PRIORITIES),
            tags=rng.choice([[], ["decision"], ["todo", "x"]]),
            importance=rng.choice([None, 0.1, 0.5, 0.9]),
            token_count=rng.randint(1, 20),
            step_index=number // 10,
        ),
        moment(number),
    )
