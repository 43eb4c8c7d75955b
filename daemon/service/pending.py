"""Pending notes: those of one workspace, for its keeper, read again only when one of their files has changed."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from state.scratch import HEADER, Note
from state.stores.disk.workspace import Workspace
from state.stores.history.segments import Segments

_REREAD_SECONDS = 600
_EMPTY_LOG = len(HEADER) + 2


class PendingNotes:
    """The notes of one workspace that no dream has consumed."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._mark: object = ()
        self.read: tuple[Note, ...] = ()
        """As they were when somebody asked last."""

    def now(self, now: datetime) -> tuple[Note, ...]:
        """As they are now: read again when one of the files has changed, and now and then in any case.

        A write through a descriptor that was open before shows in a segment's size alone.
        """
        standing = self._workspace.segments
        paths = [self._workspace.scratch, standing, self._workspace.retired, *_standing(standing)]
        mark = (int(now.timestamp() // _REREAD_SECONDS), *(stamp(path) for path in paths))
        if self._mark != mark:
            self.read = Segments(self._workspace).pending_notes()
            self._mark = mark
        return self.read

    def appended_at(self) -> datetime | None:
        """When the log was last appended to. Not the latest stamp: an agent writes what it likes."""
        marks = [stamp(path) for path in (self._workspace.scratch, *_standing(self._workspace.segments))]
        # A dream that takes the log leaves an empty one, with its title: nobody has appended to that.
        latest = max((mark[2] for mark in marks if mark is not None and mark[1] > _EMPTY_LOG), default=None)
        return datetime.fromtimestamp(latest / 1e9, UTC) if latest is not None else None


def stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes when the file does; None when there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _standing(segments: Path) -> list[Path]:
    """The segments that are not retired."""
    with suppress(OSError):
        return sorted(segments.glob("*.md"))
    return []
