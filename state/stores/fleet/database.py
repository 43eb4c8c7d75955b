"""FleetDatabase: PostgreSQL as the fleet uses it: a pool, single statements, transactions, and its schema."""

import logging
import os
import re
import select
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib.resources import files
from typing import Any, TypeVar

import psycopg
from psycopg import Connection, Cursor, OperationalError
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from state.errors import ConfigError, DreamdError, NotFoundError, UnreachableError

FIRST_SCHEMA = 2
"""The schema of 0.2.0, the first release; of each one the file schema_NUMBER.sql makes it from the one before."""
SCHEMA_VERSION = 2
_MIGRATE = "run 'dreamd migrate --database URL' with this version of dreamd"
_OPTIONS = "-c search_path=dreamd,public -c statement_timeout=12s -c lock_timeout=8s -c timezone=UTC"
KEEP_ALIVE: Mapping[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""TCP settings by which a connection notices within seconds that the other side has vanished."""
_WAIT_SECONDS = 10.0
# Used while a recent attempt to connect failed, so that not every request waits out a restart.
_SHORT_WAIT_SECONDS = 1.0
_AWAY_SECONDS = 10.0
_REASON_SECONDS = 2
# Longer than the server's limit for a statement: a server that is silent for longer is unreachable.
_ANSWER_SECONDS = 15.0
_PORTS = re.compile(r"[0-9,]*")
# The key of the lock that lets one process migrate at a time.
_MIGRATION_LOCK = 0x647265616D64

Row = Mapping[str, Any]
T = TypeVar("T")


class BoundedConnection(Connection[DictRow]):
    """A connection that is closed after the server was silent for fifteen seconds.

    Neither the server's limits nor TCP's end this wait if something in between accepts the data and answers TCP
    itself.
    """

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Wait as psycopg does, but raise OperationalError if no answer comes."""
        until = time.monotonic() + _ANSWER_SECONDS
        try:
            return super().wait(gen, interval, _ANSWER_SECONDS if timeout is None else timeout)
        except OperationalError as error:
            if timeout is not None or time.monotonic() < until:
                raise
            self.close()
            raise OperationalError(f"no answer in {_ANSWER_SECONDS:g} seconds") from error

    @property
    def is_told(self) -> bool:
        """Return whether the server has sent something unasked, namely that it ends this connection."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return bool(poll.poll(0))


class FleetDatabase:
    """A pool of connections, for any thread. All methods raise UnreachableError while PostgreSQL is unreachable."""

    def __init__(self, url: str, size: int = 8) -> None:
        # The pool logs every second that PostgreSQL is unreachable; callers learn it once, from an error.
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
        self.url = url
        self.statements = 0
        """The number of statements so far, a transaction counting as one; for measurements."""
        self._pool = ConnectionPool(
            conninfo(url),
            connection_class=BoundedConnection,
            min_size=1,
            max_size=size,
            timeout=_WAIT_SECONDS,
            max_idle=60.0,
            reconnect_timeout=5.0,
            open=False,
            kwargs={"autocommit": True, "row_factory": dict_row, "options": _OPTIONS, **KEEP_ALIVE},
            check=self._check,
        )
        self._away_until = 0.0
        self._pool.open()

    def rows(self, statement: str, values: Row | None = None) -> list[dict[str, Any]]:
        """Run one statement in a transaction of its own, and return its rows.

        A connection found dead beforehand is replaced. Raise UnreachableError, also if it is unknown whether the
        statement was executed.
        """
        with self._cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchall() if cursor.description is not None else []

    def row(self, statement: str, values: Row | None = None) -> dict[str, Any] | None:
        """Run one statement as `rows` does, and return its first row; None if there is none."""
        return next(iter(self.rows(statement, values)), None)

    def all(self, kind: type[T], statement: str, values: Row | None = None) -> list[T]:
        """Run one statement as `rows` does, and return its rows as values of a class with a field per column."""
        return [kind(**row) for row in self.rows(statement, values)]

    @contextmanager
    def transaction(self) -> Iterator[Cursor[DictRow]]:
        """Yield a cursor whose statements are committed together at the end of the context."""
        with self._cursor() as cursor, cursor.connection.transaction():
            yield cursor

    def now(self) -> datetime:
        """Return PostgreSQL's time, the clock of the whole fleet."""
        [row] = self.rows("SELECT clock_timestamp() AS now")
        now: datetime = row["now"]
        return now

    def own_ip(self) -> str:
        """Return the IP address by which this machine reaches PostgreSQL; a loopback one through a Unix socket."""
        with self._cursor() as cursor, socket.socket(fileno=os.dup(cursor.connection.fileno())) as own:
            is_ip = own.family in (socket.AF_INET, socket.AF_INET6)
            return str(own.getsockname()[0]) if is_ip else "127.0.0.1"

    def require_schema(self) -> None:
        """Raise ConfigError unless the schema is of this version; a wrong password is reported at once."""
        refused = _connection_error(self.url, reason) if (reason := _reason(self.url)) is not None else None
        if isinstance(refused, ConfigError):
            raise refused
        found = self.row("SELECT to_regclass('dreamd.meta') IS NOT NULL AS made")
        version = self.row("SELECT schema FROM dreamd.meta") if found and found["made"] else None
        if version is None:
            raise ConfigError(
                f"{named(self.url)} has no tables of a fleet",
                f"{_MIGRATE}; where they were lost, 'dreamd fleet recover' then brings back what the store holds",
            )
        if version["schema"] != SCHEMA_VERSION:
            newest = "start a dreamd as new as the newest of the fleet"
            raise _other_schema(version["schema"], named(self.url), newest)

    def close(self) -> None:
        """Close all connections."""
        self._pool.close(timeout=1.0)

    def _check(self, connection: BoundedConnection) -> None:
        """Raise if the server has ended this connection, judging by its socket without asking the server.

        Then drop all other connections as well: the pool would try them one by one, with pauses between.
        """
        if connection.is_told:
            try:
                connection.execute("")
            except psycopg.Error:
                self._pool.drain()
                raise

    @contextmanager
    def _cursor(self) -> Iterator[Cursor[DictRow]]:
        wait = _SHORT_WAIT_SECONDS if time.monotonic() < self._away_until else None
        try:
            with (
                explained_errors(self.url),
                self._pool.connection(wait) as connection,
                connection.cursor() as cursor,
            ):
                self.statements += 1
                yield cursor
        except PoolTimeout as error:
            reason = _reason(self.url)
            if reason is not None:  # otherwise all connections may just be in use
                self._away_until = time.monotonic() + _AWAY_SECONDS
            raise _connection_error(self.url, reason or error) from error
        except PoolClosed as error:
            raise _connection_error(self.url, error) from error


class Statements:
    """A group of statements about one subject, run on a fleet's database."""

    def __init__(self, database: FleetDatabase) -> None:
        self._database = database


@contextmanager
def explained_errors(url: str) -> Iterator[None]:
    """Turn errors of PostgreSQL at this address into ours, except those of the pool."""
    try:
        yield
    except (PoolTimeout, PoolClosed):
        raise
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
        raise ConfigError(f"{named(url)} lacks tables of the fleet, or has others", _MIGRATE) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigError(
            f"the user of {named(url)} lacks a right ({_one_line(error)})",
            "let it own the schema dreamd and what is in it",
        ) from error
    except psycopg.errors.ForeignKeyViolation as error:
        raise NotFoundError("what this belongs to is gone", "it was removed meanwhile") from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise _connection_error(url, error) from error


def open_session(url: str, name: str, idle_seconds: float) -> BoundedConnection:
    """Open a connection with this name, which PostgreSQL ends when it is idle for `idle_seconds`.

    Raise UnreachableError, or ConfigError if PostgreSQL is older than 14 and cannot do that.
    """
    options = f"{_OPTIONS} -c idle_session_timeout={idle_seconds:g}s"
    with explained_errors(url):
        return BoundedConnection.connect(
            conninfo(url),
            autocommit=True,
            row_factory=dict_row,
            options=options,
            application_name=name,
            **KEEP_ALIVE,
        )


def conninfo(url: str) -> str:
    """Return the valid address for psycopg. Raise ConfigError, which reveals nothing of it, for an invalid one."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise ConfigError(
            "fleet.database is no address of PostgreSQL", "it is like postgresql://user@host:5432/dreamd"
        ) from None
    # A password with an unescaped delimiter leads to such parts.
    if "@" in f"{parts.get('dbname', '')}{parts.get('host', '')}" or not _PORTS.fullmatch(str(parts.get("port", ""))):
        raise ConfigError(
            "fleet.database is no address of PostgreSQL: its port is no number, or its database has an '@'",
            "write '/', '@', ':', '#' and '?' within a password as %2F, %40, %3A, %23 and %3F",
        )
    if not url.startswith(("postgresql://", "postgres://")):
        raise ConfigError("fleet.database is no address of PostgreSQL", "it begins with postgresql://")
    return url


def named(url: str) -> str:
    """Return the database's name for messages, without user and password."""
    parts = conninfo_to_dict(url)
    return f"PostgreSQL at {parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"


def storable(text: str) -> str:
    """Return the text as PostgreSQL can store it: with U+FFFD for NUL and for lone surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _reason(url: str) -> Exception | None:
    """Return why no connection can be made, which the pool does not report."""
    try:
        psycopg.connect(url, connect_timeout=_REASON_SECONDS).close()
    except psycopg.Error as error:
        return error
    return None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _connection_error(url: str, error: Exception) -> DreamdError:
    why = "no connection was free in time" if isinstance(error, PoolTimeout) else _one_line(error)
    if "authentication failed" in why:
        return ConfigError(f"{named(url)} refuses the user or the password", "check fleet.database")
    if "idle_session_timeout" in why:
        return ConfigError(f"{named(url)} is older than PostgreSQL 14", "use a newer one")
    if 'FATAL: database "' in why and "does not exist" in why:
        return ConfigError(f"{named(url)} does not exist", "create the database, or check fleet.database")
    return UnreachableError(
        f"{named(url)} cannot be asked ({why})",
        "start it or check fleet.database, and try again; what was acknowledged is safe",
    )


def migrate(url: str, mark: str) -> int:
    """Create the tables or bring them to this version, and return it. Doing it again is harmless.

    `mark` identifies the fleet if it is created now. Raise UnreachableError, or ConfigError for a newer schema or one
    from before the first release, for tables that belong to others, and for a user who may not create tables; then
    nothing is changed.
    """
    with explained_errors(url), psycopg.connect(conninfo(url), row_factory=dict_row, **KEEP_ALIVE) as connection:
        try:
            _migrate(connection, named(url), mark)
        except psycopg.errors.InsufficientPrivilege:
            raise
        except psycopg.ProgrammingError as error:
            raise ConfigError(
                f"the schema dreamd of {named(url)} has tables that are not the fleet's ({_one_line(error)})",
                "give the fleet a database of its own",
            ) from error
    return SCHEMA_VERSION


def _migrate(connection: Connection[DictRow], name: str, mark: str) -> None:
    from procrastinate.schema import SchemaManager

    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
    connection.execute("CREATE SCHEMA IF NOT EXISTS dreamd")
    connection.execute("SET LOCAL search_path = dreamd")
    connection.execute("CREATE TABLE IF NOT EXISTS meta (schema integer NOT NULL)")
    found = connection.execute("SELECT schema FROM meta").fetchone()
    version = found["schema"] if found else FIRST_SCHEMA - 1
    if found is None:
        connection.execute(SchemaManager.get_schema())
        connection.execute("INSERT INTO meta VALUES (0)")
    elif not FIRST_SCHEMA <= version <= SCHEMA_VERSION:
        raise _other_schema(version, name, "migrate with a newer dreamd")
    for number in range(version + 1, SCHEMA_VERSION + 1):
        schema = files(__package__).joinpath(f"schema_{number}.sql")
        connection.execute(schema.read_text(encoding="utf-8"))
        connection.execute("UPDATE meta SET schema = %s", (number,))
    connection.execute("INSERT INTO fleet (mark) SELECT %s WHERE NOT EXISTS (SELECT 1 FROM fleet)", (mark,))


def _other_schema(version: int, name: str, if_newer: str) -> ConfigError:
    """Return the error for tables of another schema than this dreamd's."""
    if version < FIRST_SCHEMA:
        what = f"{name} has tables of a dreamd before 0.2.0, which was never released (schema {version})"
        return ConfigError(what, "give the fleet a new database")
    what = f"{name} has schema {version} of the fleet, and this dreamd knows {SCHEMA_VERSION}"
    return ConfigError(what, if_newer if version > SCHEMA_VERSION else _MIGRATE)
