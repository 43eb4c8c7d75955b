"""Daily spend: what models cost all workspaces of one user, for the ceilings that hold over all of them.

A file a day in the user's own state folder, `2026-11-22`, with a line for each call that was paid: its tokens,
its dollars. Any number of processes append to it, and whoever reads it reads on from where it was.
"""

import math
import re
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from state.budget import Spend
from state.errors import StorageError
from state.stores.disk.disk import Disk, opened
from state.stores.disk.syscalls import storage_errors

_LINE = re.compile(rb"([0-9]{1,15}) ([0-9]{1,9}(?:\.[0-9]{1,9})?)")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class _Read:
    """A day's file as far as it was read."""

    day: str = ""
    offset: int = 0
    spend: Spend = Spend()  # noqa: RUF009 - a frozen value


@cache
def daily_spend(folder: Path) -> "DailySpend":
    """Return this process's reader of that folder."""
    return DailySpend(folder)


class DailySpend:
    """The cost of the calls of each day (UTC); any thread may use it. `add` makes the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = threading.Lock()
        self._read = _Read()

    def add(self, spend: Spend, at: datetime) -> None:
        """Add the cost of a call, durably. Raises StorageError when it cannot be written."""
        day = f"{at:%Y-%m-%d}"
        usd = spend.usd if math.isfinite(spend.usd) and spend.usd > 0 else 0.0
        line = f"{max(0, spend.tokens)} {usd:.9f}\n".encode()
        disk = Disk(self._folder)
        with storage_errors(self._folder):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_new = not (self._folder / day).exists()
        disk.append_locked(self._folder / day, line, b"")
        if is_new:
            for old in self._folder.iterdir():
                if _DAY.fullmatch(old.name) and old.name < day:
                    with suppress(FileNotFoundError):  # another process was faster
                        disk.remove(old)

    def of(self, at: datetime) -> Spend:
        """Return what was spent on the day of this moment. Raises StorageError when it cannot be read."""
        day = f"{at:%Y-%m-%d}"
        with self._turn:
            known = self._read if self._read.day == day else _Read(day)
            try:
                with opened(self._folder / day) as file:
                    if file.seek(0, 2) < known.offset:  # somebody put another file there
                        known = _Read(day)
                    file.seek(known.offset)
                    content = file.read()
            except FileNotFoundError:
                self._read = _Read(day)
                return Spend()
            except OSError as error:
                raise StorageError(f"{self._folder / day}: {error.strerror}", "make it readable") from error
            whole = content[: content.rfind(b"\n") + 1]
            spend = sum((_spend(line) for line in whole.splitlines()), known.spend)
            self._read = _Read(day, known.offset + len(whole), spend)
            return spend


def _spend(line: bytes) -> Spend:
    """Return the cost in this line; nothing for a line that was torn by a full disk, or by hand."""
    found = _LINE.fullmatch(line)
    return Spend(1, int(found[1]), float(found[2])) if found else Spend()
