"""The life of every line of MEMORY.md: versions, births and deaths, evidence, pointers, tombstones."""

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

from state.document.document import SectionName
from state.document.operations import Action, Fate
from state.dream import FOUND, HUMAN, MERGED, CurrentLine, Dream, PastLine, PointerLine, encode_kept
from state.errors import StorageError
from state.stores.database.connection import from_text, open_unmigrated
from state.stores.database.tables import DeletedLineRow, EvidenceRow, LineRow, PointerRow, VersionRow
from state.text.words import normalise
from state.trust import Trust

# The erosion guard looks at the best of so many versions.
REMEMBERED_VERSIONS = 10
_ASCII = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Version:
    """One committed version of MEMORY.md, without its text."""

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
    evicted: int
    notes: int


@dataclass(frozen=True, slots=True)
class LineLife:
    """A line from its birth to its end; `evidence` are ids of crystals."""

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
    """The version that wrote a line: its number, its cause, and its author (a model, or what else wrote it)."""

    version: int
    cause: str
    name: str


class Lineage:
    """Versions and lines in state.db."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def last_version(self) -> int:
        """The number of the last committed version; 0 before the first."""
        return int(self._connection.execute("SELECT coalesce(max(number), 0) FROM versions").fetchone()[0])

    def standing(self) -> tuple[int, str]:
        """The number of the version that is the memory, and the digest of its text; 0 before the first."""
        query = "SELECT number, digest FROM versions WHERE number > 0 AND cause <> ? ORDER BY number DESC LIMIT 1"
        row = self._connection.execute(query, (FOUND,)).fetchone()
        return (int(row["number"]), str(row["digest"])) if row else (0, "")

    def text(self, number: int) -> str:
        """The text of this version; "" where it is not kept."""
        row = self._connection.execute("SELECT text FROM versions WHERE number = ?", (number,)).fetchone()
        return str(row["text"]) if row else ""

    def is_overtaken(self, number: int) -> bool:
        """Whether there is a version of this number, or a later one, that changed the memory beside its owner."""
        query = "SELECT 1 FROM versions WHERE number >= ? AND cause NOT IN (?, ?, ?)"
        return self._connection.execute(query, (number, HUMAN, MERGED, FOUND)).fetchone() is not None

    def has_text(self, text: str) -> bool:
        """Whether a version has this text."""
        query = "SELECT 1 FROM versions WHERE digest = ? AND number > 0"
        return self._connection.execute(query, (digest_of(text),)).fetchone() is not None

    def texts(self) -> set[str]:
        """The folded texts of all lines that there ever were."""
        return {normalise(row["text"]) for row in self._connection.execute("SELECT text FROM lines")}

    def made_at(self, second: str) -> list[int]:
        """The numbers of the versions of this second (ISO 8601, UTC)."""
        rows = self._connection.execute("SELECT number FROM versions WHERE substr(at, 1, 19) = ?", (second,))
        return [int(row["number"]) for row in rows]

    def versions_after(self, number: int) -> list[int]:
        """The numbers of the later versions, in order."""
        rows = self._connection.execute("SELECT number FROM versions WHERE number > ? ORDER BY number", (number,))
        return [int(row["number"]) for row in rows]

    def version_of(self, dream: str) -> int | None:
        """The number of the version that this dream committed; None when it did not."""
        row = self._connection.execute("SELECT number FROM versions WHERE dream = ?", (dream,)).fetchone()
        return int(row["number"]) if row else None

    def versions(self, limit: int) -> list[Version]:
        """The last versions, the newest first."""
        rest = "WHERE number > 0 ORDER BY number DESC LIMIT ?"
        return VersionRow.table.read(Version, self._connection, rest, limit)

    def versions_by_number(self, numbers: Iterable[int]) -> dict[int, Version]:
        """The versions of these numbers; those that there are none of are left out."""
        which = "WHERE number > 0 AND number IN (SELECT value FROM json_each(?))"
        found = VersionRow.table.read(Version, self._connection, which, json.dumps(list(numbers)))
        return {version.number: version for version in found}

    def next_line(self) -> int:
        """The number of the next line's id."""
        query = "SELECT coalesce(max(CAST(substr(id, 2) AS INTEGER)), 0) + 1 FROM lines"
        return int(self._connection.execute(query).fetchone()[0])

    def current_lines(self) -> list[CurrentLine]:
        """The lines of the last committed version."""
        return LineRow.table.read(CurrentLine, self._connection, "WHERE died_in IS NULL")

    def evidence(self) -> dict[str, tuple[str, ...]]:
        """The ids of the crystals on which each current line rests, by the line's id."""
        found: dict[str, tuple[str, ...]] = {}
        for row in self._connection.execute(
            "SELECT line, evidence.crystal FROM evidence JOIN lines ON line = id WHERE died_in IS NULL ORDER BY 1, 2"
        ):
            found[row["line"]] = (*found.get(row["line"], ()), row["crystal"])
        return found

    def authors(self) -> dict[str, Author]:
        """Who wrote each current line, by the line's id."""
        rows = self._connection.execute(
            "SELECT id, born_in, cause, model FROM lines JOIN versions ON number = born_in WHERE died_in IS NULL"
        )
        return {row["id"]: Author(row["born_in"], row["cause"], row["model"]) for row in rows}

    def handwritten(self) -> set[str]:
        """The current lines that stand as the owner wrote them: they rest on no input and were not merged."""
        rows = self._connection.execute(
            """SELECT id FROM lines l WHERE died_in IS NULL AND trust = ?
               AND NOT EXISTS (SELECT 1 FROM evidence e JOIN crystals c ON c.id = e.crystal
                               WHERE line = l.id AND c.origin <> 'seed')
               AND NOT EXISTS (SELECT 1 FROM lines WHERE successor = l.id AND successor <> '' AND fate = ?)""",
            (Trust.OWNER.value, Fate.MERGED.value),
        )
        return {row["id"] for row in rows}

    def lives(self, key_part: str, limit: int = 20) -> list[LineLife]:
        """Lines, current or gone, whose text contains this; the current ones first, then the latest."""
        wanted = normalise(key_part)
        # SQLite folds ASCII alone: of such texts those are read that hold a word of it, and all others.
        rows = self._connection.execute(
            "SELECT * FROM lines WHERE instr(lower(text), ?) OR length(text) <> length(CAST(text AS BLOB))"
            " ORDER BY died_in IS NOT NULL, born_in DESC",
            (max(_ASCII.findall(wanted), key=len, default=""),),
        )
        return [self._life(row) for row in islice((row for row in rows if wanted in normalise(row["text"])), limit)]

    def life(self, line: str) -> LineLife | None:
        """The life of the line with this id."""
        row = self._connection.execute("SELECT * FROM lines WHERE id = ?", (line,)).fetchone()
        return self._life(row) if row else None

    def ancestors(self, line: str) -> list[LineLife]:
        """The lines that this one replaced, directly or not, the nearest first."""
        rows = self._connection.execute(
            """WITH RECURSIVE back(id) AS (
                   SELECT id FROM lines WHERE successor = ?
                   UNION SELECT lines.id FROM lines JOIN back ON lines.successor = back.id)
               SELECT lines.* FROM lines JOIN back USING (id) ORDER BY died_in DESC, lines.id""",
            (line,),
        )
        return [self._life(row) for row in rows]

    def replaced(self) -> list[tuple[str, str]]:
        """The text of each line that was revised or merged, and of the line that took its place."""
        rows = self._connection.execute(
            "SELECT old.text AS old, new.text AS new FROM lines old JOIN lines new ON new.id = old.successor"
            " WHERE old.fate IN (?, ?) ORDER BY old.died_in, old.id",
            (Fate.REVISED.value, Fate.MERGED.value),
        )
        return [(row["old"], row["new"]) for row in rows]

    def resting_on(self, crystal: str, limit: int) -> tuple[list[LineLife], int]:
        """The lines that cite this crystal or have become it, the current ones first; and how many there are."""
        rows = self._connection.execute(
            """SELECT *, count(*) OVER () AS together FROM lines WHERE id IN
               (SELECT line FROM evidence WHERE crystal = ?1 UNION SELECT id FROM lines WHERE crystal = ?1)
               ORDER BY died_in IS NOT NULL, died_in DESC, born_in DESC, id LIMIT ?2""",
            (crystal, limit),
        ).fetchall()
        return [self._life(row) for row in rows], int(rows[0]["together"]) if rows else 0

    def pointers_to(self, crystal: str, limit: int) -> tuple[list[tuple[PointerLine, bool]], int]:
        """The pointers to this crystal and whether they still stand, those first; and how many there are."""
        rows = self._connection.execute(
            "SELECT *, count(*) OVER () AS together FROM pointers WHERE crystal = ?"
            " ORDER BY standing DESC, made_in DESC, keywords LIMIT ?",
            (crystal, limit),
        ).fetchall()
        found = [(PointerRow.table.value(PointerLine, row), bool(row["standing"])) for row in rows]
        return found, int(rows[0]["together"]) if rows else 0

    def deleted_lines(self, limit: int) -> tuple[list[tuple[str, datetime]], int]:
        """The lines that the owner deleted and when, the latest first; and how many there are."""
        rows = self._connection.execute("SELECT text, at FROM tombstones ORDER BY at DESC, text LIMIT ?", (limit,))
        return [(row["text"], from_text(row["at"])) for row in rows], DeletedLineRow.table.count(self._connection)

    def tombstones(self) -> list[str]:
        """Lines that the owner deleted, the latest last."""
        return [row["text"] for row in self._connection.execute("SELECT text FROM tombstones ORDER BY at, text")]

    def pointers(self, *, current: bool) -> list[PointerLine]:
        """The current pointers, or the retired ones whose crystals still exist."""
        rest = f"standing = {int(current)} AND crystal IN (SELECT id FROM crystals) ORDER BY made_in, keywords"
        return PointerRow.table.read(PointerLine, self._connection, f"WHERE {rest}")

    def lately_made(self) -> list[PointerLine]:
        """The pointers, also retired ones, to lines that left in the last ten versions, if their crystals exist."""
        return PointerRow.table.read(
            PointerLine,
            self._connection,
            "WHERE crystal IN (SELECT id FROM crystals)"
            " AND line IN (SELECT id FROM lines WHERE died_in > ?) ORDER BY made_in, keywords",
            self.last_version() - REMEMBERED_VERSIONS,
        )

    def use_pointer(self, keywords: str) -> None:
        """Count one use of the pointer: somebody searched for exactly these keywords."""
        self._connection.execute("UPDATE pointers SET uses = uses + 1 WHERE keywords = ?", (keywords,))

    def best(self) -> tuple[PastLine, ...]:
        """The lines of the best (with most of them) of the last ten versions, and what became of each since.

        A line that the owner deleted, that was revised or merged into another one, or whose question was answered,
        is not lost (a revision cites an input, or the guards refuse it); nor is one behind the keywords of a pointer.
        Versions before a restore, which is the owner's word, do not count; nor do those before a repair, since nobody
        knows who took out what left after the copy was made.
        """
        restored = "SELECT coalesce(max(number), 1) - 1 FROM versions WHERE cause IN ('restore', 'repair')"
        first = max(self.last_version() - REMEMBERED_VERSIONS, self._connection.execute(restored).fetchone()[0])
        # The plus keeps SQLite to the index of deaths: most lines are dead, and nearly all were born before.
        counted = self._connection.execute(
            """SELECT v.number, count(*) AS lines FROM versions v JOIN lines l
               ON +l.born_in <= v.number AND (l.died_in IS NULL OR l.died_in > v.number)
               WHERE v.number > ?1 AND (l.died_in IS NULL OR l.died_in > ?1) AND l.section <> ?2
               GROUP BY v.number ORDER BY lines DESC, v.number DESC LIMIT 1""",
            (first, SectionName.POINTERS.value),
        ).fetchone()
        if counted is None:
            return ()
        rows = self._connection.execute(
            """SELECT l.* FROM lines l
               WHERE +l.born_in <= ?1 AND (l.died_in IS NULL OR l.died_in > ?1) AND l.section <> ?2""",
            (counted["number"], SectionName.POINTERS.value),
        ).fetchall()
        # The last one wins: the current pointer, else the latest.
        pointers = self._connection.execute(
            "SELECT line, keywords FROM pointers WHERE line IN (SELECT value FROM json_each(?))"
            " ORDER BY standing, made_in",
            (json.dumps([row["id"] for row in rows]),),
        )
        keywords = {row["line"]: row["keywords"] for row in pointers}
        return tuple(
            PastLine(
                row["text"],
                keywords.get(row["id"], ""),
                row["crystal"],
                revised=row["fate"] in {Fate.MERGED, Fate.REVISED, Fate.ANSWERED},
                deleted=row["fate"] == Fate.DELETED,
            )
            for row in rows
        )

    def save(self, number: int, cause: str, text: str, at: datetime) -> None:
        """Record a text that no dream wrote as this version. In the caller's transaction."""
        VersionRow.table.add(
            self._connection,
            None,
            "INSERT OR REPLACE",
            number=number,
            at=at,
            cause=cause,
            digest=digest_of(text),
            characters=len(text),
            text=text,
        )

    def amend(self, dream: Dream) -> None:
        """Take back the births and deaths of this version that the dream has no more. In the caller's transaction."""
        listed = json.dumps([birth.id for birth in dream.births])
        for statement in (
            """UPDATE lines SET died_in = NULL, fate = '', successor = '', crystal = '' WHERE died_in = ?1
               AND successor IN (SELECT id FROM lines WHERE born_in = ?1
                                 AND id NOT IN (SELECT value FROM json_each(?2)))""",
            "DELETE FROM evidence WHERE version = ?1 AND line NOT IN (SELECT value FROM json_each(?2))",
            "DELETE FROM lines WHERE born_in = ?1 AND id NOT IN (SELECT value FROM json_each(?2))",
        ):
            self._connection.execute(statement, (dream.number, listed))
        VersionRow.table.change(self._connection, "number = ?", dream.number, record=encode_kept(dream))

    def record(self, dream: Dream) -> None:
        """Record a committed dream with its text. In the caller's transaction."""
        actions = [operation.action for operation in dream.operations]
        evicted = (one for one in dream.deaths if one.fate is Fate.EVICTED)
        VersionRow.table.add(
            self._connection,
            dream.usage,
            "INSERT OR REPLACE",
            number=dream.number,
            at=dream.at,
            cause=dream.cause,
            dream=dream.id,
            reason=dream.reason,
            digest=digest_of(dream.text),
            characters=len(dream.text),
            model=dream.author,
            seconds=dream.seconds,
            added=actions.count(Action.ADD),
            revised=actions.count(Action.REVISE) + actions.count(Action.MERGE),
            evicted=sum(one.section is not SectionName.POINTERS for one in evicted),
            notes=dream.notes,
            text=dream.text,
            record=encode_kept(dream),
        )
        self._record_lines(dream)
        self._record_pointers(dream)
        for text in dream.tombstones:
            DeletedLineRow.table.add(self._connection, None, "INSERT OR IGNORE", text=text, at=dream.at)
        for text in dream.lifted_tombstones:
            DeletedLineRow.table.delete(self._connection, "text = ?", text)

    def _record_lines(self, dream: Dream) -> None:
        version = {"born_in": dream.number, "born_at": dream.at, "crystal": ""}
        for birth in dream.births:
            LineRow.table.add(self._connection, birth, "INSERT OR IGNORE", **version)
            for crystal in birth.evidence:
                EvidenceRow.table.add(
                    self._connection,
                    None,
                    "INSERT OR IGNORE",
                    line=birth.id,
                    version=dream.number,
                    crystal=crystal,
                )
        for death in dream.deaths:
            LineRow.table.change(
                self._connection,
                "id = ?",
                death.id,
                died_in=dream.number,
                fate=death.fate,
                successor=death.successor,
                crystal=death.crystal,
            )

    def _record_pointers(self, dream: Dream) -> None:
        for pointer in (*dream.retired_pointers, *dream.pointers):
            then = (
                "ON CONFLICT (keywords) DO UPDATE SET standing = 1, crystal = excluded.crystal, line = excluded.line"
            )
            PointerRow.table.add(self._connection, pointer, "INSERT", then, made_in=dream.number)
        keywords = json.dumps([pointer.keywords for pointer in dream.pointers])
        self._connection.execute(
            "UPDATE pointers SET standing = 0 WHERE standing = 1"
            " AND keywords NOT IN (SELECT value FROM json_each(?))",
            (keywords,),
        )

    def _life(self, row: sqlite3.Row) -> LineLife:
        evidence = self._connection.execute(
            "SELECT crystal FROM evidence WHERE line = ? ORDER BY version, crystal", (row["id"],)
        )
        return LineRow.table.value(LineLife, row, evidence=tuple(one["crystal"] for one in evidence))


def digest_of(text: str) -> str:
    """Return the digest of a version's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def match(current: Iterable[CurrentLine], texts: Iterable[tuple[SectionName, str]]) -> list[CurrentLine | None]:
    """For each line of a document the ledger's line, each used once.

    Of the same text and section, else of the same text (a human moved it); None for a new line.
    """
    free = list(current)
    lines = list(texts)
    found: list[CurrentLine | None] = [None] * len(lines)
    for same_section in (True, False):
        by_key: dict[tuple[str, str], list[CurrentLine]] = {}
        for line in free:
            by_key.setdefault((normalise(line.text), line.section.value if same_section else ""), []).append(line)
        for at, (section, text) in enumerate(lines):
            candidates = by_key.get((normalise(text), section.value if same_section else ""))
            if found[at] is None and candidates:
                found[at] = candidates.pop(0)
        used = {line.id for line in found if line is not None}
        free = [line for line in free if line.id not in used]
    return found


def last_text(database: Path) -> str:
    """Return the text of the last version in this state.db, read without its lock; "" when it cannot be read."""
    with suppress(sqlite3.Error, StorageError), open_unmigrated(database) as connection:
        lineage = Lineage(connection)
        return lineage.text(lineage.standing()[0])
    return ""
