"""Dream process: a dream with a model is a `dreamd dream` of its own, which is given the lock of the workspace.

    daemon ══ stdin: Handed, one line; its end is the daemon's ══> dreamd dream DIR --lock N
           <═ stdout: Said, a line for each step, each paid call that begins, and the end ═

So litellm and LangGraph, which never leave a process that has imported them, are imported by one that ends. What is
durable is in the workspace: both may be killed at any moment, and the next dream goes on. The kernel's lock lasts as
long as one of both does; the child ends when its parent does. Keys reach it as they reached the daemon, in the
environment.
"""

import os
import selectors
import signal
import sqlite3
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Thread
from typing import IO, NoReturn

from daemon.config.beside import Process, start_beside
from daemon.config.paths import spent_folder
from daemon.config.settings import Config
from daemon.dream.model import Asked, Listener
from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome, dream_now
from daemon.models import headless
from daemon.models.errors import discreet
from daemon.observability import logs
from daemon.observability.failures import failure
from daemon.workspace.stores import Store, follow_clock, open_owned, utc_now
from daemon.workspace.vector_index import Embedding, Index
from state import errors
from state.budget import Spend
from state.codec import decode, encode
from state.dream import Reason
from state.errors import DreamdError, ModelError, StorageError
from state.stores.disk.lock import Lock, Turn, take_over
from state.stores.disk.workspace import Workspace
from state.stores.history.daily_spend import DailySpend

# The parent looks so often whether it has the lock.
_LOOK_SECONDS = 0.25
_END_SECONDS = 2.0
# A process that dies (for want of memory, perhaps) is followed by another one, which goes on with the dream.
_TRIES = 2
# From the first question: what a dream may last, two answers that come late, and the commit.
_COMMIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Handed:
    """What the process is given. `fence`: the lock's number; `turn`: the file that is held during a commit.

    `now` is the parent's time, at this moment of `time.monotonic`: a fleet has a clock of its own.
    """

    workspace: Workspace
    config: Config
    fence: int
    reason: Reason
    mode: Mode
    discreet: bool = False
    turn: Path | None = None
    now: datetime = field(default_factory=utc_now)
    at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class Raised:
    """An error: its class in `state.errors`; empty for a defect, whose frames are `what`; the system's number."""

    kind: str
    what: str
    advice: str = ""
    number: int = 0

    def error(self) -> Exception:
        """Return the error to raise here."""
        if not self.kind:
            return RuntimeError(self.what)
        error: DreamdError = getattr(errors, self.kind)(self.what, self.advice)
        error.__cause__ = OSError(self.number, os.strerror(self.number)) if self.number else None
        return error


@dataclass(frozen=True, slots=True)
class End:
    """How the dream ended: in an outcome, or with a failure; and notices."""

    outcome: Outcome | None
    failure: Raised | None
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """One line of the process.

    `asked`: a call begins; `answered`: it is recorded; `hidden`: what an error said; `unread`: of transcripts.
    """

    step: Step | None = None
    asked: Asked | None = None
    answered: bool = False
    hidden: Raised | None = None
    unread: tuple[str, ...] | None = None
    end: End | None = None


# ---------------------------------------------------------------- the parent


def dream_beside(
    store: Store,
    lock: Lock,
    reason: Reason,
    mode: Mode,
    on_step: Callable[[Step], None],
    *,
    unread: Callable[[tuple[str, ...]], None] = lambda _: None,
    discreetly: bool = False,
) -> Outcome:
    """Dream as `dream_now` does, and raise what it raises, in a process that holds the lock of these stores as well.

    What `on_step` raises ends the process, and the next dream goes on; `unread` is told as by `Listener`.
    `discreetly`: what the model says of itself is in the log alone. Raise ModelError if the process dies, twice.
    """
    turn = store.memory.alone.path if isinstance(store.memory.alone, Turn) else None
    handed = Handed(store.workspace, store.config, lock.fence, reason, mode, discreetly, turn)
    log, how = logs.get(workspace=store.workspace.root.name), ""
    for _ in range(_TRIES):
        try:
            return _Dreaming(store, lock, on_step, unread).run(handed)
        except _DiedError as died:
            how = died.how
            log.warning("dream_process_died", process=died.pid, why=how)
    raise ModelError(f"the process that dreams {how}", "the kernel's log says whether memory was short")


