"""Everything that can be asked of a workspace, once: each window (command line, MCP, HTTP) is made of this table."""

from daemon.operations.dreams import DREAM, EXAMINE, STATUS
from daemon.operations.export import EXPORT
from daemon.operations.forget import FORGET
from daemon.operations.notes import FEEL, INGEST, MOOD, NOTE
from daemon.operations.operation import AnyOperation, Nothing, Operation, Request
from daemon.operations.recalling import BOOTSTRAP, SEARCH, STATE, WHY
from daemon.operations.repair import REPAIR
from daemon.operations.session_items import SESSION_ITEMS
from daemon.operations.session_minds import SESSION_MINDS
from daemon.operations.versions import DECIDE, DIFF, HISTORY, PROPOSALS, RESTORE

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
