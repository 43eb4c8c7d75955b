"""Pieces: cuts a long note into its bullets and sentences, each short enough for a line of MEMORY.md.

Nothing is left out, except the rest of a word that is longer than a piece; `…` stands for it.
"""

import re
from collections.abc import Iterator
from enum import Enum
from itertools import chain, combinations, pairwise
from typing import NamedTuple

from state.text.chunks import best_end, is_torn
from state.text.words import SENTENCE_ENDS, repeat_key

# A heading, or a row that ends in a colon, stands before each bullet below it if it is not longer.
_HEAD_CHARACTERS = 80
# A shorter piece is no sentence: a number, an abbreviation.
_LEAST_CHARACTERS = 20
_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s(.*[^\s#])[\s#]*")
# The number of a numbered item stays with its text.
_BULLET = re.compile(r"(\s*)(?:[-*+–]\s+|[•‣・]\s*|(?=\d{1,3}[.)]\s))(?=\S)")
_TABLE_RULE = re.compile(r"[\s|:+-]+")


class _Kind(Enum):
    TEXT, HEADING, BULLET, TABLE, CODE = range(5)


class _Block(NamedTuple):
    kind: _Kind
    text: str


def pieces(text: str, limit: int) -> Iterator[str]:
    """Yield the text in pieces of at most `limit` characters, in order: each bullet alone, sentences as many as fit.

    What bullets and rows of a table stand below is repeated before each, if it is short.
    """
    for head, said in _with_heads(text):
        start, room = 0, limit - len(head)
        while start < len(said):
            end = len(said)
            if end - start > room:
                end = best_end(said, start + _LEAST_CHARACTERS, start + room)
            if is_torn(said, end):
                yield f"{head}{said[start : end - 1]}…"
                break
            yield head + said[start:end].strip()
            start = end


def with_other_sentence(text: str, said: str, other: str) -> str:
    """Return the text with another sentence in place of some of its sentences; "" if those are not some of them."""
    sentences, wanted = SENTENCE_ENDS.split(" ".join(text.split())), repeat_key(said)
    for start, end in combinations(range(len(sentences) + 1), 2):
        if end - start < len(sentences) and repeat_key(" ".join(sentences[start:end])) == wanted:
            return " ".join((*sentences[:start], *filter(None, [other]), *sentences[end:]))
    return ""


def _with_heads(text: str) -> Iterator[tuple[str, str]]:
    """Yield each block with the words to stand before it."""
    title = head = ""
    for (kind, said), below in pairwise(chain(_blocks(text), [_Block(_Kind.HEADING, "")])):
        is_short = len(said) <= _HEAD_CHARACTERS
        if kind is _Kind.HEADING:
            title = head = f"{said.rstrip(':：')}: " if is_short else ""
            if not is_short or below.kind is _Kind.HEADING:
                yield "", said
        elif kind is _Kind.TEXT:
            head = title
            if is_short and said.endswith((":", "：")) and below.kind not in (_Kind.TEXT, _Kind.HEADING):
                head = f"{said} "
            else:
                yield title, said
        elif kind is _Kind.TABLE and "\n" in said and len(first := said.partition("\n")[0]) <= _HEAD_CHARACTERS:
            yield f"{first} ", said.partition("\n")[2]
        else:
            yield head, said


def _blocks(text: str) -> Iterator[_Block]:
    """Yield paragraphs, headings, list items, tables and fenced code, in order."""
    kind, rows, indent, is_code = _Kind.TEXT, list[str](), 0, False
    for row in text.splitlines():
        bullet = None if is_code else _BULLET.match(row)
        is_nested = bullet is not None and kind is _Kind.BULLET and bool(rows) and len(bullet[1]) > indent
        new = _Kind.CODE if is_code or _FENCE.match(row) else _kind_of(row, kind, is_item=bullet is not None)
        goes_on = is_code or is_nested or (new is kind and bullet is None and kind is not _Kind.HEADING)
        if rows and not (goes_on and row.strip()) and not is_code:
            yield _joined(kind, rows)
            rows, kind = [], _Kind.TEXT
        if bullet and not is_nested:
            indent = len(bullet[1])
            rows.append(row[bullet.end() :].strip())
        elif row.strip():
            rows.append(row.strip())
        kind = kind if is_nested or not row.strip() else new
        is_code ^= bool(_FENCE.match(row))
        if kind is _Kind.CODE and not is_code and rows:
            yield _joined(kind, rows)
            rows = []
    if rows:
        yield _joined(kind, rows)


def _kind_of(row: str, before: _Kind, *, is_item: bool) -> _Kind:
    if is_item:
        return _Kind.BULLET
    if _HEADING.fullmatch(row):
        return _Kind.HEADING
    if row.lstrip().startswith("|"):
        return _Kind.TABLE
    return _Kind.BULLET if before is _Kind.BULLET else _Kind.TEXT  # a further row of the item


def _joined(kind: _Kind, rows: list[str]) -> _Block:
    if kind is _Kind.TABLE:
        return _Block(kind, "\n".join(row for row in rows if not _TABLE_RULE.fullmatch(row)))
    if kind is _Kind.CODE:
        return _Block(kind, "\n".join(rows))
    if kind is _Kind.HEADING and (title := _HEADING.fullmatch(rows[0])):
        return _Block(kind, title[1].strip())
    return _Block(kind, " ".join(" ".join(rows).split()))
