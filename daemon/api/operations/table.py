"""The table of operations, from which the command line, HTTP and MCP are made."""

from daemon.api.operations import (
    changes,
    dreams,
    ledger,
    lines,
    notes,
    search,
    sessions,
    setup,
    upkeep,
    versions,
)
from daemon.api.operations.operation import AnyOperation, operations_in
from daemon.api.tables import crystals, signals

_MODULES = (
    notes, search, crystals, signals, dreams, ledger, upkeep, setup, versions, changes, lines, sessions,
)  # fmt: skip

OPERATIONS: dict[str, AnyOperation] = {
    operation.name: operation for module in _MODULES for operation in operations_in(vars(module))
}
