"""Takeover: shows what is in a workspace that somebody else made, and makes it this user's.

Whatever in it could act by itself goes: an interrupted dream or commit, answers of a model, proposals, the lists of
files to be read, both indexes. Of state.db only the rows are taken, into a new file. What it remembers stays.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from sqlite3 import Connection

from daemon.config.paths import make_private_folder
from daemon.upkeep.repair.quarantine import Quarantine
from daemon.workspace.adoption import adopt, own_folder
from daemon.workspace.stores import folders, utc_now
from state.errors import DreamdError, StorageError
from state.stores.backup.database import open_untrusted, take_over
from state.stores.database.connection import open_database, to_text, transaction
from state.stores.database.copies import delete_copies
from state.stores.disk.disk import Disk, below, opened
from state.stores.disk.lock import acquire
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.erasing.files import database_files, empty_folder
from state.stores.history.bootstraps import path_of
from state.stores.history.lineage import Lineage
from state.stores.history.segments import Segments

_COMMAND = "dreamd init --trust"
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a workspace that somebody else made.

    `crystals` counts by trust; `proposals`, `unfinished` dreams and `answers` of models are what adoption leaves out;
    `outside` are links that lead out of it, which are not followed; `odd` are neither files, folders nor links.
    """

    root: str
    characters: int
    version: int
    crystals: dict[str, int]
    notes: int
    sessions: int
    proposals: int
    unfinished: int
    answers: int
    outside: tuple[str, ...]
    odd: tuple[str, ...]
    problems: tuple[str, ...]


def contents_of(workspace: Workspace) -> Contents:
    """The contents of a foreign workspace; nothing is written, no link is followed."""
    problems = list[str]()
    characters = notes = 0
    counts: dict[str, int] = {}
    crystals: dict[str, int] = {}
    try:
        characters = len(Disk(workspace.root).read_optional(workspace.document) or b"")
        notes = Segments(workspace).count().notes
    except DreamdError as error:
        problems.append(str(error))
    try:
        database = _taken_over(workspace) if _is_taken_over(workspace) else workspace.database
        with closing(open_untrusted(database)) as connection:
            counts = {name: connection.execute(query).fetchone()[0] for name, query in _COUNTS.items()}
            crystals = dict(connection.execute("SELECT trust, count(*) FROM crystals GROUP BY trust ORDER BY trust"))
    except DreamdError as error:
        problems.append(str(error))
    outside, odd = _strange(workspace.root)
    return Contents(
        root=str(workspace.root),
        characters=characters,
        crystals=crystals,
        notes=notes,
        outside=outside,
        odd=odd,
        problems=tuple(problems),
        **{name: counts.get(name, 0) for name in _COUNTS},
    )


_COUNTS = {
    "version": "SELECT coalesce(max(number), 0) FROM versions",
    "sessions": "SELECT count(*) FROM sessions",
    "proposals": "SELECT count(*) FROM proposals WHERE verdict = 'waiting'",
    "unfinished": "SELECT count(*) FROM dreams WHERE outcome = 'running'",
    "answers": "SELECT count(*) FROM calls WHERE reply <> ''",
}


def take_over_workspace(workspace: Workspace, disk: Disk | None = None) -> Workspace:
    """Make a foreign workspace this user's, with its lock; an interrupted call is completed by the next one.

    Raises StorageError for a state.db that no dreamd made and for folders of the state that are links: the workspace
    is then as foreign as before.
    """
    own = replace(workspace, foreign=False)
    disk = disk or Disk(own.root)
    for folder in (own.state, *folders(own)):
        if folder.is_symlink() or (os.path.lexists(folder) and not folder.is_dir()):
            raise StorageError(f"{folder} is no folder", "move it away, then adopt the workspace")
    for path in (own.lock, own.fence, own.lock.with_name("lock.new"), own.lock.with_name("lock.takeover")):
        if _mode(path) and not stat.S_ISREG(_mode(path)):
            disk.remove(path)
    with acquire(own, _COMMAND):
        delete_copies(own.database, disk)
        aside = Quarantine(own, disk, utc_now())
        if _is_taken_over(own) or own.database.exists():
            _new_database(own, disk, aside)
        _undecide(own, aside)
        for folder in (own.index, own.checkpoints):
            if folder.is_dir():
                empty_folder(disk, folder)
        disk.remove(own.state / "vouched")  # a list of an earlier dreamd's, which now lies with the user
        if not path_of(own).is_dir() or path_of(own).is_symlink():
            disk.remove(path_of(own))  # what other agents were given
        disk.remove(own.identity)  # a number that somebody else has chosen, and may choose again, tells nothing
        return adopt(own)


