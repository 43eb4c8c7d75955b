"""Client: one workspace and its sessions for a program; most methods are one operation of dreamd's each."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from . import doors, replies
from .errors import DreamdError, LostError, NoDaemonError, usage_error
from .replies import Bootstrap, Dreamt, Found, Memory, Note, Status

ReplyT = TypeVar("ReplyT")

ANSWER_SECONDS, LONG_SECONDS = 30.0, 3_600.0
_FIRST_PAUSE_SECONDS = 0.05
# Nothing was begun by a daemon that does not keep the workspace (now); the program knows what to do.
_NOT_HERE = ("UNREACHABLE", "UNKNOWN_WORKSPACE", "NOT_KEPT")
_LOST = ("UNKNOWN_OUTCOME", "STOPPED")


@dataclass(frozen=True)
class Session:
    """The bounded working memory of one conversation, by its id; `Client.session` opens and closes one."""

    client: "Client" = field(repr=False)
    id: str

    def open(self, policy: str = "bounded", **config: Any) -> None:
        """Open the session with a policy (ttl, budget, hybrid, bounded) and its settings."""
        self._ask("session_open", policy=policy, config=config)

    def add(
        self, content: str, *, importance: float | None = None, tags: Sequence[str] = (), **more: Any
    ) -> replies.Memorized:
        """Take an item in; `more` are the other fields of memory_memorize, such as `priority` and `metadata`."""
        done = self._ask("memory_memorize", content=content, importance=importance, tags=list(tags), **more)
        return _value(replies.Memorized, done)

    def context(
        self, max_tokens: int | None = None, strategy: Literal["recent", "important", "balanced"] = "balanced"
    ) -> replies.Context:
        """Return the working memory as text for a prompt."""
        done = self._ask("memory_context", reads=True, max_tokens=max_tokens, strategy=strategy)
        return _value(replies.Context, done)

    def remember(self, prompt: str = "", *, limit: int | None = None, **more: Any) -> replies.Memories:
        """Return the items that have words of the prompt; all of them without one."""
        return _value(replies.Memories, self._ask("memory_remember", reads=True, prompt=prompt, limit=limit, **more))

    def recall(self, query: str = "", *, limit: int | None = None) -> replies.Memories:
        """Return items that left the session."""
        return _value(replies.Memories, self._ask("memory_recall", query=query, limit=limit))

    def promote(self, memory_id: str) -> replies.LongTerm:
        """Make an item a part of the long-term memory."""
        return _value(replies.LongTerm, self._ask("working_memory_promote", memory_id=memory_id))

    def capacity(self) -> replies.Capacity:
        """Return what fits into the session, and what is left."""
        return _value(replies.Capacity, self._ask("memory_capacity", reads=True))

    def close(self) -> None:
        """Close the session; its items can be recalled."""
        self._ask("session_close")

    def _ask(self, operation: str, *, reads: bool = False, **fields: Any) -> Any:
        return self.client.ask(operation, {"session_id": self.id, **fields}, reads=reads)


class Client:
    """One workspace. Threads may share a client: each call has a connection of its own.

    Every method raises DreamdError: the daemon's own by `code`, NoDaemonError if nobody answers, and LostError if the
    daemon went while it worked.
    """

    def __init__(
        self,
        workspace: str | Path = ".",
        *,
        address: str = "",
        token: str = "",
        program: str | Sequence[str] = "dreamd",
        timeout_seconds: float | None = None,
        retry_seconds: float = 10.0,
        on_step: Callable[[str, str], None] = lambda *_: None,
        on_notice: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Use the workspace of this folder: of its repository, or the nearest one at or above it.

        The daemon is asked at its socket; where none runs, or it does not keep the workspace, `program` is run. With
        an `address` such as http://127.0.0.1:7349 and a `token`, `workspace` is the name that GET /v1/workspaces
        lists, and the daemon there is asked alone.

        After `timeout_seconds` of silence the daemon counts as lost (default 30 s, an hour for a dream). For
        `retry_seconds` a read is asked again if the daemon went meanwhile, and any call if it was too busy to begin.
        `on_step` gets each step of a dream with its figures, `on_notice` messages for a person.
        """
        self._program = (program,) if isinstance(program, str) else tuple(program)
        self._seconds, self._retry_seconds = timeout_seconds, retry_seconds
        self._on_step, self._on_notice = on_step, on_notice
        self._folder, self._address = Path(workspace).expanduser().absolute(), urlsplit(address)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._place = ""  # the path of the workspace, once it is known
        if address:
            if self._address.scheme not in ("http", "https") or not self._address.hostname:
                raise usage_error(f"{address!r} is no address", "give one such as http://127.0.0.1:7349")
            if not str(workspace) or "/" in str(workspace) or str(workspace) == ".":
                raise usage_error("no workspace is named", "give its name, as GET /v1/workspaces lists it")
            self._place = f"{self._address.path.rstrip('/')}/v1/workspaces/{workspace}"
        elif token:
            raise usage_error("a token is for an address", "give the address too, or neither for the Unix socket")
        elif not self._folder.is_dir():
            raise usage_error(f"{self._folder} is no folder", "name the folder of a project")

    def note(self, text: str, *, importance: float = 0.5, replaces: str = "") -> Note:
        """Remember something beyond this session; durable when it returns, and the next search finds it.

        `importance`: 0.9 a must, 0.5 usual, 0.2 passing. `replaces`: what the note replaces, a line or memory by its
        id or words.
        """
        return _value(Note, self.ask(doors.NOTE, {"note": text, "importance": importance, "replaces": replaces}))

    def search(self, query: str, *, limit: int = 8, **more: Any) -> Found:
        """Search the long-term memory; `more` are the other fields of memory_search, such as `since` and `all`."""
        return _value(Found, self.ask("memory_search", {"query": query, "limit": limit, **more}, reads=True))

    def bootstrap(self, context_window: int | None = None, *, agent: str = "") -> Bootstrap:
        """Return what an agent reads at the start of a session, for a model of so many tokens."""
        fields = {"context_window": context_window, "agent": agent}
        return _value(Bootstrap, self.ask("memory_bootstrap", fields, reads=True))

    def memory(self) -> Memory:
        """Return MEMORY.md as it stands."""
        return _value(Memory, self.ask("memory_state", {}, reads=True))

    def why(self, text: str) -> tuple[replies.Line, ...]:
        """Return where a line of MEMORY.md comes from, by its words or its id."""
        return _value(replies.Lines, self.ask("memory_why", {"text": text}, reads=True)).lines

    def dream(
        self, reason: Literal["manual", "session-end"] = "manual", *, wait: bool = True, dry: bool = False
    ) -> Dreamt:
        """Fold new notes into MEMORY.md, which may take minutes. `wait=False` leaves it to the daemon.

        Without a daemon the dream is dreamt in this call. With nothing new, NOTHING_TO_DO is raised.
        """
        fields = {"reason": reason, "wait": wait, "mode": "dry" if dry else None}
        return _value(Dreamt, self.ask("dream_now", fields, seconds=LONG_SECONDS))

    def status(self) -> Status:
        """Return the last and the next dream, pending notes, and problems."""
        return _value(Status, self.ask("dream_status", {}, reads=True))

    def feel(self, event: str, because: str = "") -> None:
        """Say that something mattered: reward, error, social, achievement or urgency."""
        self.ask("feel", {"event": event, "because": because})

    def forget(self, text: str, *, dry_run: bool = False, confirm: bool = False) -> dict[str, Any]:
        """Erase a text everywhere and return the receipt. It cannot be undone: `confirm` it, or look by `dry_run`."""
        fields = {"text": text, "dry_run": dry_run, "confirm": confirm}
        receipt: dict[str, Any] = self.ask("forget", fields, seconds=LONG_SECONDS)
        return receipt

    def sessions(self) -> tuple[replies.SessionSummary, ...]:
        """Return the sessions that have a working memory."""
        return _value(replies.SessionList, self.ask("session_list", {}, reads=True)).sessions

    @contextmanager
    def session(self, id_: str, policy: str = "bounded", **config: Any) -> Iterator[Session]:
        """Open a session with this policy and its settings, and close it at the end of the block."""
        session = self.session_at(id_)
        session.open(policy, **config)
        try:
            yield session
        finally:
            session.close()

    def session_at(self, id_: str) -> Session:
        """Return the session of this id, opened or not; one that was never opened has the policy ttl."""
        return Session(self, id_)

    def call(self, operation: str, /, **fields: Any) -> Any:
        """Return the reply of any operation of /v1/openapi.json, as JSON."""
        return self.ask(operation, fields, seconds=LONG_SECONDS)

    def ask(
        self, operation: str, fields: Mapping[str, Any], *, reads: bool = False, seconds: float = ANSWER_SECONDS
    ) -> Any:
        """Return the reply as JSON; fields of None are not sent. `reads`: it may be asked again if lost."""
        given = {name: value for name, value in fields.items() if value is not None}
        deadline, pause, was_lost = time.monotonic() + self._retry_seconds, _FIRST_PAUSE_SECONDS, False
        while True:
            try:
                return self._reply(self._at_door(operation, given, self._seconds or seconds))
            except DreamdError as error:
                was_lost = was_lost or error.code in _LOST
                is_passing = error.code in (*_LOST, "UNREACHABLE")
                # Either nothing was begun, or repeating a read is harmless.
                is_safe = error.code == "OVERLOADED" or (was_lost and reads and is_passing)
                if not is_safe or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause *= 2

    def _reply(self, lines: doors.Lines) -> Any:
        reply: list[Any] = []
        for line in lines:
            if "step" in line:
                self._on_step(str(line["step"]["node"]), str(line["step"]["figures"]))
            elif "notice" in line:
                self._on_notice(str(line["notice"]))
            elif "reply" in line:
                reply.append(line["reply"])
        if not reply:
            raise LostError("the answer ended before its reply", "see 'dreamd status', and try again")
        return reply[0]

    def _at_door(self, operation: str, fields: Mapping[str, Any], seconds: float) -> doors.Lines:
        """Yield the daemon's answer, or the program's where the daemon has begun nothing."""
        try:
            path = self._place or self._find()
            yield from doors.over_http(self._connection(seconds), f"{path}/{operation}", fields, self._headers)
        except DreamdError as error:
            if self._address.netloc or error.code not in _NOT_HERE:
                raise
        else:
            return
        self._place = ""
        yield from doors.by_program(self._program, self._folder, operation, fields)

    def _find(self) -> str:
        """Have the daemon find the workspace, and return its path.

        Raise NoDaemonError if it cannot: the program says why, or makes one.
        """
        lines = doors.over_http(self._connection(ANSWER_SECONDS), "/v1/find", {"folder": str(self._folder)}, {})
        try:
            found = self._reply(lines)
        except DreamdError as error:  # also of a frozen daemon: nothing was begun
            raise NoDaemonError(error.what) from error
        self._place = f"/v1/workspaces/{found['name']}"
        return self._place

    def _connection(self, seconds: float) -> "doors.HTTPConnection":
        if not self._address.netloc:
            return doors.connected(doors.socket_path(os.environ), seconds)
        from http.client import HTTPConnection, HTTPSConnection

        kind = HTTPSConnection if self._address.scheme == "https" else HTTPConnection
        return kind(self._address.hostname or "", self._address.port, timeout=seconds)


def _value(kind: type[ReplyT], reply: Any) -> ReplyT:
    """Return the reply as a value of this class. Raise DreamdError if it is none."""
    try:
        value: ReplyT = replies.decode(kind, reply)
    except (TypeError, ValueError, AttributeError) as error:
        raise DreamdError(
            f"the answer is no {kind.__name__}: {error}", "have dreamd and dreamd-client of one version"
        ) from error
    return value
