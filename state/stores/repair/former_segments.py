"""Former segments: pending notes that an older dreamd kept in segments/ go to the inbox, once; for one release.

The files are kept aside. What was consumed of them is in crystals.
"""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

from state.scratch import Note, decode, parse_notes
from state.stores.disk.disk import LONGEST_LOG, Disk
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox

_SEGMENT = re.compile(r"([0-9]{6,12})\.md")
_RETIRED = re.compile(r"([0-9]{6,12})\.([0-9]{1,18})\.md")


def take_in_segments(workspace: Workspace, disk: Disk, inbox: NoteInbox) -> int:
    """Append what is pending of the segments to the inbox; return how many notes. May be cut off and repeated."""
    if not workspace.segments.is_dir():
        return 0
    notes = _pending(workspace, disk)
    inbox.file(notes)
    put_aside(workspace, disk, workspace.segments)
    return len(notes)


def put_aside(workspace: Workspace, disk: Disk, folder: Path) -> None:
    """Keep a folder of an older dreamd under kept/, by a name that is free: it may have run again since."""
    kept = workspace.state / "kept"
    disk.make_folder(kept)
    names = (folder.name, *(f"{folder.name}.{number}" for number in range(2, 1_000)))
    disk.rename(folder, next(kept / name for name in names if not (kept / name).exists()))


def _pending(workspace: Workspace, disk: Disk) -> list[Note]:
    found = list[tuple[int, list[Note]]]()
    for folder, name in ((workspace.segments, _SEGMENT), (workspace.segments / "retired", _RETIRED)):
        with storage_errors(folder):
            paths = sorted(folder.iterdir()) if folder.is_dir() else []
        for path in paths:
            if (match := name.fullmatch(path.name)) is None or not path.is_file():
                continue
            upto = int(match[2]) if name is _RETIRED else _consumed(disk.read_optional(path.with_suffix(".json")))
            with storage_errors(path):
                written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            content = disk.read_bytes(path, LONGEST_LOG)
            found.append((int(match[1]), list(parse_notes(decode(content[upto:]), written))))
    return [note for _, notes in sorted(found, key=lambda one: one[0]) for note in notes]


def _consumed(sidecar: bytes | None) -> int:
    """Return how many bytes of a segment were consumed; 0 of a damaged record: better read twice than never."""
    try:
        return max(0, int(json.loads(sidecar or b"{}").get("consumed", 0)))
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError):
        return 0
