"""Moving out: moves a workspace's state from its own folder to the user's data folder, once.

Earlier versions kept the state in `<folder>/.dreamd/`, and an import builds it there. First the place's row is
written and says `incoming`. Then each entry is renamed, or between two disks copied, named and removed. A kill leaves
every entry whole in at least one place, and the next opening continues.
"""

import errno
import os
import shutil
import sqlite3
import stat
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from state.errors import StorageError
from state.stores.database.connection import open_unmigrated, unlike_schema
from state.stores.database.schema import SCHEMA_VERSION
from state.stores.disk.disk import Disk, below
from state.stores.disk.lock import acquire
from state.stores.disk.places import Place, write_id, write_place
from state.stores.disk.syscalls import System, storage_errors
from state.stores.disk.user_folder import data_folder, make_private_folder, state_folder
from state.stores.disk.workspace import Workspace, contained
from state.stores.git.exclude import keep_out, take_back
from state.stores.history.originals import path_of

_LEFT = frozenset(("id", "lock", "lock.new", "lock.takeover", ".gitignore", "vouched"))
_PATIENCE_SECONDS = 5.0
_OF_USER = ("transcripts", "dream.log", "blocks.json")


def own_number(root: Path, environment: Mapping[str, str]) -> str | None:
    """Return the id of a workspace whose state is in its folder, if this user's dreamd made it; otherwise None.

    The proof is a mark with that id in the user's own folder.
    """
    try:
        number = Disk(root).read_optional(root / ".dreamd" / "id", 64)
        mark = Disk(state_folder(environment)).read_optional(_marked(root, environment) / "mark")
    except StorageError:
        return None
    if number is None or mark is None or mark != number + os.fsencode(root) + b"\n":
        return None
    return number.decode().strip()


def expect(folder: Path, number: str, root: Path, environment: Mapping[str, str]) -> Place:
    """Record that the state in this folder, which is or will be at `root`, is this user's and is to be moved out."""
    data = data_folder(environment)
    make_private_folder(data)
    make_private_folder(data / number)
    place = Place.of(number, folder, incoming=True)._replace(path=root)
    write_place(data, place)
    return place


def move_out(place: Place, environment: Mapping[str, str], system: System | None = None) -> Workspace:
    """Move the state of this place, or continue to; return the workspace. Only one process at a time may call it.

    Raise StorageError if an entry is neither file nor folder, and BusyError while a process holds the workspace.
    """
    data, old = data_folder(environment), contained(place.path)
    new, disk = Workspace(old.root, data / place.id), Disk(data, system)
    if old.state.is_dir() and not old.state.is_symlink():
        with acquire(old, "dreamd", wait_seconds=_PATIENCE_SECONDS):
            _require_plain(old)
            for source in sorted(old.state.iterdir()):
                if source.name not in _LEFT:
                    _bring(source, new.state / source.name, disk)
            _bring_of_user(new, disk, environment)
            shutil.rmtree(old.state)
    write_id(new)
    with suppress(StorageError):  # the repository may be read-only
        if take_back(new.root, [old.state]).names:  # the line may name a folder, which is a file now
            keep_out(new.root, [old.state])
    write_place(data, place._replace(incoming=False))
    return new


def _marked(root: Path, environment: Mapping[str, str]) -> Path:
    return state_folder(environment) / "adopted" / sha256(os.fsencode(root)).hexdigest()[:40]


def _require_plain(old: Workspace) -> None:
    for path in below(old.state):
        mode = path.lstat().st_mode
        # A journal may name a file, which SQLite would then delete. dreamd never writes journals.
        if path.name.endswith("-journal") or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise StorageError(f"{path} is no file, and the state is to move out of the folder", "move it away")
    with suppress(sqlite3.Error):  # a damaged database is reported, and repaired, at its new place
        if old.database.exists():
            with open_unmigrated(old.database) as connection:
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                # From an older schema, only the rows of its tables are taken.
                wrong = unlike_schema(connection) if version == SCHEMA_VERSION else []
            if wrong:  # others could write to the folder, and a trigger of theirs would run
                what = f"{old.database}: its schema is not ours ({', '.join(wrong)!r:.60})"
                raise StorageError(what, "move it away, and the rest moves out of the folder")


def _bring(source: Path, target: Path, disk: Disk) -> None:
    """Move a file or folder; if the target exists, it was moved whole, and the rest of the source is deleted."""
    if not os.path.lexists(target):
        with storage_errors(source):
            try:
                disk.system.rename(source, target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
            else:
                disk.fsync_folder(target.parent)
                return
            _copy(source, target, disk)
    with storage_errors(source):
        shutil.rmtree(source) if source.is_dir() else disk.system.unlink(source)


def _copy(source: Path, target: Path, disk: Disk) -> None:
    beside = target.with_name(f".{target.name}.incoming")
    if os.path.lexists(beside):  # left by a killed process
        shutil.rmtree(beside) if beside.is_dir() else disk.system.unlink(beside)
    shutil.copytree(source, beside) if source.is_dir() else shutil.copy2(source, beside)
    for path in (beside, *below(beside)):
        disk.fsync_folder(path) if path.is_dir() else disk.sync(path)
    disk.rename(beside, target)


def _bring_of_user(new: Workspace, disk: Disk, environment: Mapping[str, str]) -> None:
    """Move what earlier versions kept beside the mark, and the originals of secrets."""
    marked = _marked(new.root, environment)
    for name in _OF_USER:
        if (marked / name).is_file():
            _bring(marked / name, new.state / name, disk)
    shutil.rmtree(marked, ignore_errors=True)
    originals, folder = state_folder(environment) / "originals", sha256(os.fsencode(new.root)).hexdigest()[:24]
    if (before := originals / f"{folder}.originals").is_file():
        _bring(before, path_of(new), Disk(originals, disk.system))
