"""Access: one tenant's call on one workspace: whether it is allowed, and which process runs it.

    note, end of a session ─> inbox (one statement for all that arrive together)
    everything else ────────> this process if it holds the workspace or nobody does, else the holder

A lease moves: a process that does not hold the workspace, or cannot be reached, is passed over, and the holder is
looked up again. A call that may already have run is never sent a second time.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from socket import create_connection, socket
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit
from uuid import uuid4

from daemon.api.access import ReplyT, WorkspaceAccess
from daemon.api.client import ANSWER_SECONDS, LONG_SECONDS, LostError, NoDaemonError, reply_over
from daemon.api.daemon import DaemonInfo, DaemonStatus
from daemon.api.operations.dreams import Dreamt
from daemon.api.operations.notes import NoteTaken
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome
from daemon.engine.access import HeldAccess
from daemon.fleet.arrivals import require_room, require_size
from daemon.fleet.bearers import SEPARATOR, handle_parts
from daemon.fleet.disclosure import error_for_tenant, notices_for_tenant, unknown, value_for_tenant
from daemon.fleet.leased import Leased, config_for
from daemon.fleet.process import FleetProcess
from daemon.observability import logs
from daemon.observability.metrics import Metrics
from daemon.workspace.status import BY_FLEET, NO_DAEMON, ServiceStatus, Status
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
from state.stores.generations.guard import StoreAwayError

if TYPE_CHECKING:
    from daemon.api.operations.operation import AnyOperation, Operation
    from daemon.api.operations.request import Request

_NOTE, _DREAM, _BOOTSTRAP = "working_memory_note", "dream_now", "memory_bootstrap"
# Longer than a dead holder still counts as alive (15 s).
PATIENCE_SECONDS = 20.0
_PAUSE_SECONDS = 0.25
_CONNECT_SECONDS = 3.0
# A holder that hangs loses its workspaces after 15 s; a read is then tried again.
_READ_SECONDS = 16.0
FORWARDED = "Dreamd-Forwarded"
"""The header of a request that another process of the fleet forwarded: it is not forwarded again."""


# ------------------------------------------------------------------- a workspace that this process holds


@dataclass(slots=True)
class LeasedAccess(HeldAccess):
    """A call on a workspace that this process holds: every write is committed before the reply is sent."""

    held: Leased
    process: FleetProcess

    def run(self, operation: "Operation[..., ReplyT]", request: "Request") -> ReplyT:
        """Take in the inbox, run the operation here, and return its reply once its writes are committed."""
        held, whole = self.held, operation.erases
        if not operation.reads:  # it could not be kept
            held.require_store()
        held.absorb()
        if operation.reads:
            held.given |= operation.name == _BOOTSTRAP
            return operation.answer(self, request)
        try:
            reply = operation.answer(self, request)
        except Exception as error:
            # A dream's own commit found the store away, or the workspace lost.
            if isinstance(error, StoreAwayError) or (held.lost and isinstance(error, UnreachableError)):
                raise _unkept(operation.name, error) from error
            if held.is_changed:  # for example an entry in the ledger, or half an erasure
                held.commit_writes(whole=whole)
            raise
        try:
            held.commit_writes(whole=whole)
        except UnreachableError as error:
            raise _unkept(operation.name, error) from error
        return reply

    def dream_now(self, reason: Reason, mode: Mode) -> Outcome:
        """Dream, under the same ceilings as scheduled dreams. Raise QuotaError, and as `Work.dream`."""
        return self.process.work.dream(self.held, reason, mode, self.report)

    def dream_soon(self, reason: Reason) -> bool:
        """Queue a dream for whichever process holds the workspace then; this call's commit keeps a session's end.

        Raise QuotaError as `dream` does, but not at a session's end: then the schedule waits until quotas allow it.
        """
        if reason is Reason.SESSION_END:
            self.held.record_session_end(utc_now())
        else:
            self.held.reserve()
            self.process.queue_dream(self.held, reason)
        return True

    def service(self) -> ServiceStatus:
        """Return the process's part of the status."""
        return self.held.status(0, self.process.since, BY_FLEET)


def _unkept(operation: str, error: UnreachableError) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"{operation} is done and could not be kept yet ({error.what})",
        "look whether it is there before you send it again",
    )


# ------------------------------------------------------------------- a tenant's call


