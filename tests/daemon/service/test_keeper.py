"""A keeper keeps one workspace: who may be at it, what becomes of its stores, and what it knows of the past."""

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.config.settings import Config, DreamSection
from daemon.ingest.notes import absorb_notes
from daemon.service.keeper import Keeper
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store, utc_now
from daemon.workspace.vector_index import Embedding
from state.errors import BusyError, FencedError
from state.scratch import HEADER, Note
from state.stores.disk.lock import acquire
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox
from state.stores.vectors.embedder import Unavailable

PATIENCE_SECONDS = 30.0
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


class Kept:
    """A keeper, and the configuration that it goes by."""

    def __init__(self, workspace: Workspace) -> None:
        self.config = Config()
        embedding = Embedding.given(Unavailable("no model in this test"))
        self.keeper = Keeper(workspace, "agent", lambda: self.config, embedding, lambda _, __: None)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return init_workspace(tmp_path / "agent")


@pytest.fixture
def kept(workspace: Workspace) -> Iterator[Kept]:
    one = Kept(workspace)
    one.keeper.acquire()
    yield one
    one.keeper.release()


@contextmanager
def at_work(keeper: Keeper) -> Iterator[threading.Event]:
    """Somebody is at it for long, until the event is set; what they meet then is raised here."""
    entered, go_on = threading.Event(), threading.Event()
    met: list[BaseException] = []

    def work() -> None:
        try:
            with keeper.exclusive() as store:
                entered.set()
                assert go_on.wait(PATIENCE_SECONDS)
                store.check()  # as every commit does
        except FencedError as error:
            met.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(PATIENCE_SECONDS)
    try:
        yield go_on
    finally:
        go_on.set()
        thread.join(PATIENCE_SECONDS)
    if met:
        raise met[0]


def test_what_is_soon_done_goes_on_beside_what_takes_long(kept: Kept) -> None:
    with at_work(kept.keeper):
        with kept.keeper.store() as store:
            assert store.lineage.last_version() == 0
        with pytest.raises(BusyError, match="something long is under way"), kept.keeper.exclusive(wait=False):
            pass
        assert kept.keeper.busy
    assert not kept.keeper.busy


def test_a_kept_workspace_is_nobody_elses(kept: Kept, workspace: Workspace) -> None:
    with pytest.raises(BusyError, match="dreamd serve"):
        Kept(workspace).keeper.acquire()
    kept.keeper.release()
    acquire(workspace, "test").release()
    with pytest.raises(BusyError, match="not in this daemon's keeping"), kept.keeper.store():
        pass


def test_stores_stay_open_and_are_opened_anew_after_the_database_has_failed(kept: Kept) -> None:
    with kept.keeper.store() as first:
        pass
    with kept.keeper.store() as second:
        assert second is first

    def fail(store: Store) -> None:
        store.crystals.connection.execute("SELECT nothing FROM nowhere")

    with pytest.raises(sqlite3.OperationalError), kept.keeper.store() as store:
        fail(store)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        first.lineage.last_version()
    with kept.keeper.store() as third:
        assert third is not first
        assert third.lineage.last_version() == 0


def test_who_is_at_work_when_it_is_left_is_fenced_and_ends_before_it_is_taken_up_again(kept: Kept) -> None:
    def left_meanwhile() -> None:
        with at_work(kept.keeper):
            kept.keeper.release()
            with pytest.raises(BusyError, match="has to end"):
                kept.keeper.acquire()

    with pytest.raises(FencedError):
        left_meanwhile()
    kept.keeper.acquire()
    with kept.keeper.exclusive() as store:
        store.check()


def test_a_workspace_whose_lock_was_replaced_is_let_go(kept: Kept, workspace: Workspace) -> None:
    workspace.lock.unlink()  # as when the folder was deleted and made again
    with pytest.raises(FencedError), kept.keeper.store():
        pass
    assert not kept.keeper.holds_lock
    kept.keeper.acquire()
    with kept.keeper.store() as store:
        store.check()


def test_an_interrupted_dream_is_known_when_the_workspace_is_taken_up(kept: Kept, workspace: Workspace) -> None:
    with kept.keeper.exclusive() as store:
        store.ledger.begin("20260101T000000000000Z", "manual", LONG_AGO)
    kept.keeper.release()
    again = Kept(workspace).keeper
    again.acquire()
    assert again.unfinished_dream == "20260101T000000000000Z"
    again.release()


def test_a_workspace_that_cannot_be_opened_is_not_held(workspace: Workspace) -> None:
    workspace.database.write_bytes(b"this is no database, " * 500)
    keeper = Kept(workspace).keeper
    with pytest.raises(Exception, match="not a database"):
        keeper.acquire()
    assert not keeper.holds_lock
    acquire(workspace, "test").release()


def test_nobody_opens_stores_that_are_being_left(kept: Kept) -> None:
    entered: list[str] = []

    def left_meanwhile() -> None:
        with at_work(kept.keeper) as go_on:
            waiting = threading.Thread(target=wait_for_it)
            waiting.start()
            kept.keeper.release()
            go_on.set()
            waiting.join(PATIENCE_SECONDS)

    def wait_for_it() -> None:
        try:
            with kept.keeper.exclusive():
                entered.append("in")
        except (BusyError, FencedError) as error:
            entered.append(error.code)

    with pytest.raises(FencedError):
        left_meanwhile()
    assert entered in (["BUSY"], ["FENCED"])


