"""File erasure: takes forgotten texts out of MEMORY.md, the log of notes and the rest of .dreamd.

Every step may be cut off anywhere and repeated. A file that is appended to is overwritten in place, and as long as
before; every other one is replaced as a whole, or deleted.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from state.document.merge import with_lines_of
from state.errors import DocumentError
from state.forgetting.cutting import Cut, Finder, Span
from state.forgetting.in_place import blanked
from state.forgetting.known import spans
from state.scratch import HEADER, parse_notes
from state.scratch import decode as scratch_text
from state.stores.disk.disk import LONGEST_LOG, Disk, below
from state.stores.disk.places import PLACE
from state.stores.disk.swap import change_text
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.erasing.byte_search import Patterns
from state.stores.erasing.plan import Erasure, erased_document
from state.stores.history.bootstraps import RECEIPTS, holds_receipts_alone, path_of
from state.stores.history.inbox import NoteInbox
from state.stores.history.log_file import changed_rows, write_all
from state.stores.history.notes import Notes

# A copy that was put aside is one whatever its first bytes say now.
_DATABASE = re.compile(r"state\.db|.*-(?:wal|shm|journal)$")
SQLITE = b"SQLite format 3\0"
# In the name of a file that is being written.
TEMPORARY = ".dreamd-tmp"
_EPOCH = datetime.fromtimestamp(0, UTC)


def erase_document(disk: Disk, path: Path, erasure: Erasure) -> bool:
    """Erase the targets from MEMORY.md (or its backup); whether that changed the file.

    A save at the moment of the swap is kept, erased. Raises DocumentError for a file that is no text.
    """
    return change_text(disk, path, lambda content: _erased(content, path, erasure), _joined, "forget again")


def _erased(content: bytes, path: Path, erasure: Erasure) -> bytes:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{path}: byte {error.start} is not UTF-8", "save it as UTF-8 text, or move it away, and forget again"
        ) from error
    return erased_document(text, erasure).encode()


def _joined(current: bytes, taken_out: bytes) -> bytes:
    return with_lines_of(current.decode(), taken_out.decode()).encode()


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a log after erasing: in the file of this inode, from this byte on."""

    inode: int
    at: int
    content: bytes


def log_rows(disk: Disk, path: Path, erasure: Erasure) -> tuple[list[Row], bytes]:
    """Return the rows of a log that erasing changes, each as long as before (agents may append), and the new log."""
    with storage_errors(path):
        inode = path.stat().st_ino
    before = disk.read_bytes(path, LONGEST_LOG)
    after = blank(before, erasure)
    return [Row(inode, at, row) for at, row in changed_rows(before, after)], after


def write_rows(disk: Disk, path: Path, rows: Iterable[Row]) -> None:
    """Write the rows that belong to this file, in place. Doing it again completes a row that was cut off."""
    with storage_errors(path):
        fd = disk.system.open(disk.target(path), os.O_RDWR)
        try:
            status = os.fstat(fd)
            due = [row for row in rows if row.inode == status.st_ino and row.at + len(row.content) <= status.st_size]
            for row in due:
                write_all(disk, fd, row.content, row.at)
            if due:
                disk.system.fsync(fd)
        finally:
            os.close(fd)


def blank_log(notes: Notes, path: Path, found: Finder) -> int:
    """Take what is found out of the notes of this file, in place; return how many notes held some.

    Whoever appends meanwhile loses nothing: spaces take its place, and the file keeps its length.
    """
    disk = notes.inbox.disk
    with storage_errors(path):
        inode = path.stat().st_ino
    before = disk.read_bytes(path, LONGEST_LOG)
    matching = [note for note in parse_notes(scratch_text(before), _EPOCH) if any(map(found, note.texts))]
    after = blanked(before, matching, found)
    rows = [Row(inode, at, row) for at, row in changed_rows(before, after)]
    if rows:
        notes.remember(path, after)
        write_rows(disk, path, rows)
    return len(matching)


def blank(content: bytes, erasure: Erasure) -> bytes:
    """Return the log without the targets, each line as long as before.

    A note of which words alone are erased is blanked whole: its row has the rest.
    """

    def found(text: str) -> tuple[Span, ...]:
        places = spans(text, erasure.targets)
        return places if erasure.cut is Cut.SENTENCES else ((0, len(text)),) if places else ()

    while True:
        notes = parse_notes(scratch_text(content), _EPOCH)
        matching = [note for note in notes if any(spans(text, erasure.targets) for text in note.texts)]
        new = _blank_rest(blanked(content, matching, found), erasure)
        if new == content:
            return content
        content = new


