"""Worker: the process beside the daemon that asks language models, so that litellm's memory goes when it ends.

    daemon: Metered(WorkerModel) ══ a socket for each call ══> worker: LitellmModel, a thread for each call

What is durable (ledger, ceilings, retries) stays with the daemon. The worker is started when a model is first asked,
knows nothing but the calls under way, and may be killed at any moment: that costs a try. It ends when the daemon's
end of the one socket that it inherits closes, however the daemon ended. Keys reach it as they reached the daemon, in
the environment.
"""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from threading import Lock, Thread
from typing import Any, NoReturn

from daemon.models.errors import TransientError, UnusableReplyError, lost_answer
from daemon.models.known import KnownModel, look_up
from daemon.models.litellm_import import load_litellm
from daemon.models.litellm_model import GRACE_SECONDS, LitellmModel
from graphs.ports import Answer, Request
from state.budget import Spend
from state.errors import ModelError, StoppedError

# From the start of the process to litellm's first call, on a busy machine with a cold disk.
_START_SECONDS = 120.0
_END_SECONDS = 2.0
# A question that costs nothing is asked of so many workers.
_TRIES = 3
_CALL = b"."  # to the worker: with it comes the socket of a call
DAEMONS_OWN = ("DREAMD_", "NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_")
"""Beginnings of the variables that no program gets: the daemon's token and settings, and what systemd told it."""


class _EndedError(Exception):
    """The worker ended, or did not answer in time and was killed; `how` in words."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


@dataclass(frozen=True, slots=True)
class _Running:
    process: "subprocess.Popen[bytes]"
    line: socket.socket


def spawned(line: socket.socket) -> "subprocess.Popen[bytes]":
    """Start a worker that serves at this socket, in an interpreter of its own; what it prints goes nowhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DAEMONS_OWN)}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "daemon.models.worker"],  # -P: no module comes from the working directory
        stdin=line.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**kept, "MALLOC_ARENA_MAX": "2"},  # as in the daemon: daemon/service/malloc.py
    )


# ---------------------------------------------------------------- the daemon's side