@dataclass(slots=True)
class TenantAccess:
    """A tenant's call: the part of `WorkspaceAccess` that servers use.

    `is_forwarded`: another process of the fleet sent it.
    """

    process: FleetProcess
    token: Token
    place: Place
    on_step: Callable[[Step], None]
    is_forwarded: bool = False
    notices: list[str] = field(default_factory=list)

    @property
    def config(self) -> Config:
        """Return the fleet's configuration, with the workspace's own time zone."""
        return config_for(self.place, self.process.config)

    def run(self, operation: "Operation[..., ReplyT]", request: "Request") -> ReplyT:
        """Run the operation here or at the workspace's holder, and return its reply.

        Raise ForbiddenError, QuotaError, ConflictError, what the operation raises, and UnreachableError.
        """
        require_allowed(self.token, operation)
        try:
            reply: Any = self._run_anywhere(operation, request)
        except Exception as error:
            if self.is_forwarded and isinstance(error, NotKeptError):
                raise NotKeptError("this is done elsewhere", "try again") from None
            shown = error_for_tenant(error, self.place)
            if shown is error:
                raise
            raise shown from error
        finally:
            self.notices[:] = notices_for_tenant(self.notices, self.place)
        if isinstance(reply, Status):
            own = reply.spending  # hide what others spent on the same machine
            spending = replace(
                own,
                all_tokens=own.tokens,
                all_usd=own.usd,
                all_tokens_per_day=own.tokens_per_day,
                all_usd_per_day=own.usd_per_day,
            )
            upcoming = BY_FLEET if reply.next_dream == NO_DAEMON else reply.next_dream
            name = self.place.name
            reply = replace(reply, workspace=name, next_dream=upcoming, holder=None, spending=spending, model=None)
        return value_for_tenant(reply, self.place) if operation.names_files else reply  # type: ignore[no-any-return]

    def _run_anywhere(self, operation: "AnyOperation", request: "Request") -> object:
        if operation.name == _NOTE:
            return self._take_note(request)
        if operation.name == _DREAM and request.given["reason"] == "session-end" and not request.given["wait"]:
            if request.given["mode"] is not None:
                raise UsageError("a dream that nobody waits for shows nothing", "name no mode, or wait for it")
            self._put_into_inbox("session_end", request.idempotency_key, {})
            return Dreamt(None)
        if operation.adds:
            require_size(self.process.places, self.token.tenant, self.place)
        # The remembered name may belong to another workspace by now.
        self.place = self.process.place(self.token, self.place.name, anew=True)
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                with self.process.desk.holding(self.place.id) as held:
                    held.place = self.place  # its time zone may have been changed
                    access = LeasedAccess(held, held.config, self.on_step, self.process, notices=self.notices)
                    return access.run(operation, request)
            except NotKeptError as other:
                if self.is_forwarded or self.process.desk.closed:
                    raise
                address = other.address if isinstance(other, HeldElsewhereError) else ""
                is_done, reply = self._forward(address, operation, request) if address else (False, None)
                if is_done:
                    return reply
            if time.monotonic() >= until:
                raise UnreachableError(f"no process of the fleet does {operation.name} now", "try again")
            time.sleep(_PAUSE_SECONDS)

    # ------------------------------------------------------------ inbox

    def _take_note(self, request: "Request") -> NoteTaken:
        """Put the note durably into the inbox. Its time is PostgreSQL's, the one that the note keeps."""
        asked = request.given
        given_note = admitted(Note(asked["note"], utc_now(), asked["importance"], replaces=asked["replaces"]))
        require_room(self.process.places, self.process.inbox, self.token.tenant, self.place)
        redaction = self.process.config.redaction
        text, replaces = redaction.of(given_note.text), redaction.of(given_note.replaces)
        body = {"text": text, "importance": given_note.importance, **({"replaces": replaces} if replaces else {})}
        arrived = self._put_into_inbox("note", request.idempotency_key, body)
        note = admitted(Note(text, arrived.at, given_note.importance))
        return NoteTaken(note.at, note.importance, note.text, "pending")

    def _put_into_inbox(self, kind: str, key: str, body: dict[str, object]) -> Arrived:
        key = key or str(uuid4())
        for _ in range(2):
            arrival = Arrival(self.place.id, self.place.tenant, kind, key, json.dumps(body))
            arrived = self.process.arrivals.put(arrival)
            if arrived is not None:
                break
            # The workspace is gone, and another one may have its name by now.
            self.place = self.process.place(self.token, self.place.name, anew=True)
        else:
            raise unknown(self.place.name)
        if not arrived.same:
            raise ConflictError(
                f"the key {key!r} was sent with another text before", "send another note under a key of its own"
            )
        return arrived

    # ------------------------------------------------------------ the holder

    def _forward(self, address: str, operation: "AnyOperation", request: "Request") -> tuple[bool, object]:
        """Send the operation, with the tenant's token, to the holder; return whether it ran, and its reply.

        Raise what the operation raises, and UnknownOutcomeError if the holder died while running it.
        """
        seconds = LONG_SECONDS if operation.takes_long(request) else ANSWER_SECONDS
        headers = {
            "Authorization": f"Bearer {self.process.bearers.secret_of(self.token)}",
            "Host": "localhost",
            FORWARDED: "1",
        }
        path = f"/v1/workspaces/{self.place.name}"
        try:
            connection = _connected(address, _READ_SECONDS if operation.reads else seconds)
            return True, reply_over(connection, path, headers, operation, request, self.on_step, self.notices.append)
        except (NoDaemonError, NotKeptError, OverloadedError, StoppedError, LostError) as error:
            logs.get(workspace=self.place.handle).info("holder_passed_over", error=error)
            begun = isinstance(error, LostError | StoppedError) and not operation.reads
            if begun and isinstance(error, LostError):
                raise UnknownOutcomeError("its holder went while it did this", "look whether it is done") from error
            if begun:
                raise
        except DreamdError as error:
            if error.code != "UNAUTHORIZED":  # else another program has the address by now
                raise
        return False, None


