"""Generations: the committed states of one workspace in the object store, one object each.

An object holds the changes since the previous one; when the chain gets long, the next object holds everything. The
newest object is the workspace: the store lets only one writer create a number, so whoever started from an outdated
generation commits nothing.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from state.errors import BusyError, ConflictError, FencedError, NotFoundError, StorageError
from state.fleet import Place
from state.stores.backup.archive import add_log
from state.stores.database.connection import explained, open_unmigrated
from state.stores.disk.disk import below, opened
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import contained
from state.stores.generations.objects import Objects
from state.stores.generations.pages import Mark, PageLog, Pages
from state.stores.generations.versions import (
    DATABASES,
    STATE_DB,
    Part,
    StoredFile,
    Version,
    belongs,
    changed_file,
    damaged,
    decoded,
    digest_of,
    encoded,
    key_of,
    made_by,
    part_of,
    whole_file,
)

# After this many objects beyond the last whole generation, the next one is whole.
_MOST_CHANGES = 16
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Taken:
    """A workspace's files at one moment, ready to be put, and the objects that hold what did not change."""

    files: Mapping[str, tuple[StoredFile, Sequence[bytes]]]
    before: tuple[Part, ...]
    digests: Mapping[str, str]
    mark: Mark | None

    @property
    def bytes(self) -> int:
        """Return the total size of its files."""
        return sum(file.size for file, _ in self.files.values())


class Generations:
    """The generations of one workspace below its prefix. Use it from one thread at a time.

    It follows state.db's log from the last generation put or brought up, and so writes only what changed since.
    """

    def __init__(self, objects: Objects, prefix: str) -> None:
        self._objects = objects
        self._prefix = prefix.strip("/")
        self._writer = uuid4().hex
        self._digests: Mapping[str, str] = {}  # of its files but state.db
        self._chain: tuple[Part, ...] = ()  # the last generation's objects, the whole one first
        self._log: PageLog | None = None
        self._mark: Mark | None = None  # of the last generation

    def take(self, folder: Path, *, whole: bool = False) -> Taken:
        """Read the workspace in this folder as a crash at this moment would leave it; nothing is written.

        Others may append notes and write rows meanwhile, but must not commit a dream. Raise BusyError if MEMORY.md
        was written all the same.
        """
        log = self._log = self._log or PageLog(contained(folder).database)
        mark, since = log.mark(), None if whole or _is_long(self._chain) else self._mark
        files, digests = dict[str, tuple[StoredFile, Sequence[bytes]]](), dict[str, str]()
        read = _read(folder, lambda: log.since(since))
        is_change = isinstance(read.get(STATE_DB, (b"", 0))[0], Pages)
        for name, (found, mtime_ns) in read.items():
            if isinstance(found, Pages):
                files[name], mark = changed_file(found, mtime_ns), found.mark
                continue
            digests[name] = digest_of(found)
            is_known = is_change and self._digests.get(name) == digests[name]
            files[name] = (StoredFile(len(found), mtime_ns), []) if is_known else whole_file(found, mtime_ns)
        return Taken(files, self._chain if is_change else (), digests, mark)

    def put(self, taken: Taken, place: Place, number: int) -> int:
        """Commit what was taken as the generation with this number, durably; return its number.

        The number is a higher one if an earlier put of this writer, whose answer was lost, has taken it. Raise
        FencedError if another writer has it.
        """
        names = place.tenant_name, place.name
        while True:
            key = key_of(self._prefix, number)
            content = encoded(self._writer, names, number, taken.before, taken.files)
            try:
                self._objects.put(key, content)
            except ConflictError:
                if self.version(number).writer != self._writer:
                    what = f"generation {number} of {place.handle} was committed by another holder"
                    raise FencedError(what, "nothing of what was under way is written") from None
                number += 1
            else:
                break
        self._chain = (*taken.before, part_of(number, content))
        self._digests, self._mark = taken.digests, taken.mark
        return number

    def version(self, number: int, digest: str = "") -> Version:
        """Return this generation. Raise StorageError if it is missing or damaged, or has not this digest if given."""
        key = key_of(self._prefix, number)
        try:
            content = self._objects.get(key)
        except NotFoundError:
            raise damaged(key, "it is missing") from None
        if digest and part_of(number, content).digest != digest:
            raise damaged(key, "it is not what was written under this key")
        return decoded(content, key)

    def newest(self, place: Place, known: int) -> Version | None:
        """Return the workspace's newest generation; None if there is none. `known`: a number that was committed.

        Raise StorageError if the store lacks a generation as new as `known`, or if this one is another workspace's:
        a restored database may give a number again.
        """
        number = max(self.numbers(), default=0)
        if number < known:
            raise damaged(key_of(self._prefix, known), f"it is missing, the newest there is {number}")
        version = self.version(number) if number else None
        if version is not None and (version.tenant, version.workspace) != (place.tenant_name, place.name):
            what = f"{version.key} is of {version.tenant}/{version.workspace}, not of {place.named}"
            raise StorageError(what, "'dreamd fleet recover' brings that one back; remove this one and add it again")
        return version

    def numbers(self) -> dict[int, int]:
        """Return the numbers of the generations in the store, with the sizes of their objects."""
        found = ((made_by(one.key), one) for one in self._objects.list(self._prefix))
        return {made: one.size for made, one in found if made is not None and one.key == key_of(self._prefix, made)}

    def bring_up(self, folder: Path, last: Version) -> None:
        """Replace the folder's content by this generation. Raise StorageError, which names the object."""
        contents = dict[str, bytearray]()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for start in range(0, len(last.before), _AT_ONCE):
                parts = last.before[start : start + _AT_ONCE]
                for one in pool.map(lambda part: self.version(part.number, part.digest), parts):
                    one.apply(contents)
        last.apply(contents)
        _write(folder, {name: (contents[name], file.mtime_ns) for name, file in last.files.items()})
        self.close()
        self._log = PageLog(contained(folder).database)
        self._digests = {name: digest_of(bytes(content)) for name, content in contents.items() if name != STATE_DB}
        self._chain, self._mark = last.chain, self._log.mark()

    def sweep(self, *, forgotten: bool = False) -> int:
        """Delete generations too old to go back to, but never those put for later ones; return how many objects.

        `forgotten` leaves nothing but the objects of the last generation.
        """
        if not self._chain:
            return 0
        needed = {one.number for one in self._chain}
        first, last = self._chain[0].number, self._chain[-1].number
        # The previous chain stays until the next whole generation, for anybody who has to go back.
        oldest = last + 1 if forgotten else first - _MOST_CHANGES
        listed = ((one.key, made_by(one.key)) for one in self._objects.list(self._prefix))
        doomed = [key for key, made in listed if made is not None and made < oldest and made not in needed]
        self._objects.delete(doomed)
        return len(doomed)

    def close(self) -> None:
        """Let go of the folder."""
        if self._log is not None:
            self._log.close()

    @property
    def is_whole(self) -> bool:
        """Return whether the last generation is a single object."""
        return len(self._chain) == 1


