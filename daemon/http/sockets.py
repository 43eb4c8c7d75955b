"""Listener: the Unix socket and the port, bound before anything is served, so that an early client waits.

The Unix socket is created with mode 0600 by a umask, not by a chmod afterwards. Its folder is locked while it is
checked and created, so that of two daemons that start together one sees the other. Its file is removed while the
descriptor is open: until then no other file can have its inode, so a successor's socket is never removed.
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
from daemon.http.access_policy import SOCKET, AccessPolicy, port_policy
from state.errors import BusyError, ConfigError, StorageError
from state.stores.disk.syscalls import storage_errors

_BACKLOG = 256
_CONNECT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class PortKeys:
    """The keys of the configuration that a port comes from, and what its 0 means."""

    host: str = "http.host"
    port: str = "http.port"
    zero: str = "none"

    @property
    def advice(self) -> str:
        """What to do about a port that cannot be had."""
        variable = f"DREAMD_{self.port.upper().replace('.', '__')}"
        return f"set {self.port} ({variable}) to another one, or to 0 for {self.zero}"


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket and its policy. `path` and `inode` are of the Unix socket's file."""

    policy: AccessPolicy
    socket: socket.socket
    path: Path | None = None
    inode: tuple[int, int] = (0, 0)

    @property
    def address(self) -> str:
        """A path, or a URL."""
        if self.path is not None:
            return str(self.path)
        host, port = self.socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def withdraw(self) -> None:
        """Remove the socket's file, if it is still this one; new clients find no daemon."""
        if self.path is None or self.socket.fileno() < 0:
            return
        # Without its folder there is nothing to remove.
        with suppress(OSError), _locked(self.path.parent):
            if _inode(self.path) == self.inode:
                self.path.unlink()

    def close(self) -> None:
        """Withdraw, and stop listening."""
        self.withdraw()
        self.socket.close()


def open_socket(path: Path) -> Listener:
    """Listen at a Unix socket with this path; a missing folder is created.

    The socket of a dead daemon is replaced. Raise BusyError when a daemon answers there, StorageError when something
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
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except PermissionError as error:
            raise StorageError(
                f"{path} is another user's socket", "set DREAMD_SOCKET to a path of your own"
            ) from error
        except OSError as error:  # a stopped or overloaded daemon is alive
            raise BusyError(f"{path}: {_NOT_ALONE}") from error
    raise BusyError(f"{path}: {_NOT_ALONE}")


_NOT_ALONE = "a daemon listens here already; stop that one, or set DREAMD_SOCKET to another path for this one"


def open_port(host: str, port: int, token: str, keys: PortKeys = PortKeys()) -> Listener:
    """Listen at this TCP address; port 0: any that is free. Errors name the keys that it comes from.

    Raise BusyError when another program has it, ConfigError when this machine cannot listen there.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"{keys.host}: {host!r} is no address of this machine ({error})", "set it to 127.0.0.1"
        ) from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - socket's own
        return Listener(port_policy(token), listener)
    except OSError as error:
        listener.close()
        raise _no_port(host, port, keys, error) from error
    except BaseException:
        listener.close()
        raise


def _no_port(host: str, port: int, keys: PortKeys, error: OSError) -> BusyError | ConfigError:
    if error.errno == errno.EADDRINUSE:
        return BusyError(f"port {port} of {host} is taken by another program", keys.advice)
    if error.errno == errno.EACCES:
        return ConfigError(f"port {port} is not for this user to listen at", keys.advice)
    return ConfigError(f"{keys.host}: this machine cannot listen at {host} ({error.strerror})", "set it to 127.0.0.1")


def _inode(path: Path) -> tuple[int, int]:
    """Return device and inode of the file at this path; (0, 0) for none."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock this folder against other processes that create or remove a socket in it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
