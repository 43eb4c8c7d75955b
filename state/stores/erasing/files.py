"""File erasure: removes forgotten texts from MEMORY.md and the state folder, except the log of notes.

Every step may be interrupted and repeated. A file is replaced as a whole, or deleted.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from state.document.merge import with_lines_of
from state.errors import DocumentError
from state.forgetting.known import spans
from state.stores.database.connection import SIDES
from state.stores.disk.disk import TEMPORARY, Disk, below, change_text
from state.stores.disk.places import PLACE
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.erasing.byte_search import Patterns
from state.stores.erasing.plan import Erasure, erased_document
from state.stores.history.bootstraps import holds_receipts_alone
from state.stores.history.inbox import NoteInbox
from state.stores.history.leave_receipt import RECEIPTS, path_of

# Copies of databases that were put aside are recognised by name, whatever their first bytes are now.
_DATABASE = re.compile(r"state\.db|.*-(?:wal|shm|journal)$")
SQLITE = b"SQLite format 3\0"


def erase_document(disk: Disk, path: Path, erasure: Erasure) -> None:
    """Erase the targets from MEMORY.md or its backup.

    A save in the instant of the swap is kept, and erased too. Raise DocumentError if the file is not text.
    """
    change_text(disk, path, lambda content: _erased(content, path, erasure), _joined, "forget again")


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


def has_receipts_alone(disk: Disk, path: Path) -> bool:
    """Return whether this is the file of bootstrap receipts and holds nothing but dreamd's own words."""
    return path.name == RECEIPTS and holds_receipts_alone(disk.read_optional(path) or b"")


def database_files(workspace: Workspace) -> tuple[Path, ...]:
    """Return state.db and the files that SQLite keeps beside it."""
    return tuple(workspace.database.with_name(f"state.db{end}") for end in SIDES)


def all_files(workspace: Workspace, inbox: NoteInbox) -> Iterator[Path]:
    """Yield every file that dreamd writes, including temporary ones beside MEMORY.md and scratch.md.

    The state folder is included except the file that says where the workspace's folder is.
    """
    for path in (workspace.document, workspace.backup, workspace.scratch, *inbox.displaced().values()):
        if path.is_file():
            yield path
    for path in sorted(below(workspace.state)):
        is_ours = path != workspace.state / PLACE and workspace.is_state(path)
        if is_ours and path.is_file() and not path.is_symlink():
            yield path
    for folder in (workspace.root, workspace.scratch.parent):
        yield from (path for path in folder.glob(f".*{TEMPORARY}*") if path.is_file())


def others(workspace: Workspace, disk: Disk) -> list[Path]:
    """Return the files that no other step of a forgetting erases."""
    inbox = NoteInbox(workspace, disk)
    known = {*database_files(workspace), workspace.document, workspace.backup, workspace.lock, workspace.fence}
    known |= {*inbox.files(), *(path for path in (path_of(workspace),) if has_receipts_alone(disk, path))}
    folders = (workspace.index, workspace.checkpoints, workspace.copies)
    return [
        path
        for path in all_files(workspace, inbox)
        if path not in known and not any(path.is_relative_to(folder) for folder in folders)
    ]


def erase_other(disk: Disk, path: Path, erasure: Erasure, patterns: Patterns) -> None:
    """Erase the targets from any other file. A database that holds them is deleted.

    Temporary files are always deleted: their process has ended, because dreamd is alone here.
    """
    content = disk.read_bytes(path)
    is_database = content.startswith(SQLITE) or _DATABASE.match(path.name)
    if TEMPORARY in path.name or (is_database and patterns.count(content, loose=True, most=1)):
        disk.remove(path)
    elif not is_database and (new := blank_text(content, erasure)) != content:
        disk.write_atomic(path, new)


def blank_text(content: bytes, erasure: Erasure) -> bytes:
    """Return a text of unknown format without the targets: JSON value by value, anything else blanked by words."""
    text = content.decode("utf-8", "surrogateescape")
    try:
        is_json = isinstance(json.loads(text), dict | list)
    except ValueError:
        is_json = False
    new = erasure.json(text, has_fields=True) if is_json else text
    while not is_json and (found := spans(new, erasure.targets)):
        for start, end in found:
            new = new[:start] + "".join(one if one in "\r\n" else " " for one in new[start:end]) + new[end:]
    return new.encode("utf-8", "surrogateescape")


def empty_folder(disk: Disk, folder: Path) -> None:
    """Delete everything in the folder; links are deleted themselves."""
    with storage_errors(folder):
        for path in sorted(below(folder), reverse=True):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                disk.system.unlink(path)
        disk.fsync_folder(folder)
