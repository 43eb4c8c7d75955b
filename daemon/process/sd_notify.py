"""sd_notify: tells systemd that the daemon is ready, reloading, stopping or alive.

Chosen over a package: the protocol of sd_notify(3) is one `NAME=value` per line, in a datagram to the socket that
NOTIFY_SOCKET names. It never stops the daemon: without a socket it sends nothing, and a failed send returns False. It
opens its socket at the start, so that a daemon without a free descriptor can still report that it is alive.
"""

import os
import socket
from collections.abc import Mapping
from functools import cache

_LONGEST = 1_000
_WAIT_SECONDS = 1.0  # for systemd, while its buffer is full


class Notifier:
    """The connection to systemd given by the variables NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.

    `ping_seconds`: how often to tell WATCHDOG="1"; None: never. `is_heard`: whether systemd listens.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self.is_heard = address[:1] in ("/", "@") and len(address) > 1
        # A leading @ means an abstract socket: the kernel expects NUL in its place.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        if self.is_heard:
            _socket()
        limit = environment.get("WATCHDOG_USEC", "")
        # If it names another process, the variables were inherited from that process.
        is_watched = self.is_heard and environment.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        seconds = int(limit) / 1_000_000 if is_watched and limit.isascii() and limit.isdigit() else 0.0
        self.ping_seconds = seconds / 2 or None  # twice within the limit, as sd_watchdog_enabled(3) advises

    def tell(self, **variables: str | int) -> bool:
        """Set variables of sd_notify(3), each as one line; return whether systemd was reached."""
        # A line break in a value would begin another variable.
        lines = (f"{name}={' '.join(str(value).replace(chr(0), ' ').split())}" for name, value in variables.items())
        content = "\n".join(line[:_LONGEST] for line in lines).encode(errors="replace")
        try:
            return self.is_heard and _socket().sendto(content, self._address) == len(content)
        except OSError:
            return False


@cache
def _socket() -> socket.socket:
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    opened.settimeout(_WAIT_SECONDS)
    return opened
