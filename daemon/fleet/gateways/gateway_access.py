"""GatewayAccess: one tenant's call on one workspace: what it may, and where it is done.

note, end of a session ─> inbox (one statement for all that come together)
bootstrap, MEMORY.md ───> replica, whoever owns the workspace
other reading ──────────> its owner; without one, or while that is silent, a replica
everything else ────────> its owner, or a worker that takes it
"""

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from daemon.api.access import LocalAccess, ReplyT
from daemon.api.operations.dreams import Dreamt
from daemon.api.operations.notes import NoteTaken
from daemon.api.operations.search import bootstrap_reply, given, given_receipt
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.fleet.gateways.disclosure import told, told_advice, told_value
from daemon.fleet.gateways.names import unknown
from daemon.workspace.status import BY_FLEET, NO_DAEMON, Spending, Status
from daemon.workspace.stores import utc_now
from state.errors import BusyError, ConflictError, ForbiddenError, UnreachableError, UsageError
from state.fleet.tenant import Right, Token
from state.scratch import Note, admitted
from state.stores.fleet.inbox import Arrival, Arrived
from state.stores.history.bootstraps import receipt_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from daemon.api.access import LockedWorkspace
    from daemon.api.operations.operation import AnyOperation, Operation
    from daemon.api.operations.request import Request
    from daemon.dream.run import Mode, Outcome
    from daemon.fleet.gateways.gateway import Parts
    from daemon.fleet.gateways.replicas import Replica
    from daemon.workspace.status import ServiceStatus
    from daemon.workspace.stores import Store
    from state.dream import Reason
    from state.fleet.workspace import Place
    from state.stores.disk.workspace import Workspace

# They show how the operator's machines are set up.
OF_THE_OPERATOR = frozenset({"configuration", "recipes", "doctor"})
_NOTE, _DREAM, _SEARCH, _BOOTSTRAP = "working_memory_note", "dream_now", "memory_search", "memory_bootstrap"
_FROM_REPLICAS = frozenset({_BOOTSTRAP, "memory_state"})
# Beside notes, what makes a workspace larger at its client's will.
_ADDING = frozenset({"working_memory_add", "working_memory_relation_add", "memory_memorize"})
# Their replies name files.
_NAMING = frozenset({"dream_status", "examine", "forget"})
# How long a reader waits for one that a killed gateway left the lock to.
_LOCK_SECONDS = 5.0


