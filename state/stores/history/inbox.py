"""NoteInbox: the files in which notes arrive, until they are rows of state.db and a verified copy has them.

    inbox.md             beside state.db: a note is acknowledged when it stands here, synced
    inbox.000017.md      what stood there until copy 17 of state.db was made
    memory/scratch.md    shows every pending note; agents append to it with a plain `>>`
    .scratch.md.3.4711.displaced    a scratch.md that was written anew when its first 4,711 bytes were read: late
                         writes land in it, and are seen

Appending needs neither the database nor the lock of the workspace. Everything else is for its owner.
"""

import os
import re
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from state.errors import BusyError, NotFoundError, ReadOnlyError, StorageError
from state.scratch import HEADER, Note, admitted, render_note
from state.secrets.policy import DEFAULT, Redaction
from state.stores.disk.disk import Disk
from state.stores.disk.looked_through import LookedThrough
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterable

HEAD = f"{HEADER}\n\n".encode()
_SHOWN_WITHIN = 0.5  # seconds
_ROTATED = re.compile(r"inbox\.([0-9]{6,12})\.md")
_DISPLACED = re.compile(r"\.scratch\.md\.([0-9]{1,12})\.([0-9]{1,18})\.displaced")


class NoteInbox:
    """The files of one workspace's notes."""

    def __init__(self, workspace: Workspace, disk: Disk | None = None) -> None:
        self.workspace = workspace
        self.disk = disk or workspace.disk()

    def append(self, note: Note, redaction: Redaction = DEFAULT) -> Note:
        """Append the note without its secrets, durably, and return it as it stands there.

        Raises UsageError for a note that cannot be admitted (`state.scratch.admitted`);
        StorageError or BusyError when it could not be written: it is then in no file.
        """
        stored = admitted(note)
        if (text := redaction.of(stored.text)) != stored.text:
            from state.stores.history.originals import Originals

            text = Originals(self.workspace, self.disk).redacted(stored.text, redaction, "note", stored.at)
        stored = replace(stored, text=text, replaces=redaction.of(stored.replaces) if stored.replaces else "")
        entry = render_note(stored).encode()
        try:
            self.disk.append_locked(self.workspace.inbox, entry, b"")
        except ReadOnlyError:  # an agent's sandbox: scratch.md is an inbox as well
            self.disk.append_locked(self.workspace.scratch, entry, HEAD)
            return stored
        LookedThrough(self.workspace, redaction).keep(stored.text)
        # Agents read it there. Whatever hinders that, the note is kept.
        with suppress(StorageError, BusyError):
            self.disk.make_folder(self.workspace.scratch.parent)
            # Whoever writes scratch.md anew may wait for the transaction in which this is called.
            self.disk.append_locked(self.workspace.scratch, entry, HEAD, durable=False, wait_seconds=_SHOWN_WITHIN)
        return stored

    def file(self, entries: "Iterable[Note]") -> None:
        """Append notes of scratch.md, which is not the user's own folder, durably to the inbox."""
        block = b"".join(render_note(note).encode() for note in entries)
        if block:
            self.disk.append_locked(self.workspace.inbox, block, b"")

    def files(self) -> list[Path]:
        """Return the files in which notes stand, in the order in which they are read."""
        scratch, inbox = self.workspace.scratch, self.workspace.inbox
        found = [*self.displaced().values(), scratch, *self.rotated().values(), inbox]
        return [path for path in found if os.path.lexists(path)]

    def is_inbox(self, path: Path) -> bool:
        """Return whether the file is one of the user's own folder."""
        return path.parent == self.workspace.state

    def displaced(self) -> dict[int, Path]:
        """Return the files that were scratch.md before, by their numbers, the oldest first."""
        return _numbered(self.workspace.scratch.parent, _DISPLACED)

    def rotated(self) -> dict[int, Path]:
        """Return the inboxes of before, by the numbers of the copies that have them, the oldest first."""
        return _numbered(self.workspace.state, _ROTATED)

    def next_number(self) -> int:
        """Return the number that scratch.md will have when it is put aside."""
        return max(self.displaced(), default=0) + 1

    def show_anew(self, content: bytes, read: int, number: int) -> None:
        """Put this content in the place of scratch.md; what stood there is kept beside it for late writes.

        `read`: so many bytes of that are in rows. `number`: its own.
        """
        scratch = self.workspace.scratch
        self.disk.make_folder(scratch.parent)
        with storage_errors(scratch):
            times = scratch.stat() if scratch.exists() else None
        aside = self.disk.target(scratch).with_name(f".scratch.md.{number}.{read}.displaced")
        self.disk.exchange(scratch, content, aside=aside)
        if times is not None:  # nobody has noted anything just now
            with storage_errors(scratch):
                os.utime(scratch, ns=(times.st_atime_ns, times.st_mtime_ns))


def read_before(path: Path) -> int:
    """Return how many bytes of this file were in rows when it was put aside; 0 of another file."""
    match = _DISPLACED.fullmatch(path.name)
    return int(match[2]) if match else 0


def number_of(path: Path) -> int:
    """Return the number of a file that was scratch.md; 0 of another file."""
    match = _DISPLACED.fullmatch(path.name)
    return int(match[1]) if match else 0


def modified(status: os.stat_result) -> datetime:
    """When the file was last written."""
    return datetime.fromtimestamp(status.st_mtime, UTC)


def _numbered(folder: Path, name: re.Pattern[str]) -> dict[int, Path]:
    """Return the files in the folder whose whole name matches, by the number in it."""
    with suppress(NotFoundError), storage_errors(folder):
        matches = [name.fullmatch(entry) for entry in os.listdir(folder)]  # noqa: PTH208 - names are enough
        found = {int(match[1]): folder / match[0] for match in matches if match}
        return dict(sorted(found.items()))
    return {}
