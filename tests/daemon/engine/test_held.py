"""A held keeps one workspace: who may be at it, and when; slots bound how many are at work at once."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon import sessions
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.dream.run import Mode, dream_now
from daemon.engine.held import Facts, Held
from daemon.engine.work import Slots
from daemon.ingest.notes import absorb_notes
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Embedding
from state.crystals.crystal import Crystal, Origin
from state.dream import Reason
from state.errors import BusyError, FencedError, NothingToDoError
from state.scratch import Note
from state.signals.hormones import Feeling
from state.stores.disk.lock import acquire
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox
from state.stores.vectors.embedder import Unavailable
from tests.support.serving import until

PATIENCE_SECONDS = 30.0

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


class Kept:
    """A held, and the configuration that it goes by."""

    def __init__(self, workspace: Workspace) -> None:
        self.config = Config()
        embedding = Embedding.given(Unavailable("no model in this test"))
        self.held = Held(workspace, lambda: self.config, embedding, LONG_AGO)

    def facts(self) -> Facts:
        return self.held.facts(utc_now())


@pytest.fixture
def kept(here: Workspace) -> Iterator[Kept]:
    one = Kept(here)
    one.held.acquire()
    yield one
    one.held.release()


@contextmanager
def at_work(held: Held) -> Iterator[list[BaseException]]:
    """Somebody is at it for long, until the block ends; what they meet then is in the list."""
    entered, go_on = threading.Event(), threading.Event()
    met: list[BaseException] = []

    def work() -> None:
        try:
            with held.exclusive() as store:
                entered.set()
                assert go_on.wait(PATIENCE_SECONDS)
                store.memory.check()  # as every commit does
        except FencedError as error:
            met.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(PATIENCE_SECONDS)
    try:
        yield met
    finally:
        go_on.set()
        thread.join(PATIENCE_SECONDS)


def test_the_end_of_a_session_is_over_with_the_dream_that_takes_it_in_unless_it_comes_meanwhile(kept: Kept) -> None:
    def ends(step: Step) -> None:
        if step.node == "gather":
            kept.held.record_session_end(utc_now())

    kept.held.record_session_end(utc_now())
    with kept.held.exclusive() as store:
        store.notes.inbox.append(Note("The cat is called Miez", utc_now(), 0.5))
        dream_now(store, Reason.SESSION_END, Mode.DRY)
        assert kept.facts().pending.session_ended is not None
        dream_now(store, Reason.SESSION_END, Mode.AUTO, ends)
        assert kept.facts().pending.session_ended is not None
        with pytest.raises(NothingToDoError):
            dream_now(store, Reason.SESSION_END, Mode.AUTO)
        assert kept.facts().pending.session_ended is None
        kept.held.record_session_end(utc_now())
        store.notes.inbox.append(Note("The dog is called Rex", utc_now(), 0.5))
        dream_now(store, Reason.SESSION_END, Mode.AUTO)
    assert kept.facts().pending.session_ended is None


def test_what_is_soon_done_goes_on_beside_what_takes_long_and_at_rest_nothing_is_open(kept: Kept) -> None:
    def is_open() -> bool:
        links = (one for one in Path("/proc/self/fd").iterdir() if one.is_symlink())
        return any(str(one.readlink()).startswith(str(kept.held.workspace.database)) for one in links)

    assert not is_open()
    with at_work(kept.held) as met:
        with kept.held.store() as store:
            assert store.lineage.last_version() == 0
        with pytest.raises(BusyError, match="something long is under way"), kept.held.exclusive(wait=False):
            pass
        assert is_open()
        assert kept.held.status(0, utc_now(), "").alone
        assert not kept.held.wait_until_idle(0.0)
        kept.held.dreaming = "it dreams"
        began = time.monotonic()
        kept.held.wait_for_pass(PATIENCE_SECONDS)  # a dream is not waited for
        assert time.monotonic() - began < PATIENCE_SECONDS / 2
        kept.held.dreaming = ""
    assert kept.held.wait_until_idle(PATIENCE_SECONDS)
    assert not is_open()
    assert met == []


def test_who_is_at_work_when_it_is_left_is_fenced_and_ends_before_it_is_taken_up_again(kept: Kept) -> None:
    with at_work(kept.held) as met:
        kept.held.release()
        with pytest.raises(BusyError, match="has to end"):
            kept.held.acquire()
    assert [type(error) for error in met] == [FencedError]
    kept.held.acquire()
    with kept.held.exclusive() as store:
        store.memory.check()


def test_a_repair_waits_for_what_is_short_and_is_refused_beside_what_is_long(kept: Kept) -> None:
    with at_work(kept.held) as met:
        with pytest.raises(BusyError, match="something is under way"), kept.held.offline():
            pass
        assert kept.held.holds_lock
    assert met == []
    with ThreadPoolExecutor(1) as others:
        entered = threading.Event()

        def work_shortly() -> None:
            with kept.held.store() as store:
                entered.set()
                time.sleep(0.2)
                store.memory.check()

        short = others.submit(work_shortly)
        assert entered.wait(PATIENCE_SECONDS)
        with kept.held.offline():
            assert short.done() or kept.held.wait_until_idle(0.0)
            with pytest.raises(BusyError, match="examined or repaired"):
                kept.held.acquire()
            with acquire(kept.held.workspace, "test"):  # it is free
                pass
        short.result(PATIENCE_SECONDS)  # it was not fenced
    kept.held.acquire()


@pytest.mark.full
def test_who_comes_while_it_is_released_to_be_repaired_is_told_so_and_nobody_is_fenced(kept: Kept) -> None:
    over, met = threading.Event(), list[BaseException]()

    def come_again(use: Callable[[], object]) -> None:
        while not over.is_set():
            try:
                use()
            except BusyError:
                pass
            except BaseException as error:  # noqa: BLE001 - it is what is asserted
                met.append(error)
            time.sleep(0.0001)

    def use_exclusively() -> None:
        with kept.held.exclusive(wait=False) as store:
            store.memory.check()

    threads = [threading.Thread(target=come_again, args=(one,)) for one in (kept.facts, use_exclusively)]
    pause = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    repairs, until = 0, time.monotonic() + PATIENCE_SECONDS
    try:
        for thread in threads:
            thread.start()
        while repairs < 20 and time.monotonic() < until and not met:
            with suppress(BusyError):
                with kept.held.offline(), acquire(kept.held.workspace, "test"):
                    repairs += 1
                kept.held.acquire()
    finally:
        over.set()
        sys.setswitchinterval(pause)
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert met == []
    assert repairs == 20


def test_each_write_counts_and_one_that_makes_a_crystal_wants_a_pass(kept: Kept) -> None:
    held = kept.held
    held.changed, before = False, held.written
    with held.store() as store:
        store.feelings.feel([Feeling.REWARD], "it works", LONG_AGO)
    assert (held.changed, held.written) == (False, before + 1)
    with held.store() as store:
        store.crystals.learn([Crystal("The cat is called Miez", Origin.SCRATCH, LONG_AGO)])
    assert (held.changed, held.written) == (True, before + 2)


def test_failures_in_a_row_count_also_those_that_the_ledger_could_not_keep(kept: Kept) -> None:
    for number, (outcome, failures) in enumerate((("failed", 1), ("rejected", 2), ("skipped", 2), ("committed", 0))):
        at = LONG_AGO + timedelta(hours=number)
        with kept.held.store() as store:
            store.ledger.begin(str(number), "manual", at)
            store.ledger.end(str(number), outcome, "", at)
        history = kept.facts().history
        assert (history.failures, history.last_look) == (failures, at), outcome
    kept.held.failures = 3
    assert kept.facts().history.failures == 3


def test_what_a_closed_session_left_is_new(kept: Kept) -> None:
    with kept.held.store() as store:
        sessions.add(store, "chat", sessions.Draft("The ferry goes to Bergen", "high"), utc_now())
        assert kept.facts().pending.new == 0
        sessions.close_session(store.connection, "chat", utc_now())
    assert kept.facts().pending.new == 1


def test_writing_the_log_anew_is_no_appending_to_it(kept: Kept, here: Workspace) -> None:
    NoteInbox(here).append(Note("The cat is called Miez", LONG_AGO, 0.7))
    for path in (here.inbox, here.scratch):
        os.utime(path, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    assert kept.facts().pending.latest == LONG_AGO
    with kept.held.exclusive() as store:
        absorb_notes(store, utc_now())
        store.memory.show_notes(anew=True)
    pending = kept.facts().pending
    assert (pending.notes, pending.latest) == (1, LONG_AGO)


def begun(
    slots: Slots,
    name: str,
    done: list[str],
    work: threading.Event,
    *,
    gives_up: bool = False,
    is_awaited: bool = False,
) -> None:
    """Somebody waits for a turn, works until the event is set, and says so."""
    waiting = slots.waiting + slots.running

    def run() -> None:
        with slots.turn(lambda: gives_up, is_awaited=is_awaited) as has_slot:
            work.wait(10 if has_slot else 0)
            done.append(name if has_slot else f"not {name}")

    threading.Thread(target=run).start()
    until(lambda: slots.waiting + slots.running > waiting or any(name in one for one in done))


def test_so_many_at_once_in_order_and_those_first_for_which_a_client_waits() -> None:
    slots, done, work = Slots(1, 60.0), list[str](), threading.Event()
    for name in ("first", "second", "third"):
        begun(slots, name, done, work)
    begun(slots, "asked", done, work, is_awaited=True)
    assert (slots.running, slots.waiting) == (1, 3)
    work.set()
    until(lambda: len(done) == 4)
    assert done == ["first", "asked", "second", "third"]
    work.clear()
    slots.size = 3
    for number in range(5):
        begun(slots, str(number), done, work)
    until(lambda: (slots.running, slots.waiting) == (3, 2))
    work.set()
    until(lambda: (slots.running, slots.waiting) == (0, 0))


def test_one_that_hangs_holds_no_slot_and_one_that_gives_up_takes_none() -> None:
    slots, done, back, over = Slots(1, 0.2), list[str](), threading.Event(), threading.Event()
    over.set()
    begun(slots, "hangs", done, back)
    time.sleep(0.3)
    begun(slots, "passes", done, over)
    until(lambda: done == ["passes"])
    slots = Slots(1, 60.0)
    begun(slots, "busy", done, back)
    begun(slots, "leaves", done, back, gives_up=True)
    until(lambda: "not leaves" in done)
    assert (slots.running, slots.waiting) == (1, 0)
    back.set()
