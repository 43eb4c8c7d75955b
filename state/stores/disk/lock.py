"""Lock: makes one process the writer of a workspace, with a fencing number that rises with each owner.

The kernel's lock (flock) on the file `lock` decides, so a holder that dies frees it at once. Each holder's number is
one more than the previous one's. A stopped holder (SIGSTOP) may be displaced: a new, already locked file takes the
name `lock`, and when the old holder continues, its `check()` raises FencedError.

A holder may share its lock with a child (`shared`, `take_over`): the lock lasts until both have released it. To
displace a stopped holder, its child is killed first, so that there are never two owners.
"""

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any, Self

from state.errors import BusyError, FencedError, StorageError
from state.stores.disk.disk import is_same_file, opened, try_lock
from state.stores.disk.places import id_in
from state.stores.disk.processes import killed, own_start, state_of
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace

_POLL_SECONDS = 0.02
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LONGEST_RECORD = 4096
_MOST_OWNERS = 2**62
_AGENTS_SERVER = "dreamd mcp"
KEEPER = "dreamd serve"
"""The command of a daemon, as the lock names it."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a workspace. `ticks` is the process's start as the machine counts it; both name one process.

    `child` and `child_ticks` name the process that shares the lock; 0 if there is none.
    """

    pid: int
    host: str
    started: str
    command: str
    fence: int
    ticks: int
    child: int = 0
    child_ticks: int = 0

    def __str__(self) -> str:
        since = self.started
        with suppress(ValueError):  # of the clock of whoever reads it
            since = f"{datetime.fromisoformat(since).astimezone():%Y-%m-%d %H:%M %Z}"
        return f"process {self.pid} ('{self.command}' on {self.host}, since {since})"


class Lock:
    """The lock of a workspace; use it as a context manager, or call `release()`."""

    def __init__(self, workspace: Workspace, fd: int, fence: int) -> None:
        self.fence = fence
        self.workspace = workspace
        self._fd = fd

    def check(self) -> None:
        """Return if this process still owns the workspace; otherwise raise FencedError: it must no longer write."""
        fd = self._fd
        with storage_errors(self.workspace.lock):
            try:
                is_owner = fd >= 0 and is_same_file(self.workspace.lock, fd)
            except OSError as error:
                if error.errno != errno.EBADF:
                    raise
                is_owner = False  # another thread is releasing it
        is_owner = is_owner and _read_fence(self.workspace) == self.fence
        if self._fd < 0:  # checked last, because it may be released and taken by others during the checks above
            raise FencedError(f"{self.workspace.root}: the lock was released", "take it again before writing")
        if not os.path.isdir(self.workspace.root):  # noqa: PTH112 - Path.is_dir may raise here
            raise FencedError(f"{self.workspace.root} was moved away or deleted", "name the folder where it is now")
        if id_in(self.workspace.root) not in (None, self.workspace.state.name):
            raise FencedError(f"{self.workspace.root} is another workspace now", "nothing was written, try again")
        if not is_owner:
            message = f"{self.workspace.root} was taken over by another process"
            raise FencedError(message, "nothing was written, try again")

    @contextmanager
    def shared(self) -> Iterator[int]:
        """Yield a descriptor that a child may inherit for `take_over`. Raise FencedError if the lock is lost."""
        self.check()
        try:
            fd = os.dup(self._fd)
        except OSError as error:  # another thread is releasing it
            raise FencedError(f"{self.workspace.root}: the lock was released", "take it again") from error
        try:
            yield fd
        finally:
            os.close(fd)

    def release(self) -> None:
        """Release the workspace; doing it again is harmless."""
        if self._fd >= 0:
            # The file stays: removing it would let two processes lock two files of one name. If clearing it fails,
            # the next owner overwrites its record.
            fd, self._fd = self._fd, -1
            with suppress(OSError):
                os.ftruncate(fd, 0)
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Turn:
    """A lock for one holder at a time, among this process's threads and all processes that use the same file.

    It is reentrant. The kernel frees it when its holder ends.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = RLock()
        self._depth = 0
        self._fd = -1

    def __enter__(self) -> Self:
        self._lock.acquire()
        try:
            if not self._depth:
                self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._fd, fcntl.LOCK_EX)
            self._depth += 1
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            os.close(self._fd)
        self._lock.release()


def acquire(workspace: Workspace, command: str, wait_seconds: float = 0.0) -> Lock:
    """Become the owner of the workspace, waiting at most `wait_seconds` for another owner to release it.

    A dead owner's lock is free; a stopped owner's is taken over. Raise BusyError, naming the owner.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        fd = _try_lock(workspace)
        if fd is None:
            fd = _displace(workspace)
        if fd is not None:
            lock = _enter(workspace, fd, command)
            if lock is not None:
                return lock
        if time.monotonic() >= deadline:
            raise _busy(workspace)
        time.sleep(_POLL_SECONDS)


