"""Beneath: what a search tells of a result beside its text.

That is the line of MEMORY.md that says it, so that a search shows it once, as it is now; what that line said before;
and what was said later and is near.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from state.crystals.crystal import Crystal, Origin
from state.document.operations import Why
from state.document.sections import SectionName
from state.search.ranking import Former, Hit
from state.search.updates import LEAST_NEAR, are_near
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.nearest import cosines
from state.stores.database.moments import from_text, optional_text
from state.text.words import covers, ends_as_question, normalise, only_asks

# At most this many former wordings of a line are told.
MOST_FORMER = 3
# A line retells a text if it has this share of its words, and all of its numbers.
RETOLD = 0.75
# Each given crystal with the lines that came after a line which it worded or supported (`of`). `rests`: the later
# line rests on it, too.
_AHEAD = """
WITH RECURSIVE given(crystal) AS (SELECT value FROM json_each(:given)),
ahead(start, of, id, depth) AS (
    SELECT crystal, 'wording', id, 0 FROM given JOIN lines USING (crystal) WHERE born_at < :until
    UNION SELECT crystal, 'evidence', line, 0 FROM given JOIN evidence USING (crystal)
    UNION SELECT start, of, later.id, depth + 1 FROM ahead JOIN lines USING (id) JOIN lines later
          ON later.id = lines.successor WHERE later.born_at < :until AND depth < 1000)
SELECT DISTINCT start, of, id, crystal, died_in IS NULL AS stands,
    EXISTS (SELECT 1 FROM evidence e WHERE e.line = ahead.id AND e.crystal = start) AS rests
FROM ahead JOIN lines USING (id) WHERE crystal <> '' AND section <> :pointers
ORDER BY stands, CAST(substr(id, 2) AS INTEGER)
"""
# The given crystals that word an open question, and those that worded or raised one that was answered; its `text` is
# "?" if the crystal worded it, as then it says nothing else.
_QUESTIONS = """
WITH given(crystal) AS (SELECT value FROM json_each(:given))
SELECT given.crystal, '?' AS text, died_in IS NULL AS stands FROM given JOIN lines USING (crystal)
WHERE section = :gaps AND born_at < :until AND (died_in IS NULL OR fate = :answered)
UNION SELECT given.crystal, crystals.text, 0 FROM given JOIN evidence USING (crystal) JOIN lines ON lines.id = line
    JOIN crystals ON crystals.id = given.crystal WHERE section = :gaps AND born_at < :until AND fate = :answered
"""
_BACK = """
WITH RECURSIVE back(id) AS (
    SELECT id FROM lines WHERE successor = ? UNION SELECT lines.id FROM lines JOIN back ON lines.successor = back.id)
SELECT text, born_at, died_in IS born_in AS is_draft FROM lines JOIN back USING (id)
ORDER BY CAST(substr(id, 2) AS INTEGER) DESC LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class Place:
    """The latest wording of a line: its crystal, the line's id, and whether the line stands in MEMORY.md."""

    crystal: str
    line: str
    stands: bool


@dataclass(frozen=True, slots=True)
class Lines:
    """What some crystals are to the lines of MEMORY.md, by the crystal's id.

    `latest` has the latest wording of the line that a crystal worded, `instead` that of a line whose former wording
    rested on the crystal, if the line does not rest on it any more and no other standing line does. `open` crystals
    word a question that stands there, `answered` ones only asked what was answered.
    """

    latest: Mapping[str, Place]
    instead: Mapping[str, Place]
    open: frozenset[str] = frozenset()
    answered: frozenset[str] = frozenset()


