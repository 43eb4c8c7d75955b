"""The table of operations, from which the command line, HTTP and MCP are made."""

from daemon.api.operations import (
    changes,
    dreams,
    ledger,
    lines,
    notes,
    search,
    session_items,
    session_memory,
    setup,
    upkeep,
    versions,
)
from daemon.api.operations.operation import AnyOperation, operations_in
from daemon.api.tables import crystals, sessions, signals

_MODULES = (
    notes, search, crystals, signals, dreams, ledger, upkeep, setup, versions, changes, lines, session_items,
    session_memory, sessions,
)  # fmt: skip

OPERATIONS: dict[str, AnyOperation] = {
    operation.name: operation for module in _MODULES for operation in operations_in(vars(module))
}
