"""A wrong clock for a test process: its wall clock is ahead of or behind the true one, and may jump.

    clock = Clock(tmp_path / "clock", seconds=3600)
    Forked(["serve"], before=clock.before, ...)
    clock.set(-3600)                             # while it runs

It replaces `datetime.now`, `datetime.utcnow`, `datetime.today`, `date.today`, `time.time`, `time.time_ns`,
`time.gmtime` and `time.localtime`, and nothing else. Monotonic clocks, file times and PostgreSQL's clock stay true,
as they would between machines.
"""

import ctypes
import gc
import mmap
import struct
import sys
import time
from collections.abc import Callable
from datetime import date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

_SECONDS = struct.Struct("d")


class Clock:
    """The error of some processes' clocks, in seconds, in a file that they map."""

    def __init__(self, path: Path, seconds: float = 0.0) -> None:
        self._path = path
        path.write_bytes(_SECONDS.pack(seconds))

    def set(self, seconds: float) -> None:
        """Set by how many seconds the clocks are ahead from now on."""
        with self._path.open("r+b") as file:
            file.write(_SECONDS.pack(seconds))

    @property
    def before(self) -> tuple[str, list[str]]:
        """Return the argument for `Forked(before=...)`."""
        return f"{__name__}:follow", [str(self._path)]


def follow(path: str) -> None:
    """Make this process's time follow the clock in this file."""
    with Path(path).open("r+b") as file:
        memory = mmap.mmap(file.fileno(), _SECONDS.size, access=mmap.ACCESS_READ)

    def wrong() -> float:
        return float(_SECONDS.unpack_from(memory)[0])

    true_time, true_ns, true_now, true_utcnow = time.time, time.time_ns, datetime.now, datetime.utcnow
    true_gmtime, true_localtime = time.gmtime, time.localtime

    def now(cls: type, tz: tzinfo | None = None) -> datetime:
        return true_now(tz) + timedelta(seconds=wrong())

    _replace_method(datetime, "now", now)
    _replace_method(datetime, "utcnow", lambda _: true_utcnow() + timedelta(seconds=wrong()))
    _replace_method(datetime, "today", lambda _: true_now() + timedelta(seconds=wrong()))
    _replace_method(date, "today", lambda _: (true_now() + timedelta(seconds=wrong())).date())
    shifted: dict[Any, Callable[..., Any]] = {
        true_time: lambda: true_time() + wrong(),
        true_ns: lambda: true_ns() + int(wrong() * 1e9),
        true_gmtime: lambda seconds=None: true_gmtime(true_time() + wrong() if seconds is None else seconds),
        true_localtime: lambda seconds=None: true_localtime(true_time() + wrong() if seconds is None else seconds),
    }
    for module in list(sys.modules.values()):  # also names that modules imported from `time`
        names = getattr(module, "__dict__", {})
        for name, value in list(names.items()):
            if type(value) is type(true_time) and value in shifted and module is not sys.modules[__name__]:
                names[name] = shifted[value]


def _replace_method(of: type, name: str, method: Callable[..., object]) -> None:
    """Replace a class method of a class written in C, for everyone who has imported the class."""
    (methods,) = (one for one in gc.get_referents(vars(of)) if isinstance(one, dict))
    methods[name] = classmethod(method)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(of))
