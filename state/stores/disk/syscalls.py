"""System: the system calls that change the disk, and their errors as advice to a person.

Linux's own calls have a portable form beside them, which macOS uses; `is_linux` chooses.
"""

import errno
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from state.errors import FullError, NotFoundError, ReadOnlyError, StorageError

# Errors of a kernel or file system that lacks a call, one of its flags, or hard links.
NO_SUCH_CALL = (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP)
# The flags of renameat2(2) on Linux, and of renamex_np(2) on macOS.
_NOREPLACE, _EXCHANGE = (1, 4), (2, 2)
_AT_FDCWD = -100


def is_linux() -> bool:
    """Return whether to use Linux's own calls; tests switch them off by a variable, to run as on macOS.

    mypy knows which calls a platform lacks if `sys.platform == "linux"` stands beside it.
    """
    return sys.platform == "linux" and "_DREAMD_PORTABLE" not in os.environ


class System:
    """The calls that change the disk, as the kernel offers them."""

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def write(self, fd: int, block: bytes) -> int:
        return os.write(fd, block)

    def pwrite(self, fd: int, block: bytes, offset: int) -> int:
        return os.pwrite(fd, block, offset)

    def fsync(self, fd: int) -> None:
        """Make the file's bytes durable, also through the cache of the drive, which macOS leaves alone in fsync."""
        if (full := getattr(fcntl, "F_FULLFSYNC", None)) is not None:
            try:
                fcntl.fcntl(fd, full)
            except OSError as error:
                if error.errno not in (*NO_SUCH_CALL, errno.ENOTTY):
                    raise
            else:
                return
        os.fsync(fd)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)  # noqa: PTH104 - beside its siblings

    def exchange(self, one: Path, other: Path, /) -> None:
        """Swap two names atomically. Raise OSError with one of NO_SUCH_CALL if unsupported."""
        _rename(one, other, _EXCHANGE)

    def link(self, source: Path, target: Path, /) -> None:
        os.link(source, target)

    def rename_new(self, source: Path, target: Path, /) -> None:
        """Rename, but raise FileExistsError if the target exists, or OSError as `exchange` does."""
        _rename(source, target, _NOREPLACE)

    def unlink(self, path: Path) -> None:
        os.unlink(path)  # noqa: PTH108 - beside its siblings

    def mkdir(self, path: Path, mode: int) -> None:
        os.mkdir(path, mode)  # noqa: PTH102 - beside its siblings


def _rename(source: Path, target: Path, flags: tuple[int, int]) -> None:
    import ctypes  # takes 5 ms, which only a commit pays

    library = ctypes.CDLL(None, use_errno=True)
    old, new, (linux, macos) = os.fsencode(source), os.fsencode(target), flags
    if is_linux() and hasattr(library, "renameat2"):
        failed = library.renameat2(_AT_FDCWD, old, _AT_FDCWD, new, linux)
    elif hasattr(library, "renamex_np"):
        failed = library.renamex_np(old, new, macos)
    else:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(target))
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(target))


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an OSError about this path into a StorageError (or NotFoundError) that says what to do."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: no such file or folder", "check the path", "or run 'dreamd init'") from error
    except OSError as error:
        what, advice = _explained(error, path)
        kind = ReadOnlyError if error.errno in _FORBIDDING else FullError if error.errno in _FULL else StorageError
        raise kind(f"{path}: {what}", advice) from error


_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDING = (errno.EROFS, errno.EACCES, errno.EPERM)
_SANDBOX = "in an agent's sandbox note over MCP (working_memory_note), which is outside of it"
# What a kernel error means to a person, and what to do.
_MEANINGS = {
    errno.ENOSPC: ("the disk is full", "free some space and try again"),
    errno.EDQUOT: ("the disk quota is used up", "free some space and try again"),
    errno.EROFS: ("the file system is read-only", f"{_SANDBOX}; else remount it for writing or move the workspace"),
    errno.ENOTDIR: ("a file stands where a folder should be", "move it away"),
    errno.EISDIR: ("a folder stands where a file should be", "move it away"),
    errno.EIO: ("the disk reports an error", "check it before you go on (dmesg)"),
    errno.EMFILE: ("too many open files", "raise the limit (ulimit -n)"),
}


def _explained(error: OSError, path: Path) -> tuple[str, str]:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "permission denied", access_to(path)
    return _MEANINGS.get(error.errno or 0, (error.strerror or str(error), "run 'dreamd doctor'"))


def access_to(path: Path) -> str:
    """Return advice for a permission error: chmod for own files, a folder of one's own for others'."""
    while True:
        try:
            owner = path.stat().st_uid
            break
        except OSError:  # it does not exist, or a parent hides it
            path = path.parent
    if owner == os.geteuid():
        folder = path if os.path.isdir(path) else path.parent  # noqa: PTH112 - Path.is_dir may raise here
        rights = f"give this user the folder (chmod u+rwx '{folder}') and the file (chmod u+rw)"
        # If the permissions allow it, something around this process forbids it.
        is_allowed = os.access(folder, os.W_OK) and os.access(path, os.R_OK | os.W_OK)
        return f"{_SANDBOX}; else {rights}" if is_allowed else rights
    return (
        f"{path} belongs to {_user(owner)}: take a folder of your own; "
        f"'sudo install -d -o {_user(os.geteuid())} DIR' makes one there"
    )


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # a user of another machine
        return str(number)