@pytest.mark.full
def test_who_comes_while_it_is_released_to_be_repaired_is_told_so_and_nobody_is_fenced(kept: Kept) -> None:
    over, met = threading.Event(), list[BaseException]()

    def come_again(use: Callable[[], object]) -> None:
        while not over.is_set():
            try:
                use()
            except BusyError:
                time.sleep(0.0001)
            except BaseException as error:  # noqa: BLE001 - it is what is asserted
                met.append(error)

    def used(stores: Callable[[], AbstractContextManager[Store]]) -> None:
        with stores() as store:
            store.check()

    users = (
        lambda: used(kept.keeper.store),
        lambda: used(lambda: kept.keeper.exclusive(wait=False)),
        kept.keeper.check_lock,
    )
    threads = [threading.Thread(target=come_again, args=(one,)) for one in users]
    pause = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    repairs, until = 0, time.monotonic() + PATIENCE_SECONDS
    try:
        for thread in threads:
            thread.start()
        while repairs < 30 and time.monotonic() < until and not met:
            with suppress(BusyError):
                with kept.keeper.offline(), acquire(kept.keeper.workspace, "test"):
                    repairs += 1
                kept.keeper.acquire()
    finally:
        over.set()
        sys.setswitchinterval(pause)
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert met == []
    assert repairs == 30


def test_a_new_configuration_is_whose_who_comes_next_even_when_somebody_is_at_work(kept: Kept) -> None:
    with at_work(kept.keeper):
        kept.config = Config(dream=DreamSection(mode="propose"))
        kept.keeper.reopen()
    with kept.keeper.exclusive() as store:
        assert store.config.dream.mode == "propose"


def test_a_proposal_that_its_owner_declined_is_no_failure(kept: Kept) -> None:
    with kept.keeper.exclusive() as store:
        for number, (outcome, detail) in enumerate((("failed", "MODEL_ERROR: none"), ("rejected", "by the owner"))):
            store.ledger.begin(f"dream {number}", "interval", LONG_AGO + timedelta(hours=number))
            store.ledger.end(f"dream {number}", outcome, detail, LONG_AGO + timedelta(hours=number))
    history = kept.keeper.history(LONG_AGO, 0.0, utc_now())
    assert (history.failures, history.failed_at) == (0, None)
    assert history.last_dream == LONG_AGO + timedelta(hours=1)


def test_writing_the_log_anew_is_no_appending_to_it(kept: Kept, workspace: Workspace) -> None:
    NoteInbox(workspace).append(Note("The cat is called Miez", LONG_AGO, 0.7))
    for path in (workspace.inbox, workspace.scratch):
        os.utime(path, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    assert kept.keeper.pending(utc_now()).latest == LONG_AGO
    with kept.keeper.exclusive() as store:
        absorb_notes(store, utc_now())
        store.memory.show_notes(anew=True)
    assert kept.keeper.pending(utc_now()).notes == 1
    assert kept.keeper.pending(utc_now()).latest == LONG_AGO


def test_a_short_use_costs_as_much_however_many_notes_wait(kept: Kept, workspace: Workspace) -> None:
    def uses() -> float:
        times = list[float]()
        for _ in range(20):
            began = time.perf_counter()
            with kept.keeper.store():
                pass
            times.append(time.perf_counter() - began)
        return min(times)

    few = uses()
    lines = "".join(f"- Ada repaired the kettle of house {number}\n" for number in range(5_000))
    workspace.scratch.write_text(f"{HEADER}\n\n{lines}", encoding="utf-8")
    assert kept.keeper.pending(utc_now()).new == 1_000  # no more are counted
    assert uses() < 10 * few  # where the notes were parsed, it was several hundred times as much


def test_what_is_written_is_known_and_what_a_scrape_shows_is_not_read_again(kept: Kept, workspace: Workspace) -> None:
    workspace.scratch.write_text("- Ada repaired the kettle of house 4\n", encoding="utf-8")
    kept.keeper.pending(utc_now())
    with kept.keeper.store() as store:
        absorb_notes(store, utc_now())
        store.ledger.begin("d1", "manual", utc_now())
    assert kept.keeper.unfinished_dream == "d1"
    standing = kept.keeper.gauges(utc_now())
    assert (standing.pending_notes, sum(standing.crystals.values())) == (1, 1)
    with kept.keeper.store() as store:  # which reads alone
        store.crystals.newest()
    workspace.scratch.unlink()
    workspace.database.rename(workspace.root / "elsewhere")
    try:
        assert kept.keeper.gauges(utc_now()).crystals == standing.crystals
    finally:
        (workspace.root / "elsewhere").rename(workspace.database)
    assert kept.keeper.pending(utc_now()).notes == kept.keeper.gauges(utc_now()).pending_notes == 1


def test_whoever_waits_for_the_stores_is_woken_when_they_are_free(kept: Kept) -> None:
    woken = threading.Event()
    with at_work(kept.keeper) as go_on:
        assert not kept.keeper.wait_until_idle(0.0)

        def wait() -> None:
            if kept.keeper.wait_until_idle(PATIENCE_SECONDS):
                woken.set()

        thread = threading.Thread(target=wait)
        thread.start()
        go_on.set()
        assert woken.wait(PATIENCE_SECONDS / 2), "it was not woken by the end of the work"
        thread.join(PATIENCE_SECONDS)
    assert kept.keeper.wait_until_idle(0.0)


def test_a_dream_is_not_waited_for_as_a_pass_is(kept: Kept) -> None:
    with at_work(kept.keeper):
        kept.keeper.dreaming = "it dreams"
        began = time.monotonic()
        kept.keeper.wait_for_pass(PATIENCE_SECONDS)
        assert time.monotonic() - began < PATIENCE_SECONDS / 2
        kept.keeper.dreaming = ""
