"""Notes repair: NUL bytes in the log of notes are blanked, with a copy of the file kept in quarantine.

Agents append to these files meanwhile, perhaps through a descriptor that is open since long. So they are changed
where they stand, and keep their length.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path

from daemon.upkeep.examine import Finding, Level
from daemon.upkeep.repair.jobs import Job, RepairContext
from state.errors import DreamdError
from state.stores.disk.disk import LONGEST_LOG
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.history.log_file import changed_rows, write_all
from state.stores.history.notes import Notes, look


def notes(context: RepairContext) -> Iterator[Job]:
    """Find NUL bytes in pending notes; a scratch.md that is no file is kept aside."""
    workspace = context.workspace
    scratch = workspace.scratch
    if os.path.lexists(scratch) and not scratch.is_file() and not scratch.is_symlink():
        action = "it is kept aside; the next note makes the file"
        yield Job("notes", f"{scratch} is no file", action, partial(context.aside.move, scratch))
    with suppress(DreamdError):  # links and permissions are told of by themselves
        for path, start in _unread(workspace):
            bad = _bad_rows(context.disk.read_bytes(path, LONGEST_LOG), start)
            if bad:
                what = f"{path}: {len(bad)} rows hold NUL bytes"
                action = "a copy is kept aside; the NUL bytes are taken out"
                yield Job("notes", what, action, partial(_blank, context, path, start))


def misencoded(workspace: Workspace) -> Iterator[Finding]:
    """Find rows in another encoding: they are read, and their writer is to mend them."""
    try:
        unread = _unread(workspace)
    except DreamdError as error:
        yield Finding("notes", Level.PROBLEM, error.what, error.advice)
        return
    for path, start in unread:
        content = BytesIO(workspace.disk().read_optional(path, LONGEST_LOG) or b"")
        content.seek(start)
        rows = sum(row.decode("utf-8", "ignore").encode() != row for row in content)  # of a long log, none is kept
        if rows:
            what = f"{path}: {rows} rows are not UTF-8; they are read, and what is none shows as \\xe9"
            yield Finding("notes", Level.WARNING, what, "write notes in UTF-8")


def _unread(workspace: Workspace) -> list[tuple[Path, int]]:
    """Return the files of notes, each with the byte from which on nothing was read yet."""
    return look(workspace, _places, "rw")


def _places(notes: Notes) -> list[tuple[Path, int]]:
    return [(path, notes.read_upto(path)) for path in notes.inbox.files() if path.is_file()]


def _bad_rows(content: bytes, start: int) -> list[tuple[int, bytes]]:
    """Return the rows with NULs from `start` on, as (place, new row), each as long as before.

    Other bytes that are no UTF-8 are text in another encoding, and stay.
    """
    if b"\0" not in content:
        return []
    rows = (row.replace(b"\0", b"").ljust(len(row)) for row in content.split(b"\n"))
    return [(at, row) for at, row in changed_rows(content, b"\n".join(rows)) if at >= start]


def _blank(context: RepairContext, path: Path, start: int) -> None:
    content, disk = context.disk.read_bytes(path, LONGEST_LOG), context.disk
    context.aside.keep_content(path, content)
    with storage_errors(path):
        fd = disk.system.open(disk.target(path), os.O_WRONLY)
        try:
            for at, row in _bad_rows(content, start):
                write_all(disk, fd, row, at)
            disk.system.fsync(fd)
        finally:
            os.close(fd)
