"""The table of operations, from which the command line, HTTP and MCP are made."""

from daemon.api.operations import (
    changes,
    dreams,
    ledger,
    notes,
    search,
    session_items,
    session_memory,
    setup,
    upkeep,
    versions,
)
from daemon.api.operations.operation import AnyOperation, operations_in

OPERATIONS: dict[str, AnyOperation] = {
    operation.name: operation
    for module in (notes, search, dreams, ledger, upkeep, setup, versions, changes, session_items, session_memory)
    for operation in operations_in(vars(module))
}
