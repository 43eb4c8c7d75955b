"""So many jobs at once, in what order, and how it ends."""

import threading
import time
from collections.abc import Callable

import pytest

from daemon.service.job_queue import JobQueue
from state.errors import StoppedError

PATIENCE_SECONDS = 30.0


class Gate:
    """A job that tells that it runs, and ends when it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.open.wait(PATIENCE_SECONDS)


@pytest.fixture
def gate() -> Gate:
    return Gate()


def saying(said: list[str], word: str) -> Callable[[], None]:
    return lambda: said.append(word)


def test_urgent_jobs_come_first_and_the_others_in_their_order(gate: Gate) -> None:
    slots, said = JobQueue("test", 1), list[str]()
    slots.submit(gate)
    assert gate.entered.wait(PATIENCE_SECONDS)
    futures = [slots.submit(saying(said, word), urgent=word.startswith("!")) for word in ("a", "b", "!c", "d", "!e")]
    assert (slots.running, slots.waiting) == (1, 5)
    gate.open.set()
    for future in futures:
        future.result(PATIENCE_SECONDS)
    assert said == ["!c", "!e", "a", "b", "d"]
    assert slots.drained(PATIENCE_SECONDS)
    assert (slots.running, slots.waiting) == (0, 0)


def test_no_more_jobs_at_once_than_there_are_slots_however_many_there_are_later() -> None:
    slots, gates = JobQueue("test", 2), [Gate() for _ in range(4)]
    futures = [slots.submit(gate) for gate in gates]
    assert all(gate.entered.wait(PATIENCE_SECONDS) for gate in gates[:2])
    assert (slots.running, slots.waiting) == (2, 2)
    slots.resize(3)
    assert gates[2].entered.wait(PATIENCE_SECONDS)
    assert (slots.running, slots.waiting) == (3, 1)
    slots.resize(1)
    for gate in gates[:2]:
        gate.open.set()
    for future in futures[:2]:
        future.result(PATIENCE_SECONDS)
    # One slot is left, and the third job has it.
    assert not gates[3].entered.is_set()
    gates[2].open.set()
    assert gates[3].entered.wait(PATIENCE_SECONDS)
    gates[3].open.set()
    assert slots.drained(PATIENCE_SECONDS)


def test_what_a_job_fails_with_is_told_to_who_asked_and_the_slot_goes_on() -> None:
    slots = JobQueue("test", 1)

    def fails() -> None:
        raise ValueError("it is broken")

    with pytest.raises(ValueError, match="it is broken"):
        slots.submit(fails).result(PATIENCE_SECONDS)
    assert slots.submit(lambda: 7).result(PATIENCE_SECONDS) == 7


def test_closed_slots_drop_what_waits_and_let_end_what_runs(gate: Gate) -> None:
    slots, said = JobQueue("test", 1), list[str]()
    runs = slots.submit(gate)
    assert gate.entered.wait(PATIENCE_SECONDS)
    waits = slots.submit(saying(said, "never"))
    slots.close()
    with pytest.raises(StoppedError, match="next start"):
        waits.result(PATIENCE_SECONDS)
    with pytest.raises(StoppedError, match="stopping"):
        slots.submit(saying(said, "never"))
    assert not slots.drained(0.0)
    gate.open.set()
    runs.result(PATIENCE_SECONDS)
    assert slots.drained(PATIENCE_SECONDS)
    assert said == []


def test_jobs_of_one_owner_run_one_after_the_other_and_take_no_slot_while_they_wait(gate: Gate) -> None:
    slots, said = JobQueue("test", 2), list[str]()
    first = slots.submit(gate, owner="greedy")
    assert gate.entered.wait(PATIENCE_SECONDS)
    more = [slots.submit(saying(said, f"greedy {n}"), owner="greedy", urgent=True) for n in range(5)]
    slots.submit(saying(said, "other"), owner="other").result(PATIENCE_SECONDS)
    assert said == ["other"]
    gate.open.set()
    for future in (first, *more):
        future.result(PATIENCE_SECONDS)
    assert said == ["other", *(f"greedy {n}" for n in range(5))]
    assert slots.drained(PATIENCE_SECONDS)


def test_a_job_that_hangs_holds_no_slot(gate: Gate) -> None:
    slots, said = JobQueue("test", 1, patience=0.0), list[str]()
    hangs = slots.submit(gate, owner="hangs")
    assert gate.entered.wait(PATIENCE_SECONDS)
    slots.submit(saying(said, "other"), owner="other").result(PATIENCE_SECONDS)
    after = slots.submit(saying(said, "after"), owner="hangs")
    slots.submit(saying(said, "another"), owner="other").result(PATIENCE_SECONDS)
    assert said == ["other", "another"]  # and its owner's next job waits
    gate.open.set()
    for future in (hangs, after):
        future.result(PATIENCE_SECONDS)
    assert slots.drained(PATIENCE_SECONDS)


def test_what_waits_for_a_job_that_turns_out_to_hang_goes_on(gate: Gate) -> None:
    slots, said = JobQueue("test", 1, patience=0.2), list[str]()
    slots.submit(gate)
    waits = slots.submit(saying(said, "waits"))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not waits.done() and time.monotonic() < deadline:
        slots.start_waiting()
        time.sleep(0.01)
    assert said == ["waits"]
    gate.open.set()
    assert slots.drained(PATIENCE_SECONDS)


def test_what_is_asked_for_once_waits_once(gate: Gate) -> None:
    slots, said = JobQueue("test", 1), list[str]()
    slots.submit(gate)
    assert gate.entered.wait(PATIENCE_SECONDS)
    asked = [slots.submit(saying(said, "a"), once="a") for _ in range(100)]
    other = slots.submit(saying(said, "b"), once="b")
    assert slots.waiting == 2
    gate.open.set()
    for future in (*asked, other):
        future.result(PATIENCE_SECONDS)
    slots.submit(saying(said, "a"), once="a").result(PATIENCE_SECONDS)
    assert said == ["a", "b", "a"]
