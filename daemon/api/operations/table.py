"""The table of operations, from which the command line, HTTP and MCP are made."""

from daemon.api.operations import (
    crystals,
    dreams,
    journal,
    memory,
    notes,
    search,
    sessions,
    setup,
    signals,
    upkeep,
)
from daemon.api.operations.operation import AnyOperation, operations_in

_MODULES = (search, notes, crystals, signals, dreams, memory, journal, upkeep, setup, sessions)

OPERATIONS: dict[str, AnyOperation] = {
    operation.name: operation for module in _MODULES for operation in operations_in(vars(module))
}
