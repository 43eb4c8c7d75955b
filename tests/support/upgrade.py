"""An upgrade made for tests: today's schema is the second one of releases, and the one before it lacked something."""

import os
import sqlite3
from typing import Any

from state.stores.database import schema

SECOND = schema.FIRST_SCHEMA + 1
UPGRADES = (
    (
        "UPDATE crystals SET heard = (SELECT text FROM moods)",
        "INSERT INTO meta SELECT 'had', count(*) FROM before_crystals",
    ),
)


def made_older(connection: sqlite3.Connection) -> None:
    """Bring a database of today to the first schema: without a column and an index, and with a table that went."""
    connection.execute("ALTER TABLE crystals DROP COLUMN heard")
    connection.execute("DROP INDEX crystals_by_kind")
    connection.execute("CREATE TABLE moods (text TEXT)")
    connection.execute("INSERT INTO moods VALUES ('web')")
    connection.execute(f"PRAGMA user_version = {schema.FIRST_SCHEMA}")


def upgraded() -> None:
    """Make this process one of the second release."""
    schema.SCHEMA_VERSION, schema.UPGRADES = SECOND, UPGRADES


def upgraded_until(statement: int) -> None:
    """Make this process one of the second release, and kill it before this statement of its upgrade."""
    upgraded()
    connect = sqlite3.connect

    class Dying(sqlite3.Connection):
        left = 0

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if sql == "PRAGMA legacy_alter_table = ON":
                self.left = statement
            self.left -= 1
            if self.left == 0:
                os._exit(9)
            if sql == "COMMIT":
                self.left = 0
            return super().execute(sql, *values)

    sqlite3.connect = lambda *given, **more: connect(*given, **more, factory=Dying)  # type: ignore[assignment]
