"""Item view: the items of a session for its policies, in any order, read from an index only as far as needed."""

import sqlite3
from collections.abc import Iterator
from datetime import datetime

from state.sessions.item import Item, Priority
from state.sessions.policies.policy import EVERYTHING, Order, Range
from state.sessions.stats import Tally
from state.stores.database.connection import optional_text, to_text
from state.stores.sessions.rows import COLUMNS, IN_SET, Session, item_of, keys_of

# Rows of the first look; each further one is twice as long. All are fetched at once: an open cursor would keep its
# moment of the database after the commit, and the next write would be refused.
_FIRST_LOOK = 16
_LONGEST_LOOK = 1024
# The columns that an order goes by, the last of them of each item its own; and whether it goes by them downwards.
_ORDERS = {
    Order.OLDEST: (("created_at", "seq"), False),
    Order.LEAST_IMPORTANT: (("importance", "created_at", "seq"), False),
    Order.EXPIRES_FIRST: (("expires_at", "seq"), False),
    Order.FIRST_IN: (("seq",), False),
    Order.NEWEST: (("created_at", "seq"), True),
    Order.MOST_IMPORTANT: (("importance", "created_at", "seq"), True),
}


class SqlItemView:
    """The items of one session (see `state.sessions.stats.CountedView`), good until the session changes."""

    def __init__(self, connection: sqlite3.Connection, session: Session) -> None:
        self._connection = connection
        self._session = session

    @property
    def count(self) -> int:
        """How many items are in the set."""
        return self._session.held

    @property
    def tokens(self) -> int:
        """The tokens of all items in the set."""
        return self._session.tokens

    @property
    def step(self) -> int:
        """The session's current step."""
        return self._session.step

    def items(self, order: Order, only: Range = EVERYTHING) -> Iterator[Item]:
        """The items in this range, in this order; see `ItemView.items`."""
        condition, values = _condition(only)
        if order is Order.EXPIRES_FIRST:
            condition += " AND expires_at IS NOT NULL"
        columns, downwards = _ORDERS[order]
        ordered = ", ".join(f"{column} DESC" if downwards else column for column in columns)
        behind = f" AND ({', '.join(columns)}) {'<' if downwards else '>'} ({', '.join('?' * len(columns))})"
        after, last = "", ()
        look = _FIRST_LOOK
        while True:
            rows = self._connection.execute(
                f"SELECT {COLUMNS} FROM items WHERE session = ? AND {IN_SET}{condition}{after}"
                f" ORDER BY {ordered} LIMIT ?",
                (self._session.key, *values, *last, look),
            ).fetchall()
            yield from map(item_of, rows)
            if len(rows) < look:
                return
            after, last = behind, tuple(rows[-1][column] for column in columns)
            look = min(2 * look, _LONGEST_LOOK)

    def tallies(self) -> list[Tally]:
        """As the triggers of `items` keep them."""
        rows = self._connection.execute(
            "SELECT priority, hidden, promoted, accesses, items, importance FROM item_counts WHERE session = ?",
            (self._session.key,),
        )
        return [
            Tally(Priority(priority), bool(hidden), bool(promoted), *figures)
            for priority, hidden, promoted, *figures in rows.fetchall()
        ]

    def expired_count(self, now: datetime) -> int:
        """As the index by expiry counts them."""
        row = self._connection.execute(
            f"SELECT count(*) FROM items WHERE session = ? AND {IN_SET} AND expires_at <= ?",
            (self._session.key, to_text(now)),
        ).fetchone()
        return int(row[0])

    def unpromoted(self, priority: Priority, accesses: range) -> Iterator[Item]:
        """See `CountedView.unpromoted`; reads the rows of the session."""
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM items WHERE key BETWEEN ? AND ? AND state = 'live' AND promoted_to = ''"
            " AND priority = ? AND access_count >= ? AND access_count < ?",
            (*keys_of(self._session), priority.value, accesses.start, accesses.stop),
        )
        return map(item_of, rows.fetchall())


class EmptyItemView:
    """The items of a session that was never opened: none."""

    count = tokens = step = 0

    def tallies(self) -> tuple[Tally, ...]:
        """None."""
        return ()

    def expired_count(self, now: datetime) -> int:  # noqa: ARG002
        """None."""
        return 0

    def unpromoted(self, priority: Priority, accesses: range) -> Iterator[Item]:  # noqa: ARG002
        """None."""
        return iter(())

    def items(self, order: Order, only: Range = EVERYTHING) -> Iterator[Item]:  # noqa: ARG002
        """No items."""
        return iter(())


def _condition(only: Range) -> tuple[str, list[object]]:
    conditions = (
        ("state = ?", only.state.value if only.state else None),
        ("importance >= ?", only.importance_from),
        ("importance < ?", only.importance_below),
        ("created_at >= ?", optional_text(only.created_from)),
        ("created_at < ?", optional_text(only.created_before)),
        ("step_index >= ?", only.step_from),
        ("step_index < ?", only.step_before),
    )
    given = [(sql, value) for sql, value in conditions if value is not None]
    return "".join(f" AND {sql}" for sql, _ in given), [value for _, value in given]
