"""Operations on one session for those who look at it: its row of the list, and what left it."""

from daemon import sessions
from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import operation
from daemon.api.operations.session_items import InSession, Listed
from daemon.sessions.answers import Memories, SessionSummary


@operation("session_summary", "/sessions/one", method="GET")
def session_summary(access: WorkspaceAccess, request: InSession) -> SessionSummary:
    """Return one session, as the list of sessions has it."""
    with access.read() as store:
        return sessions.session_summary(store, request.session_id)


@operation("session_archive", "/sessions/archive", method="GET")
def session_archive(access: WorkspaceAccess, request: Listed) -> Memories:
    """Return what left a session and can be restored, the latest to come first."""
    with access.read() as store:
        return sessions.archive(store, request.session_id, request.wanted)
