"""The life of every line of MEMORY.md: versions, births and deaths, evidence, pointers, tombstones."""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from state.changes.change import CurrentLine
from state.document.operations import Why
from state.document.pointer import parse_pointer
from state.document.sections import SectionName
from state.dream import HUMAN, MERGED, Dream, PointerLine, encode_record
from state.errors import StorageError
from state.stores.database.connection import open_unmigrated
from state.stores.database.moments import from_text, to_text
from state.stores.database.table import unpacked
from state.stores.database.tables import DeletedLine, EvidenceRow, LineRow, PointerRow, VersionRow
from state.text.words import normalise
from state.trust import Trust

_POINTERS = SectionName.POINTERS
_MOST_NAMESAKES = 20
_SECTIONS = """SELECT json_group_object(section, lines) FROM
(SELECT section, count(*) AS lines FROM lines WHERE died_in IS NULL GROUP BY section)"""

# A line of another importance is the same one.
_TOPICS = """
WITH told AS (
    SELECT born_in AS version, text, importance, 0 AS has_left FROM lines
    WHERE born_in IN (SELECT value FROM json_each(?1)) AND section <> ?2 AND lines.id NOT IN (
        SELECT successor FROM lines old WHERE old.died_in = lines.born_in AND fate = 'weighed')
    UNION ALL
    SELECT died_in, text, importance, 1 FROM lines
    WHERE died_in IN (SELECT value FROM json_each(?1)) AND section <> ?2 AND fate = 'evicted'),
placed AS (
    SELECT *, row_number() OVER (PARTITION BY version ORDER BY has_left, importance DESC) AS place FROM told)
SELECT version, text FROM placed WHERE place <= 4 ORDER BY version, place"""


@dataclass(frozen=True, slots=True)
class Version:
    """One committed version of MEMORY.md, without its text.

    Its changes: lines that were `added`; `revised`, which is merged, moved and weighed too; `recalled` from their
    crystals; `evicted`; `closed`, as they were answered or deleted; and those that its owner was `asked` about.
    """

    number: int
    at: datetime
    cause: str
    reason: str
    dream: str
    model: str
    calls: int
    tokens: int
    usd: float
    seconds: float
    characters: int
    added: int
    revised: int
    recalled: int
    evicted: int
    closed: int
    asked: int
    notes: int


@dataclass(frozen=True, slots=True)
class LineLife:
    """A line from birth to death; `evidence` holds ids of crystals."""

    id: str
    section: SectionName
    text: str
    born_in: int
    born_at: datetime
    died_in: int | None
    fate: str
    successor: str
    crystal: str
    trust: Trust
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Author:
    """The version that wrote a line: its number, cause and author (a model or something else)."""

    version: int
    cause: str
    name: str