def _blank_rest(content: bytes, erasure: Erasure) -> bytes:
    """Blank the targets that are outside notes, or span two of them."""
    text = content.decode("utf-8", "surrogateescape")
    bare = bytearray(content)
    for start, end in spans(text, erasure.targets):
        first = len(text[:start].encode("utf-8", "surrogateescape"))
        last = first + len(text[start:end].encode("utf-8", "surrogateescape"))
        rows = content[content.rfind(b"\n", 0, first) + 1 : last].split(b"\n")
        if rows[0].strip().startswith(HEADER.encode()[: len(rows[0].strip())]) and len(rows) == 1:
            continue
        bare[first:last] = bytes(byte if byte in b"\r\n" else 0x20 for byte in bare[first:last])
    return bytes(bare)


def has_receipts_alone(disk: Disk, path: Path) -> bool:
    """Return whether this is the file of receipts of bootstraps, with dreamd's own words alone."""
    return path.name == RECEIPTS and holds_receipts_alone(disk.read_optional(path) or b"")


def database_files(workspace: Workspace) -> tuple[Path, ...]:
    """Return state.db and what SQLite keeps beside it."""
    return tuple(workspace.database.with_name(f"state.db{end}") for end in ("", "-wal", "-shm", "-journal"))


def of_state(workspace: Workspace) -> Iterator[Path]:
    """Yield the files of the state folder, but for the one that says where the workspace's folder is."""
    for path in sorted(below(workspace.state)):
        if path.is_file() and not path.is_symlink() and path != workspace.state / PLACE:
            yield path


def all_files(workspace: Workspace, inbox: NoteInbox) -> Iterator[Path]:
    """Yield every file in which dreamd writes, and those that it was writing beside MEMORY.md and scratch.md."""
    for path in (workspace.document, workspace.backup, workspace.scratch, *inbox.displaced().values()):
        if path.is_file():
            yield path
    yield from of_state(workspace)
    for folder in (workspace.root, workspace.scratch.parent):
        yield from (path for path in folder.glob(f".*{TEMPORARY}*") if path.is_file())


def others(workspace: Workspace, disk: Disk) -> list[Path]:
    """Return those of these files that nothing else erases."""
    inbox = NoteInbox(workspace, disk)
    known = {*database_files(workspace), workspace.document, workspace.backup, workspace.lock, workspace.fence}
    known |= {*inbox.files(), *(path for path in (path_of(workspace),) if has_receipts_alone(disk, path))}
    folders = (workspace.index, workspace.checkpoints, workspace.copies)
    return [
        path
        for path in all_files(workspace, inbox)
        if path not in known and not any(path.is_relative_to(folder) for folder in folders)
    ]


def erase_other(disk: Disk, path: Path, erasure: Erasure, patterns: Patterns) -> bool:
    """Erase the targets from any other file; whether that changed it. A database that holds them is deleted.

    So is a temporary file of a process that ended, whatever it holds.
    """
    if TEMPORARY in path.name:  # half written, or packed: nobody waits for it, dreamd is alone here
        disk.remove(path)
        return False
    content = disk.read_bytes(path)
    if content.startswith(SQLITE) or _DATABASE.match(path.name):
        if patterns.count(content, loose=True, most=1):
            disk.remove(path)
            return True
        return False
    new = blank_text(content, erasure)
    if new != content:
        disk.write_atomic(path, new)
    return new != content


def blank_text(content: bytes, erasure: Erasure) -> bytes:
    """Return a text of unknown form without the targets: JSON value by value, any other one word by word."""
    text = content.decode("utf-8", "surrogateescape")
    try:
        is_json = isinstance(json.loads(text), dict | list)
    except ValueError:
        is_json = False
    new = erasure.file(text) if is_json else text
    while not is_json and (found := spans(new, erasure.targets)):
        for start, end in found:
            new = new[:start] + "".join(one if one in "\r\n" else " " for one in new[start:end]) + new[end:]
    return new.encode("utf-8", "surrogateescape")


def empty_folder(disk: Disk, folder: Path) -> int:
    """Delete everything in the folder (of a link, the link); how many files that were."""
    removed = 0
    with storage_errors(folder):
        for path in sorted(below(folder), reverse=True):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                disk.system.unlink(path)
                removed += 1
        disk.fsync_folder(folder)
    return removed
