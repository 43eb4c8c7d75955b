"""Daily spend: what models cost in all workspaces of one user, for the ceilings that apply across them.

The user's state folder has one file per day, such as `2026-11-22`, with two lines per call, tokens and dollars each:
the most that it may cost, and once it is answered what it cost less. Any number of processes and threads may append.
"""

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from state.budget import Spend
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import storage_errors

# Lines torn by a full disk or edited by hand do not match, and count as nothing.
_LINE = re.compile(rb"^(-?[0-9]{1,15}) (-?[0-9]{1,9}(?:\.[0-9]{1,9})?)$", re.MULTILINE)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class DailySpend:
    """The cost of each day's calls (UTC). `add` creates the folder."""

    folder: Path

    def add(self, spend: Spend, at: datetime) -> None:
        """Add the cost of a call, or a negative rest of it, durably, and delete earlier days. Raise StorageError."""
        day, disk = self.folder / f"{at:%Y-%m-%d}", Disk(self.folder)
        usd = spend.usd if math.isfinite(spend.usd) else 0.0
        with storage_errors(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_new = not day.exists()
        disk.append_locked(day, f"{spend.tokens} {usd:.9f}\n".encode(), b"")
        for old in self.folder.iterdir() if is_new else ():
            if _DAY.fullmatch(old.name) and old.name < day.name:
                with suppress(FileNotFoundError):  # another process was faster
                    disk.remove(old)

    def of(self, at: datetime) -> Spend:
        """Return what was spent on the day of this moment. Raise StorageError if it cannot be read."""
        content = Disk(self.folder).read_optional(self.folder / f"{at:%Y-%m-%d}") or b""
        found = _LINE.findall(content[: content.rfind(b"\n") + 1])
        return Spend(len(found), sum(int(tokens) for tokens, _ in found), sum(float(usd) for _, usd in found))
