"""Refill: what happened after a copy of state.db was made, from the records of the history and consumed notes.

Each record is replayed as its commit wrote it, but for MEMORY.md and the segments, which stand.
"""

import json
import sqlite3
from collections.abc import Sequence

from state.crystals.crystal import Crystal
from state.dream import RESTORE, Dream
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import to_text
from state.stores.database.tombstones import TombstoneStore
from state.stores.history.changes import Changes
from state.stores.history.lineage import Lineage


def replay(connection: sqlite3.Connection, records: Sequence[Dream]) -> None:
    """Write the rows of these commits, the oldest first. In the caller's transaction."""
    crystals, lineage = Crystals(connection), Lineage(connection)
    for dream in records:
        add_missing(crystals, dream.crystals)
        if dream.cause == RESTORE:
            crystals.undream(dream.dreamt)
            crystals.mark_dreamt(dream.redreamt, dream.number)
        else:
            crystals.mark_dreamt(dream.dreamt, dream.number, dream.newest)
        lineage.record(dream)
        Supersessions(crystals).learn(dream)
        Changes(connection).record(dream)
        connection.execute(
            "INSERT OR IGNORE INTO dreams (id, started_at, ended_at, reason, outcome, version)"
            " VALUES (?, ?, ?, ?, 'committed', ?)",
            (dream.id, to_text(dream.at), to_text(dream.at), dream.reason, dream.number),
        )


def take_as_dreamt(connection: sqlite3.Connection, notes: Sequence[Crystal]) -> None:
    """Write the crystals of consumed notes, so that searches find them and no dream takes them in again."""
    crystals, last = Crystals(connection), Lineage(connection).last_version()
    add_missing(crystals, notes)
    if last:
        connection.execute(
            "UPDATE crystals SET dreamt_in = ? WHERE dreamt_in IS NULL AND id IN (SELECT value FROM json_each(?))",
            (last, json.dumps([crystal.id for crystal in notes])),
        )


def add_missing(crystals: Crystals, wanted: Sequence[Crystal]) -> None:
    """Write the crystals that are missing and not forgotten."""
    known = {crystal.id for crystal in crystals.get([crystal.id for crystal in wanted])}
    new = [crystal for crystal in wanted if crystal.id not in known]
    forgotten = TombstoneStore(crystals.connection).among(crystal.text for crystal in new)
    crystals.upsert(crystal for crystal in new if crystal.text not in forgotten)
