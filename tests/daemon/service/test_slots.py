"""Slots: so many jobs at once, the urgent ones first, and none that hangs keeps the others waiting."""

import asyncio
import threading
import time

import pytest

from daemon.service.slots import Slots


async def run(slots: Slots, job: object, *, urgent: bool = False) -> None:
    await slots.turn(urgent=urgent)
    await slots.run(job)  # type: ignore[arg-type]


def test_so_many_at_once_and_urgent_ones_first() -> None:
    done, at_once, most = list[str](), set[str](), list[int]()

    def job(name: str) -> None:
        at_once.add(name)
        most.append(len(at_once))
        time.sleep(0.02)
        at_once.discard(name)
        done.append(name)

    async def main() -> None:
        slots = Slots(1)
        names = ("first", "second", "third", "urgent")
        jobs = [run(slots, lambda name=name: job(name), urgent=name == "urgent") for name in names]
        tasks = [asyncio.create_task(one) for one in jobs]
        await asyncio.sleep(0)
        assert (slots.running, slots.waiting) == (1, 3)
        await asyncio.wait(tasks)
        assert done == ["first", "urgent", "second", "third"]
        assert max(most) == 1
        slots.resize(3)
        await asyncio.wait([asyncio.create_task(run(slots, lambda n=n: job(str(n)))) for n in range(9)])
        assert (max(most), slots.running, slots.waiting) == (3, 0, 0)

    asyncio.run(main())


def test_one_that_hangs_holds_no_slot_and_one_that_fails_or_leaves_frees_it() -> None:
    back = threading.Event()

    async def main() -> None:
        slots = Slots(1, patience=0.05)
        hanging = asyncio.create_task(run(slots, back.wait))
        await asyncio.wait_for(run(slots, lambda: None), 10)
        with pytest.raises(ZeroDivisionError):
            await run(slots, lambda: 1 / 0)
        held = slots.turn()
        waits, goes_on = slots.turn(), slots.turn()
        slots.leave(waits)
        slots.leave(held)
        assert goes_on.done()
        slots.leave(goes_on)
        back.set()
        await hanging
        assert slots.running == 0

    asyncio.run(main())
