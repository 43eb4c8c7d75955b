"""Worker calls: an operation that is done by the worker that owns the workspace, or by one that takes it.

A lease moves: a worker that says that the workspace is not its own, or that cannot be reached, is asked no more, and
the owner is looked up again. What may have been done is never sent a second time.
"""

import hashlib
import http.client
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import UUID

from daemon.api.client import ANSWER_SECONDS, LONG_SECONDS, LostError, NoDaemonError, reply_over
from daemon.dream.progress import Step
from daemon.observability import logs
from state.errors import (
    DreamdError,
    NotKeptError,
    OverloadedError,
    StoppedError,
    UnknownOutcomeError,
    UnknownWorkspaceError,
    UnreachableError,
)
from state.fleet.workspace import Place, Worker

if TYPE_CHECKING:
    from daemon.api.access import ReplyT
    from daemon.api.operations.operation import Operation
    from daemon.api.operations.request import Request

# Longer than a dead owner counts as alive.
PATIENCE_SECONDS = 20.0
_PAUSE_SECONDS = 0.25
_CONNECT_SECONDS = 3.0
_REFUSED = "UNAUTHORIZED"


class WorkerCalls:
    """Calls of workers. `owner_of` looks up the living owner of a workspace, `workers` who else could be asked."""

    def __init__(
        self,
        owner_of: Callable[[Place], Worker | None],
        workers: Callable[[], Sequence[Worker]],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._owner_of = owner_of
        self._workers = workers
        self._patience = patience_seconds

    def ask(
        self,
        place: Place,
        owner: Worker | None,
        operation: "Operation[..., ReplyT]",
        request: "Request",
        on_step: Callable[[Step], None],
        on_notice: Callable[[str], None],
    ) -> "ReplyT":
        """Return the reply of the `owner`, as it was known last, or of whoever owns the workspace by then.

        Raise what the operation raises, and UnreachableError when nobody did it in time, or nobody knows.
        """
        until = time.monotonic() + self._patience
        silent = set[UUID]()
        while True:
            worker = owner or chosen(place, self._workers(), silent)
            if worker is not None:
                try:
                    return self._reply(worker, place, operation, request, on_step, on_notice)
                except (NoDaemonError, NotKeptError, UnknownWorkspaceError, OverloadedError, StoppedError) as error:
                    _log(place, worker, error)
                    if isinstance(error, NoDaemonError | StoppedError):
                        silent.add(worker.id)
                    if isinstance(error, StoppedError) and not operation.reads:  # it may have begun
                        raise
                except LostError as error:
                    _log(place, worker, error)
                    silent.add(worker.id)
                    if not operation.reads:
                        raise UnknownOutcomeError(
                            "the worker went while it did this", "look whether it is done before it is sent again"
                        ) from error
            if time.monotonic() >= until:
                raise UnreachableError(f"no worker of the fleet does {operation.name} now", "try again")
            time.sleep(_PAUSE_SECONDS)
            owner = self._owner_of(place)

    @staticmethod
    def _reply(
        worker: Worker,
        place: Place,
        operation: "Operation[..., ReplyT]",
        request: "Request",
        on_step: Callable[[Step], None],
        on_notice: Callable[[str], None],
    ) -> "ReplyT":
        seconds = LONG_SECONDS if operation.takes_long(request) else ANSWER_SECONDS
        # The worker knows itself by this name whatever the address that gateways reach it by.
        headers = {"Authorization": f"Bearer {worker.secret}", "Host": "localhost"}
        path = f"/v1/workspaces/{place.handle}"
        connection = _Connection(worker.address, seconds)
        try:
            return reply_over(connection, path, headers, operation, request, on_step, on_notice)
        except DreamdError as error:
            if error.code != _REFUSED:
                raise
            # Another process has had the address since, and looks at nothing without its own secret.
            raise NoDaemonError("this worker has gone", "its successor is asked under its own name") from error


class _Connection(http.client.HTTPConnection):
    """To a worker. Whatever keeps it from being made, nothing was sent: it is refused."""

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


def chosen(place: Place, workers: Sequence[Worker], silent: set[UUID]) -> Worker | None:
    """Choose who of these, the least busy first, shall take the workspace; None without anybody.

    Every gateway chooses the same one for as long as the same ones are the less busy half (rendezvous hashing), so
    that a workspace comes back to where its files are.
    """
    able = [one for one in workers if one.id not in silent] or list(workers)
    half = able[: max(1, (len(able) + 1) // 2)]
    return max(half, key=lambda one: hashlib.sha256(one.id.bytes + place.handle.encode()).digest(), default=None)


def _log(place: Place, worker: Worker, error: DreamdError) -> None:
    logs.get(workspace=place.handle).info("worker_passed_over", worker=str(worker.id), error=error)
