"""Reading: which rows of MEMORY.md an agent is given at session start.

The file always has seven sections, but an agent pays for each word. Left out are empty sections, the stamp (time of
the last dream, mood), and rows that the program only counts.
"""

import re
from collections.abc import Iterable
from itertools import pairwise

from state.document.markdown import is_stamp, without_marker
from state.document.sections import TITLE, SectionName, is_placeholder
from state.text.patterns import late_pattern

GREETING = (
    "_Your memory of earlier sessions, kept by dreamd. What is not here: memory_search (or `dreamd search`). "
    "What must survive this session: working_memory_note (or `dreamd note`)._"
)

_TOP = re.compile(r"#{1,2}(?:[ \t]|$)")
_COUNTED = late_pattern(r"[-*+] .* → Confidence: \d+% \| Occurrences: \d+")
_PIN = late_pattern("📌|<!-- ?pin")
_SECTIONS = frozenset(f"## {name}".casefold() for name in SectionName)
_SKILLS, _GAPS, _TITLE = (one.casefold() for one in (f"## {SectionName.SKILLS}", f"## {SectionName.GAPS}", TITLE))


def left_out(memory: str) -> frozenset[int]:
    """Return the rows of MEMORY.md, counted from 0, that no agent is given."""
    rows, found = memory.split("\n"), set[int]()
    tops = [at for at, row in enumerate(rows) if _TOP.match(row)]
    for top, below in pairwise((*tops, len(rows))):
        name, body = rows[top].strip().casefold(), range(top + 1, below)
        if name == _TITLE:
            found.update(at for at in body if is_stamp(rows[at]))
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
