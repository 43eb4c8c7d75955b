"""`dreamd` in processes of their own that kill or stop themselves at a chosen place.

The processes are forked from a server that has imported what is slow, so that a life takes a second instead of eight.
Nothing in the product knows of this: the nodes and the disk are wrapped here, in the process that is to die.
"""

import importlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload([__name__ + "_preload"])
_PATIENCE_SECONDS = 120.0


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

    process: Any
    said: Path

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    @property
    def stopped(self) -> bool:
        """Whether it is stopped (SIGSTOP)."""
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8")
        return stat.rpartition(") ")[2][0] == "T"

    def ended(self) -> Life:
        """Wait for its end."""
        self.process.join(_PATIENCE_SECONDS)
        assert self.process.exitcode is not None
        return Life(self.process.exitcode, self.said.read_text(encoding="utf-8", errors="replace"))


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
    said.touch()
    process = _FORKING.Process(
        target=_live, args=([str(word) for word in words], at, dict(environment or {}), str(said))
    )
    process.start()
    try:
        yield Running(process, said)
    finally:
        process.kill()
        process.join()
        process.close()


def until(happened: Callable[[], bool]) -> None:
    """Wait for something, not for ever."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def _live(words: list[str], at: Place | None, environment: dict[str, str], said: str) -> None:
    os.environ.update(environment)
    out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    if at is not None:
        _wrap(at)
    from daemon.cli import main

    sys.exit(main(words))


def _wrap(place: Place) -> None:
    nodes = importlib.import_module("graphs.nodes")
    node: Callable[..., Any] = getattr(nodes, place.node)

    def happen() -> None:
        os.kill(os.getpid(), place.signal)

    def mortal(state: Any, *, ports: Any) -> Any:
        if place.call is not None:
            _count_down(place.call, happen)
        elif not place.leaving:
            happen()
        step = node(state, ports=ports)
        if place.leaving:
            happen()
        return step

    setattr(nodes, place.node, mortal)


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
