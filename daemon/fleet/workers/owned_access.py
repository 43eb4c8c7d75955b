"""OwnedAccess: one call on a workspace that this worker owns. What it writes is committed before it is answered."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.api.access import ReplyT
from daemon.dream.run import Mode, Outcome
from daemon.fleet.workers.owned import Owned
from daemon.service.keeper_access import DaemonAccess
from daemon.workspace.stores import utc_now
from state.dream import Reason
from state.errors import UnknownOutcomeError, UnreachableError

if TYPE_CHECKING:
    from daemon.api.operations.operation import Operation
    from daemon.api.operations.request import Request

# After these nothing in the store may hold what they took away.
ERASING = frozenset({"forget", "memory_forget", "working_memory_clear_session"})


@dataclass(slots=True, kw_only=True)
class OwnedAccess(DaemonAccess):
    """Implements `WorkspaceAccess` with an owned workspace; `queue` has somebody dream it soon.

    `require_room` counts a dream, or raises QuotaError when its tenant may have none now.
    """

    owned: Owned
    queue: Callable[[Owned, Reason], None]
    require_room: Callable[[Owned], None]

    def run(self, operation: "Operation[..., ReplyT]", request: "Request") -> ReplyT:
        """Run it here, with what waits in the inbox, and return its reply once it is committed."""
        self.owned.absorb()
        if operation.reads:
            return operation.answer(self, request)
        try:
            reply = operation.answer(self, request)
        except Exception as error:
            if self.owned.lost and isinstance(error, UnreachableError):  # of a dream's own commit
                raise _unknown(operation.name, error) from error
            if self.owned.is_changed:  # a word in the ledger, or half of a forgetting
                self.owned.commit_writes(whole=operation.name in ERASING)
            raise
        try:
            self.owned.commit_writes(whole=operation.name in ERASING)
        except UnreachableError as error:
            raise _unknown(operation.name, error) from error
        return reply

    def dream(self, reason: Reason, mode: Mode) -> Outcome:
        """Dream now, under the ceilings of the schedule's dreams. Raise QuotaError, and what the daemon's raises."""
        if mode is not Mode.DRY:
            self.require_room(self.owned)
        return DaemonAccess.dream(self, reason, mode)

    def dream_soon(self, reason: Reason) -> bool:
        """Have it dreamt by whoever owns it then; the commit of this call makes a session's end durable.

        Raise QuotaError as `dream`; for a session's end the schedule waits until there is room.
        """
        if reason is Reason.SESSION_END:
            self.owned.keeper.record_session_end(utc_now())
        else:
            self.require_room(self.owned)
            self.queue(self.owned, reason)
        return True


def _unknown(operation: str, error: UnreachableError) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"{operation} is done and could not be kept yet ({error.what})",
        "look whether it is there before you send it again",
    )
