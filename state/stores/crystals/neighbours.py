"""Neighbours: what was said just before and after some crystals in their sessions, and what it tells of them."""

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from state.crystals.crystal import Kind, Origin
from state.search.query import Question
from state.search.ranking import ALONE, CONTEXT_WEIGHTS, Signals, coverage, nearby_weight, shares, word_weight
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.full_text import phrase
from state.stores.database.moments import from_text, to_text
from state.trust import AGENT_NAMES, Trust, least_heard, least_trust
from state.zone import local

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_OFFSETS = sorted(CONTEXT_WEIGHTS, key=lambda offset: -CONTEXT_WEIGHTS[offset])
_FARTHEST = max(abs(offset) for offset in CONTEXT_WEIGHTS)
# At most this many crystals per position are read; where more share one, positions say nothing about the order.
_SHARERS = 8
# Notes are stamped in whole seconds. A session ends after _SESSION_HOURS without a turn; of a long one, at most
# _MOST_TURNS turns are read.
_STAMP = timedelta(seconds=1)
_SESSION_HOURS = timedelta(hours=6)
_MOST_TURNS = 1_000
# Fewer characters may be the same by chance; of a long text so many parts are looked for.
_QUOTED = 30
_NO_PERSON = (Trust.AGENT, Trust.TOOL)
_MOST_PARTS = 64
_CLAUSE_END = re.compile(r"[.!?;:,]\s+|\s[-–—]+\s|[()\[\]\"“”„«»。！？；：，、\n]+")


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
class Sought:
    """What a search looks for in texts: its query as it was read, the words and the vector.

    `shares` holds the weights of `words`, then those of words that occur nowhere. `scale` is the slope and shift of
    the embedder's calibration, `zone` the owner's. `texts` counts what is searched.
    """

    query: str
    question: Question
    words: Sequence[str]
    shares: Sequence[float]
    vector: "NDArray[np.float32] | None"
    scale: tuple[float, float]
    zone: tzinfo
    texts: int

    def cosines(self, crystals: Crystals, near: dict[int, float]) -> dict[int, float]:
        """Return the calibrated cosines of the rows of `near` to the question.

        Without an embedder, return `near` itself: the word coverage stands in.
        """
        if self.vector is None:
            return near
        slope, shift = self.scale
        return {key: slope * cosine + shift for key, cosine in crystals.vectors.cosines(self.vector, near).items()}

    def signals(self, said: Row, near: float, cosine: float) -> Signals:
        """Return the signals of a text that stands alone."""
        question, speaker = self.question, said.speaker
        return Signals(
            cosine=cosine,
            near=near,
            beside=ALONE * cosine,
            speaker=bool(question.names) and speaker.partition(" ")[0] in question.names,
            period=max((period.fit(local(said.created_at, self.zone)) for period in question.periods), default=0.0),
            # Texts by an agent count less, unless the question asks what an agent said.
            reply=not question.asks_reply and speaker.casefold() in AGENT_NAMES,
        )


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


@dataclass(frozen=True, slots=True)
class _HeldWords:
    """The weight of each word; by row, its words (as bits) and their factors there and for its neighbours."""

    shares: Sequence[float]
    rows: Mapping[int, tuple[int, float, float]]

    @classmethod
    def of(cls, connection: sqlite3.Connection, sought: Sought, keys: Iterable[int]) -> "_HeldWords":
        """Look up which of the words occur in each of these rows."""
        held = full_text.matching_words(connection, sought.words, keys)
        lengths = "SELECT key, length(text) FROM crystals WHERE key IN (SELECT value FROM json_each(?))"
        rows = {}
        for key, length in connection.execute(lengths, (json.dumps(list(held)),)):
            factor = word_weight(length, coverage(sought.shares, [(held[key], 1.0)]))
            rows[key] = (held[key], factor, factor * nearby_weight(length))
        return cls(sought.shares, rows)

    def near(self, key: int, others: Iterable[tuple[int, int]] = ()) -> float:
        """Return the share of the words that a row holds together with its neighbours, given as (row, offset)."""
        rows = self.rows
        window = [
            (there[0], there[2] * CONTEXT_WEIGHTS[offset])
            for other, offset in others
            if (there := rows.get(other)) is not None
        ]
        return coverage(self.shares, [*window, rows[key][:2]] if key in rows else window)

    def by_session(self, about: Surroundings) -> dict[str, float]:
        """Return, by session, the share of the query's words that its candidates hold together.

        A word weighs more the fewer sessions hold it; one that every session holds weighs nothing.
        """
        held: dict[str, int] = defaultdict(int)
        for key, row in about.rows.items():
            if row.session:
                held[row.session] |= self.rows[key][0] if key in self.rows else 0
        weights = shares(
            [sum(words >> bit & 1 for words in held.values()) for bit in range(len(self.shares))], len(held)
        )
        return {session: coverage(weights, [(words, 1.0)]) for session, words in held.items()}


