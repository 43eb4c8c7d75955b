"""In place: blanks forgotten sentences in the log of notes without moving a line, while an agent may append.

What goes are sentences, as everywhere. What is left of a line moves together, and spaces follow it to the line's old
end, so that it reads as if the rest alone had been written.
"""

from bisect import bisect_left
from collections.abc import Sequence

from state.forgetting.cutting import Cut, Finder, Span, cut_out, widened
from state.scratch import Note, head_of


def blanked(content: bytes, notes: Sequence[Note], found: Finder) -> bytes:
    """The log with every sentence of these notes (as parsed from it) blanked in which something is found.

    What a note names with `replaces` goes as a whole. Every line begins and ends where it did.
    """
    rows = content.split(b"\n")
    for note in notes:
        if any(map(found, note.texts)):
            lines = slice(note.first_line - 1, note.last_line)
            rows[lines] = _entry(rows[lines], note, found)
    return b"\n".join(rows)


def _entry(rows: Sequence[bytes], note: Note, found: Finder) -> list[bytes]:
    """The rows of one entry; what is not UTF-8 is a sign between words."""
    texts = [row.decode("utf-8", "surrogateescape") for row in rows]
    ends = [text[len(text.rstrip("\r")) :] for text in texts]
    head, start = head_of(texts[0], replaces=not found(note.replaces))
    starts = [start, *(len(text) - len(text.lstrip(" \t")) for text in texts[1:])]
    heads = [head, *(text[:start] for text, start in zip(texts[1:], starts[1:], strict=True))]
    bodies = [text[start : len(text) - len(end)] for text, start, end in zip(texts, starts, ends, strict=True)]
    left, turn = bodies, 0
    while places := found(text := "\n".join(left)):
        left = _without(left, widened(places, turn, len(text)))
        turn += 1
    if left == bodies and found(note.text):  # what was found is a word of the stamp, or of an escape
        left = [""] * len(bodies)
    return [
        _as_long(head, body, len(row) - len(end)) + end.encode()
        for head, body, end, row in zip(heads, left, ends, rows, strict=True)
    ]


def _as_long(head: str, body: str, length: int) -> bytes:
    row = (head + body).encode("utf-8", "surrogateescape")
    if len(row) > length:  # a mark in the place of a number of a list is longer than that
        row = head.encode("utf-8", "surrogateescape")
    return row.ljust(length)


def _without(lines: Sequence[str], places: Sequence[Span]) -> list[str]:
    left, at, first = [], 0, 0
    for line in lines:
        end = at + len(line)
        while first < len(places) and places[first][1] <= at:
            first += 1
        within = places[first : bisect_left(places, (end, 0), first)]
        here = [(max(start, at) - at, min(stop, end) - at) for start, stop in within]
        left.append(cut_out(line, here, Cut.SENTENCES))
        at = end + 1
    return left
