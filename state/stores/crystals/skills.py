"""Emerging skills, and the tasks that they are found in.

Every time that a task was given counts: in the same words in three sessions, it is one crystal with three
occurrences. Searches do not count, nor do copies, which have the task at the same time.
"""

import sqlite3

from state.crystals.crystal import TASKS
from state.signals.skills import MAX_PATTERNS, EmergingSkill, TaskPattern, emerging
from state.stores.crystals.vectors import CrystalVectors
from state.stores.database.moments import from_text
from state.stores.database.tombstones import TombstoneStore
from state.trust import Trust


class Skills:
    """The emerging skills of one workspace."""

    def __init__(self, connection: sqlite3.Connection, vectors: CrystalVectors) -> None:
        self._connection = connection
        self._vectors = vectors

    def found(self) -> list[EmergingSkill]:
        """Return the skills found in the latest tasks, most confident first, without those that are forgotten.

        It takes a tenth of a second for the most tasks that count.
        """
        tombstones = TombstoneStore(self._connection).tombstones()
        return [skill for skill in emerging(self.tasks()) if not tombstones.found(skill.pattern)]

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
