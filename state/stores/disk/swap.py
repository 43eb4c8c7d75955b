"""Swap: a text that a person may save at any moment is changed, and no such save is lost."""

from collections.abc import Callable
from pathlib import Path

from state.errors import DocumentError
from state.stores.disk.disk import Disk

_SAVES = 8

Change = Callable[[bytes], bytes]


def change_text(disk: Disk, path: Path, change: Change, join: Callable[[bytes, bytes], bytes], again: str) -> bool:
    """Replace the file by what `change` makes of it; whether that changed it. A missing file stays missing.

    A save at the moment of the swap is the newer text, and is changed likewise. What a swap left that was cut off may
    be such a save: `join` says what is to stand of what is there and of that, both changed. `change` may be done
    twice. Raises DocumentError for a file that never holds still; `again` says what to do then.
    """
    aside = disk.displaced(path)
    if aside is not None:
        _rejoin(disk, path, change(aside), change, join)
    changed = aside is not None
    for _ in range(_SAVES):
        current = disk.read_optional(path)
        if current is None or (new := change(current)) == current:
            return changed
        changed = True
        displaced_text = disk.exchange(path, new, mode=0o644)
        if displaced_text not in (None, current):  # saved between reading and swapping: that is the newer one
            disk.write_atomic(path, change(displaced_text))
        disk.settle(path)
    raise DocumentError(f"{path} changed {_SAVES} times while it was written", f"stop what writes it and {again}")


def _rejoin(disk: Disk, path: Path, aside: bytes, change: Change, join: Callable[[bytes, bytes], bytes]) -> None:
    """Finish a swap that was cut off."""
    current = change(disk.read_optional(path) or b"")
    if (joined := join(current, aside)) != current:
        disk.write_atomic(path, joined)
    disk.settle(path)