class _DiedError(Exception):
    """The process ended without a word on how its dream did."""

    def __init__(self, pid: int, how: str) -> None:
        super().__init__(how)
        self.pid, self.how = pid, how


class _LateError(ModelError):
    """The dream took too long."""


class _Dreaming:
    """One process, from its start to its end."""

    def __init__(
        self,
        store: Store,
        lock: Lock,
        on_step: Callable[[Step], None],
        unread: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._store, self._lock = store, lock
        self._on_step, self._unread = on_step, unread
        self._asked: Asked | None = None  # a call that has begun, and is not recorded
        self._ends_at = float("inf")

    def run(self, handed: Handed) -> Outcome:
        """Start it, and hear it to its end."""
        process = self._start(handed)
        log = logs.get(workspace=handed.workspace.root.name)
        log.info("dream_process_started", process=process.pid)
        try:
            end = self._hear(process, handed.config)
        except (_DiedError, _LateError):
            self._charge()
            raise
        finally:
            _ended(process)
        for notice in end.notices:
            self._store.notices.add(notice)
        if end.failure is not None:
            if not end.failure.kind:
                log.error("dream_process_failed", frames=end.failure.what)
            raise end.failure.error()
        assert end.outcome is not None
        if self._store.crystals.vectors.waiting()[1]:
            self._store.index.tell(self._store.crystals)
        return end.outcome

    def _start(self, handed: Handed) -> Process:
        with self._lock.shared() as fd:
            words = ["dream", str(handed.workspace.root), "--lock", str(fd)]
            try:
                process = start_beside(words, (fd,))
            except OSError as error:
                raise ModelError(f"no process can be started for the dream ({error.strerror})", "try later") from None
        stdin = _pipe(process.stdin)
        with suppress(BrokenPipeError):  # it has died, which is seen at once
            stdin.write(encode(handed).encode() + b"\n")
            stdin.flush()
        return process

    def _hear(self, process: Process, config: Config) -> End:
        for line in self._lines(process):
            said = decode(Said, line, "the process of a dream")
            if said.step is not None:
                self._on_step(said.step)
            elif said.hidden is not None:
                logs.get().warning("model_failed", error=said.hidden.error())
            elif said.unread is not None:
                self._unread(said.unread)
            elif said.end is not None:
                return said.end
            elif said.asked is not None and self._ends_at == float("inf"):
                calls = 2 * config.model.timeout_seconds
                self._ends_at = time.monotonic() + config.limits.wall_seconds_per_dream + calls + _COMMIT_SECONDS
            self._asked = None if said.answered else said.asked or self._asked
        with suppress(subprocess.TimeoutExpired):  # its pipe is closed a moment before it has ended
            process.wait(_END_SECONDS)
        raise _DiedError(process.pid, _how(process.poll()))

    def _lines(self, process: Process) -> Iterator[bytes]:
        """Yield what it says until it closes its pipe. Raise when the lock is lost, or it takes too long."""
        waiting, stdout = b"", _pipe(process.stdout)
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while True:
                self._store.memory.check()
                if time.monotonic() > self._ends_at:
                    what = "the dream took longer than limits.wall_seconds_per_dream, and was ended"
                    raise _LateError(what, "the next one goes on with it")
                if not selector.select(_LOOK_SECONDS):
                    continue
                if not (read := os.read(stdout.fileno(), 65_536)):
                    return
                *lines, waiting = (waiting + read).split(b"\n")
                yield from lines

    def _charge(self) -> None:
        """Record the call that was under way: its provider may have answered."""
        if (asked := self._asked) is None:
            return
        self._store.ledger.record_call(asked.dream, asked.most, utc_now())
        DailySpend(spent_folder(os.environ)).add(Spend(1, asked.most.tokens, asked.most.usd), utc_now())


def _ended(process: Process) -> None:
    """End it, unless it has ended: it ends by itself, with what it has started, when its stdin does."""
    with suppress(BrokenPipeError):
        _pipe(process.stdin).close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # a disk that hangs keeps it
            process.wait(_END_SECONDS)
    _pipe(process.stdout).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "it is started with pipes"
    return pipe


def _how(status: int | None) -> str:
    if status is None:
        return "closed its pipe"
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"


# ---------------------------------------------------------------- the child


def dream_handed(fd: int) -> int:
    """Dream in the workspace whose lock this inherited descriptor is; the parent says by stdin what, hears how."""
    # A terminal and systemd send their signals to all processes of the daemon: it alone decides when to end.
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)
    wire = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what libraries print is not for the parent
    given = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    line = b""
    while not line.endswith(b"\n"):
        if not (read := os.read(given, 65_536)):
            return 1
        line += read
    handed = decode(Handed, line, "what the process of a dream is given")
    follow_clock(handed.now, handed.at)
    Thread(target=_end_with_parent, args=(given,), daemon=True).start()
    _tell(wire, Said(end=_dreamt(handed, fd, wire)))
    return 0


