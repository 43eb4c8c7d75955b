"""Client: one workspace and its sessions for a program; their methods are operations."""

import http.client
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar
from urllib.parse import urlsplit

from daemon.api import operations
from daemon.api.client import ANSWER_SECONDS, LONG_SECONDS, LostError, NoDaemonError, reply_over
from daemon.api.client import Client as Daemon
from daemon.config.paths import registry_path
from daemon.config.registry import excluded, name_of
from daemon.dream.progress import Step
from daemon.workspace.adoption import find_workspace
from state.errors import OverloadedError, StoppedError, UsageError

if TYPE_CHECKING:
    from daemon.api.operations.operation import AnyOperation, Operation
    from daemon.api.operations.request import Request

P = ParamSpec("P")
ReplyT = TypeVar("ReplyT")

_FIRST_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Method(Generic[P, ReplyT]):
    """A descriptor that makes a method of an operation, with its parameters, and imports it at the first call."""

    operation: "Callable[[], Operation[P, ReplyT]]"

    def __get__(self, caller: "Client | Session", _: "type[Client | Session]") -> Callable[P, ReplyT]:
        """Return a function that calls the operation through the client or session."""

        def call(*args: P.args, **kwargs: P.kwargs) -> ReplyT:
            reply: ReplyT = caller.call(self.operation(), *args, **kwargs)
            return reply

        return call


@dataclass(frozen=True)
class Session:
    """The bounded working memory of one conversation, by its id; `Client.session` opens and closes one.

    Its methods take the operations' parameters without the session's id.
    """

    ask: Callable[..., Any] = field(repr=False)
    id: str

    open = Method(lambda: operations.sessions.open_)
    add = Method(lambda: operations.sessions.memorize)
    context = Method(lambda: operations.sessions.context)
    remember = Method(lambda: operations.sessions.remember)
    recall = Method(lambda: operations.sessions.recall)
    promote = Method(lambda: operations.sessions.promote)
    capacity = Method(lambda: operations.sessions.capacity)
    close = Method(lambda: operations.sessions.close)

    def call(self, operation: "AnyOperation", *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the operation's
        """Return the reply of an operation on this session."""
        return self.ask(operation, self.id, *args, **kwargs)


class Client:
    """One workspace, kept by a running daemon. Threads may share it: each call has a connection of its own.

    Without a daemon every call raises NoDaemonError, which says how to start one. The daemon's errors are raised as
    their own classes (`state.errors`, by `code`).
    """

    def __init__(
        self,
        workspace: str | Path = ".",
        *,
        address: str = "",
        token: str = "",
        timeout_seconds: float | None = None,
        retry_seconds: float = 10.0,
        on_step: Callable[[Step], None] = lambda _: None,
        on_notice: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Reach this folder's workspace over the Unix socket, or one by name or folder at `address` with `token`.

        After `timeout_seconds` of silence the daemon counts as lost (default 30 s, an hour for long operations). For
        `retry_seconds`, a read is retried if the daemon goes meanwhile, and any call if the daemon was too busy to
        begin it. `on_step` gets each step of a dream, `on_notice` messages for a person. Raise UsageError if there
        is no workspace, or the address is invalid.
        """
        if token and not address:
            raise UsageError("a token is for an address", "give the address too, or neither for the Unix socket")
        self._seconds, self._retry_seconds = timeout_seconds, retry_seconds
        self._heard = on_step, on_notice
        self._ask = self._at(address, workspace, token) if address else self._here(workspace)

    note = Method(lambda: operations.notes.working_memory_note)
    search = Method(lambda: operations.search.memory_search)
    bootstrap = Method(lambda: operations.search.memory_bootstrap)
    memory = Method(lambda: operations.memory.memory_state)
    dream = Method(lambda: operations.dreams.dream_now)
    status = Method(lambda: operations.dreams.dream_status)
    feel = Method(lambda: operations.signals.feel_event)
    forget = Method(lambda: operations.upkeep.forget_text)
    sessions = Method(lambda: operations.sessions.session_list)

    @contextmanager
    def session(self, id_: str, policy: str = "bounded", **config: Any) -> Iterator[Session]:  # noqa: ANN401
        """Open a session with this policy (ttl, budget, hybrid, bounded), and close it at the end of the block."""
        session = self.session_at(id_)
        session.open(policy=policy, config=config)
        try:
            yield session
        finally:
            session.close()

    def session_at(self, id_: str) -> Session:
        """Return the session of this id, opened or not; one that was never opened has the policy ttl."""
        return Session(self.call, id_)

    def call(self, operation: "Operation[P, ReplyT]", *args: P.args, **kwargs: P.kwargs) -> ReplyT:
        """Return the reply of any operation (`daemon.api.operations`). Raise what it raises."""
        request = operation.bind(*args, **kwargs)
        deadline, pause = time.monotonic() + self._retry_seconds, _FIRST_PAUSE_SECONDS
        was_lost = False
        while True:
            try:
                reply: ReplyT = self._ask(operation, request)
            except (LostError, StoppedError, OverloadedError, NoDaemonError) as error:
                was_lost = was_lost or isinstance(error, LostError | StoppedError)
                # Either nothing was begun, or repeating a read is harmless.
                is_safe = isinstance(error, OverloadedError) or (was_lost and operation.reads)
                if not is_safe or time.monotonic() + pause > deadline:
                    raise
            else:
                return reply
            time.sleep(pause)
            pause *= 2

    def _here(self, workspace: str | Path) -> "Callable[[AnyOperation, Request], Any]":
        """Return a caller over the socket. It has the daemon keep the workspace, unless its owner ruled that out."""
        root, own = find_workspace(Path(workspace)).root, Daemon.at(os.environ)

        def ask(operation: "AnyOperation", request: "Request") -> Any:  # noqa: ANN401 - the operation's
            register = root not in excluded(registry_path(os.environ))
            return own.call(root, operation, request, *self._heard, register=register, seconds=self._seconds)

        return ask

    def _at(self, address: str, workspace: str | Path, token: str) -> "Callable[[AnyOperation, Request], Any]":
        """Return a caller at an address such as http://127.0.0.1:7349, with TLS for https."""
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{address!r} is no address", "give one such as http://127.0.0.1:7349")
        is_folder = isinstance(workspace, Path) or "/" in workspace
        name = name_of(Path(workspace).expanduser().resolve()) if is_folder else str(workspace)
        if not name:
            raise UsageError("no workspace is named", "give its name, as GET /v1/workspaces lists it, or its folder")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        path = f"{parts.path.rstrip('/')}/v1/workspaces/{name}"
        headers = {"Authorization": f"Bearer {token}"} if token else {}

        def ask(operation: "AnyOperation", request: "Request") -> Any:  # noqa: ANN401 - the operation's
            seconds = self._seconds or (LONG_SECONDS if operation.long else ANSWER_SECONDS)
            connection = kind(parts.hostname or "", parts.port, timeout=seconds)
            return reply_over(connection, path, headers, operation, request, *self._heard)

        return ask
