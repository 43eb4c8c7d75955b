"""BoundedConnection: a connection with PostgreSQL that waits for no answer for ever."""

import time
from typing import TypeVar, cast

from psycopg import Connection, OperationalError
from psycopg.abc import PQGen
from psycopg.pq.abc import PGconn
from psycopg.rows import Row, RowFactory, tuple_row

ANSWER_SECONDS = 15.0
"""Longer than the server lets any statement take: who is silent for so long cannot be reached."""
_INTERVAL_SECONDS = 0.1
_Result = TypeVar("_Result")


class BoundedConnection(Connection[Row]):
    """It is closed when the server is silent for fifteen seconds.

    Neither the server's limits nor TCP's end that wait where something between the two takes what is sent and
    answers to TCP itself.
    """

    born: float
    """When it was made, by the monotonic clock."""

    def __init__(self, pgconn: PGconn, row_factory: RowFactory[Row] | None = None) -> None:
        super().__init__(pgconn, row_factory or cast("RowFactory[Row]", tuple_row))
        self.born = time.monotonic()

    def wait(self, gen: PQGen[_Result], interval: float = _INTERVAL_SECONDS, timeout: float | None = None) -> _Result:
        """Wait as psycopg does, but raise OperationalError for an answer that does not come."""
        until = time.monotonic() + ANSWER_SECONDS
        try:
            return super().wait(gen, interval, ANSWER_SECONDS if timeout is None else timeout)
        except OperationalError as error:
            if timeout is not None or time.monotonic() < until:
                raise
            self.close()
            raise OperationalError(f"no answer in {ANSWER_SECONDS:g} seconds") from error
