"""Former records: versions that an older dreamd kept as files in history/ become rows, once; for one release.

A commit that the older one had decided, and not finished, is committed now. The files are kept aside.
"""

import re

from state.document.merge import with_lines_of
from state.dream import Dream, decode_record, encode_kept
from state.errors import StorageError
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import transaction
from state.stores.database.tables import VersionRow
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.history.lineage import Lineage, digest_of
from state.stores.history.memory import Memory, decode_document
from state.stores.repair.former_segments import put_aside

_RECORD = re.compile(r"([0-9]{6,12})\.(json|merging)")


def take_in_records(workspace: Workspace, disk: Disk, crystals: Crystals, memory: Memory) -> tuple[str, ...]:
    """Make rows of the records; return what is wrong with those that cannot be read. May be cut off and repeated."""
    found = _records(workspace, disk) if workspace.history.is_dir() else None
    if found is None:
        return ()
    records, problems = found
    lineage = Lineage(crystals.connection)
    last = lineage.last_version()
    with transaction(crystals.connection) as connection:
        for number, dream in sorted(records.items()):
            if number == 1 and dream.before.strip() and not memory.has(0):
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
    put_aside(workspace, disk, workspace.history)
    return problems


def _records(workspace: Workspace, disk: Disk) -> tuple[dict[int, Dream], tuple[str, ...]]:
    """Return the records by number: of a merge that was cut off, the one with what a person had saved."""
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
    """Put what an older swap took out, and a person had saved, back into the file before the commit goes on."""
    path = workspace.document
    aside = disk.displaced(path)
    taken = decode_document(aside, path) if aside is not None else ""
    if taken and taken not in (dream.before, dream.after):
        current = disk.read_optional(path) or b""
        disk.write_atomic(path, with_lines_of(decode_document(current, path), taken).encode(), 0o644)
    disk.settle(path)
