"""The table of operations, from which the command line, HTTP and MCP are made."""

from daemon.api.operations.dreams import dream_now, dream_status
from daemon.api.operations.notes import current_mood, feel_event, ingest, working_memory_note
from daemon.api.operations.operation import AnyOperation, Nothing, Operation, Request
from daemon.api.operations.search import memory_bootstrap, memory_search, memory_state, memory_why
from daemon.api.operations.session_items import SESSION_ITEMS
from daemon.api.operations.session_memory import SESSION_MINDS
from daemon.api.operations.upkeep import examine, export_archive, forget_text, repair_workspace
from daemon.api.operations.versions import decide, diff, history, proposals, restore_version

OPERATIONS: dict[str, AnyOperation] = {
    operation.name: operation
    for operation in (
        working_memory_note,
        memory_search,
        memory_bootstrap,
        memory_state,
        memory_why,
        dream_now,
        dream_status,
        examine,
        repair_workspace,
        feel_event,
        current_mood,
        ingest,
        history,
        diff,
        restore_version,
        proposals,
        decide,
        forget_text,
        export_archive,
        *SESSION_ITEMS,
        *SESSION_MINDS,
    )
}

__all__ = ["OPERATIONS", "AnyOperation", "Nothing", "Operation", "Request"]