def signals_of(
    crystals: Crystals, sought: Sought, keys: Collection[int], condition: str, values: Sequence[object]
) -> dict[int, Signals]:
    """Return the signals of these rows and of their direct neighbours, computed without their texts.

    The condition is SQL over the table `crystals`; rows that do not pass it have none.
    """
    about = surroundings(crystals.connection, keys, condition, values)
    held = _HeldWords.of(crystals.connection, sought, about.all_keys())
    by_session = held.by_session(about)
    rings = {key: about.window(key) for key in about.rows}
    near = {key: held.near(key, ring) for key, ring in rings.items()}
    cosines, found = sought.cosines(crystals, near), dict[int, Signals]()
    for key, row in about.rows.items():
        signals = sought.signals(row, near[key], cosines.get(key, 0.0))
        instruction = row.kind == Kind.INSTRUCTION and row.trust == Trust.OWNER
        if ring := rings[key]:  # the better of the two direct neighbours counts
            beside = max((cosines.get(other, 0.0) for other, offset in ring if offset in (-1, 1)), default=0.0)
            signals = replace(signals, beside=beside, session=by_session.get(row.session, 0.0))
            # Between people, what one tells the other to do always is a remark like any other.
            said = (about.rows[other] for other, _ in ring if other in about.rows)
            instruction = instruction and any(one.trust in _NO_PERSON for one in said)
        found[key] = replace(signals, instruction=True) if instruction else signals
    return found


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

    That is "web", "tool" or "". Where `text` repeats what a page or a tool said first in any session of these hours,
    it is "web": the words are not the agent's, whatever its owner has said since, and a file may be a stranger's,
    too. The session is the one in which an agent or its owner spoke last, in the six hours before `at`. Turns at one
    position count as the least trusted of them, because a page may end in words that the owner has said.
    """
    since, upto = to_text(at - _SESSION_HOURS), to_text(at + _STAMP)
    if any(_is_strangers(connection, part, since, upto) for part in _parts(text)):
        return Trust.WEB.value
    last = connection.execute(
        "SELECT session FROM crystals WHERE created_at > ? AND created_at < ? AND origin = ? AND speaker <> ''"
        " AND trust IN (?, ?) ORDER BY created_at DESC LIMIT 1",
        (since, upto, Origin.SESSION, Trust.AGENT, Trust.OWNER),
    ).fetchone()
    turns = connection.execute(
        "SELECT o.position, trust FROM occurrences o JOIN crystals ON key = o.crystal"
        " WHERE o.session = ? AND o.at < ? AND origin = ? ORDER BY o.position DESC LIMIT ?",
        (last["session"] if last else "", upto, Origin.SESSION, _MOST_TURNS),
    )
    heard = [""]
    for _, turn in groupby(turns, key=lambda row: row["position"]):
        trust = least_trust([Trust(row["trust"]) for row in turn])
        if trust is Trust.OWNER:
            break
        heard.append("" if trust.rank >= Trust.AGENT.rank else trust.value)
    return least_heard(heard)


def _parts(text: str) -> list[str]:
    """Return the parts of a text, of one clause or several, that are just long enough to be known as a quotation."""
    clauses, parts = [one for one in map(str.strip, _CLAUSE_END.split(text)) if one], list[str]()
    for start in range(min(len(clauses), _MOST_PARTS)):
        part = ""
        for clause in clauses[start:]:
            part = f"{part} {clause}".lstrip()
            if len(part) >= _QUOTED:
                parts.append(part)
                break
    return parts


def _is_strangers(connection: sqlite3.Connection, part: str, since: str, upto: str) -> bool:
    """Return whether a page or a tool said this between two times, before any agent did, and its owner did not."""
    rows = connection.execute(
        "SELECT trust, min(o.at) AS at FROM words JOIN crystals ON key = words.rowid"
        " JOIN occurrences o ON o.crystal = key WHERE words MATCH ? AND origin = ? AND o.at > ? AND o.at < ?"
        " GROUP BY trust ORDER BY at",
        (phrase(part), Origin.SESSION, since, upto),
    ).fetchall()
    said = [Trust(row["trust"]) for row in rows]
    return bool(said) and Trust.OWNER not in said and said[0].rank < Trust.AGENT.rank


def read_rows(
    connection: sqlite3.Connection, keys: Iterable[int], condition: str, values: Sequence[object]
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
