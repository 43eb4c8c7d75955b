"""Migration: makes the tables of state.db, and brings those of an earlier release to the current schema.

Every table is created anew and filled from the old one; what the schema has dropped disappears, and a column that the
old table lacks gets its default. `UPGRADES` lists further changes to rows. All is one transaction of the caller's.
"""

import sqlite3

from state.stores.database import schema
from state.stores.database.tables import TABLES

_OLD = "before_"


def make_schema(connection: sqlite3.Connection) -> None:
    """Create the current schema in an empty database."""
    for table in TABLES.values():
        for statement in table.ddl():
            connection.execute(statement)
    for statement in schema.UNDECLARED:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION}")


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Migrate a database of this version. Foreign keys must be off, because tables are filled in any order."""
    # References to a renamed table must keep its name, so that they lead to the new table.
    connection.execute("PRAGMA legacy_alter_table = ON")
    old = _cleared(connection)
    make_schema(connection)
    for name in filter(TABLES.__contains__, old):
        had = {row[1] for row in connection.execute(f'PRAGMA table_info("{_OLD}{name}")')}
        if taken := ", ".join(column for column in TABLES[name].columns if column in had):
            connection.execute(f'INSERT INTO {name} ({taken}) SELECT {taken} FROM "{_OLD}{name}"')
    for statements in schema.UPGRADES[version - schema.FIRST_SCHEMA :]:
        for statement in statements:
            connection.execute(statement)
    for index in schema.INDEXES:
        connection.execute(f"INSERT INTO {index} ({index}) VALUES ('rebuild')")
    for name in old:
        connection.execute(f'DROP TABLE "{_OLD if name in TABLES else ""}{name}"')
    connection.execute("PRAGMA legacy_alter_table = OFF")


def _cleared(connection: sqlite3.Connection) -> list[str]:
    """Drop everything but the tables that hold rows, rename those that still exist, and return the names of all."""
    # The latest first, because a virtual table may read another table.
    rows = connection.execute(
        "SELECT s.type, s.name, t.type FROM sqlite_schema s LEFT JOIN pragma_table_list t ON t.name = s.name"
        " AND t.schema = 'main' WHERE s.sql IS NOT NULL ORDER BY s.rowid DESC"
    ).fetchall()
    old = list[str]()
    for kind, name, form in map(tuple, rows):
        if kind == "table" and form == "table" and not name.startswith("sqlite_"):
            old.append(name)
        elif form != "shadow":
            connection.execute(f'DROP {kind} "{name}"')
    for name in filter(TABLES.__contains__, old):
        connection.execute(f'ALTER TABLE "{name}" RENAME TO "{_OLD}{name}"')
    return old
