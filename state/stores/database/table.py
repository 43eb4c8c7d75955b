"""Table: a class declares a table of state.db by its annotated fields; DDL, reading, writing and erasing follow.

    @dataclass(frozen=True, kw_only=True)
    class Act(Declared, table="acts", indexes=("acts_by_time (at)",)):
        number: Key = 0
        at: datetime
        about: str

    Act.table.add(connection, act)
    Act.table.read(Act, connection, "WHERE number < ?", 9)

Values of other classes can be read and written too, by their field names.
"""

import json
import math
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from enum import Enum
from functools import cache, cached_property
from sqlite3 import Connection, Cursor, Row
from types import NoneType
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from state.codec import decode, encode
from state.errors import DreamdError, StorageError
from state.stores.database.moments import from_text, to_text

View = TypeVar("View")
Value = int | float | str | bytes | None
Convert = Callable[[Any], Any]
Rule = Callable[[Any], object]


class Sql(str):
    """Further SQL of a column: its key, check or reference."""

    __slots__ = ()


PRIMARY = Sql("PRIMARY KEY")
PACKED = Sql("")
"""Marks a text that is stored compressed (zlib)."""
_ASSIGNED = Sql("")
_LONGEST_UNPACKED = 64 * 1024**2
OWN = object()
"""Marks texts that are dreamd's own, or names of files; all others are somebody's words, which may be forgotten."""
Code = Annotated[str, OWN]
Key = Annotated[int, PRIMARY, _ASSIGNED]
"""The row number; SQLite assigns it to a value that has 0."""
One = Annotated[int, PRIMARY, Sql("CHECK (one = 1)")]
"""The key of a table with a single row."""

_SQL = {int: "INTEGER", bool: "INTEGER", float: "REAL", bytes: "BLOB"}
_TYPES: Mapping[str, tuple[type, ...]] = {
    "TEXT": (str,), "INTEGER": (int,), "REAL": (int, float), "BLOB": (bytes,),
}  # fmt: skip
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def _same(value: Any) -> Any:  # noqa: ANN401 - any value
    return value


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its SQL, how its values are read and written, and whether they are somebody's words.

    `rule` is true for values that dreamd can read, and may raise for others; None accepts every value.
    """

    is_words: bool
    rule: Rule | None = None
    ddl: str = ""
    read: Convert = _same
    write: Convert = _same
    is_packed: bool = False

    def holds(self, value: Value) -> bool:
        """Return whether dreamd can read this value."""
        try:
            value = unpacked(value) if self.is_packed else value
            return value is None or self.rule is None or bool(self.rule(value))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError, struct.error, DreamdError):
            return False


class Table:
    """A table of state.db, as its row class declares it."""

    def __init__(self, row: type, name: str, key: str, indexes: tuple[str, ...]) -> None:
        self.name = name
        self._row, self._key, self._indexes = row, key, indexes

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The columns by name, in order."""
        hints = get_type_hints(self._row, include_extras=True)
        names = self._row.__annotations__
        return {name: _column(name, hints[name], getattr(self._row, name, MISSING)) for name in names}

    def ddl(self) -> Iterator[str]:
        """Yield the statements that create the table and its indexes."""
        lines = [column.ddl for column in self.columns.values()]
        lines += [f"PRIMARY KEY ({self._key})"] if self._key else []
        has_rowids = any("INTEGER PRIMARY KEY" in line for line in lines)
        yield f"CREATE TABLE {self.name} ({', '.join(lines)}){'' if has_rowids else ' WITHOUT ROWID'}"
        for index in self._indexes:
            name, rest = index.removeprefix("UNIQUE ").split(" ", 1)
            unique = "UNIQUE " if index.startswith("UNIQUE ") else ""
            yield f"CREATE {unique}INDEX {name} ON {self.name} {rest}"

    def add(
        self, connection: Connection, value: object, how: str = "INSERT", then: str = "", /, **more: object
    ) -> Cursor:
        """Insert a row from the fields of this value and the keyword arguments; other columns get their defaults.

        `how` is INSERT or INSERT OR …; `then` is SQL that follows the values.
        """
        row = {
            name: column.write(more[name] if name in more else getattr(value, name))
            for name, column in self.columns.items()
            if name in more or hasattr(value, name)
        }
        places = ", ".join("?" * len(row))
        statement = f"{how} INTO {self.name} ({', '.join(row)}) VALUES ({places}) {then}"
        return connection.execute(statement, tuple(row.values()))

    def change(self, connection: Connection, where: str, *values: object, **new: object) -> int:
        """Set these columns in the rows that match `where`; return how many rows that were."""
        setting = ", ".join(f"{name} = ?" for name in new)
        given = [self.columns[name].write(value) for name, value in new.items()]
        statement = f"UPDATE {self.name} SET {setting} WHERE {where}"
        return connection.execute(statement, (*given, *map(_plain, values))).rowcount

    def delete(self, connection: Connection, where: str, *values: object) -> int:
        """Delete the rows that match `where`; return how many."""
        return connection.execute(f"DELETE FROM {self.name} WHERE {where}", tuple(map(_plain, values))).rowcount

    def count(self, connection: Connection, where: str = "TRUE", *values: object) -> int:
        """Return how many rows match `where`."""
        statement = f"SELECT count(*) FROM {self.name} WHERE {where}"
        return int(connection.execute(statement, tuple(map(_plain, values))).fetchone()[0])

    def read(self, kind: type[View], connection: Connection, rest: str = "", *values: object) -> list[View]:
        """Return rows as values of this class; `rest` is the SQL after the table name. Raise as `value` does."""
        names = ", ".join(name for name in _names(kind) if name in self.columns)
        rows = connection.execute(f"SELECT {names} FROM {self.name} {rest}", tuple(map(_plain, values)))
        return [self.value(kind, row) for row in rows]

    def value(self, kind: type[View], row: Row, **more: object) -> View:
        """Build a value from a row and the keyword arguments. Raise StorageError for unreadable content."""
        try:
            for name in _names(kind):
                if name not in more and name in self.columns:
                    more[name] = self.columns[name].read(row[name])
        except (ValueError, TypeError) as error:
            raise StorageError(f"state.db: {self.name} cannot be read ({error})", "run 'dreamd doctor'") from error
        return kind(**more)


