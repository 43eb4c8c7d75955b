"""`dreamd` in processes of their own that kill or stop themselves at a chosen place.

Nothing in the product knows of this: the nodes and the disk are wrapped here, in the process that is to die.
"""

import importlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.support.forked import Forked
from tests.support.running import ROOT

_PATIENCE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where it happens: as a dream enters a node, as it leaves it, or at a call to the kernel in it."""

    node: str
    call: int | None = None  # None: no call, but the moment
    leaving: bool = False
    signal: int = signal.SIGKILL

    def __str__(self) -> str:
        where = "leaving" if self.leaving else "entering" if self.call is None else f"call {self.call} of"
        return f"{where} {self.node}"


@dataclass(frozen=True, slots=True)
class Life:
    """How a process ended: its exit status (-9: killed) and what it said."""

    status: int
    said: str


@dataclass(frozen=True, slots=True)
class Running:
    """A process that lives."""

    process: Forked[bytes]
    said: Path

    def ended(self) -> Life:
        """Wait for its end."""
        status = self.process.wait(_PATIENCE_SECONDS)
        return Life(status, self.said.read_text(encoding="utf-8", errors="replace"))


def dreamd(
    *words: str | Path, said: Path, at: Place | None = None, environment: Mapping[str, str] | None = None
) -> Life:
    """One life of `dreamd`. `said` is a file for what it prints."""
    with running(*words, said=said, at=at, environment=environment) as one:
        return one.ended()


@contextmanager
def running(
    *words: str | Path, said: Path, at: Place | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """The same, to be watched while it lives."""
    with said.open("wb") as out:
        process: Forked[bytes] = Forked(
            words,
            before=(f"{__name__}:wrap", [asdict(at)]) if at else None,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
        )
    with process:
        try:
            yield Running(process, said)
        finally:
            process.kill()


def until(happened: Callable[[], bool]) -> None:
    """Wait for something, not for ever."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def wrap(fields: Mapping[str, Any]) -> None:
    """In the process that is to die: let it happen at the place of these fields."""
    place = Place(**fields)
    dreamer = importlib.import_module("graphs.dream").Dreamer
    node: Callable[..., Any] = getattr(dreamer, place.node)

    def happen() -> None:
        os.kill(os.getpid(), place.signal)

    def mortal(self: Any, state: Any = None) -> Any:
        if place.call is not None:
            _count_down(place.call, happen)
        elif not place.leaving:
            happen()
        step = node(self, state)
        if place.leaving:
            happen()
        return step

    setattr(dreamer, place.node, mortal)


def _count_down(calls: int, happen: Callable[[], None]) -> None:
    """Let it happen at one of the next calls that change the disk."""
    from state.stores.disk.syscalls import System

    left = iter(range(calls, -1, -1))

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            if next(left, None) == 0:
                happen()
            return call(*arguments)

        return wrapped

    for name in ("open", "write", "pwrite", "fsync", "rename", "exchange", "link", "rename_new", "unlink"):
        setattr(System, name, counted(getattr(System, name)))
