"""Dream process: runs a dream with a model in a `dreamd dream` process of its own, which inherits the lock.

    daemon ── Handed ──> dreamd dream DIR --given N ──> steps and calls in the ledger ──> the daemon follows them
       <───────────────────── End ─────────┘

So litellm and LangGraph, which stay in a process once they are imported, are imported by one that ends. All durable
data is in the workspace: either process may be killed at any moment, and the next dream resumes. The kernel keeps the
lock as long as one of the two lives; the child ends with its parent, which closes their pipe. The pipe carries what
no row can: the settings, that there is a step to look at, and the end, told even if state.db is full or the run dry.
Keys of providers are in the child's environment: the daemon's own, or those of the command that asked for the dream.
"""

import os
import signal
import sqlite3
import subprocess
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import NoReturn

from daemon.config.beside import Process, start_beside
from daemon.config.settings import Config
from daemon.dream.model import reveal
from daemon.dream.progress import LOOK_SECONDS, Step, StepRecord, follow
from daemon.dream.run import Mode, Outcome, dream_now
from daemon.models import command
from daemon.models.errors import discreet
from daemon.models.keys import variables_of
from daemon.observability import logs
from daemon.observability.failures import failure
from daemon.workspace.searching import tell
from daemon.workspace.stores import Store, follow_clock, open_owned, utc_now
from daemon.workspace.vector_index import Embedding, Index
from state import errors
from state.dream import Reason
from state.errors import DreamdError, ModelError, StorageError
from state.stores.disk.lock import Lock, Turn, take_over
from state.stores.disk.workspace import Workspace

_END_SECONDS = 2.0
# The steps of a dry dream are in the ledger only while it runs.
_DRY = "dry"
# If a process dies, perhaps out of memory, another one resumes the dream.
_TRIES = 2
# The commit's part of the time limit, which starts with the first question and allows for two late answers.
_COMMIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Handed:
    """The input of the process. `lock` is its descriptor, with the number `fence`; `turn` is held during a commit.

    `now` is the parent's clock at `at` (`time.monotonic`), because a fleet follows a clock of its own.
    """

    workspace: Workspace
    config: Config
    lock: int
    fence: int
    reason: Reason
    mode: Mode
    discreet: bool
    turn: Path | None
    now: datetime = field(default_factory=utc_now)
    at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class End:
    """How the dream ended: its outcome, or an error with the system error that caused it; and its notices.

    `hidden` are errors of the model that only the parent's log may tell.
    """

    outcome: Outcome | None
    error: Exception | None
    cause: OSError | None
    notices: tuple[str, ...]
    hidden: tuple[str, ...]


# ---------------------------------------------------------------- the parent


