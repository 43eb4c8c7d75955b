"""Quotas: whether a tenant may add something now: so many notes a minute, and to a workspace that is not full."""

import threading
import time
from collections.abc import Callable

from daemon.fleet.doors.bearers import Recent
from state.errors import QuotaError
from state.fleet.tenant import Tenant
from state.fleet.workspace import Place

_MOST = 10_000
_SECONDS = 1.0
_SIZE_SECONDS = 10.0
_MINUTE = 60


class NoteQuotas:
    """What is known of tenants' quotas, for a second; between two looks a process counts what it lets in itself.

    `notes_this_minute` and `bytes_of` ask PostgreSQL.
    """

    def __init__(self, notes_this_minute: Callable[[int], int], bytes_of: Callable[[Place], int]) -> None:
        self._notes_this_minute = notes_this_minute
        self._bytes_of = bytes_of
        self._lock = threading.Lock()
        self._notes: Recent[int, list[int]] = Recent(_MOST, _SECONDS)
        self._sizes: Recent[int, int] = Recent(_MOST, _SIZE_SECONDS)

    def require_room(self, tenant: Tenant, place: Place) -> None:
        """Raise QuotaError unless a note may be put now."""
        quotas = tenant.quotas
        if quotas.notes_per_minute and self._counted(tenant)[0] >= quotas.notes_per_minute:
            wait = _MINUTE - int(time.time()) % _MINUTE
            raise QuotaError(
                f"{quotas.notes_per_minute} notes a minute are what this tenant may put",
                f"try again in {wait} s",
                wait,
            )
        self.require_size(tenant, place)

    def require_size(self, tenant: Tenant, place: Place) -> None:
        """Raise QuotaError if the workspace is full."""
        quotas = tenant.quotas
        if quotas.bytes_per_workspace and self._size(place) >= quotas.bytes_per_workspace:
            raise QuotaError(
                f"the workspace has {quotas.bytes_per_workspace:,} bytes, which is what this tenant may have in one",
                "forget what is needed no more, or ask for more",
            )

    def count(self, tenant: Tenant) -> None:
        """Count one more note that was put."""
        if tenant.quotas.notes_per_minute:
            counted = self._counted(tenant)
            with self._lock:
                counted[0] += 1

    def _counted(self, tenant: Tenant) -> list[int]:
        found = self._notes.get(tenant.id)
        if found is None:
            found = [self._notes_this_minute(tenant.id)]
            self._notes.put(tenant.id, found)
        return found

    def _size(self, place: Place) -> int:
        size = self._sizes.get(place.id)
        if size is None:
            size = self._bytes_of(place)
            self._sizes.put(place.id, size)
        return size
