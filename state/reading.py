"""Reading: which rows of MEMORY.md an agent is given at session start, below one line that says what they are.

The file always has seven sections, but an agent pays for each word. Left out are empty sections, the title with the
stamp below it (time of the last dream, mood), and rows that the program only counts. The line at the head says the
day of the last dream.
"""

import json
import re
import zlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from state.document.markdown import is_stamp, marker_of, without_marker
from state.document.sections import TITLE, SectionName, is_placeholder
from state.text.patterns import late_pattern

BETWEEN = "\n\n"
# In `meta`: how the current MEMORY.md is read (`Reading`, as JSON).
READING = "reading"
_HEAD = (
    "_Your memory{as_of}, by dreamd. More: memory_search, `dreamd search`. Keep: working_memory_note, `dreamd note`._"
)

_DAY = late_pattern(r" \(\d{1,2} [a-z]{3}\)$")
_TOP = re.compile(r"#{1,2}(?:[ \t]|$)")
_COUNTED = late_pattern(r"[-*+] .* → Confidence: \d+% \| Occurrences: \d+")
_PIN = late_pattern("📌|<!-- ?pin")
_PIN_AND_BLANK = late_pattern(r"(?i)[ \t]*(?:📌|<!--\s*pin(?:ned)?\s*-->)")
_SECTIONS = frozenset(f"## {name}".casefold() for name in SectionName)
_SKILLS, _GAPS, _TITLE = (one.casefold() for one in (f"## {SectionName.SKILLS}", f"## {SectionName.GAPS}", TITLE))


class Reading(NamedTuple):
    """What session starts know of the lines of MEMORY.md, by `line_digest`.

    `leaving`: the lines that may be left out for lack of room, the first to go first, as a dream would evict them.
    `days`: the day of a line that says "today" or "this week" and no date.
    """

    leaving: tuple[int, ...] = ()
    days: tuple[tuple[int, str], ...] = ()

    def encoded(self) -> str:
        """Return it as JSON."""
        return json.dumps(self)

    @staticmethod
    def decoded(text: str) -> "Reading":
        """Return what `encoded` made this text of; nothing of any other text, as a session start must not fail."""
        with suppress(ValueError, TypeError, RecursionError):
            leaving, days = json.loads(text)
            return Reading(tuple(map(int, leaving)), tuple((int(digest), str(day)) for digest, day in days))
        return Reading()


def line_digest(key: str) -> int:
    """Return a short digest of the normalised text of a line, without the day behind it; it proves nothing."""
    return zlib.crc32(_DAY.sub("", key).encode(errors="replace"))


def row_digests(memory: str) -> list[int]:
    """Return `line_digest` of each row of a MEMORY.md that is neither blank nor a heading.

    It parses nothing: an agent waits until its hook ends. Nearly every line is one row.
    """
    from state.text.words import normalise  # imported late: the agent already has its memory

    rows = (row for row in memory.split("\n") if row.strip() and not row.startswith("#"))
    return [line_digest(normalise(without_marker(_PIN_AND_BLANK.sub("", row)))) for row in rows]


def with_days(memory: str, known: Iterable[tuple[int, str]]) -> str:
    """Return MEMORY.md with the day behind each line that needs one."""
    if not (days := dict(known)):
        return memory
    from state.text.words import normalise  # imported late: few memories need it

    def dated(row: str) -> str:
        day = days.get(line_digest(normalise(without_marker(row)))) if marker_of(row) else None
        return f"{row} ({day})" if day else row

    return "\n".join(map(dated, memory.split("\n")))


def head(day: str) -> str:
    """Return the line above everything that an agent is given; `day` is that of the last dream ("": none yet)."""
    return _HEAD.format(as_of=f" as of {day}" if day else "")


def dreamt_at(memory: str) -> datetime | None:
    """Return when the last dream wrote this MEMORY.md, by its stamp; None if none did."""
    stamp = next((row for row in memory.split("\n") if is_stamp(row)), "") if "Last dream:" in memory else ""
    with suppress(ValueError):
        return datetime.strptime(stamp.partition("Last dream:")[2].split("|")[0].strip(" _*"), "%Y-%m-%dT%H:%M:%S%z")
    return None


def length_given(memory: str) -> int:
    """Return how many characters of MEMORY.md an agent is given, with the line at the head."""
    return len(head("2026-01-01")) + len(BETWEEN) + len(as_given(memory).strip("\n")) + 1


def left_out(memory: str) -> frozenset[int]:
    """Return the rows of MEMORY.md, counted from 0, that no agent is given."""
    rows, found = memory.split("\n"), set[int]()
    tops = [at for at, row in enumerate(rows) if _TOP.match(row)]
    for top, below in pairwise((*tops, len(rows))):
        name, body = rows[top].strip().casefold(), range(top + 1, below)
        if name == _TITLE:
            found.update((top, *(at for at in body if is_stamp(rows[at]))))
        elif name in _SECTIONS:
            if name == _SKILLS:
                found.update(at for at in body if _COUNTED.match(rows[at]))
            if all(at in found or not rows[at].strip() or is_placeholder(rows[at]) for at in body):
                found.update((top, *body))
    return frozenset(found)


def as_given(memory: str) -> str:
    """Return MEMORY.md without the rows that no agent is given; of the blank rows around them one stays."""
    omitted, kept = left_out(memory), list[str]()
    for at, row in enumerate(memory.split("\n")):
        if at not in omitted and (row.strip() or at - 1 not in omitted):
            kept.append(row)
    return "\n".join(kept)


def without_answered(memory: str, notes: Iterable[str]) -> str:
    """Return what is given of MEMORY.md without open questions that another row or a note is likely to answer.

    Pinned ones stay.
    """
    rows = memory.split("\n")
    heading = next((at for at, row in enumerate(rows) if row.strip().casefold() == _GAPS), len(rows))
    below = range(heading + 1, next((at for at in range(heading + 1, len(rows)) if _TOP.match(rows[at])), len(rows)))
    asked = [at for at in below if any(sign in rows[at] for sign in "?？؟") and not _PIN.search(rows[at])]
    if not asked:
        return memory
    # Imported late: most session starts give no open question.
    from state.signals.curiosity import is_answered_by

    said = [*(row for at, row in enumerate(rows) if at not in below), *notes]
    answered = {at for at in asked if any(is_answered_by(without_marker(rows[at]), one) for one in said)}
    left = [at for at in below if at not in answered]
    if answered and not any(rows[at].strip() for at in left):
        answered.update((heading, *below))
    return "\n".join(row for at, row in enumerate(rows) if at not in answered)
