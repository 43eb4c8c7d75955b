"""Blows: what befalls a fleet, drawn from a seed before anything begins, and dealt at their moments.

Each blow takes something away for a while and gives it back: a process, PostgreSQL, the store, the way to one of
them, the right time. One machine suffers one at a time; several suffer at once.
"""

import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from tests.fleet.ledger import Ledger
from tests.fleet.machines import DRAIN_SECONDS, Ending, Fleet, Machine
from tests.support.partition import Partition

_HOURS = 3_600.0
# A lease lives fifteen seconds.
_LONGER_THAN_A_LEASE = (16.0, 19.0)
_SHORT, _LONG = (0.2, 3.0), (3.0, 17.0)


@dataclass(frozen=True, slots=True)
class Blow:
    """At this second of the storm, for so long. `who`, `door` and `way` are drawn for blows that need them."""

    at: float
    what: str
    seconds: float
    who: int = 0
    door: int = 0
    way: str = ""
    hours: float = 0.0

    def __str__(self) -> str:
        more = {"part": f" door {self.door} {self.way}", "clock": f" {self.hours:+.1f} h"}.get(self.what, "")
        return f"{self.at:6.1f} s  {self.what} {self.who}{more} for {self.seconds:.1f} s"


def drawn(rng: random.Random, seconds: float, every: float) -> list[Blow]:
    """The blows of a storm of this length, one about `every` so many seconds."""
    blows, at = list[Blow](), rng.uniform(0.5, 1.5)
    while at < seconds:
        [what] = rng.choices(list(_DEALS), [weight for weight, _ in _DEALS.values()])
        span = _LONGER_THAN_A_LEASE if what.startswith("stop") else rng.choice((_SHORT, _SHORT, _LONG))
        if what.startswith("kill"):
            span = _SHORT
        blows.append(
            Blow(
                round(at, 2),
                what,
                round(rng.uniform(*span), 2),
                rng.randrange(100),
                rng.randrange(100),
                rng.choice(("refuse", "hang", "hold_answers", "cut")),
                round(rng.uniform(-5, 5), 2),
            )
        )
        at += rng.uniform(0.4, 1.6) * every
    return blows


class Storm:
    """Deals blows to a fleet from `start` until each has ended; `join` waits for that."""

    def __init__(self, fleet: Fleet, blows: Sequence[Blow], ledger: Ledger) -> None:
        self._fleet, self._blows, self._ledger = fleet, blows, ledger
        self._servers = {what: threading.Lock() for what in ("kill_postgres", "kill_store")}
        self._pool = ThreadPoolExecutor(len(blows) + 1)
        self.dealt = list[str]()
        self.endings = list[Ending]()

    def start(self) -> None:
        self._whole = self._pool.submit(self._run)

    def join(self) -> None:
        """Wait until the last blow has ended."""
        self._whole.result()
        self._pool.shutdown()

    def _run(self) -> None:
        began = time.monotonic()
        for blow in self._blows:
            time.sleep(max(0.0, began + blow.at - time.monotonic()))
            self._pool.submit(self._deal, blow)

    def _deal(self, blow: Blow) -> None:
        machine = self._fleet.machines[blow.who % len(self._fleet.machines)]
        # One suffers one at a time; what a clock shows is no harm to anybody's work.
        lock = self._servers.get(blow.what, threading.Lock() if blow.what == "clock" else machine.busy)
        if not lock.acquire(blocking=False):
            return
        _, deal = _DEALS[blow.what]
        try:
            if deal(self, blow, machine):
                self.dealt.append(str(blow))
        except Exception as error:  # noqa: BLE001 - a defect of the test is a finding too
            self._ledger.found(f"{blow} went wrong: {error!r}")
        finally:
            lock.release()

    def _kill(self, blow: Blow, machine: Machine) -> bool:
        machine.kill()
        time.sleep(blow.seconds)
        machine.start()
        return True

    def _stop(self, blow: Blow, machine: Machine) -> bool:
        machine.send(signal.SIGSTOP)
        time.sleep(blow.seconds)
        machine.send(signal.SIGCONT)
        return True

    def _end(self, blow: Blow, machine: Machine) -> bool:
        if not machine.lives:
            return False
        self.endings.append(judge(machine.end(), self._ledger))
        time.sleep(min(blow.seconds, 2.0))
        machine.start()
        return True

    def _kill_server(self, blow: Blow, _: Machine) -> bool:
        server = self._fleet.postgres if blow.what == "kill_postgres" else self._fleet.s3
        if server is None:
            return False
        server.kill()
        time.sleep(blow.seconds)
        server.start()
        return True

    def _part(self, blow: Blow, machine: Machine) -> bool:
        doors = list(machine.doors.values())
        _close(doors[blow.door % len(doors)], blow.way, blow.seconds)
        return True

    def _clock(self, blow: Blow, machine: Machine) -> bool:
        machine.clock.set(blow.hours * _HOURS)
        return True


# Each with how often it is drawn.
_DEALS: dict[str, tuple[int, Callable[[Storm, Blow, Machine], bool]]] = {
    "kill": (8, Storm._kill),
    "kill_postgres": (3, Storm._kill_server),
    "kill_store": (3, Storm._kill_server),
    "stop": (4, Storm._stop),
    "end": (4, Storm._end),
    "part": (8, Storm._part),
    "clock": (3, Storm._clock),
}


def judge(ending: Ending, ledger: Ledger) -> Ending:
    """A process that was asked to end has ended within ten seconds, with status 0."""
    in_order = {0} if ending.began else {0, -signal.SIGTERM}
    if ending.seconds > DRAIN_SECONDS + 0.5 or ending.status not in in_order:
        how = f"{ending.seconds:.1f} s, status {ending.status}"
        ledger.found(f"{ending.machine.name} was asked to end: {how}; it said: {ending.machine.tail()[-600:]}")
    return ending


def _close(door: Partition, way: str, seconds: float) -> None:
    """Nothing comes through, in this way, for so long; what an answer was held for is lost in the end."""
    {"refuse": door.refuse, "hang": door.hang, "hold_answers": door.hold_answers, "cut": door.cut}[way]()
    try:
        time.sleep(0.1 if way == "cut" else seconds)
        if way == "hold_answers":
            door.cut()
    finally:
        with suppress(OSError):
            door.heal()
