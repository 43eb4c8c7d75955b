"""The two sockets, bound and listening before anything is served: a client that comes early waits, and is answered.

The Unix socket is made 0600 at once: a umask, not a chmod afterwards. Its folder is locked while it is looked at and
made, so that of two daemons that start together one sees the other. It is taken away while its descriptor is still
open, as long as that is so, no other file can have its inode, and a successor's socket is not taken for ours.
"""

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from daemon.config.paths import MAX_SOCKET_BYTES, make_private_folder
from daemon.http.access_policy import SOCKET, AccessPolicy, port_door
from state.errors import BusyError, ConfigError, StorageError
from state.stores.disk.syscalls import storage_errors

_BACKLOG = 256
_CONNECT_SECONDS = 2.0
_PORT_ADVICE = "set http.port (DREAMD_HTTP__PORT) to another one, or to 0 for none"


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket, and its door. `path` and `inode` are of the Unix socket's file."""

    door: AccessPolicy
    socket: socket.socket
    path: Path | None = None
    inode: tuple[int, int] = (0, 0)

    @property
    def address(self) -> str:
        """As a person writes it: a path, or an URL."""
        if self.path is not None:
            return str(self.path)
        host, port = self.socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def withdraw(self) -> None:
        """Take the socket's file away, if it is still this one; who comes now finds no daemon."""
        if self.path is None or self.socket.fileno() < 0:
            return
        # Without its folder there is nothing to take away.
        with suppress(OSError), _locked(self.path.parent):
            if _inode(self.path) == self.inode:
                self.path.unlink()

    def close(self) -> None:
        """Withdraw, and hear nobody any more."""
        self.withdraw()
        self.socket.close()


def open_socket(path: Path) -> Listener:
    """The Unix socket at this path, in a folder that is made if it is missing.

    What a dead daemon left is replaced. Raises BusyError when a daemon answers there, StorageError when something
    that is no socket has the name or the folder cannot be used, ConfigError for a path too long for the kernel.
    """
    if len(os.fsencode(path)) > MAX_SOCKET_BYTES:
        raise ConfigError(
            f"{path}: a socket's path may have {MAX_SOCKET_BYTES} bytes", "set DREAMD_SOCKET to a shorter one"
        )
    make_private_folder(path.parent)
    with storage_errors(path), _locked(path.parent):
        _remove_stale(path)
        return _bound(path)


def _bound(path: Path) -> Listener:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(_BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - socket's own
        return Listener(SOCKET, listener, path, _inode(path))
    except BaseException:
        listener.close()
        raise


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise StorageError(f"{path} is no socket, and the daemon listens there", "move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knocking:
        knocking.settimeout(_CONNECT_SECONDS)
        try:
            knocking.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except PermissionError as error:
            raise StorageError(
                f"{path} is another user's socket", "set DREAMD_SOCKET to a path of your own"
            ) from error
        except OSError as error:  # one that is stopped or overrun is alive
            raise BusyError(f"{path}: {_NOT_ALONE}") from error
    raise BusyError(f"{path}: {_NOT_ALONE}")


_NOT_ALONE = "a daemon listens here already; stop that one, or set DREAMD_SOCKET to another path for this one"


def open_port(host: str, port: int, token: str) -> Listener:
    """The TCP socket at this address; port 0: any that is free.

    Raises BusyError when another program has it, ConfigError when this machine cannot listen there.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"http.host: {host!r} is no address of this machine ({error})", "set it to 127.0.0.1"
        ) from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - socket's own
        return Listener(port_door(token), listener)
    except OSError as error:
        listener.close()
        raise _no_port(host, port, error) from error
    except BaseException:
        listener.close()
        raise


def _no_port(host: str, port: int, error: OSError) -> BusyError | ConfigError:
    if error.errno == errno.EADDRINUSE:
        return BusyError(f"port {port} of {host} is taken by another program", _PORT_ADVICE)
    if error.errno == errno.EACCES:
        return ConfigError(f"port {port} is not for this user to listen at", _PORT_ADVICE)
    return ConfigError(f"http.host: this machine cannot listen at {host} ({error.strerror})", "set it to 127.0.0.1")


def _inode(path: Path) -> tuple[int, int]:
    """What file is there; (0, 0) for none."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return 0, 0
    return found.st_dev, found.st_ino


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Among all who make or remove a socket in this folder, one at a time."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
