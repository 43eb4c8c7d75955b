"""Refill: the crystals of notes that dreams consumed after a copy of state.db was made."""

import json
import sqlite3
from collections.abc import Sequence

from state.crystals.crystal import Crystal
from state.stores.crystals.crystals import Crystals
from state.stores.database.tombstones import TombstoneStore
from state.stores.history.lineage import Lineage


def take_as_dreamt(connection: sqlite3.Connection, notes: Sequence[Crystal]) -> None:
    """Write the crystals of consumed notes, so that searches find them and no dream takes them in again."""
    crystals, last = Crystals(connection), Lineage(connection).last_version()
    _add_missing(crystals, notes)
    if last:
        connection.execute(
            "UPDATE crystals SET dreamt_in = ? WHERE dreamt_in IS NULL AND id IN (SELECT value FROM json_each(?))",
            (last, json.dumps([crystal.id for crystal in notes])),
        )


def _add_missing(crystals: Crystals, wanted: Sequence[Crystal]) -> None:
    """Write the crystals that are missing and not forgotten."""
    known = {crystal.id for crystal in crystals.get([crystal.id for crystal in wanted])}
    new = [crystal for crystal in wanted if crystal.id not in known]
    forgotten = TombstoneStore(crystals.connection).among(crystal.text for crystal in new)
    crystals.upsert(crystal for crystal in new if crystal.text not in forgotten)
