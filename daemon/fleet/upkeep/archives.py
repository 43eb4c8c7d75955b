"""Archives of a fleet's workspaces, in the format of `dreamd export` and `dreamd import`.

Export reads the inbox rows, and then the newest generation, which never changes: it takes no lease, and a holder can
go on working.

Import makes the workspace, and commits its first generation.
"""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from daemon.config.settings import Config
from daemon.fleet.connections import Connections
from daemon.upkeep.export import Exported, export
from daemon.upkeep.import_ import Imported, import_archive
from daemon.workspace.stores import open_exclusive, utc_now
from state.errors import BusyError, ConflictError, DreamdError, FencedError, NotFoundError, StorageError, UsageError
from state.fleet import InboxRow, Lease, Place, Tenant, readable_notes
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import contained, init_workspace
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.leases import Commit, Leases
from state.stores.fleet.registry import Places
from state.stores.generations.generations import Generations
from state.stores.history.inbox import NoteInbox
from state.stores.history.notes import notes_of

_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class ExportedPlace:
    """An archive of a workspace: the number of its generation, and of the notes added from the inbox."""

    tenant: str
    workspace: str
    generation: int
    inbox: int
    archive: Exported


@dataclass(frozen=True, slots=True)
class ImportedPlace:
    """A workspace of the fleet made from an archive."""

    tenant: str
    workspace: str
    handle: str
    generation: int
    bytes: int
    archive: Imported


def export_place(connections: Connections, config: Config, place: Place, target: Path, own: Path) -> ExportedPlace:
    """Write everything acknowledged in the workspace into a new file. `own`: an empty scratch folder.

    Raise UsageError if the file exists, BusyError if the workspace changes too fast, NotFoundError, StorageError and
    UnreachableError; no file is left then.
    """
    require_new(target)
    inbox, generations = Inbox(connections.database), Generations(connections.objects, place.prefix)
    failed: DreamdError = BusyError(f"workspace {place.name} changes faster than it can be read", "try again")
    for number in range(_ROUNDS):
        known = connections.database.places.find(place.tenant, place.name).generation
        # First the inbox: whatever leaves it from now on is in the generation that is read next.
        rows, newest, root = inbox.waiting(place.id), generations.newest(place, known), own / f"export-{number}"
        at = newest.number if newest is not None else 0
        try:
            if newest is not None:
                generations.bring_up(root, newest)
                generations.close()
            done, added = _archived(root, config, rows)
        except StorageError as error:  # later commits may have deleted what it was made of
            failed = error
        else:
            left = {row.id for row in rows} - {row.id for row in inbox.waiting(place.id)}
            if not left and (not at or at in generations.numbers()):  # else something may have been forgotten
                _place(Path(done.path), target)
                archive = replace(done, path=str(target))
                return ExportedPlace(place.tenant_name, place.name, at, added, archive)
        shutil.rmtree(root, ignore_errors=True)
    raise failed


def _place(archive: Path, target: Path) -> None:
    """Give the complete archive its name. Raise UsageError if it is taken by now."""
    try:
        Disk(target.parent, state=archive.parent).rename_new(archive, target)
    except FileExistsError:
        raise _taken(target) from None


def _archived(root: Path, config: Config, rows: Sequence[InboxRow]) -> tuple[Exported, int]:
    """Add the notes of the inbox that the workspace has not, and archive it; return how many were added."""
    workspace = init_workspace(contained(root))
    with notes_of(workspace) as known:
        new = [note for _, note in readable_notes(rows) if not known.has(note)]
    for note in new:
        NoteInbox(workspace).append(note, config.redaction)
    with open_exclusive(workspace, config, "dreamd fleet export") as store:
        return export(store, utc_now()), len(new)


def require_new(target: Path) -> None:
    """Raise UsageError unless the path is free and its folder exists."""
    with storage_errors(target):
        if os.path.lexists(target):
            raise _taken(target)
        if not target.parent.is_dir():
            raise UsageError(f"{target.parent} is no folder", "make it first, or name another one")


def _taken(target: Path) -> UsageError:
    return UsageError(f"{target} is there, and nothing is overwritten", "name a new file")


def import_place(connections: Connections, tenant: Tenant, name: str, file: Path, own: Path) -> ImportedPlace:
    """Make a workspace with this name for the tenant from an archive, or fill an existing one that is empty.

    Raise ConflictError if it is not empty, ArchiveError for a file that is no archive, NotFoundError, QuotaError,
    UnreachableError; a workspace that was made for it is removed then.
    """
    root = own / "import"
    done = import_archive(file, root, moves_out=False)  # first, as it may refuse the file
    places, is_new = Places(connections.database), False
    try:
        found = places.find(tenant.id, name)
    except NotFoundError:
        place, is_new = places.add(tenant, name), True
    else:
        place = found.place
        if found.generation or found.waiting or found.owned:
            raise ConflictError(f"tenant {tenant.name} has a workspace {name} already", "choose another name")
    try:
        number, size = _put(connections, place, root)
    except DreamdError:
        if is_new:
            with suppress(DreamdError):
                connections.database.removals.close(place)  # a process of the fleet deletes the rest
        raise
    return ImportedPlace(tenant.name, name, place.handle, number, size, replace(done, workspace=""))


def _put(connections: Connections, place: Place, root: Path) -> tuple[int, int]:
    """Commit the folder as the workspace's first generation; return its number and its bytes. Raise ConflictError.

    A process that took the workspace meanwhile, still empty, loses it.
    """
    generations, leases = Generations(connections.objects, place.prefix), Leases(connections.database)
    lease, taken = Lease(place, uuid4(), 0, utc_now()), generations.take(root)
    generations.close()
    try:
        number = generations.put(taken, place, 1)
        leases.commit(lease, Commit(number, taken.bytes, due_in=timedelta(0)))
    except FencedError:
        raise ConflictError(f"workspace {place.name} holds something by now", "choose another name") from None
    leases.take_away(place.id)
    return number, taken.bytes
