"""Remains: what PostgreSQL still has of deleted rows, in the pages of its tables and in its log.

A deleted row keeps its bytes until another one takes its place, after VACUUM too. VACUUM FULL writes a table anew,
but shuts everybody out meanwhile: only small tables are written anew here, in some tenths of a second.
"""

import re
from dataclasses import dataclass

import psycopg
from psycopg.errors import Diagnostic
from psycopg.rows import dict_row

from state.stores.fleet.database import KEEP_ALIVE, FleetDatabase, conninfo, explained_errors

# Those with texts and names of tenants; the others have numbers.
_TABLES = ("tenants", "tokens", "workspaces", "inbox")
_MOST_BYTES = 16 * 2**20
# Whoever waits for a table makes everybody else wait behind it.
_OPTIONS = "-c search_path=dreamd,public -c lock_timeout=1s -c statement_timeout=10s -c timezone=UTC"
_SIZES = """
SELECT relname AS name, pg_total_relation_size(oid) AS bytes, pg_has_role(relowner, 'USAGE') AS is_ours
FROM pg_class WHERE oid = ANY(%s::text[]::regclass[])
"""
# A segment of the log is reused after about max_wal_size, for what comes up to max_wal_size later.
_LOG = """
SELECT (2 * pg_size_bytes(current_setting('max_wal_size')) + pg_size_bytes(current_setting('wal_keep_size')))::bigint
        AS log_bytes,
    coalesce(wal_bytes / greatest(1, extract(epoch FROM clock_timestamp() - stats_reset)), 0)::float8 AS log_rate,
    current_setting('archive_mode') <> 'off' OR EXISTS (SELECT FROM pg_replication_slots) AS is_archived
FROM pg_stat_wal
"""


@dataclass(frozen=True, slots=True)
class Remains:
    """Where deleted rows are: pages of tables, and the log until about `log_bytes` more are written.

    `tables`: those too large or too busy to be written anew. `log_seconds`: how long so much log takes at the rate so
    far (0: unknown). `is_archived`: somebody else gets the log, too, and may keep it for longer.
    """

    tables: tuple[str, ...]
    log_bytes: int
    log_seconds: float
    is_archived: bool


def clean(database: FleetDatabase) -> Remains:
    """Write the small tables anew, without deleted rows, and return what is left of these. Raise UnreachableError."""
    left, undead = list[str](), list[str]()

    def hear(said: Diagnostic) -> None:
        """Take the number of rows that some older transaction still sees, in whatever language it is told."""
        found = re.search(r"\d+", said.message_detail or "")
        if found and int(found[0]):
            undead.append(found[0])

    with (
        explained_errors(database.url),
        psycopg.connect(
            conninfo(database.url), autocommit=True, row_factory=dict_row, options=_OPTIONS, **KEEP_ALIVE
        ) as connection,
    ):
        connection.add_notice_handler(hear)
        for table in connection.execute(_SIZES, ([*_TABLES],)).fetchall():
            undead.clear()
            is_clean = table["is_ours"] and table["bytes"] <= _MOST_BYTES
            if is_clean:
                try:
                    connection.execute(f"VACUUM (FULL, VERBOSE) {table['name']}".encode())
                except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled):
                    is_clean = False
            if undead or not is_clean:
                left.append(table["name"])
        log = connection.execute(_LOG).fetchone()
    assert log is not None
    seconds = log["log_bytes"] / log["log_rate"] if log["log_rate"] else 0.0
    return Remains(tuple(left), log["log_bytes"], seconds, log["is_archived"])
