"""Wordings: which crystals are wordings of one line of MEMORY.md, so that a search shows it once, as it is now."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from state.document.operations import Why
from state.document.sections import SectionName
from state.search.ranking import Former
from state.stores.database.connection import from_text, optional_text
from state.text.words import only_asks

# At most this many former wordings of a line are told.
MOST_FORMER = 3
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