def _connected(address: str, seconds: float) -> socket:
    """Connect to another process. Raise NoDaemonError if that fails, as nothing was sent."""
    parts = urlsplit(address if "//" in address else f"//{address}")
    try:
        connection = create_connection((parts.hostname or "", parts.port or 80), _CONNECT_SECONDS)
    except OSError as error:
        raise NoDaemonError(f"{address} does not answer ({error})") from error
    connection.settimeout(seconds)
    return connection


# ------------------------------------------------------------------- the process, as its port sees it


class FleetApi:
    """A process of the fleet as the `DaemonApi` of its port. Any thread may call.

    A workspace is opened by its handle, which only the doors of this process create.
    """

    def __init__(self, process: FleetProcess) -> None:
        self._process = process
        self.unready_reason = process.unready_reason

    @property
    def config(self) -> Config:
        """Return the configuration, which stays while the process runs."""
        return self._process.config

    @property
    def metrics(self) -> Metrics:
        """Return the figures of the process and of the fleet."""
        return self._process.metrics

    def info(self) -> DaemonInfo:
        """Describe the process, without workspaces: tenants list their own."""
        return DaemonInfo(version("dreamd"), 0, self._process.since, utc_now(), "", "", 0, 0, (), ())

    def status(self) -> DaemonStatus:
        """Return the status of the process, without workspaces."""
        return DaemonStatus(self.info(), ())

    def register(self, root: Path) -> str:  # noqa: ARG002 - as the daemon's
        """Raise UsageError, as a fleet registers no folders."""
        raise UsageError("a fleet has no folders", "make a workspace with POST /v1/workspaces")

    def unregister(self, name: str) -> None:
        """Raise UsageError, as a fleet's workspaces are removed over HTTP."""
        raise UsageError(f"{handle_parts(name)[1]!r} is not unregistered here", "DELETE /v1/workspaces/NAME does it")

    def reload(self) -> None:
        """Raise UsageError, as a fleet's process reads its configuration once."""
        raise UsageError("a fleet's process reads its configuration when it starts", "restart it")

    def meant(self, given: str) -> str:
        """Return the handle given in an MCP path if its token reaches the workspace.

        Raise UsageError if it names none, and NotFoundError.
        """
        token, name, _ = self._bearer(given)
        if not name:
            raise UsageError("which workspace is meant?", "ask at /mcp/NAME; GET /v1/workspaces lists yours")
        self._process.place(token, name)
        return given

    def owner_of(self, name: str) -> str:
        """Return the id of the tenant of this handle; a tenant may use only its share of the threads."""
        token = self._process.bearers.known(handle_parts(name)[0])
        return str(token.tenant.id) if token is not None else ""

    def pulse(self, name: str) -> str:
        """Return the same at every call, as no page of a fleet waits for changes."""
        return name.partition(SEPARATOR)[2]

    @contextmanager
    def open(self, name: str, on_step: Callable[[Step], None]) -> Iterator[WorkspaceAccess]:
        """Open an access to the workspace of this handle. Raise NotFoundError."""
        token, own, is_forwarded = self._bearer(name)
        access = TenantAccess(self._process, token, self._process.place(token, own), on_step, is_forwarded)
        # Servers use only `run`, `config` and `notices` of an access, so a tenant's has nothing else.
        yield cast("WorkspaceAccess", access)

    def _bearer(self, given: str) -> tuple[Token, str, bool]:
        identity, name, is_forwarded = handle_parts(given)
        token = self._process.bearers.known(identity)
        if token is None:
            raise unknown(name)
        return token, name, is_forwarded


# ------------------------------------------------------------------- rights


def require_allowed(token: Token, operation: "AnyOperation") -> None:
    """Raise ForbiddenError unless the token allows this operation."""
    if operation.operator or not operation.remote:
        raise ForbiddenError(f"{operation.name} is for the operator of the service", "ask them")
    require_right(token, right_of(operation), operation.name)


def require_right(token: Token, right: Right, what: str) -> None:
    """Raise ForbiddenError unless the token has this right."""
    if right not in token.rights:
        why = f"this token has not the right {right.value!r}, which {what} needs"
        raise ForbiddenError(why, "ask for one that has it")


def right_of(operation: "AnyOperation") -> Right:
    """Return the right that an operation needs."""
    if operation.reads:
        return Right.READ
    return Right.DREAM if operation.name == _DREAM else Right.WRITE
