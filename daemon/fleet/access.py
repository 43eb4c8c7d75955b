"""Access: one tenant's call on one workspace: what it may, and where it is done.

    note, end of a session ─> inbox (one statement for all that come together)
    everything else ────────> here, where this process holds the workspace or nobody does; else at its holder

A lease moves: a process that says that the workspace is not its own, or that cannot be reached, is passed over, and
the holder is looked up again. What may have been done is never sent a second time.
"""

import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from daemon.api.access import ReplyT
from daemon.api.client import ANSWER_SECONDS, LONG_SECONDS, LostError, NoDaemonError, reply_over
from daemon.api.operations.dreams import Dreamt
from daemon.api.operations.notes import NoteTaken
from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome
from daemon.fleet.arrivals import require_room, require_size
from daemon.fleet.disclosure import told, told_advice, told_value, unknown
from daemon.fleet.held import Held
from daemon.observability import logs
from daemon.service.keeper import DaemonAccess
from daemon.workspace.status import BY_FLEET, NO_DAEMON, Status
from daemon.workspace.stores import utc_now
from state.dream import Reason
from state.errors import (
    ConflictError,
    DreamdError,
    ForbiddenError,
    NotKeptError,
    OverloadedError,
    StoppedError,
    UnknownOutcomeError,
    UnreachableError,
    UsageError,
)
from state.fleet import Place, Right, Token
from state.scratch import Note, admitted
from state.stores.fleet.inbox import Arrival, Arrived
from state.stores.fleet.leases import HeldElsewhereError

if TYPE_CHECKING:
    from daemon.api.operations.operation import AnyOperation, Operation
    from daemon.api.operations.request import Request
    from daemon.fleet.process import FleetProcess

# They show how the operator's machines are set up.
OF_THE_OPERATOR = frozenset({"configuration", "doctor"})
_NOTE, _DREAM, _BOOTSTRAP = "working_memory_note", "dream_now", "memory_bootstrap"
# Beside notes, what makes a workspace larger at its client's will.
_ADDING = frozenset({"working_memory_add", "working_memory_relation_add", "memory_memorize"})
# After these nothing in the store may hold what they took away.
ERASING = frozenset({"forget", "memory_forget", "working_memory_clear_session"})
# Their replies name files.
_NAMING = frozenset({"dream_status", "forget"})
# Longer than a dead holder counts as alive.
PATIENCE_SECONDS = 20.0
_PAUSE_SECONDS = 0.25
_CONNECT_SECONDS = 3.0
# A holder that hangs is no holder after fifteen seconds: who only reads asks again then.
_READ_SECONDS = 16.0
FORWARDED = "Dreamd-Forwarded"
"""The header of a request that another process of the fleet has passed on: it is passed on no further."""


# ------------------------------------------------------------------- a workspace that is held here


@dataclass(slots=True, kw_only=True)
class HeldAccess(DaemonAccess):
    """Implements `WorkspaceAccess` with a held workspace: what is written is committed before it is answered."""

    held: Held
    process: "FleetProcess"

    def run(self, operation: "Operation[..., ReplyT]", request: "Request") -> ReplyT:
        """Run it here, with what waits in the inbox, and return its reply once it is committed."""
        held, whole = self.held, operation.name in ERASING
        held.absorb()
        if operation.reads:
            held.given |= operation.name == _BOOTSTRAP
            return operation.answer(self, request)
        try:
            reply = operation.answer(self, request)
        except Exception as error:
            if held.lost and isinstance(error, UnreachableError):  # of a dream's own commit
                raise _unkept(operation.name, error) from error
            if held.is_changed:  # a word in the ledger, or half of a forgetting
                held.commit_writes(whole=whole)
            raise
        try:
            held.commit_writes(whole=whole)
        except UnreachableError as error:
            raise _unkept(operation.name, error) from error
        return reply

    def dream(self, reason: Reason, mode: Mode) -> Outcome:
        """Dream now, under the ceilings of the schedule's dreams. Raise QuotaError, and what the daemon's raises."""
        if mode is not Mode.DRY:
            self.process.work.require_room(self.held)
        return DaemonAccess.dream(self, reason, mode)

    def dream_soon(self, reason: Reason) -> bool:
        """Have it dreamt by whoever holds it then; the commit of this call makes a session's end durable.

        Raise QuotaError as `dream`; for a session's end the schedule waits until there is room.
        """
        if reason is Reason.SESSION_END:
            self.held.keeper.record_session_end(utc_now())
        else:
            self.process.work.require_room(self.held)
            self.process.queue_dream(self.held, reason)
        return True


