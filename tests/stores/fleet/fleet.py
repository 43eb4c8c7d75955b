"""What tests do with a fleet's tables: processes, workspaces, arrivals, commits, jobs, sessions that hold locks."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import DictRow, dict_row

from state.fleet import Lease, Place
from state.stores.fleet.leases import Commit
from tests.support.fleet_tables import FleetTables
from tests.support.serving import until

PATIENCE = 60.0


class Fleet(FleetTables):
    """The tables of one fleet, and what the schedule has to do there."""

    def holder(self, place: Place) -> UUID | None:
        """Who holds it now, and lives."""
        owner: UUID | None = self.row(place)["owner"]
        return owner if owner in self.living() else None

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
    return Commit(lease.generation + 1, 10, **other)


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