class Declared:
    """A row of a table; the class declares the table by its annotated attributes."""

    table: ClassVar[Table]

    def __init_subclass__(cls, *, table: str, key: str = "", indexes: tuple[str, ...] = ()) -> None:
        """Declare the table."""
        cls.table = Table(cls, table, key, indexes)


@dataclass(frozen=True, slots=True)
class Layout:
    """An actual table of a database: SQL types by column name, and the columns that identify a row in SQL."""

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]

    def takes(self, column: str, value: Value) -> bool:
        """Return whether the value fits the column's type; None always does."""
        if isinstance(value, float) and not math.isfinite(value):
            return False
        return value is None or isinstance(value, _TYPES.get(self.columns[column], (object,)))


def layouts_of(connection: Connection) -> dict[str, Layout]:
    """Return the tables that hold rows of their own: no views, full-text indexes or SQLite tables."""
    found = connection.execute(
        "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table' ORDER BY name"
    )
    return {
        name: _layout(connection, name, has_rowids=not bare)
        for name, bare in found.fetchall()
        if not name.startswith("sqlite_")
    }


def _layout(connection: Connection, name: str, *, has_rowids: bool) -> Layout:
    declared = connection.execute("SELECT name, type, pk FROM pragma_table_info(?)", (name,)).fetchall()
    keys = sorted((place, column) for column, _, place in map(tuple, declared) if place)
    key = ("rowid",) if has_rowids else tuple(column for _, column in keys)
    return Layout(name, {column: kind for column, kind, _ in map(tuple, declared)}, key)


def packed(text: str) -> bytes:
    """Return a text as a packed column stores it."""
    return zlib.compress(text.encode(), 9) if text else b""


def unpacked(value: Any) -> str:  # noqa: ANN401 - what a database holds, perhaps somebody else's
    """Return the text of a packed column. Raise ValueError for any other value."""
    if not value:
        return ""
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(value, _LONGEST_UNPACKED)
    except (zlib.error, TypeError) as error:
        raise ValueError(f"it is no packed text ({error})") from error
    if not stream.eof or stream.unused_data:
        raise ValueError("it is cut off, too long, or goes on behind its end")
    return content.decode()


def is_moment(value: Value) -> bool:
    """Return whether this is a moment as `to_text` writes it."""
    try:
        return isinstance(value, str) and bool(_ISO.match(value)) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


_names: Callable[[Any], tuple[str, ...]] = cache(lambda kind: tuple(one.name for one in fields(kind)))


def _column(name: str, hint: Any, default: Any) -> Column:  # noqa: ANN401 - as is every hint
    hint, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    is_optional = NoneType in get_args(hint)
    if is_optional:
        (hint,) = (one for one in get_args(hint) if one is not NoneType)
    is_words, read, write, rule = _codec_of(hint)
    is_words = is_words and not any(mark is OWN for mark in marks)
    rule = next(filter(callable, marks), rule)
    words = [name, _SQL.get(hint, "TEXT"), *([] if is_optional or PRIMARY in marks else ["NOT NULL"])]
    if default is not MISSING and default is not None and PRIMARY not in marks:
        said = write(default)
        words.append(f"DEFAULT '{said}'" if isinstance(said, str) else f"DEFAULT {said:g}")
    ddl = " ".join([*words, *(mark for mark in marks if isinstance(mark, Sql) and mark)])
    if any(mark is _ASSIGNED for mark in marks):
        write = lambda number: number or None  # noqa: E731
    if is_packed := any(mark is PACKED for mark in marks):
        ddl, read, write = f"{name} BLOB NOT NULL DEFAULT x''", unpacked, packed
    return Column(is_words, rule, ddl, _optional(read), _optional(write), is_packed)


def _codec_of(hint: Any) -> tuple[bool, Convert, Convert, Rule | None]:  # noqa: ANN401
    """Return whether a type holds words, how to read and write it, and which texts are readable."""
    if hint is datetime:
        return False, from_text, to_text, is_moment
    if isinstance(hint, type) and issubclass(hint, Enum):
        return False, hint, lambda one: one.value, {one.value for one in hint}.__contains__
    if hint is str or hint in _SQL:
        return hint is str, hint, hint, None
    if hint == tuple[str, ...]:  # without pydantic, which takes long to load
        read, write = _texts, lambda texts: json.dumps(texts, ensure_ascii=False)
    else:
        read, write = lambda text: decode(hint, text, "a row"), encode
    return True, read, write, lambda text: read(text) is not None


def _texts(text: str) -> tuple[str, ...]:
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError("no list of texts")
    return tuple(found)


def _optional(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _plain(value: object) -> object:
    return to_text(value) if isinstance(value, datetime) else value
