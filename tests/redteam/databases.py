"""Hostile workspaces of the second kind: databases whose schema, pages, logs or rows do harm."""

# ruff: noqa: S608

import os
import random
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.redteam.house import House
from tests.redteam.places import Build, cleared

_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
_SUPER_MAGIC = bytes.fromhex("d9d505f920a163d7")
STATE, CHECKPOINTS = ".dreamd/state.db", ".dreamd/checkpoints/dreams.db"


def _changed(name: str, *statements: str) -> Build:
    """A database in which somebody has said this."""

    def build(_: House, root: Path) -> None:
        path = root / name
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            for statement in statements:
                connection.execute(statement)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    return build


def _view(table: str, columns: str) -> tuple[str, ...]:
    """A view that never ends, under the name of a table."""
    view = f"CREATE VIEW {table} AS {_ENDLESS} SELECT {columns} FROM n"
    return (f"ALTER TABLE {table} RENAME TO {table}_before", view)


def _trigger(table: str, deed: str) -> tuple[str, ...]:
    return tuple(
        f"CREATE TRIGGER {table}_{when} AFTER {when} ON {table} BEGIN {deed}; END"
        for when in ("INSERT", "UPDATE", "DELETE")
    )


def _super_journal(name: str) -> Build:
    """A hot journal that names a file of the user's, which SQLite deletes when it has played the journal back."""

    def build(house: House, root: Path) -> None:
        path = root / name
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                connection.execute("CREATE TABLE one (a)")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("PRAGMA journal_mode = DELETE")
        page = int.from_bytes(path.read_bytes()[16:18], "big")
        pages = path.stat().st_size // page
        header = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 0, 7, pages, 512, page)
        victim = os.fsencode(house.secret)
        tail = struct.pack(">I", 0x40000000 // page + 1) + victim
        tail += struct.pack(">II", len(victim), sum(struct.unpack(f"{len(victim)}b", victim)) & 0xFFFFFFFF)
        path.with_name(f"{path.name}-journal").write_bytes(header.ljust(512, b"\0") + tail + _SUPER_MAGIC)

    return build


def _pages(house: House, root: Path) -> None:
    """It says that it has four billion pages."""
    with (root / STATE).open("r+b") as file:
        file.seek(28)
        file.write(b"\xff\xff\xff\xfe")


def _shadow(house: House, root: Path) -> None:
    """The blocks of the word indexes are noise."""
    path = root / STATE
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE '%\\_data' ESCAPE '\\'").fetchall()
        chance = random.Random(7)
        for (table,) in rows:
            connection.execute(f"UPDATE {table} SET block = ? WHERE id > 1", (chance.randbytes(300),))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _flipped(house: House, root: Path) -> None:
    path = root / STATE
    content, chance = bytearray(path.read_bytes()), random.Random(11)
    for _ in range(200):
        content[chance.randrange(100, len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def _other_program(_: House, root: Path) -> None:
    cleared(root / STATE)
    with closing(sqlite3.connect(root / STATE)) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")


def _log(_: House, root: Path) -> None:
    """A log of another database, which would be played into this one."""
    path = root / STATE
    with closing(sqlite3.connect(path.with_name("other.db"), isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE evil (a)")
        content = path.with_name("other.db-wal").read_bytes()
    for left in path.parent.glob("other.db*"):
        left.unlink()
    path.with_name("state.db-wal").write_bytes(content)


def _rows(deed: Callable[[House], tuple[tuple[str, tuple[object, ...]], ...]]) -> Build:
    def build(house: House, root: Path) -> None:
        with closing(sqlite3.connect(root / STATE, isolation_level=None)) as connection:
            for statement, values in deed(house):
                connection.execute(statement, values)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    return build


_AT = "2024-12-22T15:00:00.000000+00:00"


def _watermarks(house: House) -> tuple[tuple[str, tuple[object, ...]], ...]:
    mark = '{"bytes_read": 0, "digest": "", "carry": ""}'
    files = (str(house.key), "../../home/.ssh/id_rsa", "transcripts/../../home/.ssh/id_rsa", str(house.secret))
    return tuple(("INSERT INTO watermarks VALUES (?, -1, 0, ?)", (file, mark)) for file in files)


def _sources(house: House) -> tuple[tuple[str, tuple[object, ...]], ...]:
    return (("UPDATE occurrences SET file = ?", (str(house.key),)),)


def _numbers(_: House) -> tuple[tuple[str, tuple[object, ...]], ...]:
    return (
        ("UPDATE versions SET number = number + 9223372036854775000", ()),
        ("UPDATE lines SET id = 'L' || id || '9999999999999999999999999999'", ()),
    )


def _escapes(_: House) -> tuple[tuple[str, tuple[object, ...]], ...]:
    obeyed = "\x1b]0;owned\x07\x1b[2J\x1b[31m\u202eevil\r"
    return (
        ("UPDATE dreams SET detail = ?, reason = ?", (obeyed, obeyed)),
        ("UPDATE versions SET reason = ?, model = ?", (obeyed, obeyed)),
        ("UPDATE lines SET text = text || ?", (obeyed,)),
        ("UPDATE sessions SET id = id || ?", (obeyed,)),
    )


def _surrogates(_: House) -> tuple[tuple[str, tuple[object, ...]], ...]:
    return (("UPDATE crystals SET text = CAST(x'eda080ff' AS TEXT) WHERE key = 1", ()),)


def _times(_: House) -> tuple[tuple[str, tuple[object, ...]], ...]:
    return tuple(
        (f"UPDATE {table} SET {column} = ?", ("9999-99-99Tnever",))
        for table, column in (("crystals", "created_at"), ("dreams", "started_at"), ("versions", "at"))
    )


def _running(_: House) -> tuple[tuple[str, tuple[object, ...]], ...]:
    return tuple(
        ("INSERT INTO dreams (id, started_at, reason, outcome) VALUES (?, ?, 'manual', 'running')", (name, _AT))
        for name in ("20241222T150000000000Z", "../../outside/secret", "\x1b[31mevil")
    )


def _extension(house: House) -> tuple[str, ...]:
    return _trigger("crystals", f"SELECT load_extension('{house.outside}/evil.so')")


def _loading(house: House, root: Path) -> None:
    _changed(STATE, *_extension(house))(house, root)


def _attached(house: House, root: Path) -> None:
    """SQLite would not let a trigger write a file; a view of this name could."""
    writing = f"SELECT writefile('{house.ran}', 'x'), edit('x', 'touch {house.ran}')"
    _changed(STATE, *_trigger("meta", writing))(house, root)


DATABASES: dict[str, Build] = {
    "state.db: a view without end as crystals": _changed(STATE, *_view("crystals", "i AS key, 'x' AS text")),
    "state.db: a view without end as meta": _changed(STATE, *_view("meta", "'forgotten_salt' AS name, i AS value")),
    "state.db: a view without end as dreams": _changed(STATE, *_view("dreams", "i AS id")),
    "state.db: a view without end as forgotten": _changed(STATE, *_view("forgotten", "i AS digest")),
    "state.db: triggers without end": _changed(
        STATE, *_trigger("crystals", f"INSERT INTO meta SELECT * FROM ({_ENDLESS} SELECT i, i FROM n)")
    ),
    "state.db: triggers that delete": _changed(STATE, *_trigger("crystals", "DELETE FROM lines")),
    "state.db: load_extension": _loading,
    "state.db: writefile and edit": _attached,
    "state.db: a generated column": _changed(
        STATE, "ALTER TABLE crystals ADD COLUMN evil TEXT GENERATED ALWAYS AS (randomblob(100000000)) VIRTUAL"
    ),
    "state.db: a newer schema": _changed(STATE, "PRAGMA user_version = 99"),
    "state.db: an older schema that it has not": _changed(STATE, "PRAGMA user_version = 1"),
    "state.db: another program's": _other_program,
    "state.db: huge page count": _pages,
    "state.db: noise in the word indexes": _shadow,
    "state.db: flipped bits": _flipped,
    "state.db: another's log": _log,
    "state.db: a journal that names a file": _super_journal(STATE),
    "state.db: watermarks outside": _rows(_watermarks),
    "state.db: sources outside": _rows(_sources),
    "state.db: numbers at the end of their range": _rows(_numbers),
    "state.db: escape sequences": _rows(_escapes),
    "state.db: texts that are no UTF-8": _rows(_surrogates),
    "state.db: times that are none": _rows(_times),
    "state.db: dreams that run": _rows(_running),
    "checkpoints: a journal that names a file": _super_journal(CHECKPOINTS),
    "checkpoints: a view without end": _changed(
        CHECKPOINTS,
        f"CREATE VIEW checkpoints AS {_ENDLESS} SELECT i AS thread_id, '' AS checkpoint_ns, i AS checkpoint_id,"
        " '' AS parent_checkpoint_id, 'json' AS type, x'7b7d' AS checkpoint, x'7b7d' AS metadata FROM n",
        f"CREATE VIEW writes AS {_ENDLESS} SELECT i AS thread_id FROM n",
    ),
    "checkpoints: triggers": _changed(
        CHECKPOINTS,
        "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, parent_checkpoint_id TEXT,"
        " type TEXT, checkpoint BLOB, metadata BLOB)",
        f"CREATE TRIGGER evil AFTER INSERT ON checkpoints BEGIN INSERT INTO checkpoints (thread_id) {_ENDLESS}"
        " SELECT i FROM n; END",
    ),
}