def _unkept(operation: str, error: UnreachableError) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"{operation} is done and could not be kept yet ({error.what})",
        "look whether it is there before you send it again",
    )


# ------------------------------------------------------------------- a tenant's call


@dataclass(slots=True)
class TenantAccess:
    """A tenant's call: of `WorkspaceAccess` what a server uses. `is_forwarded`: by another process of the fleet."""

    process: "FleetProcess"
    token: Token
    place: Place
    on_step: Callable[[Step], None]
    is_forwarded: bool = False
    notices: list[str] = field(default_factory=list)

    def run(self, operation: "Operation[..., ReplyT]", request: "Request") -> ReplyT:
        """Run the operation wherever it is done, and return its reply.

        Raise ForbiddenError, QuotaError, ConflictError, what the operation raises, and UnreachableError.
        """
        require_right(self.token, operation)
        try:
            reply: Any = self._done(operation, request)
        except Exception as error:
            if self.is_forwarded and isinstance(error, NotKeptError):
                raise NotKeptError("this is done elsewhere", "try again") from None
            shown = told(error, self.place)
            if shown is error:
                raise
            raise shown from error
        finally:
            self.notices[:] = filter(None, [told_advice(one, self.place) for one in self.notices])
        if isinstance(reply, Status):
            own = reply.spending  # without what others spent on the same machine
            spending = replace(
                own,
                all_tokens=own.tokens,
                all_usd=own.usd,
                all_tokens_per_day=own.tokens_per_day,
                all_usd_per_day=own.usd_per_day,
            )
            upcoming = BY_FLEET if reply.next_dream == NO_DAEMON else reply.next_dream
            reply = replace(reply, workspace=self.place.name, next_dream=upcoming, holder=None, spending=spending)
        return told_value(reply, self.place) if operation.name in _NAMING else reply  # type: ignore[no-any-return]

    def _done(self, operation: "AnyOperation", request: "Request") -> object:
        if operation.name == _NOTE:
            return self._take_note(request)
        if operation.name == _DREAM and request.given["reason"] == "session-end" and not request.given["wait"]:
            if request.given["mode"] is not None:
                raise UsageError("a dream that nobody waits for goes by dream.mode", "name no mode, or wait for it")
            self._arrived("session_end", request.idempotency_key, {})
            return Dreamt(None)
        if operation.name in _ADDING:
            require_size(self.process.places, self.token.tenant, self.place)
        # A name that was remembered may be another workspace by now.
        self.place = self.process.place(self.token, self.place.name, anew=True)
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                with self.process.desk.holding(self.place.id) as held:
                    access = self.process.held_access(held, self.on_step, self.notices)
                    return access.run(operation, request)
            except NotKeptError as other:
                if self.is_forwarded or self.process.desk.closed:
                    raise
                address = other.address if isinstance(other, HeldElsewhereError) else ""
                asked, reply = self._forwarded(address, operation, request) if address else (False, None)
                if asked:
                    return reply
            if time.monotonic() >= until:
                raise UnreachableError(f"no process of the fleet does {operation.name} now", "try again")
            time.sleep(_PAUSE_SECONDS)

    # ------------------------------------------------------------ inbox

    def _take_note(self, request: "Request") -> NoteTaken:
        """Put the note durably into the inbox. Its time is PostgreSQL's, as the log has it."""
        asked = request.given
        given_note = admitted(Note(asked["note"], utc_now(), asked["importance"], replaces=asked["replaces"]))
        require_room(self.process.places, self.process.inbox, self.token.tenant, self.place)
        redaction = self.process.config.redaction
        text, replaces = redaction.of(given_note.text), redaction.of(given_note.replaces)
        body = {"text": text, "importance": given_note.importance, **({"replaces": replaces} if replaces else {})}
        arrived = self._arrived("note", request.idempotency_key, body)
        note = admitted(Note(text, arrived.at, given_note.importance))
        return NoteTaken(note.at, note.importance, note.text, "pending")

    def _arrived(self, kind: str, key: str, body: dict[str, object]) -> Arrived:
        key = key or str(uuid4())
        for _ in range(2):
            arrival = Arrival(self.place.id, self.place.tenant, kind, key, json.dumps(body))
            arrived = self.process.arrivals.put(arrival)
            if arrived is not None:
                break
            # It is gone, and its name may be another workspace's by now.
            self.place = self.process.place(self.token, self.place.name, anew=True)
        else:
            raise unknown(self.place.name)
        if not arrived.same:
            raise ConflictError(
                f"the key {key!r} was sent with another text before", "send another note under a key of its own"
            )
        return arrived

    # ------------------------------------------------------------ the holder

    def _forwarded(self, address: str, operation: "AnyOperation", request: "Request") -> tuple[bool, object]:
        """Have the holder at this address do it, as this tenant; return whether it was done, and the reply.

        Raise what the operation raises, and UnknownOutcomeError when the holder went while it did this.
        """
        seconds = LONG_SECONDS if operation.takes_long(request) else ANSWER_SECONDS
        connection = _Connection(address, _READ_SECONDS if operation.reads else seconds)
        headers = {
            "Authorization": f"Bearer {self.process.bearers.secret_of(self.token)}",
            "Host": "localhost",
            FORWARDED: "1",
        }
        path = f"/v1/workspaces/{self.place.name}"
        try:
            return True, reply_over(connection, path, headers, operation, request, self.on_step, self.notices.append)
        except (NoDaemonError, NotKeptError, OverloadedError, StoppedError, LostError) as error:
            logs.get(workspace=self.place.handle).info("holder_passed_over", error=error)
            begun = isinstance(error, LostError | StoppedError) and not operation.reads
            if begun and isinstance(error, LostError):
                raise UnknownOutcomeError("its holder went while it did this", "look whether it is done") from error
            if begun:
                raise
        except DreamdError as error:
            if error.code != "UNAUTHORIZED":  # else somebody else has had the address since
                raise
        return False, None


