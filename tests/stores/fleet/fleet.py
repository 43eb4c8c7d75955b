"""What tests do with a fleet's tables: processes, workspaces, arrivals, commits, jobs, sessions that hold locks."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.rows import DictRow, dict_row

from state.fleet import Generation, Lease, Place, Tenant
from state.stores.fleet.database import FleetDatabase
from state.stores.fleet.inbox import Arrival, Inbox
from state.stores.fleet.leases import Commit, Leases, Session, processes
from state.stores.fleet.registry import Places, Tenants
from state.stores.fleet.schedule import Schedule
from tests.support.serving import until

PATIENCE = 60.0


class Fleet:
    """The tables of one fleet, and shorthands."""

    def __init__(self, database: FleetDatabase) -> None:
        self.database = database
        self.tenants, self.places = Tenants(database), Places(database)
        self.leases = Leases(database)
        self.sessions: dict[UUID, Session] = {}
        self.inbox, self.schedule = Inbox(database), Schedule(database)
        self._numbers = itertools.count(1)

    def tenant(self, name: str = "acme") -> Tenant:
        return self.tenants.add(name)

    def place(self, tenant: Tenant | None = None) -> Place:
        number = next(self._numbers)
        return self.places.add(tenant or self.tenant(f"tenant-{number}"), f"workspace-{number}")

    def process(self) -> UUID:
        one = uuid4()
        self.sessions[one] = Session(self.database, one, "http://127.0.0.1:1", "host", "1", 4)
        self.sessions[one].beat()
        return one

    def dead(self, process: UUID) -> None:
        """From now on the process's session is over."""
        self.sessions[process].drop()
        until(lambda: process not in self.living())

    def living(self) -> list[UUID]:
        return [one.id for one in processes(self.database) if one.alive]

    def holder(self, place: Place) -> UUID | None:
        """Who holds it now, and lives."""
        owner: UUID | None = self.row(place)["owner"]
        return owner if owner in self.living() else None

    def close(self) -> None:
        for session in self.sessions.values():
            session.drop()
        self.database.close()

    def lease(self, place: Place, process: UUID | None = None) -> Lease:
        return self.leases.take(place.id, process or self.process())

    def put(self, place: Place, key: str | None = None, kind: str = "note") -> int:
        key = key or f"key-{next(self._numbers)}"
        [arrived] = self.inbox.put([Arrival(place.id, place.tenant, kind, key, "{}")])
        assert arrived is not None
        return arrived.id

    def row(self, place: Place) -> dict[str, Any]:
        row = self.database.row("SELECT * FROM workspaces WHERE id = %(id)s", {"id": place.id})
        assert row is not None
        return row

    def due(self, place: Place) -> bool:
        """Whether it would be given a job now."""
        found = self.database.row(
            "SELECT 1 FROM workspaces WHERE id = %(id)s AND due_at <= clock_timestamp() AND queued_at IS NULL"
            " AND removed_at IS NULL",
            {"id": place.id},
        )
        return found is not None

    def queued(self) -> list[int]:
        """Queue what is due, and return the workspaces with a waiting job, in the order of the jobs."""
        self.schedule.queue_due(1_000)
        jobs = self.database.rows("SELECT args FROM procrastinate_jobs WHERE status = 'todo' ORDER BY id")
        return [job["args"]["workspace"] for job in jobs]

    def postpone(self, place: Place, at: datetime | None) -> None:
        self.database.rows("UPDATE workspaces SET due_at = %(at)s WHERE id = %(id)s", {"id": place.id, "at": at})


def commit_of(lease: Lease, **other: Any) -> Commit:
    number = lease.generation.number + 1
    return Commit(Generation(number, f"{lease.place.prefix}/generations/{number:012d}-{lease.owner}"), 10, **other)


@contextmanager
def session(url: str) -> Iterator["psycopg.Connection[DictRow]"]:
    """A session beside the fleet's, whose transaction is open until the context ends."""
    with psycopg.connect(url, row_factory=dict_row, options="-c search_path=dreamd,public") as connection:
        yield connection


def waits(fleet: Fleet, number: int = 1) -> None:
    """Until so many statements of this database wait for a lock."""
    until(
        lambda: (
            len(
                fleet.database.rows(
                    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
                )
            )
            >= number
        )
    )


def together(*calls: Callable[[], Any]) -> list[Any]:
    """What these calls return or raise, begun at once, each on its own thread."""
    answers: list[Any] = [None] * len(calls)
    begin = threading.Barrier(len(calls))

    def one(place: int) -> None:
        begin.wait(PATIENCE)
        try:
            answers[place] = calls[place]()
        except Exception as error:  # noqa: BLE001 - it is an answer
            answers[place] = error

    threads = [threading.Thread(target=one, args=[place]) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    return answers
