"""Where tests create their folders: in memory if there is room, because syncing a disk would dominate their time.

The path is short, as a socket's path must be.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_ROOM_BYTES = 4 << 30
_MEMORY = Path("/dev/shm")  # noqa: S108 - everything below it is made by mkdtemp


def _place() -> str:
    there = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK | os.X_OK)
    return str(_MEMORY) if there and shutil.disk_usage(_MEMORY).free >= _ROOM_BYTES else "/tmp"  # noqa: S108


PLACE = _place()


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that others may change meanwhile: what vanishes on the way is left out."""
    for place, _, names in os.walk(folder):
        yield from (path for path in (Path(place, name) for name in names) if path.is_file())
