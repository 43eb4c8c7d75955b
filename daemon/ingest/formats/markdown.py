"""Markdown: paragraphs, list items and code blocks, each under the path of its headings."""

import re
from collections.abc import Iterator

from daemon.ingest.formats.blocks import Block, Gathering, decoded
from daemon.ingest.formats.lines import Line
from daemon.ingest.formats.speakers import Floor
from daemon.ingest.formats.turn import Record

_HEADING = re.compile(r" {0,3}(#{1,6})\s+(\S.*?)\s*#*\s*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ITEM = re.compile(r" {0,1}(?:[-*+]|\d{1,9}[.)])\s+(?=\S)")
_RULE = re.compile(r" {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$")


def is_heading(line: str) -> bool:
    """Whether the line is an ATX heading."""
    return bool(_HEADING.match(line[:400]))


def blocks(file: str, lines: Iterator[Line], memory: Record) -> Iterator[Block]:
    """The blocks of a document from a place where `memory` (headings above it, open fence) holds.

    Raises DocumentError at a line that is no UTF-8.
    """
    path = list(_pairs(memory.get("path")))
    fence, floor = str(memory.get("fence") or ""), Floor.remembered(memory)

    def known() -> Record:
        return {"path": path, "fence": fence, **floor.memory()}

    gathered, trust = Gathering(known()), floor.trust
    for line in lines:
        text = decoded(file, line)
        opening = _FENCE.match(text)
        heading = _HEADING.match(text[:400])
        before = {"path": path, "fence": fence, **floor.memory()}
        if floor.heard(text) and floor.trust is not trust:
            yield from gathered.take(before, _heading(path), trust=trust)
        if fence:
            gathered.add(line, text)
            if opening and opening[1].startswith(fence) and text.strip() == opening[1]:
                fence = ""
                yield from gathered.take(known(), _heading(path), trust=trust)
        elif _begins(text):
            yield from gathered.take(before, _heading(path), trust=trust)
            fence = opening[1] if opening else ""
            if heading:
                level = len(heading[1])
                path = [*(above for above in path if above[0] < level), (level, heading[2])]
                gathered.forget(known())
            elif said := _without_mark(text):
                gathered.add(line, said)
        else:
            gathered.add(line, text)
        trust = floor.trust
        if gathered.full:
            yield from gathered.take(known(), _heading(path), trust=trust)
    yield from gathered.take(known(), _heading(path), trust=trust)


def _begins(text: str) -> bool:
    """Whether a line ends the block before it: a fence, a heading, a blank line, a rule or an item."""
    found = _FENCE.match(text) or _HEADING.match(text[:400]) or _RULE.match(text[:80]) or _ITEM.match(text)
    return bool(found) or not text.strip()


def _without_mark(text: str) -> str:
    """What is said on the first line of a block; nothing on a blank line and a rule."""
    item = None if _RULE.match(text[:80]) else _ITEM.match(text)
    return "" if _RULE.match(text[:80]) else text[item.end() :] if item else text.strip() and text


def _heading(path: list[tuple[int, str]]) -> str:
    return " > ".join(title for _, title in path)


def _pairs(carried: object) -> Iterator[tuple[int, str]]:
    """The headings of a watermark; what cannot be one, in a watermark that was damaged, is left out."""
    for pair in carried if isinstance(carried, list) else ():
        match pair:
            case [int(level), str(title)]:
                yield level, title
