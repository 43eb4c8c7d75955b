"""Grounds: the texts that a line of MEMORY.md rests on; session starts, which import little, ask for them too."""

import sqlite3


def texts_behind(connection: sqlite3.Connection, line: str) -> tuple[str, ...]:
    """Return the texts of the crystals behind the line with this text, and of the lines that it replaced.

    Crystals hold no secrets.
    """
    rows = connection.execute(
        """SELECT text FROM crystals WHERE id IN (
             SELECT crystal FROM evidence WHERE line IN (SELECT id FROM lines WHERE text = ?1)
             UNION SELECT crystal FROM lines WHERE successor IN (SELECT id FROM lines WHERE text = ?1))""",
        (line,),
    )
    return tuple(row[0] for row in rows)