class _Connection(http.client.HTTPConnection):
    """To another process. Whatever keeps it from being made, nothing was sent: it is refused."""

    def __init__(self, address: str, seconds: float) -> None:
        parts = urlsplit(address if "//" in address else f"//{address}")
        super().__init__(parts.hostname or "", parts.port, timeout=_CONNECT_SECONDS)
        self._seconds = seconds

    def connect(self) -> None:
        try:
            super().connect()
        except OSError as error:
            raise ConnectionRefusedError(str(error)) from error
        self.sock.settimeout(self._seconds)


# ------------------------------------------------------------------- rights


def require_right(token: Token, operation: "AnyOperation") -> None:
    """Raise ForbiddenError unless the token allows this operation."""
    if operation.name in OF_THE_OPERATOR or not operation.remote:
        raise ForbiddenError(f"{operation.name} is for the operator of the service", "ask them")
    require(token, right_of(operation), operation.name)


def require(token: Token, right: Right, what: str) -> None:
    """Raise ForbiddenError unless the token has this right."""
    if right not in token.rights:
        why = f"this token has not the right {right.value!r}, which {what} needs"
        raise ForbiddenError(why, "ask for one that has it")


def right_of(operation: "AnyOperation") -> Right:
    """Return the right that an operation needs."""
    if operation.reads:
        return Right.READ
    return Right.DREAM if operation.name == _DREAM else Right.WRITE
