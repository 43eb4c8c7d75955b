"""File erasure: removes forgotten texts from MEMORY.md and the state folder, except the log of notes.

Every step may be interrupted and repeated. MEMORY.md is replaced as a whole; any other file that holds a forgotten
text is deleted.
"""

from collections.abc import Iterator
from pathlib import Path

from state.document.merge import with_lines_of
from state.errors import DocumentError
from state.stores.database.connection import SIDES
from state.stores.disk.disk import LONGEST_LOG, TEMPORARY, Disk, below, change_text
from state.stores.disk.places import PLACE
from state.stores.disk.strangers import STRANGERS, strangers_files
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.erasing.byte_search import Needles
from state.stores.erasing.plan import Erasure
from state.stores.history.bootstraps import holds_receipts_alone
from state.stores.history.inbox import NoteInbox
from state.stores.history.leave_receipt import RECEIPTS


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
    return erasure.document(text).encode()


def _joined(current: bytes, taken_out: bytes) -> bytes:
    return with_lines_of(current.decode(), taken_out.decode()).encode()


def database_files(workspace: Workspace) -> tuple[Path, ...]:
    """Return state.db and the files that SQLite keeps beside it."""
    return tuple(workspace.database.with_name(f"state.db{end}") for end in SIDES)


def has_names(workspace: Workspace, path: Path) -> bool:
    """Return whether this file of the state has no text but names of the owner's files, and so stays as it is."""
    return path in (workspace.state / STRANGERS, workspace.lock, workspace.fence)


def all_files(workspace: Workspace, inbox: NoteInbox) -> Iterator[Path]:
    """Yield every file that dreamd writes, including temporary ones beside MEMORY.md and scratch.md.

    The state folder is included except the file that says where the workspace's folder is. So are the copies of a
    stranger's files in it.
    """
    copied = strangers_files(workspace) if workspace.is_apart else []
    for path in (workspace.document, workspace.backup, workspace.scratch, *inbox.displaced().values(), *copied):
        if path.is_file():
            yield path
    for path in sorted(below(workspace.state)):
        is_ours = path != workspace.state / PLACE and workspace.is_state(path)
        if is_ours and path.is_file() and not path.is_symlink():
            yield path
    for folder in (workspace.root, workspace.scratch.parent):
        yield from (path for path in folder.glob(f".*{TEMPORARY}*") if path.is_file())


def erase_others(workspace: Workspace, disk: Disk, erasure: Erasure, needles: Needles) -> None:
    """Delete the files that hold a target, and all temporary ones: their process has ended, as dreamd is alone here.

    Left out are the files that another step of a forgetting erases.
    """
    inbox = NoteInbox(workspace, disk)
    known = {*database_files(workspace), workspace.document, workspace.backup, *inbox.files()}
    folders = (workspace.index, workspace.checkpoints, workspace.copies)
    for path in [*all_files(workspace, inbox)]:
        if path in known or has_names(workspace, path) or any(map(path.is_relative_to, folders)):
            continue
        if TEMPORARY in path.name or count_in_other(disk, path, erasure, needles):
            disk.remove(path)


def count_in_other(disk: Disk, path: Path, erasure: Erasure, needles: Needles) -> int:
    """Count the targets in a file of unknown format: in a text, where they are words of their own."""
    if path.name == RECEIPTS and holds_receipts_alone(disk.read_optional(path) or b""):
        return 0  # dreamd's own words
    if path.stat().st_size > LONGEST_LOG:
        return needles.count_file(path)[0]
    content = disk.read_bytes(path, LONGEST_LOG)
    is_told = erasure.holds(content.decode("utf-8", "replace"))
    return max(needles.count(content), is_told) if is_told or b"\0" in content else 0


def empty_folder(disk: Disk, folder: Path) -> None:
    """Delete everything in the folder; links are deleted themselves, as is what has its place."""
    if folder.is_symlink() or not folder.is_dir():
        disk.remove(folder)
        return
    with storage_errors(folder):
        for path in sorted(below(folder), reverse=True):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                disk.system.unlink(path)
        disk.fsync_folder(folder)
