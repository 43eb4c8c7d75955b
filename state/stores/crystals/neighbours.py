"""Neighbours: what was said just before and after some crystals in their sessions, for searches and their readers."""

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from state.crystals.crystal import Origin
from state.search.ranking import CONTEXT_WEIGHTS
from state.stores.database.connection import from_text, to_text
from state.text.words import normalise
from state.trust import Trust, least_heard, least_trust

_OFFSETS = sorted(CONTEXT_WEIGHTS, key=lambda offset: -CONTEXT_WEIGHTS[offset])
_FARTHEST = max(abs(offset) for offset in CONTEXT_WEIGHTS)
# At most this many crystals per position are read; where more share one, positions say nothing about the order.
_SHARERS = 8
# Notes are stamped in whole seconds. A session ends after _SESSION_HOURS without a turn; of a long one, at most
# _MOST_TURNS turns are read.
_STAMP = timedelta(seconds=1)
_SESSION_HOURS = timedelta(hours=6)
_MOST_TURNS = 1_000
# A shorter sentence may be the same by chance.
_QUOTED = 30
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|[。！？\n]+")


class Row(NamedTuple):
    """The columns of a crystal that ranking needs before its text is read."""

    session: str
    position: int
    speaker: str
    at: str
    kind: str
    trust: str

    @property
    def created_at(self) -> datetime:
        """Return when it was created, parsed on demand. Raise StorageError if the text is no timestamp."""
        return from_text(self.at)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The candidates by key, and the crystals around them by session and position."""

    rows: dict[int, Row]
    places: dict[str, dict[int, list[int]]] = field(default_factory=dict)

    def window(self, key: int) -> list[tuple[int, int]]:
        """Return (row, offset) of each neighbour of a candidate, highest weight first."""
        row = self.rows[key]
        there = self.places.get(row.session)
        if there is None:
            return []
        at = row.position
        return [(other, offset) for offset in _OFFSETS for other in there.get(at + offset, ()) if other != key]

    def all_keys(self) -> set[int]:
        """Return the keys of the candidates and all their neighbours."""
        return set(self.rows).union(*(keys for there in self.places.values() for keys in there.values()))


def surroundings(
    connection: sqlite3.Connection, keys: Collection[int], condition: str, values: Sequence[object]
) -> Surroundings:
    """Return these rows and their direct neighbours that pass the condition, and the places around them."""
    rows = read_rows(connection, keys, condition, values)
    spans: dict[str, set[int]] = defaultdict(set)
    for row in rows.values():
        if row.session:
            # Direct neighbours are candidates too, so their neighbours are needed as well.
            spans[row.session].update(range(row.position - _FARTHEST - 1, row.position + _FARTHEST + 2))
    places: dict[str, dict[int, list[int]]] = {}
    cursor = connection.cursor()
    cursor.row_factory = None
    for session, positions in spans.items():
        there: dict[int, list[int]] = defaultdict(list)
        for _, run in groupby(enumerate(sorted(positions)), lambda pair: pair[1] - pair[0]):
            together = [position for _, position in run]
            first, last = together[0], together[-1]
            for position, crystal in cursor.execute(
                "SELECT position, crystal FROM occurrences WHERE session = ? AND position BETWEEN ? AND ? LIMIT ?",
                (session, first, last, (last - first + 1) * _SHARERS),
            ):
                there[position].append(crystal)
        places[session] = dict(there)
    beside = {
        key
        for row in rows.values()
        for offset in (-1, 1)
        for key in places.get(row.session, {}).get(row.position + offset, ())
    }
    return Surroundings(rows | read_rows(connection, beside - rows.keys(), condition, values), places)


def said_around(connection: sqlite3.Connection, key: int, most: int) -> tuple[list[int], list[int]]:
    """Return the rows said last before a crystal in its session, and first after it, at most `most` each.

    A long turn is several crystals at one position, in row order. A crystal that occurs repeatedly is returned once.
    Both lists are empty for a crystal that is in no session or does not exist.
    """
    found: list[list[int]] = []
    for beyond, way in (("<", "DESC"), (">", "ASC")):
        rows = connection.execute(
            f"SELECT o.crystal FROM occurrences o JOIN crystals c ON c.key = ?1 AND o.session = c.session"
            f" WHERE c.session <> '' AND o.crystal <> ?1 AND (o.position, o.crystal) {beyond} (c.position, ?1)"
            f" ORDER BY o.position {way}, o.crystal {way} LIMIT ?2",
            (key, most * _SHARERS),
        )
        found.append(list(dict.fromkeys(int(row[0]) for row in rows))[:most])
    return found[0][::-1], found[1]


def heard_before(connection: sqlite3.Connection, at: datetime, text: str = "") -> str:
    """Return the least trusted source that the last speaking agent read since its owner's last word.

    That is "web", "tool" or "". A tool's output with a sentence of `text` counts as a page: the words are its own,
    and a file may be a stranger's, too. The session is the one in which an agent or its owner spoke last, in the six
    hours before `at`. Turns at one position count as the least trusted of them, because a page may end in words that
    the owner has said.
    """
    upto = to_text(at + _STAMP)
    last = connection.execute(
        "SELECT session FROM crystals WHERE created_at > ? AND created_at < ? AND origin = ? AND speaker <> ''"
        " AND trust IN (?, ?) ORDER BY created_at DESC LIMIT 1",
        (to_text(at - _SESSION_HOURS), upto, Origin.SESSION, Trust.AGENT, Trust.OWNER),
    ).fetchone()
    turns = connection.execute(
        "SELECT o.position, trust, text FROM occurrences o JOIN crystals ON key = o.crystal"
        " WHERE o.session = ? AND o.at < ? AND origin = ? ORDER BY o.position DESC LIMIT ?",
        (last["session"] if last else "", upto, Origin.SESSION, _MOST_TURNS),
    )
    heard, sentences = [""], _sentences(text)
    for _, turn in groupby(turns, key=lambda row: row["position"]):
        rows = list(turn)
        trust = least_trust([Trust(row["trust"]) for row in rows])
        if trust is Trust.OWNER:
            break
        is_quoted = trust is Trust.TOOL and any(_quotes(sentences, row["text"]) for row in rows)
        heard.append("" if trust.rank >= Trust.AGENT.rank else Trust.WEB.value if is_quoted else trust.value)
    return least_heard(heard)


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text, folded, that are long enough to be recognised as a quotation."""
    return [one for part in _SENTENCE_END.split(text) if len(one := normalise(part)) >= _QUOTED]


def _quotes(sentences: Collection[str], text: str) -> bool:
    said = normalise(text) if sentences else ""
    return any(one in said for one in sentences)


def read_rows(
    connection: sqlite3.Connection, keys: Collection[int], condition: str, values: Sequence[object]
) -> dict[int, Row]:
    """Return the rows with these keys that pass the condition, which is SQL over the table `crystals` or empty."""
    where = f" AND {condition}" if condition else ""
    cursor = connection.cursor()
    cursor.row_factory = None
    found = cursor.execute(
        "SELECT key, session, position, speaker, created_at, kind, trust FROM crystals"
        f" WHERE key IN (SELECT value FROM json_each(?)){where}",
        (json.dumps(list(keys)), *values),
    )
    return {key: Row(*columns) for key, *columns in found}
