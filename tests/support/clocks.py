"""A wrong clock for a process of the tests: its wall clock goes before or after the true one, and may jump.

    clock = Clock(tmp_path / "clock", seconds=3600)
    Forked(["serve"], before=clock.before, ...)
    clock.set(-3600)                             # while it runs

What Python calls the time is wrong then: `datetime.now`, `datetime.utcnow`, `datetime.today`, `time.time`,
`time.time_ns`, `time.gmtime`, `time.localtime`. Monotonic clocks, the times of files and PostgreSQL's stay true, as
they do between machines. Nothing is replaced but these functions: a `datetime` is one as before.
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
    """How wrong the clocks of some processes go, in a file that they look at."""

    def __init__(self, path: Path, seconds: float = 0.0) -> None:
        self._path = path
        path.write_bytes(_SECONDS.pack(seconds))

    def set(self, seconds: float) -> None:
        """From now on they go so much before the true one."""
        with self._path.open("r+b") as file:
            file.write(_SECONDS.pack(seconds))

    @property
    def before(self) -> tuple[str, list[str]]:
        """For `Forked(before=...)`."""
        return f"{__name__}:follow", [str(self._path)]


def follow(path: str) -> None:
    """In the process whose clock goes wrong: the time is that of the clock in this file, from now on."""
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
    for module in list(sys.modules.values()):  # also where a name of it was imported
        names = getattr(module, "__dict__", {})
        for name, value in list(names.items()):
            if type(value) is type(true_time) and value in shifted and module is not sys.modules[__name__]:
                names[name] = shifted[value]


def _replace_method(of: type, name: str, method: Callable[..., object]) -> None:
    """Of a class that is written in C: all who have it already see the new one."""
    (methods,) = (one for one in gc.get_referents(vars(of)) if isinstance(one, dict))
    methods[name] = classmethod(method)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(of))