def _is_long(chain: tuple[Part, ...]) -> bool:
    """Return whether the next generation must be whole: there are many changes, or they are larger than it."""
    changes = [one.size for one in chain[1:]]
    return len(changes) >= _MOST_CHANGES or 2 * sum(changes) > sum(one.size for one in chain)


class _Files:
    """The files of a snapshot by name, collected through `add_log`."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[bytes | Pages, int]] = {}

    def add(self, name: str, source: BinaryIO, size: int, mtime_ns: int) -> None:
        content = source.read(size)
        if len(content) < size:
            raise StorageError(f"{name} became shorter while it was read", "put it again")
        self.found[name] = content, mtime_ns


def _read(folder: Path, changes: Callable[[], Pages | None]) -> dict[str, tuple[bytes | Pages, int]]:
    """Return the files of a workspace with their times; of state.db its `changes` if they are known.

    A dream's checkpoints come first, so they never know more than state.db. All notes appended before are included;
    each note appended meanwhile is included wholly or not at all.
    """
    workspace, files = contained(folder), _Files()
    root, document = workspace.root, _time(workspace.document)
    checkpoints, database = DATABASES
    with suppress(sqlite3.DatabaseError):  # a damaged one is begun anew, and answers are paid for again
        _read_database(root, checkpoints, files)
    try:
        if (changed := changes()) is not None:
            files.found[database] = changed, workspace.database.stat().st_mtime_ns
        else:
            _read_database(root, database, files)
    except sqlite3.Error as error:
        raise explained(error, workspace.database) from error
    add_log(files.add, workspace, workspace.disk())
    with storage_errors(root):
        names = [str(path.relative_to(root)) for path in below(root) if path.is_file() and not path.is_symlink()]
    for name in names:
        if belongs(name) and name not in DATABASES and name not in files.found:
            with suppress(NotFoundError), storage_errors(root / name), opened(root / name) as file:
                status = os.fstat(file.fileno())
                files.found[name] = file.read(), status.st_mtime_ns
    # Every commit writes MEMORY.md after state.db, so the file must not be newer than the database's copy.
    if _time(workspace.document) != document:
        raise BusyError(f"{root}: MEMORY.md was written while it was read", "put it again")
    return files.found


def _read_database(root: Path, name: str, files: _Files) -> None:
    """Read a database in one transaction; others may write meanwhile."""
    path = root / name
    if not path.exists() or not path.stat().st_size:
        return
    with open_unmigrated(path) as connection:
        files.found[name] = connection.serialize(), path.stat().st_mtime_ns


def _time(path: Path) -> tuple[int, ...]:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return ()
    return (status.st_size, status.st_mtime_ns, status.st_ino)


def _write(folder: Path, files: Mapping[str, tuple[bytearray, int]]) -> None:
    """Create a new folder with these files; whatever was there is deleted, links included."""
    with storage_errors(folder):
        if folder.is_symlink():
            folder.unlink()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        for name, (content, mtime_ns) in files.items():
            path = folder / name
            for above in reversed(path.relative_to(folder).parents):
                (folder / above).mkdir(mode=0o700, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o600)
            os.utime(path, ns=(mtime_ns, mtime_ns))
