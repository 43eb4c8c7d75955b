"""Ports of this machine for servers that are killed and come back where they were."""

import os
import random
import socket
from contextlib import suppress

# Below those that the kernel gives to connections: nobody has taken it when the server comes back.
_FIRST, _LAST = 20_000, 31_999


def free_port() -> int:
    """A port of 127.0.0.1 at which nobody listens."""
    chance = random.Random(os.urandom(8))
    while True:
        port = chance.randint(_FIRST, _LAST)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