@dataclass(slots=True)
class GatewayAccess:
    """Implements `WorkspaceAccess`: everything is done by `run`."""

    parts: "Parts"
    token: Token
    place: "Place"
    on_step: Callable[[Step], None]
    notices: list[str] = field(default_factory=list)

    def run(self, operation: "Operation[..., ReplyT]", request: "Request") -> ReplyT:
        """Run the operation wherever it is done, and return its reply.

        Raise ForbiddenError, QuotaError, ConflictError, what the operation raises, and UnreachableError.
        """
        require_right(self.token, operation)
        try:
            reply: Any = self._done(operation, request)
        except Exception as error:
            shown = told(error, self.place)
            if shown is error:
                raise
            raise shown from error
        finally:
            self.notices[:] = filter(None, [told_advice(one, self.place) for one in self.notices])
        if isinstance(reply, Status):
            reply = replace(
                reply,
                workspace=self.place.name,
                next_dream=BY_FLEET if reply.next_dream == NO_DAEMON else reply.next_dream,
                holder=None,
                spending=_own(reply.spending),
            )
        return told_value(reply, self.place) if operation.name in _NAMING else reply  # type: ignore[no-any-return]

    def _done(self, operation: "AnyOperation", request: "Request") -> object:
        if operation.name == _NOTE:
            return self._take_note(request)
        if operation.name == _DREAM and _is_session_end(request.given):
            return self._end_session(request)
        if operation.reads and not operation.long:
            return self._read(operation, request)
        return self._ask(operation, request)

    # ------------------------------------------------------------ inbox

    def _take_note(self, request: "Request") -> NoteTaken:
        """Put the note durably into the inbox. Its time is PostgreSQL's, as the log has it."""
        asked = request.given
        given_note = admitted(Note(asked["note"], utc_now(), asked["importance"], replaces=asked["replaces"]))
        self.parts.quotas.require_room(self.token.tenant, self.place)
        redaction = self.parts.config().secrets.redaction
        text, replaces = redaction.of(given_note.text), redaction.of(given_note.replaces)
        body = {"text": text, "importance": given_note.importance, **({"replaces": replaces} if replaces else {})}
        arrived = self._arrived("note", request.idempotency_key, body)
        self.parts.quotas.count(self.token.tenant)
        note = admitted(Note(text, arrived.at, given_note.importance))
        return NoteTaken(note.at, note.importance, note.text, "pending")

    def _end_session(self, request: "Request") -> Dreamt:
        if request.given["mode"] is not None:
            raise UsageError("a dream that nobody waits for goes by dream.mode", "name no mode, or wait for it")
        self._arrived("session_end", request.idempotency_key, {})
        return Dreamt(None)

    def _arrived(self, kind: str, key: str, body: dict[str, object]) -> Arrived:
        arrived = self.parts.arrivals.put(self._arrival(kind, key, json.dumps(body)))
        if arrived is None:  # it is gone, and its name may be another workspace's by now
            self.parts.forget_place(self.place)
            self.place = self.parts.place(self.token, self.place.name)
            arrived = self.parts.arrivals.put(self._arrival(kind, key, json.dumps(body)))
        if arrived is None:
            raise unknown(self.place.name)
        if not arrived.same:
            raise ConflictError(
                f"the key {key!r} was sent with another text before", "send another note under a key of its own"
            )
        return arrived

    def _arrival(self, kind: str, key: str, body: str) -> Arrival:
        return Arrival(self.place.id, self.place.tenant, kind, key or str(uuid4()), body)

    # ------------------------------------------------------------ reading

    def _read(self, operation: "AnyOperation", request: "Request") -> object:
        standing = self.parts.standings.find(self.place.tenant, self.place.name)
        if standing.owner is not None and operation.name not in _FROM_REPLICAS:
            try:
                return self.parts.reading.ask(
                    standing.place, standing.owner, operation, request, self.on_step, self._notice
                )
            except UnreachableError:
                standing = self.parts.standings.find(self.place.tenant, self.place.name)
        # It is searched as by its owner, who takes pending notes in.
        alone = operation.name == _SEARCH
        with self.parts.replicas.open(standing) as replica, replica.alone if alone else nullcontext():
            return self._read_replica(replica, operation, request)

    def _read_replica(self, replica: "Replica", operation: "AnyOperation", request: "Request") -> object:
        config, embedding = self.parts.config(), self.parts.embedding
        access = LocalAccess(
            replica.workspace, config, "dreamd gateway", embedding=embedding, wait_seconds=_LOCK_SECONDS
        )
        try:
            with access:
                if operation.name == _BOOTSTRAP:
                    return self._bootstrap(access, **request.given)
                return access.run(operation, request)
        finally:
            self.notices += access.notices

    def _bootstrap(self, access: LocalAccess, context_window: int | None, receipt: str, agent: str) -> object:
        """Return what an agent reads at session start. Its receipt is as durable as a note."""
        ready = given(access, context_window)
        written = given_receipt(access, ready, context_window, receipt, agent)
        if written is not None:
            try:
                body = json.dumps({"line": receipt_text(written)})
                self.parts.arrivals.put(self._arrival("receipt", "", body))
            except UnreachableError:  # the agent gets its memory all the same
                self.notices.append("that this was given is not noted")
        return bootstrap_reply(ready)

    # ------------------------------------------------------------ the owner

    def _ask(self, operation: "AnyOperation", request: "Request") -> object:
        if operation.name in _ADDING:
            self.parts.quotas.require_size(self.token.tenant, self.place)
        # A name that was remembered may be another workspace by now.
        standing = self.parts.standings.find(self.place.tenant, self.place.name)
        return self.parts.calls.ask(standing.place, standing.owner, operation, request, self.on_step, self._notice)

    def _notice(self, text: str) -> None:
        self.notices.append(text)

    # ------------------------------------------------------------ what a gateway has not

    @property
    def config(self) -> Config:
        """The gateway's."""
        return self.parts.config()

    @property
    def workspace(self) -> "Workspace":
        """Not here: a workspace is a folder of its owner's."""
        _refuse()

    def read(self) -> "AbstractContextManager[Store]":
        """Raise BusyError."""
        _refuse()

    def write(self) -> "AbstractContextManager[Store]":
        """Raise BusyError."""
        _refuse()

    def exclusive(self, *, wait: bool = False) -> "AbstractContextManager[Store]":  # noqa: ARG002
        """Raise BusyError."""
        _refuse()

    def offline(self) -> "AbstractContextManager[LockedWorkspace]":
        """Raise BusyError."""
        _refuse()

    def dream(self, reason: "Reason", mode: "Mode") -> "Outcome":  # noqa: ARG002
        """Raise BusyError."""
        _refuse()

    def dream_soon(self, reason: "Reason") -> bool:  # noqa: ARG002
        """Raise BusyError."""
        _refuse()

    def service(self) -> "ServiceStatus | None":
        """Return None: the fleet's workers are its service."""
        return None

    def report(self, step: Step) -> None:
        """Pass the step on to the client."""
        self.on_step(step)

    def mark_changed(self) -> None:
        """Do nothing: its owner knows."""


def require_right(token: Token, operation: "AnyOperation") -> None:
    """Raise ForbiddenError unless the token allows this operation."""
    if operation.name in OF_THE_OPERATOR or not operation.remote:
        raise ForbiddenError(f"{operation.name} is for the operator of the service", "ask them")
    require(token, right_of(operation), operation.name)


def require(token: Token, right: Right, what: str) -> None:
    """Raise ForbiddenError unless the token has this right."""
    if right not in token.rights:
        raise ForbiddenError(
            f"this token has not the right {right.value!r}, which {what} needs", "ask for one that has it"
        )


def right_of(operation: "AnyOperation") -> Right:
    """Return the right that an operation needs."""
    if operation.reads:
        return Right.READ
    return Right.DREAM if operation.name == _DREAM else Right.WRITE


def _own(spending: Spending) -> Spending:
    """Return what was spent, without what others spent on the same machine."""
    return replace(
        spending,
        all_tokens=spending.tokens,
        all_usd=spending.usd,
        all_tokens_per_day=spending.tokens_per_day,
        all_usd_per_day=spending.usd_per_day,
    )


def _is_session_end(given: Mapping[str, Any]) -> bool:
    return given["reason"] == "session-end" and not given["wait"]


def _refuse() -> NoReturn:
    raise BusyError("a gateway has no folder of this workspace", "its owner does it")
