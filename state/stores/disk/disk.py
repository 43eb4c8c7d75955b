"""Disk: durable changes of files; every change of a workspace goes through it.

Each change takes effect by one rename (or link) of a file that is already synced, and the folder is synced before the
call returns: after a power failure a name holds its old bytes or its new ones. `Disk` calls the kernel only through
`System`, so that a test can make any single call fail, tear or be forgotten.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from state.errors import BusyError, DocumentError, NotFoundError, StorageError
from state.stores.disk.syscalls import NO_SUCH_CALL, System, storage_errors

LOCK_WAIT_SECONDS = 10.0
_LOCK_POLL_SECONDS = 0.005
TEMPORARY = ".dreamd-tmp"
_SAVES = 8
LONGEST_FILE = 64 * 1024**2
"""The longest file that is read at once, because a sparse file may have any length."""
LONGEST_LOG = 256 * 1024**2
"""The longest log of notes that is read: about two million notes."""


def opened(path: Path) -> BufferedReader:
    """Open a regular file for reading without ever blocking (as on the writer of a FIFO).

    Raise StorageError for a FIFO, device or socket, and OSError as `open` does.
    """
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115 - returned
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise StorageError(f"{path} is no regular file", "move it away")
    return file


def read_whole(file: BinaryIO, path: Path, longest: int = LONGEST_FILE) -> bytes:
    """Read all of an open file. Raise StorageError, before reading anything, if it is longer than `longest`."""
    size = os.fstat(file.fileno()).st_size
    if size > longest:
        raise StorageError(f"{path} has {size:,} bytes, and {longest:,} are read at most", "move it away")
    return file.read(longest)


def leads_elsewhere(path: Path, root: Path) -> bool:
    """Return whether a link below the root leads to hidden files or folders of it that the path does not name.

    Programs obey what is stored there (.git/config, .bashrc), and whoever can write to a workspace cannot always
    write there. For a path that is not below the root, return False.
    """
    named, start = os.path.abspath(path), os.path.abspath(root)  # noqa: PTH100 - `..` is taken out, links are not
    if not Path(named).is_relative_to(start):
        return False
    real = os.path.realpath(path)
    return real != named and _hidden(real, os.path.realpath(root)) != _hidden(named, start)


def _hidden(path: str, root: str) -> list[str]:
    return [part for part in Path(path).relative_to(root).parts if part.startswith(".")]


def below(folder: Path) -> Iterator[Path]:
    """Yield everything below a folder recursively, each folder before its content; links are not followed."""
    todo = [folder]
    while todo:
        one = todo.pop()
        with suppress(NotADirectoryError, FileNotFoundError), os.scandir(one) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                yield (path := Path(entry.path))
                if entry.is_dir(follow_symlinks=False):
                    todo.append(path)


class Disk:
    """Durable changes to the files below one folder, and to those below `state`, which may be elsewhere.

    A path may be a symbolic link if its target is below `root` and not hidden; the change is then made there.
    Every method raises StorageError with advice on what to do, and NotFoundError for a missing file.
    """

    def __init__(self, root: Path, system: System | None = None, state: Path | None = None) -> None:
        self.root = root
        self.state = state
        self.system = system or System()

    def target(self, path: Path) -> Path:
        """Resolve every link of the path. Raise StorageError if it leaves the folder or `leads_elsewhere`."""
        below = self.state if self.state is not None and path.is_relative_to(self.state) else self.root
        real, root = Path(os.path.realpath(path)), Path(os.path.realpath(below))
        if not real.is_relative_to(root):
            raise StorageError(f"{path} leads to {real}, outside {root}", "replace the link by the file itself")
        if leads_elsewhere(path, below):
            raise StorageError(f"{path} leads to {real}, which is not its own", "replace the link by the file itself")
        return real

    def read_bytes(self, path: Path, longest: int = LONGEST_FILE) -> bytes:
        """Read the whole file. Raise NotFoundError if it does not exist."""
        with storage_errors(path), opened(self.target(path)) as file:
            return read_whole(file, path, longest)

    def read_optional(self, path: Path, longest: int = LONGEST_FILE) -> bytes | None:
        """Read the whole file; return None if it does not exist."""
        with suppress(NotFoundError):
            return self.read_bytes(path, longest)
        return None

    def write_atomic(self, path: Path, content: bytes, mode: int = 0o600) -> None:
        """Replace the file atomically. An existing file keeps its mode; a new one gets `mode`."""
        target = self.target(path)
        with storage_errors(path), self._synced(target, content, mode) as temporary:
            self.system.rename(temporary, target)
            self._sync_folder(target.parent)

    def write_new(self, path: Path, content: bytes, mode: int = 0o600) -> None:
        """Create the file, whole and synced. Raise FileExistsError, changing nothing, if the name is taken."""
        target = self.target(path)
        taken = None
        with storage_errors(path), self._synced(target, content, mode) as temporary:
            try:
                self._place(temporary, target)
            except FileExistsError as error:
                taken = error
            self._sync_folder(target.parent)
        if taken is not None:
            raise taken

    def exchange(self, path: Path, content: bytes, mode: int = 0o600, aside: Path | None = None) -> bytes | None:
        """Replace the file's content atomically, and return the previous content (None: there was no file).

        The previous content stays readable by `displaced(path)`, through any crash, until `settle(path)`, so a
        person's save just before the swap is never lost. A caller that names the file `aside` for it reads and
        removes that file itself. Raise StorageError while an earlier exchange is unsettled.
        """
        target = self.target(path)
        aside = aside or _aside(target)
        with storage_errors(path), self._synced(target, content, mode) as temporary:
            try:
                self._place(temporary, aside)
            except FileExistsError:
                raise StorageError(f"{aside}: an interrupted write is unsettled", "run 'dreamd doctor'") from None
            self._swap(aside, target, content)
            self._sync_folder(target.parent)
        return self.read_optional(aside)

    def _swap(self, aside: Path, target: Path, content: bytes) -> None:
        while True:
            try:
                if target.exists():
                    self.system.exchange(aside, target)
                else:
                    self._place(aside, target)
                    with suppress(FileNotFoundError):
                        self.system.unlink(aside)
            except (FileExistsError, FileNotFoundError):
                if not aside.exists():
                    raise
                continue  # the target appeared or disappeared after `exists`
            except OSError as error:
                if error.errno not in NO_SUCH_CALL:
                    self.system.unlink(aside)
                    raise
                self._swap_in_steps(aside, target, content)
            return

    def _swap_in_steps(self, aside: Path, target: Path, content: bytes) -> None:
        """Swap where names cannot be exchanged: give the old file the second name `aside`, then the new one its own.

        What is written into the old file meanwhile is found aside, and a file that was renamed over it is noticed. A
        save could be lost only if it comes between the last two calls, which are microseconds apart.
        """
        with self._synced(target, content) as fresh:
            spare = fresh.with_name(f"{fresh.name}{TEMPORARY}")
            while True:
                try:
                    self.system.link(target, spare)
                    self.system.rename(spare, aside)
                    with suppress(FileNotFoundError):  # a rename to another name of the same file does nothing
                        self.system.unlink(spare)
                except OSError as error:
                    if error.errno not in NO_SUCH_CALL:
                        raise
                    self.write_atomic(aside, target.read_bytes())  # this file system has no hard links
                kept = aside.read_bytes()
                if target.read_bytes() == kept:
                    self.system.rename(fresh, target)
                    return

    def _place(self, source: Path, target: Path) -> None:
        """Give the file a free name, or raise FileExistsError; the source may keep its own name."""
        try:
            self.system.link(source, target)
        except OSError as error:
            if error.errno not in NO_SUCH_CALL:
                raise
            self.system.rename_new(source, target)  # this file system has no hard links

    def displaced(self, path: Path) -> bytes | None:
        """Return what an unsettled `exchange` left beside the file; None if there is nothing.

        After a crash these are the old bytes, or the new ones if the swap had not happened; the caller compares them
        with what it was about to write.
        """
        return self.read_optional(_aside(self.target(path)))

    def settle(self, path: Path) -> None:
        """Delete what `exchange` displaced, if anything, once the caller has dealt with it."""
        self.remove(_aside(self.target(path)))

    def rename(self, source: Path, target: Path) -> None:
        """Move a file over another name; sync both folders, the target's first."""
        real_source, real_target = self.target(source), self.target(target)
        with storage_errors(source):
            self._move(real_source, real_target, self.system.rename)
            self._sync_folder(real_target.parent)
            if real_source.parent != real_target.parent:
                self._sync_folder(real_source.parent)

    def rename_new(self, source: Path, target: Path) -> None:
        """Move like `rename`, but raise FileExistsError, changing nothing, if the target exists.

        A kill in between leaves the file in both places.
        """
        real_source, real_target = self.target(source), self.target(target)
        taken = None
        with storage_errors(source):
            try:
                self._move(real_source, real_target, self._place)
                with suppress(FileNotFoundError):
                    self.system.unlink(real_source)
            except FileExistsError as error:
                taken = error
            self._sync_folder(real_target.parent)
            self._sync_folder(real_source.parent)
        if taken is not None:
            raise taken

    def _move(self, source: Path, target: Path, name: Callable[[Path, Path], None]) -> None:
        try:
            name(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._carry(source, target, name)

    def _carry(self, source: Path, target: Path, name: Callable[[Path, Path], None]) -> None:
        """Move a file to another file system: a synced copy gets the name, then what was appended meanwhile follows.

        A kill in between leaves the file in both places.
        """
        with opened(source) as file:
            with self._synced(target, file.read(), stat.S_IMODE(os.fstat(file.fileno()).st_mode)) as copy:
                name(copy, target)
            self.system.unlink(source)
            while added := file.read():
                fd = self.system.open(target, os.O_RDWR | os.O_APPEND)
                try:
                    self._append(fd, added, target)
                finally:
                    os.close(fd)

    def remove(self, path: Path) -> None:
        """Delete the file, or the link if it is one; a missing file is no error."""
        target = self.target(path.parent) / path.name
        with storage_errors(path):
            with suppress(FileNotFoundError):
                self.system.unlink(target)
            self._sync_folder(target.parent)

    def make_folder(self, path: Path, mode: int = 0o700) -> None:
        """Create the folder (its parent must exist) unless it exists."""
        target = self.target(path)
        with storage_errors(path):
            if target.is_dir():
                return
            try:
                self.system.mkdir(target, mode)
            except FileExistsError:  # created by another process, unless it is no folder
                if not target.is_dir():
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
            self._sync_folder(target.parent)

    def sync(self, path: Path) -> None:
        """Sync the file, so that its content is durable."""
        with storage_errors(path):
            fd = self.system.open(self.target(path), os.O_RDWR)
            try:
                self.system.fsync(fd)
            finally:
                os.close(fd)

    def fsync_folder(self, folder: Path) -> None:
        """Sync the folder, so that the names in it are durable."""
        with storage_errors(folder):
            self._sync_folder(self.target(folder))

    def append_locked(
        self,
        path: Path,
        entry: bytes,
        header: bytes,
        *,
        durable: bool = True,
        wait_seconds: float = LOCK_WAIT_SECONDS,
    ) -> None:
        """Append the entry on a line of its own, durably unless told otherwise; a new file starts with the header.

        Writers exclude each other by a lock on the file itself; a plain `>>` meanwhile loses nothing. If this raises,
        the entry is not in the file.
        """
        with self.locked(path, header, wait_seconds) as fd, storage_errors(path):
            self._append(fd, self._separator(fd, header) + entry, self.target(path), durable=durable)

    def blank(self, path: Path, lengths: Mapping[int, int]) -> bytes:
        """Overwrite the beginning of the file in place, as far as `lengths` says for its inode; return the new bytes.

        Concurrent appends lose nothing.
        """
        with storage_errors(path):
            fd = self.system.open(self.target(path), os.O_RDWR)
            try:
                status = os.fstat(fd)
                length = min(lengths.get(status.st_ino, 0), status.st_size)
                content, written = b" " * (length - 1) + b"\n" if length else b"", 0
                while written < len(content):
                    written += self.system.pwrite(fd, content[written:], written)
                self.system.fsync(fd)
            finally:
                os.close(fd)
        return content

    @contextmanager
    def locked(self, path: Path, header: bytes, wait_seconds: float = LOCK_WAIT_SECONDS) -> Iterator[int]:
        """Hold the file's lock on a descriptor for appending; the path is sure to name that same file on entry.

        A missing file is created with the header. Raise BusyError if the lock is not free in time.
        """
        deadline = time.monotonic() + wait_seconds
        while True:
            fd = self._open_for_append(path, header)
            try:
                with storage_errors(path):
                    if not stat.S_ISREG(os.fstat(fd).st_mode):
                        raise StorageError(f"{path} is no regular file", "move it away")
                    wait_for_lock(fd, path, deadline)
                    is_named = is_same_file(self.target(path), fd)
                if is_named:
                    yield fd
                    return
            finally:
                os.close(fd)  # releases the lock

    def remove_leftovers(self, folder: Path, before: float) -> int:
        """Delete temporary files of killed writers older than `before` (seconds since the epoch); return how many."""
        removed = 0
        with storage_errors(folder):
            for path in self.target(folder).glob(f".*{TEMPORARY}"):
                with suppress(FileNotFoundError):
                    if path.lstat().st_mtime < before:
                        self.system.unlink(path)
                        removed += 1
        return removed

    def _open_for_append(self, path: Path, header: bytes) -> int:
        target, flags = self.target(path), os.O_RDWR | os.O_APPEND
        with storage_errors(path), suppress(FileNotFoundError):
            return self.system.open(target, flags)
        with suppress(FileExistsError):  # another process was faster
            self.write_new(path, header)
        with storage_errors(path):
            return self.system.open(target, flags | os.O_CREAT)

    def _separator(self, fd: int, header: bytes) -> bytes:
        size = os.fstat(fd).st_size
        if size == 0:
            return header
        return b"" if os.pread(fd, 1, size - 1) == b"\n" else b"\n"

    def _append(self, fd: int, block: bytes, target: Path, *, durable: bool = True) -> None:
        pieces: list[tuple[int, int]] = []
        written = 0
        try:
            while written < len(block):
                length = self.system.write(fd, block[written:])
                if not length:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 - blanked like the others
                pieces.append((os.lseek(fd, 0, os.SEEK_CUR) - length, length))
                written += length
            if durable:
                self.system.fsync(fd)
                # A `>>` may have created the file without syncing: its name must be durable as well.
                self._sync_folder(target.parent)
        except OSError:
            self._blank(fd, target, pieces)
            raise

    def _blank(self, fd: int, target: Path, pieces: list[tuple[int, int]]) -> None:
        # Not truncated, because a plain `>>` may have followed the torn line. Spaces need no new disk blocks.
        # A second failure is ignored: the caller raises the first one.
        with suppress(OSError):
            over = self.system.open(target, os.O_WRONLY)
            try:
                if os.path.sameopenfile(fd, over):
                    for start, length in pieces:
                        self.system.pwrite(over, b" " * (length - 1) + b"\n", start)
            finally:
                os.close(over)

    @contextmanager
    def _synced(self, target: Path, content: bytes, mode: int = 0o600) -> Iterator[Path]:
        """Create a synced temporary file beside the target, and delete it at the end unless it was renamed."""
        temporary = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}{TEMPORARY}")
        fd = self.system.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            try:
                self._copy_owner(fd, target, mode)
                written = 0
                while written < len(content):
                    written += self.system.write(fd, content[written:])
                self.system.fsync(fd)
            finally:
                os.close(fd)
            yield temporary
        finally:
            with suppress(FileNotFoundError):
                self.system.unlink(temporary)

    def _copy_owner(self, fd: int, target: Path, mode: int) -> None:
        with suppress(FileNotFoundError):
            existing = target.stat()
            mode = stat.S_IMODE(existing.st_mode)
            if os.geteuid() == 0:
                os.fchown(fd, existing.st_uid, existing.st_gid)  # root must not take over a user's file
        os.fchmod(fd, mode)

    def _sync_folder(self, folder: Path) -> None:
        fd = self.system.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.system.fsync(fd)
        finally:
            os.close(fd)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.displaced")


