"""Merge: three versions of MEMORY.md: what the dream read, what it wrote, and what a human wrote meanwhile.

A dream is a list of edits by line, so merging is applying the same edits to the human's version: an edit of a line
that the human changed or removed does not apply, everything that the human wrote stays.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from state.document.document import Document, Edit, blank, complete, parse, render, stamped
from state.document.editing import edited
from state.document.seed import appended
from state.text.words import normalise

if TYPE_CHECKING:
    from state.document.sections import SectionName

_MARKERS = ("<<<<<<<", "=======", ">>>>>>>")


def working(text: str) -> Document:
    """Return the document that edits apply to: the file as it stands, with the seven sections.

    A file from before the first dream keeps its text above a rule; an empty one is seven empty sections.
    """
    if not text.strip():
        return blank()
    document = parse(text)
    if document.has_schema:
        return complete(document)
    return parse(appended(text, render(blank(document.newline))))


def merged(before: str, human: str, edits: Sequence[Edit], at: datetime, mood: str) -> tuple[str, tuple[Edit, ...]]:
    """Return the human's version with a dream's edits, and the edits that gave way.

    `before` is what the dream had read: a line that the human removed since is not written again under another
    edit, and one that the human wrote once more stays. Applying the same edits to the result changes nothing.
    """
    theirs = working(human)
    counts = Counter((name, block.key) for name, block in theirs.lines())
    removed = {normalise(text) for text in removed_lines(before, human)}
    welcome = [
        edit
        for edit in edits
        if (edit.new is None or normalise(edit.new) not in removed)
        and not any(edit.section and counts[edit.section, normalise(old)] > 1 for old in edit.old)
    ]
    document, left_out = edited(theirs, welcome)
    unwelcome = tuple(edit for edit in edits if edit not in welcome)
    return render(stamped(document, at, mood)), (*unwelcome, *left_out)


def removed_lines(before: str, after: str) -> tuple[str, ...]:
    """Return the lines of the first text's sections that stand nowhere in the second text's."""
    left = {block.key for _, block in parse(after).lines()}
    return tuple(block.text for _, block in parse(before).lines() if block.key not in left)


def difference(before: str, after: str) -> tuple[Edit, ...]:
    """Return the edits that turn one text's lines into the other's: removals, then additions."""
    old = [(name, block.text, block.key) for name, block in parse(before).lines()]
    new = [(name, block.text, block.key) for name, block in parse(after).lines()]
    there = {(name, key) for name, _, key in new}
    here = {(name, key) for name, _, key in old}
    gone: list[tuple[SectionName, str]] = [(name, text) for name, text, key in old if (name, key) not in there]
    come = [(name, text) for name, text, key in new if (name, key) not in here]
    return (*(Edit(name, (text,), None) for name, text in gone), *(Edit(name, (), text) for name, text in come))


def is_conflicted(text: str) -> bool:
    """Tell whether git has left the two sides of a conflict in the text, between its markers."""
    at = 0
    for row in text.splitlines():
        if row[:7] == _MARKERS[at] and row[7:8] in ("", " "):
            at += 1
            if at == len(_MARKERS):
                return True
    return False


def with_lines_of(text: str, other: str) -> str:
    """Return the text with the lines that only the other one has."""
    lost = [edit for edit in difference(text, other) if edit.new is not None]
    return render(edited(parse(text), lost)[0]) if lost else text
