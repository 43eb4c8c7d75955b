"""Listener: the Unix socket and the port, bound before anything is served, so that early clients can wait.

The daemon locks a file beside the socket for its whole life, so a second daemon is refused, and the socket of a dead
one can be replaced. A umask creates the socket with mode 0600; a chmod afterwards would come too late.
"""

import errno
import fcntl
import os
import socket
import stat
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from daemon.config.paths import fits_socket, make_private_folder, max_socket_bytes
from daemon.http.access_policy import SOCKET, AccessPolicy, port_policy
from state.errors import BusyError, ConfigError, StorageError
from state.stores.disk.syscalls import storage_errors

_BACKLOG = 256


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket and its policy. `path` and `lock` are the Unix socket's."""

    policy: AccessPolicy
    socket: socket.socket
    path: Path | None = None
    lock: ExitStack | None = None

    @property
    def address(self) -> str:
        """Return its path or URL."""
        if self.path is not None:
            return str(self.path)
        host, port = self.socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def close(self) -> None:
        """Remove the socket's file, so that new clients find no daemon, and stop listening."""
        if self.path is not None and self.socket.fileno() >= 0:
            with suppress(OSError):  # its folder may be gone
                self.path.unlink()
        self.socket.close()
        if self.lock is not None:
            self.lock.close()


def open_socket(path: Path) -> Listener:
    """Listen at a Unix socket; create a missing folder, and replace the socket of a dead daemon.

    Raise BusyError if a daemon listens there, StorageError if the path is no socket or its folder cannot be used, and
    ConfigError if the path is too long for the kernel.
    """
    if not fits_socket(path):
        raise ConfigError(
            f"{path}: the socket's path has {len(os.fsencode(path))} bytes and the kernel takes {max_socket_bytes()}",
            "set DREAMD_SOCKET to a shorter path, or XDG_RUNTIME_DIR, for the daemon and for its clients",
        )
    make_private_folder(path.parent)
    with storage_errors(path), ExitStack() as undone:
        _lock(path, undone)
        if os.path.lexists(path) and not stat.S_ISSOCK(path.lstat().st_mode):
            raise StorageError(f"{path} is no socket, and the daemon listens there", "move it away")
        path.unlink(missing_ok=True)
        listener = undone.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(_BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - socket's own
        return Listener(SOCKET, listener, path, undone.pop_all())


def _lock(path: Path, held: ExitStack) -> None:
    """Lock the file beside this path. Raise BusyError if a daemon has it."""
    file = os.open(path.with_name(f"{path.name}.lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    held.callback(os.close, file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BusyError(
            f"{path}: a daemon listens here already",
            "stop that one, or set DREAMD_SOCKET to another path for this one",
        ) from error


def open_port(host: str, port: int, token: str, section: str = "http", zero: str = "none") -> Listener:
    """Listen at this TCP address; port 0 means any free one.

    Errors name the keys of this configuration `section`, and what port 0 means there (`zero`). Raise BusyError if
    another program has the port, and ConfigError if this machine cannot listen there.
    """
    policy = port_policy(token)
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        what = f"{section}.host: {host!r} is no address of this machine ({error})"
        raise ConfigError(what, "set it to 127.0.0.1") from error
    try:
        listener = socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        key, variable = f"{section}.port", f"DREAMD_{section.upper()}__PORT"
        advice = f"set {key} ({variable}) to another one, or to 0 for {zero}"
        if error.errno == errno.EADDRINUSE:
            raise BusyError(f"port {port} of {host} is taken by another program", advice) from error
        if error.errno == errno.EACCES:
            raise ConfigError(f"port {port} is not for this user to listen at", advice) from error
        what = f"{section}.host: this machine cannot listen at {host} ({error.strerror})"
        raise ConfigError(what, "set it to 127.0.0.1") from error
    listener.setblocking(False)  # noqa: FBT003 - socket's own
    return Listener(policy, listener)