def take_over(workspace: Workspace, fd: int, fence: int) -> Lock:
    """Own the workspace beside the parent, using its lock's inherited descriptor. Raise FencedError if it is lost.

    The parent's record stays in the file, with this process as its child.
    """
    os.set_inheritable(fd, False)  # noqa: FBT003 - it takes it by place
    lock = Lock(workspace, fd, fence)
    lock.check()
    if (parent := holder(workspace)) is not None:
        both = replace(parent, child=os.getpid(), child_ticks=own_start(os.getpid()))
        with storage_errors(workspace.lock):
            os.pwrite(fd, json.dumps(asdict(both)).encode().ljust(_LONGEST_RECORD // 4), 0)
    lock.check()
    return lock


def holder(workspace: Workspace) -> Holder | None:
    """Return the holder recorded in the lock file; None if there is none or it cannot be read."""
    try:
        with opened(workspace.lock) as file:
            record = json.loads(file.read(_LONGEST_RECORD))
        types: dict[str, Any] = {one.name: int if one.type is int else str for one in fields(Holder)}
        return Holder(**{name: types[name](value) for name, value in record.items()})
    except (OSError, StorageError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _try_lock(workspace: Workspace) -> int | None:
    """Return a locked descriptor of the current file `lock`; None if another process holds it."""
    path = workspace.disk().target(workspace.lock)
    while True:
        with storage_errors(path):
            fd = os.open(path, _FLAGS, 0o600)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                raise StorageError(f"{path} is no regular file", "move it away")
            locked = try_lock(fd)
            if locked and is_same_file(path, fd):
                return fd
            os.close(fd)
        if not locked:
            return None  # otherwise the file was replaced between opening and locking: try again


def _displace(workspace: Workspace) -> int | None:
    """Replace a stopped holder's file by a new locked one; return None if the holder is not stopped."""
    if not is_stopped(holder(workspace)):
        return None
    path = workspace.disk().target(workspace.lock)
    with storage_errors(path):
        turn = os.open(path.with_name("lock.takeover"), _FLAGS, 0o600)
    try:
        # One process at a time, and a second look: it may be displaced already, or running again.
        if not try_lock(turn) or not is_stopped(who := holder(workspace)):
            return None
        if who is not None and who.child and not killed(who.child, who.child_ticks):
            return None
        fresh = path.with_name("lock.new")
        with storage_errors(path):
            fresh.unlink(missing_ok=True)
            fd = os.open(fresh, _FLAGS | os.O_EXCL, 0o600)
            try_lock(fd)
            fresh.replace(path)
        return fd
    finally:
        os.close(turn)


def _enter(workspace: Workspace, fd: int, command: str) -> Lock | None:
    """Take the next number and sign the lock file; return None if another file has taken its name meanwhile."""
    try:
        with storage_errors(workspace.lock):
            os.ftruncate(fd, 0)  # unsigned until the number is durable: an unsigned holder is never displaced
        fence = _read_fence(workspace) + 1
        workspace.disk().write_atomic(workspace.fence, f"{fence}\n".encode())
        signed = Holder(
            pid=os.getpid(),
            host=os.uname().nodename,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            command=command,
            fence=fence,
            ticks=own_start(os.getpid()),
        )
        with storage_errors(workspace.lock):
            os.pwrite(fd, json.dumps(asdict(signed)).encode(), 0)
    except BaseException:
        os.close(fd)
        raise
    lock = Lock(workspace, fd, fence)
    try:
        lock.check()
    except FencedError:
        lock.release()
        return None
    return lock


def _read_fence(workspace: Workspace) -> int:
    written = workspace.disk().read_optional(workspace.fence)
    if written is None:
        return 0
    try:
        counted = int(written)
    except ValueError:
        counted = -1
    # The file was damaged. The seconds since 1970 exceed any number that was ever counted.
    return counted if 0 <= counted < _MOST_OWNERS else int(time.time())


def present_holder(workspace: Workspace) -> Holder | None:
    """Return the workspace's current holder; None if there is none, or if its processes have ended."""
    who = holder(workspace)
    is_gone = who is not None and who.host == os.uname().nodename and _states(who) == ("", "")
    return None if is_gone else who


def is_stopped(who: Holder | None) -> bool:
    """Return whether the holder is a stopped process (SIGSTOP) of this machine, and not a later one with its pid.

    If the holder has ended, its child decides.
    """
    if who is None or who.host != os.uname().nodename:
        return False
    own, childs = _states(who)
    return (own or childs) == "T"


def _states(who: Holder) -> tuple[str, str]:
    """Return the state letters of the holder and its child; empty for one that has ended."""
    return state_of(who.pid, who.ticks), state_of(who.child, who.child_ticks)


def _busy(workspace: Workspace) -> BusyError:
    who = holder(workspace)
    if who is not None and (who.pid, who.host) == (os.getpid(), os.uname().nodename):
        return BusyError(
            f"{workspace.root} is held by {who}, which asks for it once more", "wait for what it does there"
        )
    if who is not None:
        # Without this exception, an agent that reads the message might end its own server or another agent's.
        end = "" if who.command == _AGENTS_SERVER else f", or end it with 'kill {who.pid}'"
        return BusyError(f"{workspace.root} is held by {who}", f"wait for it{end}")
    return BusyError(
        f"{workspace.root} is held by another process", f"wait, or find it with 'fuser {workspace.lock}'"
    )
