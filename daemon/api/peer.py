"""Peer of a connection: which user of this machine is at the other end, and whether a client may trust that user.

While no daemon runs, the folder of its socket may be missing, and another user could create it and listen there. So a
client asks the kernel who listens before it sends anything.
"""

import errno
import os
import socket
import struct
import sys
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from state.errors import StorageError
from state.stores.disk.syscalls import is_linux

# Key in the state of a request at a Unix socket: the uid at the other end.
PEER = "dreamd.peer"
_ROOT = 0
_WRITABLE_BY_OTHERS = 0o022
_NOBODY = -1
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid: struct ucred of unix(7)
# unix(4) of macOS: level SOL_LOCAL, option LOCAL_PEERCRED, and the version and uid that begin the 76 bytes of xucred.
_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES, _XUCRED = 0, 1, 76, struct.Struct("2I")
_SAYS_NOTHING = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOPROTOOPT)


def user_of(connection: socket.socket) -> int | None:
    """Return the uid at the other end, according to the kernel; None for TCP, -1 for an end that has gone."""
    if connection.family != socket.AF_UNIX:
        return None
    if sys.platform == "linux" and is_linux():
        said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(said)[1])
    try:
        return int(_XUCRED.unpack_from(connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES))[1])
    except OSError as error:
        if error.errno not in _SAYS_NOTHING:
            return _NOBODY
        # Another kernel: the socket's file has mode 600, and whoever listens there has made it.
        return Path(connection.getpeername() or connection.getsockname()).stat().st_uid


def user_of_address(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Return the uid of the program on this machine that is the client of this TCP connection.

    None if that is unknown: for a client on another machine or network, one that has closed its end, and on macOS.
    """
    if not is_linux():
        return None
    ends = [(_as_ipv6(host), port) for host, port in (client, server)]
    ports = [f":{port:04X}" for _, port in ends]
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError), open(table, encoding="ascii") as rows:  # noqa: PTH123 - no file of ours
            next(rows, "")
            for row in rows:
                near, far, user, inode = (field := row.split())[1], field[2], field[7], field[9]
                if [near[-5:], far[-5:]] == ports and [_end(near), _end(far)] == ends and inode != "0":
                    return int(user)
    return None


def _end(text: str) -> tuple[IPv6Address, int]:
    """Parse an address and port from /proc/net, which prints words in the machine's byte order, in hexadecimal."""
    host, _, port = text.partition(":")
    words = struct.unpack(f">{len(host) // 8}I", bytes.fromhex(host))
    return _as_ipv6(str(ip_address(struct.pack(f"={len(words)}I", *words)))), int(port, 16)


def _as_ipv6(host: str) -> IPv6Address:
    """Return the address in IPv6 form, as a client may have an IPv6 socket for an IPv4 address."""
    return IPv6Address(f"::ffff:{host}" if "." in host and ":" not in host else host)


def require_trusted(connection: socket.socket, path: Path, *, named: bool) -> None:
    """Raise StorageError unless the listener at this path is root's or this user's, or a service that root installed.

    Root trusts another account's service if `named` (DREAMD_SOCKET names the socket) and only root can have created
    the folder that it listens in.
    """
    listener, own = user_of(connection), os.geteuid()
    if listener in (_ROOT, own) or (own == _ROOT and named and _was_placed_by_root(path, listener)):
        return
    raise StorageError(
        f"{path}: user {listener} listens there, not you (user {own}), so nothing was sent",
        "remove that socket and its folder, or set DREAMD_SOCKET to the path of your own daemon",
    )


def _was_placed_by_root(path: Path, listener: int | None) -> bool:
    """Return whether only root can have created the folder of this path."""
    folder = path.parent.resolve()
    status = folder.stat()
    if status.st_uid not in (_ROOT, listener) or status.st_mode & _WRITABLE_BY_OTHERS:
        return False
    above = [one.stat() for one in folder.parents]
    return all(one.st_uid == _ROOT and not one.st_mode & _WRITABLE_BY_OTHERS for one in above)
