"""Entries in state.db: keeps, reads, lists and deletes what programs put there, durably."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from state.entries.entry import Entry, EntryChange, Namespace, NamespacePattern
from state.stores.database.connection import from_text, optional_moment, to_text, transaction

_COLUMNS = "key, namespace, name, value, created_at, updated_at, lifetime, expires_at"
_SWEPT = 1_000
_READ = 256


@dataclass(frozen=True, slots=True)
class KeptEntry:
    """An entry and its row; `lifetime` begins anew when it is used."""

    key: int
    entry: Entry
    lifetime: timedelta | None


class Entries:
    """The entries of one workspace. What has expired is not there, whether or not its row is gone yet."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def change(self, changes: Iterable[EntryChange], now: datetime) -> tuple[int, int]:
        """Make all of these changes or none, the last of each name; how many are kept, how many were deleted."""
        last = {(change.namespace, change.name): change for change in changes}
        kept = deleted = 0
        with transaction(self._connection) as connection:
            self.sweep(now)
            for change in last.values():
                if change.value is None:
                    place = (_text(change.namespace), change.name)
                    deleted += connection.execute(
                        "DELETE FROM entries WHERE namespace = ? AND name = ?", place
                    ).rowcount
                else:
                    self._keep(change, change.value, now)
                    kept += 1
        return kept, deleted

    def _keep(self, change: EntryChange, value: Mapping[str, Any], now: datetime) -> None:
        row = self._connection.execute(
            "INSERT INTO entries (namespace, name, value, fields, created_at, updated_at, lifetime, expires_at)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7) ON CONFLICT (namespace, name) DO UPDATE SET value = ?3,"
            " fields = ?4, updated_at = ?5, lifetime = ?6, expires_at = ?7, embedded_by = '' RETURNING key",
            (
                _text(change.namespace),
                change.name,
                json.dumps(value, ensure_ascii=False),
                _text(change.fields),
                to_text(now),
                change.lifetime.total_seconds() if change.lifetime is not None else None,
                to_text(now + change.lifetime) if change.lifetime is not None else None,
            ),
        ).fetchone()
        self._connection.execute("DELETE FROM entry_vectors WHERE entry = ?", (row["key"],))

    def get(self, namespace: Namespace, name: str, now: datetime) -> KeptEntry | None:
        """The entry of this name."""
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM entries WHERE namespace = ? AND name = ?"
            " AND (expires_at IS NULL OR expires_at > ?)",
            (_text(namespace), name, to_text(now)),
        ).fetchall()
        return _kept(rows[0]) if rows else None

    def by_keys(self, keys: Sequence[int]) -> list[KeptEntry]:
        """The entries of these rows, in this order."""
        statement = f"SELECT {_COLUMNS} FROM entries WHERE key IN (SELECT value FROM json_each(?))"
        found = {row["key"]: row for row in self._connection.execute(statement, (json.dumps(list(keys)),))}
        return [_kept(found[key]) for key in keys if key in found]

    def latest(self, prefix: Namespace, now: datetime) -> Iterator[tuple[int, dict[str, Any]]]:
        """The rows and values below this namespace, the latest change first; read as they are asked for."""
        keys = self.latest_keys(prefix, now)
        for begin in range(0, len(keys), _READ):
            for kept in self.by_keys(keys[begin : begin + _READ]):
                yield kept.key, kept.entry.value

    def latest_keys(self, prefix: Namespace, now: datetime, limit: int = -1, offset: int = 0) -> list[int]:
        """The rows below this namespace alone, likewise."""
        where, values = below(prefix, now)
        statement = f"SELECT key FROM entries WHERE {where} ORDER BY updated_at DESC, key DESC LIMIT ? OFFSET ?"
        return [row["key"] for row in self._connection.execute(statement, (*values, limit, offset))]

    def namespaces(
        self, patterns: Sequence[NamespacePattern], max_depth: int | None, now: datetime
    ) -> list[Namespace]:
        """The namespaces that fit all patterns, cut off at this depth, each once, in order."""
        plain = next((one.labels for one in patterns if not one.at_end and "*" not in one.labels), ())
        where, values = below(plain, now)
        rows = self._connection.execute(f"SELECT DISTINCT namespace FROM entries WHERE {where}", values)
        every = (tuple(json.loads(row["namespace"])) for row in rows)
        return sorted({one[:max_depth] for one in every if all(pattern.fits(one) for pattern in patterns)})

    def use(self, keys: Iterable[int], now: datetime) -> None:
        """Begin another lifetime for these rows, as far as they have one."""
        moments = self._connection.execute(
            "SELECT key, lifetime FROM entries WHERE lifetime IS NOT NULL"
            " AND key IN (SELECT value FROM json_each(?))",
            (json.dumps(list(keys)),),
        ).fetchall()
        with transaction(self._connection) as connection:
            connection.executemany(
                "UPDATE entries SET expires_at = ? WHERE key = ?",
                [(to_text(now + timedelta(seconds=row["lifetime"])), row["key"]) for row in moments],
            )

    def sweep(self, now: datetime) -> int:
        """Delete what has expired, the first 1,000; how many."""
        return self._connection.execute(
            "DELETE FROM entries WHERE key IN"
            " (SELECT key FROM entries WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
            (to_text(now), _SWEPT),
        ).rowcount


def below(prefix: Namespace, now: datetime, table: str = "entries") -> tuple[str, tuple[str, ...]]:
    """The condition of the rows in this namespace and below it that have not expired, and its values."""
    stays = f"({table}.expires_at IS NULL OR {table}.expires_at > ?)"
    if not prefix:
        return stays, (to_text(now),)
    # Its JSON without the bracket at the end, and then another label: what begins with a comma.
    text = _text(prefix)
    within = f"({table}.namespace = ? OR ({table}.namespace > ? AND {table}.namespace < ?))"
    return f"{within} AND {stays}", (text, f"{text[:-1]},", f"{text[:-1]}-", to_text(now))


def _text(labels: Sequence[str]) -> str:
    return json.dumps(list(labels), ensure_ascii=False, separators=(",", ":"))


def _kept(row: sqlite3.Row) -> KeptEntry:
    entry = Entry(
        tuple(json.loads(row["namespace"])),
        row["name"],
        json.loads(row["value"]),
        from_text(row["created_at"]),
        from_text(row["updated_at"]),
        optional_moment(row["expires_at"]),
    )
    return KeptEntry(row["key"], entry, timedelta(seconds=row["lifetime"]) if row["lifetime"] is not None else None)