def lines_of(connection: sqlite3.Connection, crystals: Iterable[str], until: datetime | None = None) -> Lines:
    """Return what these crystals were to lines, as of `until`."""
    values = {
        "given": json.dumps(list(crystals)),
        "until": optional_text(until) or "~",  # "~" sorts after every timestamp
        "pointers": SectionName.POINTERS.value,
        "gaps": SectionName.GAPS.value,
        "answered": Why.ANSWERED.value,
    }
    latest, instead, held = dict[str, Place](), dict[str, Place](), set[str]()
    questions = connection.execute(_QUESTIONS, values).fetchall()
    open_ = frozenset(row["crystal"] for row in questions if row["stands"])
    answered = frozenset(row["crystal"] for row in questions if not row["stands"] and only_asks(row["text"]))
    for row in connection.execute(_AHEAD, values):
        place = Place(row["crystal"], row["id"], bool(row["stands"]))
        if row["of"] == "wording":
            latest[row["start"]] = place
        elif not row["rests"]:
            instead[row["start"]] = place
        elif row["stands"]:
            held.add(row["start"])
    instead = {start: place for start, place in instead.items() if start not in held}
    return Lines(latest, instead, open_, answered - open_)


def former_wordings(connection: sqlite3.Connection, line: str) -> tuple[Former, ...]:
    """Return what a line said before, the latest first, without what it says now."""
    rows = connection.execute(_BACK, (line, MOST_FORMER)).fetchall()
    return tuple(Former(row["text"], from_text(row["born_at"]), bool(row["is_draft"])) for row in rows)


def told_beneath(
    crystals: Crystals,
    hits: Sequence[Hit],
    lines: Lines,
    gone: Mapping[str, Sequence[Crystal]],
    candidates: Mapping[int, Crystal],
    until: datetime | None,
) -> list[Hit]:
    """Return the hits with what is told beneath each of them.

    `gone` are the superseded values that are not shown, by the id of what holds; `candidates` are what the search has
    read. What is shown itself is not told as a former wording.
    """
    places = {place.crystal: place for place in lines.latest.values()}
    shown = {normalise(hit.crystal.text) for hit in hits}
    later = _later(crystals, [hit.crystal for hit in hits], candidates, until)

    def told(hit: Hit) -> Hit:
        id_ = hit.crystal.id
        place = places.get(id_)
        before = former_wordings(crystals.connection, place.line) if place else ()
        retold = [one for one in gone.get(id_, ()) if any(covers(was.text, one.text, RETOLD) for was in before)]
        values = [Former(one.text, one.created_at, is_draft=False) for one in gone.get(id_, ()) if one not in retold]
        former = {normalise(one.text): one for one in (*before, *values)}
        rest = [one for text, one in former.items() if text not in shown]
        rest = sorted(rest, key=lambda one: one.at, reverse=True)[:MOST_FORMER]
        stands = place.line if place and place.stands else ""
        after = None if hit.superseded_by else later.get(id_)
        is_note = hit.crystal.origin is not Origin.SESSION
        asks = id_ in lines.open or (is_note and only_asks(hit.crystal.text))
        return replace(hit, line=stands, former=tuple(rest), later=after, asks=asks)

    return [told(hit) for hit in hits]


def _later(
    crystals: Crystals, hits: Iterable[Crystal], candidates: Mapping[int, Crystal], until: datetime | None
) -> dict[str, Crystal]:
    """Map each result to the nearest candidate that was said later, elsewhere than in its session, and tells.

    It has the time at which it was said last: a value that came back stands beneath the one between.
    """
    rows = crystals.keys(one.id for one in hits)
    said = crystals.said_last({*rows.values(), *candidates}, until)
    keys, vectors = crystals.vectors.read(said)
    place = {key: at for at, key in enumerate(keys)}
    found = {}
    for one in hits:
        # A text beside the store has no row.
        if vectors is None or (key := rows.get(one.id)) not in place:
            continue
        near = cosines(vectors, vectors[place[key]]).tolist()
        for cosine, other in sorted(zip(near, keys, strict=True), reverse=True):
            if cosine < LEAST_NEAR:
                break
            text = candidates.get(other)
            if (
                text is not None
                and said[key] < said[other]
                and not (one.session and one.session == text.session)
                and not ends_as_question(text.text)
                and are_near(one, text, cosine)
            ):
                found[one.id] = replace(text, created_at=said[other])
                break
    return found
