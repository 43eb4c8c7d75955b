"""Local ports for servers that are killed and restarted at the same port."""

import os
import random
import socket
from contextlib import suppress

# Below the kernel's ephemeral ports, so that no connection takes the port before the server restarts.
_FIRST, _LAST = 20_000, 31_999


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    chance = random.Random(os.urandom(8))
    while True:
        port = chance.randint(_FIRST, _LAST)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
