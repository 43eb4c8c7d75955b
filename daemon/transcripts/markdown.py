"""Markdown: paragraphs, list items and code blocks, each under the path of its headings."""

import re
from collections.abc import Iterator

from daemon.transcripts.blocks import Block, Gathering, decoded
from daemon.transcripts.lines import Line
from daemon.transcripts.turn import Record

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
    path = [(int(level), str(title)) for level, title in _pairs(memory.get("path"))]
    fence = str(memory.get("fence") or "")
    gathered = Gathering({"path": path, "fence": fence})
    for line in lines:
        text = decoded(file, line)
        opening = _FENCE.match(text)
        heading = _HEADING.match(text[:400])
        if fence:
            gathered.add(line, text)
            if opening and opening[1].startswith(fence) and text.strip() == opening[1]:
                fence = ""
                yield from gathered.take({"path": path, "fence": ""}, _heading(path))
        elif opening or heading or not text.strip() or _RULE.match(text[:80]) or _ITEM.match(text):
            yield from gathered.take({"path": path, "fence": ""}, _heading(path))
            if opening:
                fence = opening[1]
                gathered.add(line, text)
            elif heading:
                level = len(heading[1])
                path = [*(above for above in path if above[0] < level), (level, heading[2])]
                gathered.forget({"path": path, "fence": ""})
            elif item := _ITEM.match(text):
                gathered.add(line, text[item.end() :])
        else:
            gathered.add(line, text)
        if gathered.full:
            yield from gathered.take({"path": path, "fence": fence}, _heading(path))
    yield from gathered.take({"path": path, "fence": fence}, _heading(path))


def _heading(path: list[tuple[int, str]]) -> str:
    return " > ".join(title for _, title in path)


def _pairs(carried: object) -> Iterator[tuple[int, str]]:
    for pair in carried if isinstance(carried, list) else ():
        level, title = pair
        yield level, title
