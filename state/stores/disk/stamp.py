"""Stamp: tells whether a file has changed without opening it."""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

# Two writes within a tick of the kernel's clock share one time, and file systems have a resolution of up to 2 s.
_DOUBTFUL_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file's identity, size and time of last writing (ns since the epoch).

    The change time (ctime) is left out, because SQLite sets the owner of its log whenever it opens it.
    """

    device: int
    inode: int
    size: int
    written_ns: int

    @classmethod
    def of(cls, path: str) -> "Stamp | None":
        """Return the stamp of the file or folder at this path, following links; None if it is missing or empty.

        Empty files count as missing because SQLite creates and removes an empty log beside a database.
        """
        try:
            status = os.stat(path)  # noqa: PTH116 - asked for hundreds of workspaces at once
        except (OSError, ValueError):
            return None
        if not status.st_size and stat.S_ISREG(status.st_mode):
            return None
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def is_settled(stamps: Sequence[Stamp | None], at_ns: int) -> bool:
    """Return whether any write from `at_ns` on would change these stamps, which were taken after it."""
    return all(one is None or one.written_ns + _DOUBTFUL_NS < at_ns for one in stamps)
