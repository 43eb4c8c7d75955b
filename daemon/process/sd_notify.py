"""sd_notify: tells systemd that the daemon is ready, reloading, stopping or alive.

Chosen over a package: the protocol of sd_notify(3) is one `NAME=value` a line, in a datagram to the socket that
NOTIFY_SOCKET names. It never stops the daemon: without a socket nothing is sent, and a send that fails returns False.
Its own socket is opened at the start, so that a daemon without a free descriptor can still say that it is alive.
"""

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

_LONGEST_STATUS = 1_000
_WAIT_SECONDS = 1.0  # for systemd, while its buffer is full


@dataclass(frozen=True, slots=True)
class Notifier:
    """systemd's socket (None: there is none), and after how long a silent daemon is killed (None: never).

    Each method returns whether systemd was reached.
    """

    address: str | None = None
    watchdog_seconds: float | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Notifier":
        """Read what systemd asked of this process: NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID."""
        address = environment.get("NOTIFY_SOCKET", "")
        if address[:1] not in ("/", "@") or len(address) < 2:
            return cls()
        with suppress(OSError):
            _socket()
        return cls(address, _watchdog(environment))

    @property
    def ping_seconds(self) -> float | None:
        """How often `watchdog` is to be called: twice within the limit, as sd_watchdog_enabled(3) advises."""
        return self.watchdog_seconds / 2 if self.watchdog_seconds else None

    def ready(self, status: str = "") -> bool:
        """Tell that start-up, or a reload, is done."""
        return self._send("READY=1", *([_status(status)] if status else []))

    def status(self, text: str) -> bool:
        """Show one line in `systemctl status`."""
        return self._send(_status(text))

    def reloading(self) -> bool:
        """Tell that a reload has begun; `ready` ends it."""
        return self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str = "") -> bool:
        """Tell that the daemon ends."""
        return self._send("STOPPING=1", *([_status(status)] if status else []))

    def watchdog(self) -> bool:
        """Tell that the daemon is alive."""
        return self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> bool:
        if self.address is None:
            return False
        # A name that begins with @ is an abstract one: the kernel has NUL in its place.
        name = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        content = "\n".join(lines).encode(errors="replace")
        try:
            return _socket().sendto(content, name) == len(content)
        except OSError:
            return False


@cache
def _socket() -> socket.socket:
    """Return this process's socket to send through."""
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    opened.settimeout(_WAIT_SECONDS)
    return opened


def _watchdog(environment: Mapping[str, str]) -> float | None:
    pid, microseconds = environment.get("WATCHDOG_PID", ""), environment.get("WATCHDOG_USEC", "")
    if pid and pid != str(os.getpid()):  # it was inherited from a process that is watched
        return None
    is_number = microseconds.isascii() and microseconds.isdigit() and int(microseconds) > 0
    return int(microseconds) / 1_000_000 if is_number else None


def _status(text: str) -> str:
    # A line end would begin a second variable.
    return "STATUS=" + " ".join(text.replace("\0", " ").split())[:_LONGEST_STATUS]