def _tell(wire: IO[bytes], said: Said) -> None:
    """Say one line to the parent. When it has gone, this process ends."""
    try:
        wire.write(encode(said).encode() + b"\n")
        wire.flush()
    except BrokenPipeError:
        _end_now()


def _end_with_parent(given: int) -> None:
    while os.read(given, 4_096):
        pass
    _end_now()


def _end_now() -> NoReturn:
    headless.end_all()
    os._exit(1)


def _dreamt(handed: Handed, fd: int, wire: IO[bytes]) -> End:
    store: Store | None = None
    outcome: Outcome | None = None
    failed: Raised | None = None
    try:
        lock = take_over(handed.workspace, fd, handed.fence)
        index = Index(handed.workspace, lock.check, Embedding(handed.config.embeddings.model), beside=True)
        store = open_owned(index, handed.config, Turn(handed.turn) if handed.turn is not None else None)
        listener = Listener(
            asked=lambda asked: _tell(wire, Said(asked=asked) if asked else Said(answered=True)),
            unread=lambda unread: _tell(wire, Said(unread=unread)),
            hide=partial(_hidden, wire=wire) if handed.discreet else Listener().hide,
        )
        with closing(store):
            outcome = dream_now(
                store, handed.reason, handed.mode, lambda step: _tell(wire, Said(step=step)), listener
            )
    except Exception as error:  # noqa: BLE001 - the parent raises it
        failed = _failure(error)
    return End(outcome, failed, tuple(store.notices) if store is not None else ())


def _hidden(error: ModelError, wire: IO[bytes]) -> ModelError:
    _tell(wire, Said(hidden=Raised(ModelError.__name__, error.what, error.advice)))
    return discreet(error)


def _failure(error: Exception) -> Raised:
    number = next((one.errno or 0 for one in (error, error.__cause__) if isinstance(one, OSError)), 0)
    if isinstance(error, DreamdError):
        # What this process alone knows the class of is for the parent what that is a kind of.
        kind = next(one.__name__ for one in type(error).__mro__ if getattr(errors, one.__name__, None) is one)
        return Raised(kind, error.what, error.advice, number)
    if isinstance(error, OSError | sqlite3.Error):
        described = failure(error)
        return Raised(StorageError.__name__, described.what, described.advice, number)
    frames = (f"{one.filename}:{one.lineno} {one.name}" for one in traceback.extract_tb(error.__traceback__))
    return Raised("", "; ".join((type(error).__name__, *frames)))
