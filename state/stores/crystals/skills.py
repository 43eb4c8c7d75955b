"""Emerging skills, and the tasks that they are found in.

Every time that a task was given counts: in the same words in three sessions, it is one crystal with three
occurrences. Searches do not count, nor do copies, which have the task at the same time.
"""

from state.crystals.crystal import TASKS
from state.signals.skills import MAX_PATTERNS, EmergingSkill, TaskPattern, emerging
from state.stores.crystals.crystals import Crystals
from state.stores.database.moments import from_text
from state.trust import Trust


def emerging_skills(crystals: Crystals) -> list[EmergingSkill]:
    """Return the skills found in the latest tasks, most confident first, without those that are forgotten.

    It takes a tenth of a second for the most tasks that count.
    """
    forgotten = crystals.forgotten.tombstones()
    return [skill for skill in emerging(latest_tasks(crystals)) if not forgotten.found(skill.pattern)]


def latest_tasks(crystals: Crystals) -> list[TaskPattern]:
    """Return the latest tasks, one per time. A task without a session (a note) has its day as session."""
    rows = crystals.connection.execute(
        "SELECT c.key, c.text, min(o.session) AS session, o.at FROM crystals c JOIN occurrences o"
        " ON o.crystal = c.key WHERE c.kind IN (?, ?) AND c.trust IN (?, ?) GROUP BY c.key, o.at"
        " ORDER BY c.key DESC LIMIT ?",
        (*TASKS, Trust.AGENT.value, Trust.OWNER.value, MAX_PATTERNS),
    ).fetchall()
    keys, found = crystals.vectors.read({int(row["key"]) for row in rows})
    vectors = {} if found is None else dict(zip(keys, found, strict=True))
    return [
        TaskPattern(row["text"], row["session"] or row["at"][:10], from_text(row["at"]), vectors.get(int(row["key"])))
        for row in rows
    ]
