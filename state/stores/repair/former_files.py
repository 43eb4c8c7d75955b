"""Former files: moves what an older dreamd kept in files beside state.db into it, once; for one release.

Pending notes of segments/ go to the inbox; consumed ones are in crystals already. The records of versions in history/
become rows, and a commit that was decided but not finished is committed now. The folders are kept aside.
"""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

from state.document.merge import with_lines_of
from state.dream import Dream, decode_record, encode_kept
from state.errors import StorageError
from state.scratch import Note, decode, parse_notes
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import transaction
from state.stores.database.tables import VersionRow
from state.stores.disk.disk import LONGEST_LOG, Disk
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox
from state.stores.history.lineage import Lineage, digest_of
from state.stores.history.memory import Memory, decode_document

_SEGMENT = re.compile(r"([0-9]{6,12})\.md")
_RETIRED = re.compile(r"([0-9]{6,12})\.([0-9]{1,18})\.md")
_RECORD = re.compile(r"([0-9]{6,12})\.(json|merging)")


def take_in_segments(workspace: Workspace, disk: Disk, inbox: NoteInbox) -> int:
    """Append the segments' pending notes to the inbox; return how many. May be interrupted and repeated."""
    if not workspace.segments.is_dir():
        return 0
    notes = _pending(workspace, disk)
    inbox.file(notes)
    _put_aside(workspace, disk, workspace.segments)
    return len(notes)


def _put_aside(workspace: Workspace, disk: Disk, folder: Path) -> None:
    """Keep an older dreamd's folder below kept/ under a free name, because that dreamd may have run again."""
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
    """Return how many bytes of a segment were consumed; 0 if the record is damaged: better read twice than never."""
    try:
        return max(0, int(json.loads(sidecar or b"{}").get("consumed", 0)))
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError):
        return 0


def take_in_records(workspace: Workspace, disk: Disk, crystals: Crystals, memory: Memory) -> tuple[str, ...]:
    """Turn the records into rows; return the problems of unreadable ones. May be interrupted and repeated."""
    found = _records(workspace, disk) if workspace.history.is_dir() else None
    if found is None:
        return ()
    records, problems = found
    lineage = Lineage(crystals.connection)
    last = lineage.last_version()
    with transaction(crystals.connection) as connection:
        for number, dream in sorted(records.items()):
            if number == 1 and dream.before.strip() and not lineage.text(0):
                lineage.save(0, "human", dream.before, dream.at)
            if number <= last:
                VersionRow.table.change(
                    connection,
                    "number = ? AND length(text) = 0",
                    number,
                    text=dream.after,
                    digest=digest_of(dream.after),
                    characters=len(dream.after),
                    record=encode_kept(dream),
                )
    if (decided := records.get(last + 1)) is not None:
        _rejoin(workspace, disk, decided)
        memory.commit(decided)
    _put_aside(workspace, disk, workspace.history)
    return problems


def _records(workspace: Workspace, disk: Disk) -> tuple[dict[int, Dream], tuple[str, ...]]:
    """Return the records by number; for an interrupted merge, the one with what a person had saved."""
    records, problems = dict[int, Dream](), list[str]()
    with storage_errors(workspace.history):
        names = sorted(path.name for path in workspace.history.iterdir())
    for name in names:
        if (match := _RECORD.fullmatch(name)) is None:
            continue
        try:
            dream = decode_record(disk.read_bytes(workspace.history / name), name)
        except StorageError as error:
            problems.append(error.what)
            continue
        if dream.number == int(match[1]):
            records[dream.number] = dream
    return records, tuple(problems)


def _rejoin(workspace: Workspace, disk: Disk, dream: Dream) -> None:
    """Put back a person's save that an older swap displaced, before the commit continues."""
    path = workspace.document
    aside = disk.displaced(path)
    taken = decode_document(aside, path) if aside is not None else ""
    if taken and taken not in (dream.before, dream.after):
        current = disk.read_optional(path) or b""
        disk.write_atomic(path, with_lines_of(decode_document(current, path), taken).encode(), 0o644)
    disk.settle(path)