class ModelWorker:
    """The worker of this process, started when it is first needed. Any thread may call.

    `told` gets the worker's number when it has started, and again with how it ended: "" when it was told to.
    """

    start: Callable[[socket.socket], "subprocess.Popen[bytes]"] = staticmethod(spawned)

    def __init__(self, told: Callable[[int, str | None], None] = lambda _number, _how: None) -> None:
        self._told = told
        self._lock = Lock()
        self._running: _Running | None = None
        self._calls = 0
        self._used_at = 0.0
        self._closed = False
        self.windows: dict[str, int] = {}  # of models: what was answered once

    @property
    def pid(self) -> int | None:
        """The number of its process; None when there is none."""
        running = self._running
        return running.process.pid if running is not None else None

    def begin(self) -> None:
        """Start it, if there is none, so that it is ready when it is asked. What goes wrong is told then."""
        with suppress(_EndedError, StoppedError):
            self._found()

    def rest(self, unused_seconds: float) -> bool:
        """End a worker that was unused for so long. Return whether there was one."""
        with self._lock:
            if self._running is None or self._calls or time.monotonic() - self._used_at < unused_seconds:
                return False
            running, self._running = self._running, None
        self._end(running)
        return True

    def close(self) -> None:
        """End the worker. Calls under way, and all later ones, raise StoppedError."""
        with self._lock:
            running, self._running, self._closed = self._running, None, True
        if running is not None:
            self._end(running)

    def call(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the worker's reply. Raise _EndedError when there is none, and after so many seconds."""
        data = json.dumps(message).encode()
        with self._connected() as (running, line):
            line.settimeout(seconds)
            try:
                line.sendall(data)
                line.shutdown(socket.SHUT_WR)
                reply: dict[str, Any] = json.loads(_read(line))
            except (OSError, ValueError) as error:  # an end in the middle leaves half of a reply, or none
                hangs = isinstance(error, TimeoutError)
                raise self._lost(running, f"did not answer within {seconds:g} s" if hangs else "") from None
        return reply

    @contextmanager
    def _connected(self) -> Iterator[tuple[_Running, socket.socket]]:
        with self._lock:
            self._calls += 1
        try:
            running, line = self._connect()
            with line:
                yield running, line
        finally:
            with self._lock:
                self._calls -= 1
                self._used_at = time.monotonic()

    def _connect(self) -> tuple[_Running, socket.socket]:
        while True:
            running, is_new = self._found()
            ours, theirs = _pair()
            try:
                with theirs:
                    socket.send_fds(running.line, [_CALL], [theirs.fileno()])
            except OSError:  # it has ended since it was last asked
                ours.close()
                lost = self._lost(running)
                if is_new:
                    raise lost from None
            else:
                return running, ours

    def _found(self) -> tuple[_Running, bool]:
        """Return the worker, and whether it was started for this."""
        with self._lock:
            if self._closed:
                raise stopped()
            if self._running is not None:
                return self._running, False
            ours, theirs = _pair(socket.SOCK_SEQPACKET)
            ours.settimeout(_START_SECONDS)
            with theirs:
                try:
                    process = self.start(theirs)
                except OSError as error:
                    ours.close()
                    raise _EndedError(f"cannot be started ({error.strerror})") from None
            running = self._running = _Running(process, ours)
            self._used_at = time.monotonic()
        self._told(process.pid, None)
        return running, True

    def _lost(self, running: _Running, why: str = "") -> _EndedError | StoppedError:
        """Kill this worker, which gave no reply, unless it has ended. Return what to raise."""
        with self._lock:
            if self._closed:
                return stopped()
            is_first = self._running is running
            if is_first:
                self._running = None
        if not why:
            with suppress(subprocess.TimeoutExpired):  # its sockets are closed a moment before it has ended
                running.process.wait(_END_SECONDS)
        running.process.kill()
        status = running.process.wait()
        how = why or _how(status)
        if is_first:
            running.line.close()
            self._told(running.process.pid, how)
        return _EndedError(how)

    def _end(self, running: _Running) -> None:
        status = running.process.poll()
        running.line.close()
        try:
            running.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            running.process.kill()
            running.process.wait()
        self._told(running.process.pid, _how(status) if status is not None else "")


class WorkerModel:
    """`LitellmModel`, in the worker: the same answers, errors and costs.

    A try whose worker ends is a TransientError that may have cost the most a try can: the provider may have answered.
    """

    def __init__(
        self, worker: ModelWorker, name: str, *, api_base: str | None, timeout_seconds: float, max_output_tokens: int
    ) -> None:
        self.name = name
        self._worker = worker
        self._settings: dict[str, Any] = {
            "name": name,
            "api_base": api_base,
            "timeout_seconds": timeout_seconds,
            "max_output_tokens": max_output_tokens,
        }
        # A refused schema is asked for twice, each time up to the limit.
        self._seconds = _START_SECONDS + 2 * (timeout_seconds + GRACE_SECONDS)
        self._last: tuple[Request, Spend] | None = None

    @property
    def context_window(self) -> int:
        """Tokens that the model reads at once."""
        if self.name not in self._worker.windows:
            self._worker.windows[self.name] = int(self._asked("context_window", None))
        return self._worker.windows[self.name]

    def look_up(self) -> KnownModel:
        """Return what litellm knows of it."""
        known = self._asked("look_up", None)
        return KnownModel(known["provider"], tuple(known["missing_keys"]), known["priced"])

    def worst_case(self, request: Request) -> Spend:
        """Return the most that one try may cost."""
        # It is wanted before each try, and once more when the worker has died.
        if self._last is None or self._last[0] is not request:
            self._last = request, Spend(**self._asked("worst_case", request))
        return self._last[1]

    def ask(self, request: Request) -> Answer:
        """Return one answer. Raise what LitellmModel raises, and StoppedError when the daemon ends."""
        worst, began = self.worst_case(request), time.monotonic()
        try:
            reply = self._worker.call(self._message("ask", request), self._seconds)
        except _EndedError as error:
            seconds = time.monotonic() - began
            answer = lost_answer(self.name, worst, self._settings["max_output_tokens"], seconds)
            raise self._transient(error, answer) from None
        self._settings["schema_refused"] = reply.get("schema_refused", False)
        return Answer(**_value(reply))

    def _asked(self, what: str, request: Request | None) -> Any:  # noqa: ANN401 - JSON has no better type
        """Ask what costs nothing, of the next worker when one ends."""
        for left in reversed(range(_TRIES)):
            try:
                return _value(self._worker.call(self._message(what, request), _START_SECONDS))
            except _EndedError as error:
                if not left:
                    raise self._transient(error) from None
        raise AssertionError

    def _message(self, what: str, request: Request | None) -> dict[str, Any]:
        return {"model": self._settings, "what": what, "request": asdict(request) if request else None}

    def _transient(self, error: _EndedError, answer: Answer | None = None) -> TransientError:
        what = f"the process that asks {self.name} {error.how}"
        return TransientError(what, "the kernel's log says whether memory was short.", answer=answer)


def _value(reply: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON has no better type
    """Return the value of a reply, or raise the error that it tells of."""
    if (failure := reply.get("failure")) is None:
        return reply["value"]
    what, advice = failure["what"], failure["advice"]
    answer = Answer(**failure["answer"]) if failure["answer"] else None
    if failure["kind"] == TransientError.__name__:
        raise TransientError(what, advice, retry_after=failure["retry_after"], answer=answer)
    if answer is not None:
        raise UnusableReplyError(what, advice, answer)
    raise ModelError(what, advice)


def _how(status: int) -> str:
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"


def stopped() -> StoppedError:
    """Return what a call raises whose daemon ends."""
    return StoppedError("the daemon stops", "the dream is checkpointed and goes on at the next start")


def _pair(kind: int = socket.SOCK_STREAM) -> tuple[socket.socket, socket.socket]:
    try:
        return socket.socketpair(socket.AF_UNIX, kind)
    except OSError as error:
        raise _EndedError(f"cannot be reached ({error.strerror})") from None


def _read(line: socket.socket) -> bytes:
    return b"".join(iter(lambda: line.recv(65_536), b""))


# ---------------------------------------------------------------- the worker's side


def serve() -> NoReturn:
    """Answer the calls that come over stdin, a socket, until its other end closes."""
    # A terminal and systemd send their signals to all processes of the daemon: it alone decides when to end.
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)
    line = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    loading = Thread(target=_load, daemon=True)
    loading.start()
    while True:
        message, sockets, _, _ = socket.recv_fds(line, len(_CALL), 1)
        if not message:
            os._exit(0)  # also while a call is under way: nobody waits for it
        for number in sockets:
            Thread(target=_answer, args=(socket.socket(fileno=number), loading), daemon=True).start()


def _load() -> None:
    gc.disable()  # a quarter of the import's time is spent on looking through what is there to stay
    with suppress(Exception):  # the first call fails with it once more, and tells
        load_litellm()
    gc.freeze()
    gc.enable()


def _answer(line: socket.socket, loading: Thread) -> None:
    with line, suppress(OSError, ValueError):  # the daemon has given the call up
        message = json.loads(_read(line))
        loading.join()
        line.sendall(json.dumps(_reply(message)).encode())


def _reply(message: dict[str, Any]) -> dict[str, Any]:
    model = LitellmModel(**message["model"])
    request = Request(**message["request"]) if message["request"] else None
    try:
        if message["what"] == "look_up":
            return {"value": asdict(look_up(model.name, model.api_base))}
        if request is None:
            return {"value": model.context_window}
        if message["what"] == "worst_case":
            return {"value": asdict(model.worst_case(request))}
        answer = model.ask(request)
    except ModelError as error:
        return {"failure": _failure(error)}
    # As a daemon without a worker would fail: with the class alone, for the text may quote a key.
    except Exception as error:  # noqa: BLE001
        unknown = ModelError(f"{model.name} could not be asked ({type(error).__name__})", "run 'dreamd doctor'.")
        return {"failure": _failure(unknown)}
    return {"value": asdict(answer), "schema_refused": model.schema_refused}


def _failure(error: ModelError) -> dict[str, Any]:
    answer: Answer | None = getattr(error, "answer", None)
    return {
        "kind": type(error).__name__,
        "what": error.what,
        "advice": error.advice,
        "retry_after": getattr(error, "retry_after", None),
        "answer": asdict(answer) if answer is not None else None,
    }


if __name__ == "__main__":
    serve()
