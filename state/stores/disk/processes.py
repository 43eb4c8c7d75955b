"""Processes of this machine: whether one still runs, ending exactly that one, and who has a file open.

Linux tells by /proc, pidfd and file leases. Elsewhere POSIX's `ps` and `fuser` are asked.
"""

import fcntl
import os
import signal
import sys
import time
from calendar import timegm
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from state.stores.disk.syscalls import is_linux, storage_errors

_UNKNOWN = "?"
_POLL_SECONDS = 0.02
_KILLED_SECONDS = 2.0


def start_of(pid: int) -> int:
    """Return when the process began, in the machine's own unit: with the pid it names one process. 0 if unknown."""
    return _look(pid)[1]


@lru_cache(1)
def own_start(pid: int) -> int:
    """Return `start_of` this process, whose pid is given because a fork copies the answer."""
    return start_of(pid)


def state_of(pid: int, start: int) -> str:
    """Return the state letter of ps(1), such as T for stopped; "" if that process has ended, "?" if unknown."""
    state, began = _look(pid) if pid else ("", 0)
    if state == _UNKNOWN or (state and not start):
        return _UNKNOWN
    return state if began == start and state != "Z" else ""


def killed(pid: int, start: int) -> bool:
    """Kill this process if it runs; return whether it has ended."""
    deadline = time.monotonic() + _KILLED_SECONDS
    with suppress(OSError):  # it is ending, or belongs to another user
        if sys.platform == "linux" and is_linux():
            pidfd = os.pidfd_open(pid)
            try:
                if state_of(pid, start):  # otherwise the pid belongs to another process by now
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            finally:
                os.close(pidfd)
        elif state_of(pid, start) not in ("", _UNKNOWN):
            os.kill(pid, signal.SIGKILL)
    while state_of(pid, start) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return not state_of(pid, start)


def is_held_open(path: Path) -> bool:
    """Return whether any process has this file open; False where a file system of Linux cannot tell."""
    if not (sys.platform == "linux" and is_linux()):
        # The pids stand in stdout. If it cannot be run, assume a process, so that no late write is lost.
        return bool((_UNKNOWN if (said := _output("fuser", str(path))) is None else said).strip())
    with storage_errors(path):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        # The kernel grants a write lease only for a file that nobody else has open. If somebody opens it now, we get
        # a signal, which must not be SIGIO: that would end this process.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def _look(pid: int) -> tuple[str, int]:
    """Return state letter and start of a process: ("", 0) if there is none, ("?", 0) if nobody tells."""
    if not is_linux():
        said = _output("ps", "-o", "state=", "-o", "lstart=", "-p", str(pid))
        if said == "":
            return "", 0
        try:
            state, start = (said or "").split(maxsplit=1)
            # A date in the C locale: Sun Nov 29 01:51:04 2026.
            return state[0], timegm(time.strptime(start.strip()))
        except ValueError:
            return _UNKNOWN, 0
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = line[line.rindex(")") + 2 :].split()  # the command name before it may contain anything
        return fields[0], int(fields[19])  # fields 3 and 22 of proc(5)
    except (OSError, ValueError, IndexError):
        return "", 0


def _output(*command: str) -> str | None:
    """Return what a command of the system prints; None if it cannot be run, as in some sandboxes of macOS."""
    import subprocess  # late: Linux needs none

    settings = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", "TZ": "UTC"}
    try:
        return subprocess.run(  # noqa: S603 - fixed words
            command, env=settings, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True
        ).stdout
    except OSError:
        return None
