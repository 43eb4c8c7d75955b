"""Stamp: tells without opening a file whether it has changed."""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

# Two writes within a tick of the kernel's clock leave one time behind, and file systems count in up to two seconds.
_DOUBTFUL_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Stamp:
    """Which file it is, how long, and when it was last written (ns since the epoch).

    The time of the last change (ctime) is left out: SQLite sets the owner of its log whenever it opens it.
    """

    device: int
    inode: int
    size: int
    written_ns: int

    @classmethod
    def of(cls, path: str) -> "Stamp | None":
        """Return that of the file or folder at this path, links followed; None without one, or for an empty file.

        SQLite makes an empty log beside a database, and removes it.
        """
        try:
            status = os.stat(path)  # noqa: PTH116 - asked for hundreds of workspaces at once
        except (OSError, ValueError):
            return None
        if not status.st_size and stat.S_ISREG(status.st_mode):
            return None
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def is_settled(stamps: Sequence[Stamp | None], at_ns: int) -> bool:
    """Return whether what is written from this moment on shows in these stamps, which were taken after it."""
    return all(one is None or one.written_ns + _DOUBTFUL_NS < at_ns for one in stamps)
