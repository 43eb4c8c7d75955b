"""Merge: three versions of MEMORY.md: what the dream read, what it wrote, and what a human wrote meanwhile.

A dream is a list of edits by line, so merging applies the same edits to the human's version. Everything the human
wrote stays: an edit of a line that they changed or removed does not apply.
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
    """Return the document that edits apply to: the file, completed to seven sections.

    A file from before the first dream keeps its text, above a rule; an empty file becomes seven empty sections.
    """
    if not text.strip():
        return blank()
    document = parse(text)
    if document.has_schema:
        return complete(document)
    return parse(appended(text, render(blank(document.newline))))


def merged(before: str, human: str, edits: Sequence[Edit], at: datetime, mood: str) -> tuple[str, tuple[Edit, ...]]:
    """Return the human's version with a dream's edits, and the edits that did not apply.

    `before` is what the dream read: no edit writes again a line that the human has removed since, and a line that
    they duplicated stays. Applying the same edits to the result changes nothing.
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
    """Return the lines of the first text's sections that are in none of the second text's."""
    left = {block.key for _, block in parse(after).lines()}
    return tuple(block.text for _, block in parse(before).lines() if block.key not in left)


def difference(before: str, after: str) -> tuple[Edit, ...]:
    """Return the edits from one text's lines to the other's: removals, then additions."""
    old = [(name, block.text, block.key) for name, block in parse(before).lines()]
    new = [(name, block.text, block.key) for name, block in parse(after).lines()]
    there = {(name, key) for name, _, key in new}
    here = {(name, key) for name, _, key in old}
    gone: list[tuple[SectionName, str]] = [(name, text) for name, text, key in old if (name, key) not in there]
    come = [(name, text) for name, text, key in new if (name, key) not in here]
    return (*(Edit(name, (text,), None) for name, text in gone), *(Edit(name, (), text) for name, text in come))


def is_conflicted(text: str) -> bool:
    """Return whether the text contains an unresolved git conflict with its three markers."""
    at = 0
    for row in text.splitlines():
        if row[:7] == _MARKERS[at] and row[7:8] in ("", " "):
            at += 1
            if at == len(_MARKERS):
                return True
    return False


def with_lines_of(text: str, other: str) -> str:
    """Return the text with the lines added that only the other text has."""
    lost = [edit for edit in difference(text, other) if edit.new is not None]
    return render(edited(parse(text), lost)[0]) if lost else text
