"""The client of dreamd for programs: `from dreamd_client import Client`, typed, synchronous, without dependencies.

It asks the running daemon over its Unix socket or its port, and without a daemon runs the program `dreamd`.
"""

from .client import Client, Session
from .errors import DreamdError, LostError, NoDaemonError
from .replies import Bootstrap, Dreamt, Found, Hit, Memory, Note, SessionItem, Status

__all__ = [
    "Bootstrap",
    "Client",
    "DreamdError",
    "Dreamt",
    "Found",
    "Hit",
    "LostError",
    "Memory",
    "NoDaemonError",
    "Note",
    "Session",
    "SessionItem",
    "Status",
]
