"""Emerging skills as the last pass found them, and the tasks that they are found in.

Every time that a task was given counts: in the same words in three sessions, it is one crystal with three
occurrences. Searches do not count, nor do copies, which have the task at the same time.
"""

import sqlite3

from state.crystals.crystal import TASKS
from state.signals.skills import MAX_PATTERNS, EmergingSkill, TaskPattern, emerging
from state.stores.crystals.vectors import TASKS_ADDED, CrystalVectors
from state.stores.database.connection import transaction
from state.stores.database.meta import Meta
from state.stores.database.moments import from_text
from state.stores.database.tables import SkillRow
from state.stores.database.tombstones import TombstoneStore
from state.trust import Trust

# In `meta`: the count of `expect_skills` when the table was last written.
_FOUND = "skills_found_at"


class Skills:
    """The emerging skills of one workspace."""

    def __init__(self, connection: sqlite3.Connection, vectors: CrystalVectors) -> None:
        self._connection = connection
        self._vectors = vectors
        self._meta = Meta(connection)

    def refresh(self) -> int | None:
        """Find the skills again if tasks were added; return how many there are, or None without new tasks."""
        added = self._meta.get(TASKS_ADDED)
        if added is None or added == self._meta.get(_FOUND):
            return None
        found = self._found()
        with transaction(self._connection) as connection:
            connection.execute("DELETE FROM skills")
            for place, skill in enumerate(found):
                SkillRow.table.add(connection, skill, place=place)
            self._meta.put(_FOUND, added)
        return len(found)

    def known(self, limit: int) -> list[EmergingSkill]:
        """Return the most confident skills of the last pass; find them now if there was no pass yet."""
        if self._meta.get(_FOUND) is None:
            return self._found()[:limit]
        return self.listed(limit)

    def listed(self, limit: int) -> list[EmergingSkill]:
        """Return the skills of the last pass, most confident first."""
        return SkillRow.table.read(EmergingSkill, self._connection, "ORDER BY place LIMIT ?", limit)

    def count(self) -> int | None:
        """Return how many skills the last pass found; None if there was no pass yet."""
        if self._meta.get(_FOUND) is None:
            return None
        return SkillRow.table.count(self._connection)

    def tasks(self) -> list[TaskPattern]:
        """Return the latest tasks, one per time. A task without a session (a note) has its day as session."""
        rows = self._connection.execute(
            "SELECT c.key, c.text, min(o.session) AS session, o.at FROM crystals c JOIN occurrences o"
            " ON o.crystal = c.key WHERE c.kind IN (?, ?) AND c.trust IN (?, ?) GROUP BY c.key, o.at"
            " ORDER BY c.key DESC LIMIT ?",
            (*TASKS, Trust.AGENT.value, Trust.OWNER.value, MAX_PATTERNS),
        ).fetchall()
        keys, found = self._vectors.read({int(row["key"]) for row in rows})
        vectors = {} if found is None else dict(zip(keys, found, strict=True))
        return [
            TaskPattern(
                row["text"], row["session"] or row["at"][:10], from_text(row["at"]), vectors.get(int(row["key"]))
            )
            for row in rows
        ]

    def _found(self) -> list[EmergingSkill]:
        """Return the skills found in the tasks, without those whose pattern holds a forgotten text."""
        tombstones = TombstoneStore(self._connection).tombstones()
        return [skill for skill in emerging(self.tasks()) if not tombstones.found(skill.pattern)]