def change_text(
    disk: Disk, path: Path, change: Callable[[bytes], bytes], join: Callable[[bytes, bytes], bytes], again: str
) -> None:
    """Replace the file's content by `change(content)`. A missing file stays missing.

    A person may save the file at any moment. A save in the instant of the swap is newer, so `change` is applied to
    it instead. If an earlier swap was cut off, its leftover may be such a save: `join` then combines the current text
    and the leftover, both changed. `change` may run twice on one text. Raise DocumentError, with the advice `again`,
    if the file keeps changing.
    """
    if (aside := disk.displaced(path)) is not None:
        current = change(disk.read_optional(path) or b"")
        if (joined := join(current, change(aside))) != current:
            disk.write_atomic(path, joined)
        disk.settle(path)
    for _ in range(_SAVES):
        found = disk.read_optional(path)
        if found is None or (new := change(found)) == found:
            return
        displaced_text = disk.exchange(path, new, mode=0o644)
        if displaced_text not in (None, found):  # saved between reading and swapping, so it is newer
            disk.write_atomic(path, change(displaced_text))
        disk.settle(path)
    raise DocumentError(f"{path} changed {_SAVES} times while it was written", f"stop what writes it and {again}")


def is_same_file(path: Path, fd: int) -> bool:
    """Return whether the path still names the file behind this descriptor."""
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def try_lock(fd: int) -> bool:
    """Try to lock an open file; return whether that succeeded."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(fd: int, path: Path, deadline: float) -> None:
    """Lock an open file. Raise BusyError if another process holds its lock until the deadline (monotonic)."""
    while not try_lock(fd):
        if time.monotonic() >= deadline:
            raise BusyError(f"{path} is locked by another process", f"end it or let it go on (fuser '{path}')")
        time.sleep(_LOCK_POLL_SECONDS)
