"""Writers that come together share a transaction; what one of them is told stands on the disk, once."""

import multiprocessing
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from threading import Event, Thread

import pytest

from daemon import sessions
from daemon.sessions.group_commit import GroupCommit
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store
from state.errors import DreamdError, UsageError
from tests.daemon.sessions.test_two_writers import opened
from tests.support.working import AT, add, everything, working

_FORKING = multiprocessing.get_context("forkserver")
WRITERS = 6


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return init_workspace(tmp_path / "w").root


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    with closing(opened(root)) as store:
        yield store


def together(store: Store, works: list[Callable[[Store], str]]) -> tuple[list[object], int]:
    """What each of these writes that wait at once came to, and in how many transactions; the first leads them."""
    group, outcomes = GroupCommit(), dict[int, object]()
    held, commits = Event(), list[str]()
    store.crystals.connection.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)

    def begin(number: int, work: Callable[[Store], object]) -> Thread:
        def write() -> None:
            try:
                outcomes[number] = group.write(lambda: nullcontext(store), work)
            except (DreamdError, sqlite3.Error) as error:
                outcomes[number] = error

        thread = Thread(target=write)
        thread.start()
        return thread

    threads = [begin(-1, lambda _: held.wait(60))]
    for number, work in enumerate(works):
        while group.waiting < number or not group.is_led:
            time.sleep(0.001)
        threads.append(begin(number, work))
    while group.waiting < len(works):
        time.sleep(0.001)
    held.set()
    for thread in threads:
        thread.join(60)
    return [outcomes[number] for number in range(len(works))], len(commits)


def adding(content: str) -> Callable[[Store], str]:
    return lambda store: add(store, content)


def test_who_waits_at_once_shares_a_transaction_in_the_order_of_coming(store: Store) -> None:
    outcomes, commits = together(store, [adding(f"{number}") for number in range(WRITERS)])
    assert commits == 1
    assert [item.content for item in everything(store)] == [f"{number}" for number in range(WRITERS)]
    assert outcomes == [item.id for item in everything(store)]


def test_a_refusal_is_of_its_own_writer(store: Store) -> None:
    def refused(store: Store) -> str:
        add(store, "half of it")
        raise UsageError("no")

    def refused_at_once(store: Store) -> str:
        return add(store, "too dear", importance=7)

    outcomes, commits = together(store, [adding("one"), refused_at_once, adding("other")])
    assert commits == 1
    assert isinstance(outcomes[1], UsageError)
    assert [item.content for item in everything(store)] == ["one", "other"]


def fails(store: Store) -> str:
    add(store, "of the one that fails")
    raise sqlite3.OperationalError("disk I/O error")


def gives_up(store: Store) -> str:
    added = add(store, "after all")
    if store.crystals.connection.in_transaction:
        store.crystals.connection.execute("ROLLBACK")  # as SQLite does when the disk is full
    return added


@pytest.mark.parametrize(("bad", "said"), [(fails, []), (gives_up, ["after all"])])
def test_when_the_database_fails_everybody_writes_alone_and_once(
    store: Store, bad: Callable[[Store], str], said: list[str]
) -> None:
    outcomes, _ = together(store, [adding("one"), bad, adding("other")])
    found = [item.content for item in everything(store)]
    assert sorted(one for one in found if one != "of the one that fails") == sorted(["one", "other", *said])
    assert isinstance(outcomes[1], sqlite3.Error) is (bad is fails)
    assert not store.crystals.connection.in_transaction


def test_a_lone_writer_is_in_a_transaction_of_its_own(store: Store) -> None:
    outcomes, commits = together(store, [adding("alone")])
    assert (len(outcomes), commits) == (1, 1)


def acknowledged(root: Path, told: int) -> None:
    """Add without end from several threads; each line of the file is an item that was acknowledged."""

    def work(thread: int) -> None:
        with closing(opened(root)) as store:
            for number in range(100_000):
                content = f"{thread} {number}"
                sessions.add(store, f"s{number % 3}", sessions.Draft(content, "low"), AT)
                os.write(told, f"{content}\n".encode())

    threads = [Thread(target=work, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def tell(root: Path, path: Path) -> None:
    acknowledged(root, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT))


@pytest.mark.parametrize("lines", [20, 61])
def test_a_kill_loses_nothing_that_was_acknowledged_and_doubles_nothing(
    root: Path, tmp_path: Path, lines: int
) -> None:
    path = tmp_path / "told"
    process = _FORKING.Process(target=tell, args=(root, path))
    process.start()
    while not path.exists() or path.read_text().count("\n") < lines:
        assert process.is_alive()
        time.sleep(0.002)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    told = path.read_text().splitlines()
    with working(root) as store:
        items = [item for number in range(3) for item in everything(store, f"s{number}")]
        found = [item.content for item in items]
        assert set(told) <= set(found)
        assert len(set(found)) == len(found) <= len(told) + WRITERS
        for thread in range(WRITERS):  # of one thread the earlier stands before the later
            for number in range(3):
                own = [one.content for one in everything(store, f"s{number}") if one.content.startswith(f"{thread} ")]
                assert own == sorted(own, key=lambda one: int(one.split()[1]))