def dream_beside(
    store: Store,
    lock: Lock,
    reason: Reason,
    mode: Mode,
    on_step: Callable[[Step], None],
    *,
    discreetly: bool = False,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Outcome:
    """Run `dream_now`, with a model in a process that also holds the lock of these stores; raise what it raises.

    An exception from `on_step` ends the process, and the next dream resumes. `discreetly`: errors of the model are
    only logged. `variables` of the environment reach it if its model's provider takes its key from them. Raise
    ModelError if the process dies twice.
    """
    if store.config.model.name is None:
        return dream_now(store, reason, mode, on_step)
    log, how = logs.get(workspace=store.workspace.root.name), ""
    keys = variables_of(store.config.model.name, variables)
    for _ in range(_TRIES):
        try:
            return _Dreaming(store, lock, on_step).run(reason, mode, keys, discreetly=discreetly)
        except _DiedError as died:
            how = died.how
            log.warning("dream_process_died", process=died.pid, why=how)
    raise ModelError(f"the process that dreams {how}", "the kernel's log says whether memory was short")


class _DiedError(Exception):
    """The process ended without saying how its dream ended."""

    def __init__(self, pid: int, how: str) -> None:
        super().__init__(how)
        self.pid, self.how = pid, how


class _Dreaming:
    """One process, from its start to its end."""

    def __init__(self, store: Store, lock: Lock, on_step: Callable[[Step], None]) -> None:
        self._store, self._lock = store, lock
        self._on_step = on_step
        self._ends_at = float("inf")
        self._received: End | None = None

    def run(self, reason: Reason, mode: Mode, keys: Mapping[str, str], *, discreetly: bool) -> Outcome:
        """Start the process and follow it until it ends."""
        log, since = logs.get(workspace=self._store.workspace.root.name), utc_now()
        ours, theirs = Pipe()
        with ours:
            with theirs, self._lock.shared() as fd:
                process = _started(self._store.workspace, theirs, fd, keys)
            log.info("dream_process_started", process=process.pid)
            alone = self._store.memory.alone
            turn = alone.path if isinstance(alone, Turn) else None
            handed = Handed(
                self._store.workspace, self._store.config, fd, self._lock.fence, reason, mode, discreetly, turn
            )
            try:
                with suppress(OSError):  # it has died, which shows at once
                    ours.send(handed)
                follow(self._store.ledger, since, self._report, lambda: self._has_ended(ours))
                if (end := self._received) is None:
                    raise _died(process)
                if mode is Mode.DRY:
                    with suppress(sqlite3.Error):  # the next dry dream may remove them
                        self._store.ledger.remove_steps(_DRY)
            finally:
                _end(process, ours)
        for notice in end.notices:
            self._store.notices.add(notice)
        for hidden in end.hidden:
            log.warning("model_failed", error=hidden)
        if end.error is not None:
            if not isinstance(end.error, DreamdError):
                log.error("dream_process_failed", frames=str(end.error))
            raise end.error from end.cause
        assert end.outcome is not None
        tell(self._store)
        return end.outcome

    def _has_ended(self, wire: Connection) -> bool:
        """Wait for a step, or a moment; return whether it ended. Raise if the lock is lost or the time is up."""
        self._store.memory.check()
        if time.monotonic() > self._ends_at:
            what = "the dream took longer than limits.wall_seconds_per_dream, and was ended"
            raise ModelError(what, "the next one goes on with it")
        if not wire.poll(LOOK_SECONDS):
            return False
        try:
            self._received = wire.recv()
        except (EOFError, OSError):  # it died
            return True
        return self._received is not None

    def _report(self, step: Step) -> None:
        if step.node == "gather":  # the first question is next
            config = self._store.config
            calls = 2 * config.model.timeout_seconds
            ends_at = time.monotonic() + config.limits.wall_seconds_per_dream + calls + _COMMIT_SECONDS
            self._ends_at = min(self._ends_at, ends_at)
        self._on_step(step)


def _started(workspace: Workspace, wire: Connection, lock: int, keys: Mapping[str, str]) -> Process:
    words = ["dream", str(workspace.root), "--given", str(wire.fileno())]
    try:
        return start_beside(words, (wire.fileno(), lock), variables=keys)
    except OSError as error:
        raise ModelError(f"no process can be started for the dream ({error.strerror})", "try later") from None


def _died(process: Process) -> _DiedError:
    with suppress(subprocess.TimeoutExpired):  # its pipe closes a moment before it ends
        process.wait(_END_SECONDS)
    status, how = process.poll(), "closed its pipe"
    if status is not None:
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return _DiedError(process.pid, how)


def _end(process: Process, wire: Connection) -> None:
    """Close the pipe, which makes the process end itself and its children; kill it if it does not."""
    wire.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # a hanging disk may keep it
            process.wait(_END_SECONDS)


# ---------------------------------------------------------------- the child


def dream_given(fd: int) -> int:
    """Run the dream that the parent describes over this inherited descriptor, and tell its end over the same."""
    # Terminals and systemd signal every process of the daemon; the daemon alone decides when this one ends.
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)
    wire = Connection(fd)
    try:
        handed: Handed = wire.recv()
    except EOFError:
        return 1
    follow_clock(handed.now, handed.at)
    Thread(target=_end_with_parent, args=(wire,), daemon=True).start()
    _send(wire, _run_dream(handed, wire))
    return 0


def _send(wire: Connection, news: End | None) -> None:
    """Tell the parent the end, or None: that the ledger has a new step. End this process if the parent is gone."""
    try:
        wire.send(news)
    except BrokenPipeError:
        _end_now()


def _end_with_parent(wire: Connection) -> None:
    with suppress(EOFError, OSError):
        wire.recv()
    _end_now()


def _end_now() -> NoReturn:
    command.end_all()
    os._exit(1)


def _run_dream(handed: Handed, wire: Connection) -> End:
    store: Store | None = None
    outcome: Outcome | None = None
    failed: tuple[Exception | None, OSError | None] = None, None
    hidden = list[str]()

    def hide(error: ModelError) -> ModelError:
        hidden.append(str(error))
        return discreet(error)

    try:
        lock = take_over(handed.workspace, handed.lock, handed.fence)
        index = Index(handed.workspace, lock.check, Embedding(handed.config.embeddings.model), beside=True)
        store = open_owned(index, handed.config, Turn(handed.turn) if handed.turn is not None else None)
        with closing(store):
            steps = StepRecord(store.ledger, _DRY, lambda _: _send(wire, None), utc_now)
            on_step = steps if handed.mode is Mode.DRY else lambda _: _send(wire, None)  # others record theirs
            outcome = dream_now(store, handed.reason, handed.mode, on_step, hide if handed.discreet else reveal)
    except Exception as error:  # noqa: BLE001 - the parent raises it
        failed = _error_to_send(error)
    return End(outcome, *failed, tuple(store.notices) if store is not None else (), tuple(hidden))


def _error_to_send(error: Exception) -> tuple[Exception, OSError | None]:
    """Return the error for the parent to raise, and the system error that caused it; of a defect, its frames."""
    cause = next((one for one in (error, error.__cause__) if isinstance(one, OSError) and one.errno), None)
    system = OSError(cause.errno, cause.strerror) if cause is not None else None
    if isinstance(error, DreamdError):
        # The parent only knows the classes in state.errors, so use the nearest base class there.
        kind = next(one for one in type(error).__mro__ if getattr(errors, one.__name__, None) is one)
        return kind(error.what, error.advice), system
    if isinstance(error, OSError | sqlite3.Error):
        described = failure(error)
        return StorageError(described.what, described.advice), system
    frames = (f"{one.filename}:{one.lineno} {one.name}" for one in traceback.extract_tb(error.__traceback__))
    return RuntimeError("; ".join((type(error).__name__, *frames))), None
