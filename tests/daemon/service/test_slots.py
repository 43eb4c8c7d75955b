"""Slots: so many at once, those first for which a client waits, and none that hangs keeps the others waiting."""

import threading
import time
from pathlib import Path

from daemon.dream.run import Mode
from daemon.service.managed import ManagedWorkspace, Wish
from daemon.service.slots import Slots
from state.dream import Reason
from tests.support.serving import until


def begun(
    slots: Slots, name: str, done: list[str], work: threading.Event, gives_up: threading.Event
) -> ManagedWorkspace:
    """A workspace with a thread that waits for its turn, works until the event is set, and says so."""
    managed, waiting = ManagedWorkspace(name, Path(name)), slots.waiting + slots.running

    def run() -> None:
        with slots.turn(managed, gives_up.is_set) as has_slot:
            work.wait(10 if has_slot else 0)
            done.append(name if has_slot else f"not {name}")

    threading.Thread(target=run).start()
    until(lambda: slots.waiting + slots.running > waiting or any(name in one for one in done))
    return managed


def test_so_many_at_once_in_order_and_those_first_for_which_a_client_waits() -> None:
    slots, done, work, never = Slots(1, 60.0), list[str](), threading.Event(), threading.Event()
    for name in ("first", "second", "third"):
        begun(slots, name, done, work, never)
    asked = begun(slots, "asked", done, work, never)
    asked.asked.append(Wish(Reason.MANUAL, Mode.AUTO, print))
    assert (slots.running, slots.waiting) == (1, 3)
    work.set()
    until(lambda: len(done) == 4)
    assert done == ["first", "asked", "second", "third"]
    work.clear()
    slots.resize(3)
    for number in range(5):
        begun(slots, str(number), done, work, never)
    until(lambda: (slots.running, slots.waiting) == (3, 2))
    work.set()
    until(lambda: (slots.running, slots.waiting) == (0, 0))


def test_one_that_hangs_holds_no_slot_and_one_that_gives_up_takes_none() -> None:
    slots, done, back, never = Slots(1, 0.2), list[str](), threading.Event(), threading.Event()
    begun(slots, "hangs", done, back, never)
    time.sleep(0.3)
    over = threading.Event()
    over.set()
    begun(slots, "passes", done, over, never)
    until(lambda: done == ["passes"])
    slots = Slots(1, 60.0)
    begun(slots, "busy", done, back, never)
    begun(slots, "leaves", done, back, over)
    until(lambda: "not leaves" in done)
    assert (slots.running, slots.waiting) == (1, 0)
    back.set()
