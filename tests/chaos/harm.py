"""What befalls one process, from inside it: death, a stop, a failing disk, a wrong clock, poverty."""

import errno
import importlib
import os
import resource
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from tests.chaos import sqlite_disk
from tests.support.clocks import Clock, follow
from tests.support.forked import unprivileged

NODES = ("gather", "synthesize", "guard", "evict", "commit")
_CALLS = ("open", "write", "pwrite", "fsync", "rename", "exchange", "link", "rename_new", "unlink", "mkdir")


class Blow(StrEnum):
    KILL = "kill"
    TORN = "torn"  # half of a write reaches the disk (of another call: nothing), then it is killed
    STOP = "stop"
    EIO = "EIO"
    ENOSPC = "ENOSPC"


@dataclass(frozen=True, slots=True)
class Harm:
    """What befalls a process.

    The place is a node of the dream (entering or leaving), or the `call`-th change of the disk, counted from the
    start or from entering the node. `lasting`: that call fails, and every later one.
    """

    blow: Blow | None = None
    node: str = ""
    leaving: bool = False
    call: int | None = None
    lasting: bool = False
    shift_seconds: float = 0.0
    poor: bool = False  # permissions hold for root too
    file_kib: int | None = None  # no file may grow past it

    def __str__(self) -> str:
        where = "leaving" if self.leaving else "entering"
        place = f"at change {self.call}" + (f" from {self.node}" if self.node else "")
        words = [
            f"{self.blow} {place if self.call is not None else f'{where} {self.node}'}" if self.blow else "",
            "lasting" if self.lasting else "",
            f"clock {self.shift_seconds:+.0f} s" if self.shift_seconds else "",
            "poor" if self.poor else "",
            f"files up to {self.file_kib} KiB" if self.file_kib is not None else "",
        ]
        return ", ".join(word for word in words if word) or "no harm"


NONE = Harm()


def suffer(fields: Mapping[str, Any]) -> None:
    """Arrange for the harm of these fields in this process."""
    harm = Harm(**{**fields, "blow": fields["blow"] and Blow(fields["blow"])})
    if harm.file_kib is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (harm.file_kib * 1024, harm.file_kib * 1024))
    if harm.poor:
        unprivileged()
    if harm.shift_seconds:
        with NamedTemporaryFile() as file:  # as if somebody had set the machine's
            Clock(Path(file.name), harm.shift_seconds)
            follow(file.name)
    if harm.call is not None:
        disk = _Disk(harm)
        disk.wrap()
        if harm.node:
            _at_node(harm.node, entering=disk.begin)
        else:
            disk.begin()
    elif harm.node and harm.blow is not None:
        strike = _striking(harm.blow)
        _at_node(harm.node, **{"leaving" if harm.leaving else "entering": strike})


def _striking(blow: Blow) -> Callable[[], None]:
    number = signal.SIGSTOP if blow is Blow.STOP else signal.SIGKILL
    return lambda: os.kill(os.getpid(), number)


def _nothing() -> None:
    """Nothing happens."""


def _at_node(name: str, entering: Callable[[], None] = _nothing, leaving: Callable[[], None] = _nothing) -> None:
    dreamer = importlib.import_module("graphs.dream").Dreamer
    node: Callable[..., Any] = getattr(dreamer, name)

    def mortal(self: Any, state: Any = None) -> Any:
        entering()
        step = node(self, state)
        leaving()
        return step

    setattr(dreamer, name, mortal)


@dataclass(slots=True)
class _Disk:
    """Counts the changes of the disk, those of SQLite among them, and lets the chosen one meet its harm."""

    harm: Harm
    calls: int = 0
    counting: bool = False

    def begin(self) -> None:
        self.counting = True

    def wrap(self) -> None:
        system = importlib.import_module("state.stores.disk.syscalls").System
        for name in _CALLS:
            setattr(system, name, self._wrapped(name, getattr(system, name)))
        sqlite_disk.intercept(self._meet_sqlite)

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def changing(system: Any, *arguments: Any) -> Any:
            if name == "open" and not arguments[1] & os.O_CREAT:
                return call(system, *arguments)

            def torn() -> None:
                if name in ("write", "pwrite"):
                    fd, block, *rest = arguments
                    call(system, fd, block[: len(block) // 2], *rest)

            if self._strikes(torn):
                # A disk that fills up shows it as a short write first.
                if name == "write" and self.harm.blow is Blow.ENOSPC and len(arguments[1]) > 1:
                    return call(system, arguments[0], arguments[1][: len(arguments[1]) // 2])
                code = errno.EIO if self.harm.blow is Blow.EIO else errno.ENOSPC
                raise OSError(code, os.strerror(code))
            return call(system, *arguments)

        return changing

    def _meet_sqlite(self, _name: str, torn: Callable[[], None]) -> int:
        if self._strikes(torn):
            return sqlite_disk.IOERR_WRITE if self.harm.blow is Blow.EIO else sqlite_disk.FULL
        return sqlite_disk.OK

    def _strikes(self, torn: Callable[[], None]) -> bool:
        """Whether this call fails; one that kills does not return."""
        if not self.counting:
            return False
        number, self.calls = self.calls, self.calls + 1
        harm = self.harm
        if harm.call is None or harm.blow is None or number < harm.call or (number > harm.call and not harm.lasting):
            return False
        if harm.blow in (Blow.EIO, Blow.ENOSPC):
            return True
        if harm.blow is Blow.TORN:
            torn()
        if number == harm.call:
            _striking(harm.blow)()
        return False
