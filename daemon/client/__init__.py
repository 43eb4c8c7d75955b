"""The client for programs: `from daemon.client import Client`, typed, synchronous, over the socket or the port.

Requests and replies are the values of the operations (`daemon.api.operations`), errors those of `state.errors`. An
operation's imports happen at its first call, and never include a model, an index or a database.
"""

from daemon.api.client import LostError, NoDaemonError
from daemon.client.client import Client, Session
from state.errors import DreamdError

__all__ = ["Client", "DreamdError", "LostError", "NoDaemonError", "Session"]