class Lineage:
    """Versions and lines in state.db."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _first(self, query: str, *values: object) -> Any:  # noqa: ANN401 - whatever the column holds
        """Return the first column of the first row; None if there is no row."""
        row = self._connection.execute(query, values).fetchone()
        return row[0] if row else None

    def _column(self, query: str, *values: object) -> list[Any]:
        return [row[0] for row in self._connection.execute(query, values)]

    # Versions.

    def last_version(self) -> int:
        """Return the number of the last committed version; 0 if there is none."""
        return int(self._first("SELECT coalesce(max(number), 0) FROM versions"))

    def standing(self) -> tuple[int, str]:
        """Return the number of the current version and the digest of its text; (0, "") before the first."""
        query = "SELECT number, digest FROM versions WHERE number > 0 ORDER BY number DESC LIMIT 1"
        row = self._connection.execute(query).fetchone()
        return (int(row["number"]), str(row["digest"])) if row else (0, "")

    def text(self, number: int) -> str:
        """Return the text of this version; "" if it is not kept."""
        return unpacked(self._first("SELECT text FROM versions WHERE number = ?", number))

    def last_dream_at(self) -> datetime:
        """Return when a dream last made a version; the epoch if none did."""
        at = self._first("SELECT max(at) FROM versions WHERE cause = 'dream'")
        return from_text(at) if at else datetime.fromtimestamp(0, UTC)

    def last_dream(self) -> int:
        """Return the number of the last version that a dream made; 0 if none did."""
        return int(self._first("SELECT coalesce(max(number), 0) FROM versions WHERE cause = 'dream'"))

    def has(self, number: int) -> bool:
        """Return whether there is a version with this number."""
        return self._first("SELECT 1 FROM versions WHERE number = ?", number) is not None

    def is_overtaken(self, number: int) -> bool:
        """Return whether this version, or a later one, was made by anybody but the owner."""
        query = "SELECT 1 FROM versions WHERE number >= ? AND cause NOT IN (?, ?)"
        return self._first(query, number, HUMAN, MERGED) is not None

    def has_text(self, text: str) -> bool:
        """Return whether any version has this text, or had it before something of it was forgotten."""
        query = "SELECT 1 FROM versions WHERE number > 0 AND (digest = ?1 OR instr(former_digests, ?1))"
        return self._first(query, digest_of(text)) is not None

    def versions_after(self, number: int) -> list[int]:
        """Return the numbers of the later versions, in order."""
        return self._column("SELECT number FROM versions WHERE number > ? ORDER BY number", number)

    def emptied_after(self, number: int) -> list[int]:
        """Return the numbers of the later versions whose records a forgetting emptied."""
        return self._column("SELECT number FROM versions WHERE number > ? AND length(record) = 0", number)

    def version_of(self, dream: str) -> int | None:
        """Return the number of the version that this dream committed; None if it did not commit."""
        found: int | None = self._first("SELECT number FROM versions WHERE dream = ?", dream)
        return found

    def versions(self, limit: int) -> list[Version]:
        """Return the last versions, newest first."""
        rest = "WHERE number > 0 ORDER BY number DESC LIMIT ?"
        return VersionRow.table.read(Version, self._connection, rest, limit)

    def version_before(self, moment: datetime) -> Version | None:
        """Return the last version made before this moment; None if there was none."""
        rest = "WHERE number > 0 AND at < ? ORDER BY number DESC LIMIT 1"
        return next(iter(VersionRow.table.read(Version, self._connection, rest, to_text(moment))), None)

    def versions_by_number(self, numbers: Iterable[int]) -> dict[int, Version]:
        """Return the versions with these numbers; unknown numbers are left out."""
        which = "WHERE number > 0 AND number IN (SELECT value FROM json_each(?))"
        found = VersionRow.table.read(Version, self._connection, which, json.dumps(list(numbers)))
        return {version.number: version for version in found}

    def topics(self, numbers: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """Return the most important lines that each of these versions wrote, then those that it evicted."""
        found: dict[int, tuple[str, ...]] = {}
        rows = self._connection.execute(_TOPICS, (json.dumps(list(numbers)), _POINTERS.value))
        for number, text in rows:
            found[number] = (*found.get(number, ()), text)
        return found

    def sections_before(self, at: datetime) -> str:
        """Return how many lines each section had at this moment, as JSON."""
        query = "SELECT sections FROM versions WHERE at < ? AND number > 0 ORDER BY at DESC, number DESC LIMIT 1"
        return self._first(query, to_text(at)) or "{}"

    def lost(self, since: datetime) -> int:
        """Return how many lines were evicted since this moment and are no crystals any more."""
        query = """SELECT count(*) FROM lines WHERE fate = 'evicted' AND section <> ?
                   AND died_in > (SELECT coalesce(max(number), 0) FROM versions WHERE at < ?)
                   AND NOT EXISTS (SELECT 1 FROM crystals WHERE crystals.id = lines.crystal)"""
        return int(self._first(query, _POINTERS.value, to_text(since)))

    # Lines.

    def next_line(self) -> int:
        """Return the number for the next line's id."""
        return int(self._first("SELECT coalesce(max(CAST(substr(id, 2) AS INTEGER)), 0) + 1 FROM lines"))

    def knows(self, lines: Iterable[CurrentLine]) -> bool:
        """Return whether any of these lines' ids was ever used."""
        ids = json.dumps([line.id for line in lines])
        return self._first("SELECT 1 FROM lines WHERE id IN (SELECT value FROM json_each(?))", ids) is not None

    def texts(self) -> set[str]:
        """Return the normalised texts of all lines that ever existed."""
        return set(map(normalise, self._column("SELECT text FROM lines")))

    def current_lines(self) -> list[CurrentLine]:
        """Return the lines of the last committed version, each with its crystal: a pointer with that behind it."""
        lines = LineRow.table.read(CurrentLine, self._connection, "WHERE died_in IS NULL")
        rows = self._connection.execute("SELECT keywords, crystal FROM pointers WHERE standing = 1")
        behind = {row["keywords"]: row["crystal"] for row in rows}

        def crystal(line: CurrentLine) -> str:
            parsed = _pointer_in(line)
            return behind.get(parsed[1], "") if parsed is not None else line.crystal

        return [replace(line, crystal=crystal(line)) for line in lines]

    def lines(self, ids: Iterable[str]) -> dict[str, CurrentLine]:
        """Return the lines with these ids as they stood, current or gone, by id."""
        which = "WHERE id IN (SELECT value FROM json_each(?))"
        found = LineRow.table.read(CurrentLine, self._connection, which, json.dumps(list(ids)))
        return {line.id: line for line in found}

    def evidence(self) -> dict[str, tuple[str, ...]]:
        """Return the ids of the crystals that support each current line, by the line's id."""
        return self._evidence("JOIN lines ON line = id WHERE died_in IS NULL ORDER BY 1, 2")

    def evidence_of(self, lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return the ids of the crystals that supported each of these lines, current or gone."""
        which = "WHERE line IN (SELECT value FROM json_each(?)) ORDER BY 1, version, 2"
        return self._evidence(which, json.dumps(list(lines)))

    def evidence_through(self, lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return the ids of the crystals that supported each of these lines, or a line that it replaced."""
        rows = self._connection.execute(
            """WITH RECURSIVE back(line, former) AS (
                   SELECT value, value FROM json_each(?)
                   UNION SELECT back.line, lines.id FROM back
                   JOIN lines ON successor = former AND successor <> '')
               SELECT DISTINCT back.line, crystal FROM back JOIN evidence ON evidence.line = former ORDER BY 1, 2""",
            (json.dumps(list(lines)),),
        )
        return {line: tuple(row[1] for row in group) for line, group in groupby(rows, key=lambda row: str(row[0]))}

    def rest_of(self, crystals: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return the evidence of the lines whose wording these crystals have, by crystal; without it, none."""
        rows = self._connection.execute(
            "SELECT DISTINCT l.crystal, e.crystal FROM lines l JOIN evidence e ON e.line = l.id"
            " WHERE l.crystal <> '' AND l.crystal IN (SELECT value FROM json_each(?)) ORDER BY 1, 2",
            (json.dumps(list(crystals)),),
        )
        found: dict[str, tuple[str, ...]] = {}
        for wording, crystal in rows:
            found[wording] = (*found.get(wording, ()), crystal)
        return found

    def _evidence(self, which: str, *values: str) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for line, crystal in self._connection.execute(f"SELECT line, evidence.crystal FROM evidence {which}", values):
            found[line] = (*found.get(line, ()), crystal)
        return found

    def authors(self) -> dict[str, Author]:
        """Return who wrote each current line, by the line's id: who first did, if it was moved or restored since."""
        rows = self._connection.execute(
            """WITH standing AS (SELECT id, text, born_at FROM lines WHERE died_in IS NULL),
               first AS (SELECT text, born_at, min(born_in) AS number FROM lines
                         WHERE born_at IN (SELECT born_at FROM standing) GROUP BY text, born_at)
               SELECT id, number, cause, model FROM standing JOIN first USING (text, born_at)
               JOIN versions USING (number)"""
        )
        return {row["id"]: Author(row["number"], row["cause"], row["model"]) for row in rows}

    def as_it_was(self, line: CurrentLine) -> tuple[CurrentLine, tuple[str, ...]]:
        """Return a restored line with what the last line of its text had, and the crystals which that rested on."""
        same = (one for one in self.lives(line.text, _MOST_NAMESAKES) if normalise(one.text) == line.key)
        life = next(same, None)
        if life is None:
            return line, ()
        (was,) = LineRow.table.read(CurrentLine, self._connection, "WHERE id = ?", life.id)
        return replace(was, id="", section=line.section, text=line.text, pinned=line.pinned), life.evidence

    def stood_in(self, number: int) -> dict[str, CurrentLine]:
        """Return the lines of this version, as they were, by their normalised texts."""
        condition = "WHERE born_in <= ? AND (died_in IS NULL OR died_in > ?)"
        lines = LineRow.table.read(CurrentLine, self._connection, condition, number, number)
        return {line.key: line for line in lines}

    def handwritten(self) -> set[str]:
        """Return the ids of the current lines that the owner wrote: without input as evidence, and not merged."""
        rows = self._connection.execute(
            """SELECT id FROM lines l WHERE died_in IS NULL AND trust = ?
               AND NOT EXISTS (SELECT 1 FROM evidence e JOIN crystals c ON c.id = e.crystal
                               WHERE line = l.id AND c.origin <> 'seed')
               AND NOT EXISTS (SELECT 1 FROM lines WHERE successor = l.id AND successor <> '' AND fate = ?)""",
            (Trust.OWNER.value, Why.MERGED.value),
        )
        return {row["id"] for row in rows}

    def lives(self, key_part: str, limit: int = 20) -> list[LineLife]:
        """Return lines, current or gone, whose text contains this; current ones first, then the latest."""
        wanted = normalise(key_part)
        rows = self._connection.execute("SELECT * FROM lines ORDER BY died_in IS NOT NULL, born_in DESC")
        return [self._life(row) for row in islice((row for row in rows if wanted in normalise(row["text"])), limit)]

    def life(self, line: str) -> LineLife | None:
        """Return the life of the line with this id; None if it is unknown."""
        return next(iter(self._lives("SELECT * FROM lines WHERE id = ?", line)), None)

    def ancestors(self, line: str) -> list[LineLife]:
        """Return the lines that this one replaced, directly or indirectly, nearest first."""
        return self._lives(
            """WITH RECURSIVE back(id) AS (
                   SELECT id FROM lines WHERE successor = ?
                   UNION SELECT lines.id FROM lines JOIN back ON lines.successor = back.id)
               SELECT lines.* FROM lines JOIN back USING (id) ORDER BY died_in DESC, lines.id""",
            line,
        )

    def resting_on(self, crystal: str, limit: int) -> tuple[list[LineLife], int]:
        """Return lines that cite this crystal or became it, current ones first, and how many there are."""
        which = "id IN (SELECT line FROM evidence WHERE crystal = ?1 UNION SELECT id FROM lines WHERE crystal = ?1)"
        order = "died_in IS NOT NULL, died_in DESC, born_in DESC, id"
        found = self._lives(f"SELECT * FROM lines WHERE {which} ORDER BY {order} LIMIT ?2", crystal, limit)
        return found, int(self._first(f"SELECT count(*) FROM lines WHERE {which}", crystal))

    def _lives(self, query: str, *values: object) -> list[LineLife]:
        return [self._life(row) for row in self._connection.execute(query, values)]

    def _life(self, row: sqlite3.Row) -> LineLife:
        evidence = self._column("SELECT crystal FROM evidence WHERE line = ? ORDER BY version, crystal", row["id"])
        return LineRow.table.value(LineLife, row, evidence=tuple(evidence))

    def deleted_lines(self, limit: int) -> tuple[list[DeletedLine], int]:
        """Return lines that the owner deleted, latest first, and how many there are."""
        table, latest = DeletedLine.table, "ORDER BY at DESC, text LIMIT ?"
        return table.read(DeletedLine, self._connection, latest, limit), table.count(self._connection)

    def tombstones(self) -> list[str]:
        """Return the lines that the owner deleted, latest last."""
        return self._column("SELECT text FROM tombstones ORDER BY at, text")

    # Pointers.

    def pointers_to(self, crystal: str, limit: int) -> tuple[list[tuple[PointerLine, bool]], int]:
        """Return pointers to this crystal and whether they are current, those first, and how many there are."""
        order = "ORDER BY standing DESC, made_in DESC, keywords LIMIT ?"
        rows = self._connection.execute(f"SELECT * FROM pointers WHERE crystal = ? {order}", (crystal, limit))
        found = [(PointerRow.table.value(PointerLine, row), bool(row["standing"])) for row in rows]
        return found, PointerRow.table.count(self._connection, "crystal = ?", crystal)

    def pointers(self, *, current: bool) -> list[PointerLine]:
        """Return the current or the retired pointers whose crystals still exist."""
        rest = f"standing = {int(current)} AND crystal IN (SELECT id FROM crystals) ORDER BY made_in, keywords"
        return PointerRow.table.read(PointerLine, self._connection, f"WHERE {rest}")

    def use_pointer(self, keywords: str) -> None:
        """Count one use of the pointer: somebody searched for exactly its keywords."""
        self._connection.execute("UPDATE pointers SET uses = uses + 1 WHERE keywords = ?", (keywords,))

    # Recording versions. In the caller's transaction.

    def save(self, number: int, cause: str, text: str, at: datetime) -> None:
        """Record a text that no dream wrote as this version."""
        self._add_version(None, number=number, at=at, cause=cause, text=text)

    def _add_version(self, usage: object, *, text: str, **row: object) -> None:
        said = {"text": text, "digest": digest_of(text), "characters": len(text)}
        VersionRow.table.add(self._connection, usage, "INSERT OR REPLACE", **row, **said)

    def record(self, dream: Dream) -> None:
        """Record a committed dream with its text."""
        self._record_lines(dream)
        self._record_pointers(dream)
        self._add_version(
            dream.usage,
            number=dream.number,
            at=dream.at,
            cause=dream.cause,
            dream=dream.id,
            reason=dream.reason,
            model=dream.author,
            seconds=dream.seconds,
            **dream.counts,
            sections=self._first(_SECTIONS),
            notes=dream.notes,
            text=dream.after,
            record=encode_record(dream),
        )
        for text in dream.tombstones:
            DeletedLine.table.add(self._connection, None, "INSERT OR IGNORE", text=text, at=dream.at)
        for text in dream.lifted_tombstones:
            DeletedLine.table.delete(self._connection, "text = ?", text)

    def _record_lines(self, dream: Dream) -> None:
        for change in dream.changes:
            if change.why is Why.PINNED:
                continue
            for line in change.come:
                crystal = "" if line.section is _POINTERS else line.crystal
                LineRow.table.add(self._connection, line, born_in=dream.number, crystal=crystal)
                row = {"line": line.id, "version": dream.number}
                for crystal in change.evidence:
                    EvidenceRow.table.add(self._connection, None, "INSERT OR IGNORE", crystal=crystal, **row)
            # A pointer is no new form of the line that it leads to.
            successor = change.come[0].id if change.come and change.why is not Why.EVICTED else ""
            for line in change.gone:
                if line.above:  # it stood above the title, so no version recorded it
                    LineRow.table.add(self._connection, line, "INSERT OR IGNORE", born_in=dream.number)
                died = {"died_in": dream.number, "fate": change.why, "crystal": line.crystal}
                LineRow.table.change(self._connection, "id = ?", line.id, successor=successor, **died)

    def _record_pointers(self, dream: Dream) -> None:
        """Record new pointers, and which of all pointers are in the file now."""
        for change in dream.changes:
            for line in change.come:
                if (parsed := _pointer_in(line)) is not None and line.crystal:
                    self._record_pointer(parsed, line.crystal, change.gone, dream.number)
        texts = self._column("SELECT text FROM lines WHERE died_in IS NULL AND section = ?", _POINTERS.value)
        keywords = [parsed[1] for text in texts if (parsed := parse_pointer(text)) is not None]
        self._connection.execute(
            "UPDATE pointers SET standing = NOT standing"
            " WHERE standing <> (keywords IN (SELECT value FROM json_each(?)))",
            (json.dumps(keywords),),
        )

    def _record_pointer(
        self, parsed: tuple[str, str], crystal: str, gone: Sequence[CurrentLine], version: int
    ) -> None:
        """Record a pointer; one that replaces another inherits its line and its use count."""
        topic, keywords = parsed
        line, uses = next((one.id for one in gone if one.section is not _POINTERS), ""), 0
        for former in filter(None, map(_pointer_in, reversed(gone))):
            query = "SELECT line, uses FROM pointers WHERE keywords = ?"
            if (row := self._connection.execute(query, (former[1],)).fetchone()) is not None:
                line, uses = row
        then = "ON CONFLICT (keywords) DO UPDATE SET standing = 1, crystal = excluded.crystal, line = excluded.line"
        pointer = PointerLine(topic, keywords, crystal, line, uses)
        PointerRow.table.add(self._connection, pointer, "INSERT", then, made_in=version)


def _pointer_in(line: CurrentLine) -> tuple[str, str] | None:
    """Return a pointer's topic and keywords; None for any other line."""
    return parse_pointer(line.text) if line.section is _POINTERS else None


def digest_of(text: str) -> str:
    """Return the digest of a version's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def last_text(database: Path) -> str:
    """Return the text of the last version in this state.db, read without its lock; "" if it cannot be read."""
    with suppress(sqlite3.Error, StorageError), open_unmigrated(database) as connection:
        lineage = Lineage(connection)
        return lineage.text(lineage.standing()[0])
    return ""
