"""Databases as earlier versions of dreamd left them: `tests/stores/database/old` has the schemas."""

import sqlite3
from pathlib import Path

_OLD = Path(__file__).parents[1] / "stores" / "database" / "old"
OLDER = sorted(int(path.stem.removeprefix("version_")) for path in _OLD.glob("version_*.sql"))


def older_schema(connection: sqlite3.Connection, version: int) -> None:
    """Give an empty database the schema of an older version."""
    connection.executescript((_OLD / f"version_{version}.sql").read_text(encoding="utf-8"))
