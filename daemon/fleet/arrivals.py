"""Arrivals: notes and session ends on their way to inboxes: quota checks, and one statement for a whole batch.

No arrival waits for a timer: the first is written at once, and those that come meanwhile share the next statement.
A statement whose outcome is unknown is repeated: idempotency keys tell which rows were already there.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from daemon.observability import logs
from state.errors import DreamdError, QuotaError, UnreachableError
from state.fleet import Place, Tenant
from state.stores.fleet.inbox import Arrival, Arrived, Inbox
from state.stores.fleet.registry import Places

MOST_AT_ONCE = 500
# Wait while PostgreSQL restarts: a client whose note was refused would send it again under another key.
_PATIENCE = Retrying(
    stop=stop_after_delay(8.0), wait=wait_fixed(0.2), retry=retry_if_exception_type(UnreachableError), reraise=True
)
_MINUTE = 60

Put = Callable[[Sequence[Arrival]], list[Arrived | None]]
_Waiting = tuple[Arrival, "Future[Arrived | None]"]


class Arrivals:
    """A queue that one thread of its own writes in batches; `put` is the inbox's. Any thread may call."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self._waiting: SimpleQueue[_Waiting] = SimpleQueue()
        self.batches = 0
        """Number of statements so far, for benchmarks."""
        threading.Thread(target=self._run, name="arrivals", daemon=True).start()

    def put(self, arrival: Arrival) -> Arrived | None:
        """Write it durably and return the result; None if its workspace is gone. Raise UnreachableError."""
        outcome: Future[Arrived | None] = Future()
        self._waiting.put((arrival, outcome))
        return outcome.result()

    def _run(self) -> None:
        while True:
            batch = [self._waiting.get()]
            with suppress(Empty):
                while len(batch) < MOST_AT_ONCE:
                    batch.append(self._waiting.get_nowait())
            self._put_batch(batch)

    def _put_batch(self, batch: list[_Waiting]) -> None:
        self.batches += 1
        try:
            put = _PATIENCE.copy()(self._put, [arrival for arrival, _ in batch])
        except Exception as error:  # noqa: BLE001 - the thread goes on
            if not isinstance(error, UnreachableError):
                logs.get().error("arrivals_refused", error=error)
            told = error if isinstance(error, DreamdError) else UnreachableError("it cannot be kept now")
            for _, outcome in batch:  # an error of its own for each waiting thread
                outcome.set_exception(type(told)(told.what, told.advice))
        else:
            for (_, outcome), arrived in zip(batch, put, strict=True):
                outcome.set_result(arrived)


def require_room(places: Places, inbox: Inbox, tenant: Tenant, place: Place) -> None:
    """Raise QuotaError if the tenant's notes per minute are used up or the workspace is full."""
    most = tenant.quotas.notes_per_minute
    if most and inbox.notes_this_minute(tenant.id) >= most:
        wait = _MINUTE - int(time.time()) % _MINUTE
        raise QuotaError(f"{most} notes a minute are what this tenant may put", f"try again in {wait} s", wait)
    require_size(places, tenant, place)


def require_size(places: Places, tenant: Tenant, place: Place) -> None:
    """Raise QuotaError if the workspace is full."""
    most = tenant.quotas.bytes_per_workspace
    if most and places.find(place.tenant, place.name).bytes >= most:
        raise QuotaError(
            f"the workspace has {most:,} bytes, which is what this tenant may have in one",
            "forget what is needed no more, or ask for more",
        )
