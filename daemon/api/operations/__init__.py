"""Everything that can be asked of a workspace, once: each window (command line, MCP, HTTP) is made of this table."""

from daemon.api.operations.dreams import DREAM, EXAMINE, STATUS
from daemon.api.operations.export import EXPORT
from daemon.api.operations.forget import FORGET
from daemon.api.operations.notes import FEEL, INGEST, MOOD, NOTE
from daemon.api.operations.operation import AnyOperation, Nothing, Operation, Request
from daemon.api.operations.repair import REPAIR
from daemon.api.operations.search import BOOTSTRAP, SEARCH, STATE, WHY
from daemon.api.operations.session_items import SESSION_ITEMS
from daemon.api.operations.session_memory import SESSION_MINDS
from daemon.api.operations.versions import DECIDE, DIFF, HISTORY, PROPOSALS, RESTORE

OPERATIONS: dict[str, AnyOperation] = {
    operation.name: operation
    for operation in (
        NOTE,
        SEARCH,
        BOOTSTRAP,
        STATE,
        WHY,
        DREAM,
        STATUS,
        EXAMINE,
        REPAIR,
        FEEL,
        MOOD,
        INGEST,
        HISTORY,
        DIFF,
        RESTORE,
        PROPOSALS,
        DECIDE,
        FORGET,
        EXPORT,
        *SESSION_ITEMS,
        *SESSION_MINDS,
    )
}

__all__ = ["OPERATIONS", "AnyOperation", "Nothing", "Operation", "Request"]