def _undecide(own: Workspace, aside: Quarantine) -> None:
    """Move away what the journal would finish: records beyond the last version, and half a write of MEMORY.md."""
    with closing(open_database(own.database)) as connection:
        last = Lineage(connection).last_version()
    displaced = own.document.with_name(f".{own.document.name}.displaced")
    found = [path for path in (displaced,) if os.path.lexists(path)]
    if own.history.is_dir():
        with storage_errors(own.history):
            found += [path for path in sorted(own.history.iterdir()) if not _is_done(path, last)]
    for path in found:
        aside.move(path)


def _is_done(record: Path, last: int) -> bool:
    number = record.stem
    return record.suffix == ".json" and number.isascii() and number.isdecimal() and int(number[:20]) <= last


def _new_database(own: Workspace, disk: Disk, aside: Quarantine) -> None:
    """Put the rows alone in place of state.db.

    The new file is whole, and known by its digest in the user's own folder, before the old ones leave: there is no
    moment at which a kill loses what the old ones held.
    """
    if not _is_taken_over(own):
        _write_rows(own, disk)
    for path in database_files(own):
        if os.path.lexists(path):
            aside.move(path)
    disk.rename(_taken_over(own), own.database)
    _digest_file(own).unlink(missing_ok=True)


def _write_rows(own: Workspace, disk: Disk) -> None:
    incoming = own.state / f".adopted-{os.getpid()}-{os.urandom(4).hex()}.dreamd-tmp"
    try:
        take_over(own.database, incoming)
        with closing(open_database(incoming)) as made:
            _discard(made)
        disk.sync(incoming)
        digest = _digest_file(own)
        make_private_folder(digest.parent)
        Disk(digest.parent).write_atomic(digest, _digest(incoming))
        disk.remove(_taken_over(own))
        disk.rename(incoming, _taken_over(own))
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            incoming.with_name(incoming.name + end).unlink(missing_ok=True)


def _taken_over(own: Workspace) -> Path:
    return own.state / "state.db.adopted"


def _digest_file(own: Workspace) -> Path:
    return own_folder(own) / "database"


def _is_taken_over(own: Workspace) -> bool:
    """Whether an adoption that was cut off left the new state.db, and nobody has changed it since."""
    path, digest = _taken_over(own), None
    with suppress(StorageError):
        digest = Disk(own_folder(own)).read_optional(_digest_file(own))
    return digest is not None and stat.S_ISREG(_mode(path)) and digest == _digest(path)


def _digest(path: Path) -> bytes:
    with storage_errors(path), opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest().encode()


def _discard(connection: Connection) -> None:
    """End interrupted dreams, proposals, staged changes and stored answers, which would act by themselves."""
    with transaction(connection):
        connection.execute(
            "UPDATE dreams SET outcome = 'failed', detail = ?, ended_at = ? WHERE outcome = 'running'",
            ("interrupted before the workspace was adopted", to_text(utc_now())),
        )
        connection.execute("UPDATE proposals SET verdict = 'outdated' WHERE verdict = 'waiting'")
        connection.execute(
            "UPDATE changes SET decision = 'outdated', decided_at = ? WHERE decision IN ('waiting', 'applied')",
            (to_text(utc_now()),),
        )
        connection.execute("UPDATE calls SET reply = '', request = '', usable = 0")
        connection.execute("DELETE FROM acts")  # which say that the owner did them
    connection.execute("PRAGMA journal_mode = DELETE")  # one file, which a rename can put in its place


def _strange(root: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The first links that lead out of the folder, and the first entries that are neither file, folder nor link."""
    outside, odd = list[str](), list[str]()
    for path in _below(root):
        mode, name = _mode(path), str(path.relative_to(root))
        if stat.S_ISLNK(mode):
            if not Path(os.path.realpath(path)).is_relative_to(root) and len(outside) < _MOST_NAMED:
                outside.append(f"{name} → {os.path.realpath(path)}")
        elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode) and len(odd) < _MOST_NAMED:
            odd.append(name)
    return tuple(outside), tuple(odd)


def _below(root: Path) -> Iterator[Path]:
    """The paths that dreamd would read: files of the root, and all in its own folders and the transcripts'."""
    own = {".dreamd", "memory", "transcripts"}
    with storage_errors(root):
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    for entry in entries:
        path = Path(entry.path)
        if entry.is_symlink() or not entry.is_dir(follow_symlinks=False):
            if entry.name in own or entry.name.startswith(("MEMORY", "GENOME")):
                yield path
        elif entry.name in own:
            yield from below(path)


def _mode(path: Path) -> int:
    """The mode of the path itself (links are not followed); 0 when it does not exist."""
    with suppress(OSError):
        return path.lstat().st_mode
    return 0
