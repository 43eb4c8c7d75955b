"""Rows of the table of crystals, as values."""

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from state.crystals.crystal import Crystal, Origin, Source, crystal_digest
from state.stores.database.tables import CrystalRow, OccurrenceRow
from state.trust import Trust, least_heard, least_trust

# Texts that somebody said, rather than what a dream or a session made of them.
_SAID = {Origin.SCRATCH, Origin.SESSION, Origin.SEED}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place where a crystal's text was met; `source` is None when it came from no file."""

    session: str
    position: int
    at: datetime
    source: Source | None


def is_of_another(crystal: Crystal, row: sqlite3.Row) -> bool:
    """Return whether somebody else, who speaks for themselves, said these words too; an echo is nobody's own."""
    there, here = row["speaker"].strip().casefold(), crystal.speaker.strip().casefold()
    ranks = (crystal.trust.rank, Trust(row["trust"]).rank)
    return bool(there and here) and there != here and min(ranks) >= Trust.AGENT.rank and not crystal.distinct


def joined_trust(known: Crystal, again: Crystal) -> Trust:
    """Return the trust of a text that is met again: of what somebody said the highest, for an echo lowers nobody's.

    What was derived has the least of what it was derived from, each time.
    """
    is_said = known.origin in _SAID and not (known.parents or again.parents)
    both = (known.trust, again.trust)
    return max(both, key=lambda trust: trust.rank) if is_said else least_trust(both)


def joined_heard(known: Crystal, again: Crystal) -> str:
    """Return what a text that is met again was said after; nothing where it is not an agent's alone."""
    is_agents = joined_trust(known, again) is Trust.AGENT
    return least_heard((known.heard, again.heard)) if is_agents else ""


def source_in(row: sqlite3.Row) -> Source | None:
    """Return the file and lines of an occurrence; None when it came from no file."""
    return OccurrenceRow.table.value(Source, row) if row["file"] else None


def crystal_in(row: sqlite3.Row, source: Source | None) -> Crystal:
    """Return the crystal of a row, with a place where its text was met."""
    speaker = row["speaker"]
    distinct = bool(speaker) and row["digest"] == crystal_digest(Origin(row["origin"]), row["text"], speaker)
    return CrystalRow.table.value(Crystal, row, source=source, distinct=distinct)
