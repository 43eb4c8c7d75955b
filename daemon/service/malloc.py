"""malloc: returns the daemon's freed memory to the system.

glibc gives each thread an arena of its own and keeps freed memory in it: after dreams in several threads the daemon
would hold tens of megabytes for nothing. With another C library both functions do nothing.
"""

import ctypes
from functools import cache

_M_ARENA_MAX = -8  # of <malloc.h>
_ARENAS = 2


@cache
def _libc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "malloc_trim") and hasattr(libc, "mallopt") else None


def share_arenas() -> None:
    """Have threads that start from now on share two arenas."""
    if (libc := _libc()) is not None:
        libc.mallopt(_M_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Return freed memory to the system; tens of milliseconds in which no thread can allocate."""
    if (libc := _libc()) is not None:
        libc.malloc_trim(0)
