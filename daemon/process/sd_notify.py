"""sd_notify: tells systemd that the daemon is ready, reloading, stopping or alive.

Chosen over a package: the protocol of sd_notify(3) is one `NAME=value` a line, in a datagram to the socket that
NOTIFY_SOCKET names. It never stops the daemon: without a socket nothing is sent, and a send that fails returns False.
Its own socket is opened at the start, so that a daemon without a free descriptor can still say that it is alive.
"""

import os
import socket
import time
from collections.abc import Mapping
from functools import cache

_LONGEST_STATUS = 1_000
_WAIT_SECONDS = 1.0  # for systemd, while its buffer is full


class Notifier:
    """systemd, by these variables of the environment. Each method returns whether it was reached.

    `ping_seconds`: how often `watchdog` is to be called; None: never. `is_heard`: whether there is anybody to tell.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Read what systemd asked of this process: NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID."""
        address = environment.get("NOTIFY_SOCKET", "")
        self.is_heard = address[:1] in ("/", "@") and len(address) > 1
        # A name that begins with @ is an abstract one: the kernel has NUL in its place.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        if self.is_heard:
            _socket()
        limit = environment.get("WATCHDOG_USEC", "")
        # Another process's number was inherited from a process that is watched.
        is_watched = self.is_heard and environment.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        seconds = int(limit) / 1_000_000 if is_watched and limit.isascii() and limit.isdigit() else 0.0
        self.ping_seconds = seconds / 2 or None  # twice within the limit, as sd_watchdog_enabled(3) advises

    def ready(self, status: str) -> bool:
        """Tell that start-up, or a reload, is done."""
        return self._send("READY=1", _status(status))

    def status(self, text: str) -> bool:
        """Show one line in `systemctl status`."""
        return self._send(_status(text))

    def reloading(self) -> bool:
        """Tell that a reload has begun; `ready` ends it."""
        return self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str) -> bool:
        """Tell that the daemon ends."""
        return self._send("STOPPING=1", _status(status))

    def watchdog(self) -> bool:
        """Tell that the daemon is alive."""
        return self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> bool:
        content = "\n".join(lines).encode(errors="replace")
        try:
            return self.is_heard and _socket().sendto(content, self._address) == len(content)
        except OSError:
            return False


@cache
def _socket() -> socket.socket:
    """Return this process's socket to send through."""
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    opened.settimeout(_WAIT_SECONDS)
    return opened


def _status(text: str) -> str:
    # A line end would begin a second variable.
    return "STATUS=" + " ".join(text.replace("\0", " ").split())[:_LONGEST_STATUS]
