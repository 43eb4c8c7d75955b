"""MEMORY.md as it was at a moment, line by line: what has gone since, and what came later."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

from daemon.dream.standing import shown
from daemon.workspace.document import read_document
from daemon.workspace.stores import Store
from state.document.document import Block, Part, parse


class Fate(StrEnum):
    """What became of a line since a moment: it stood then and stands, it has gone, or it came later."""

    STANDS = "stands"
    GONE = "gone"
    LATER = "later"


@dataclass(frozen=True, slots=True)
class DatedLine:
    """A line of the file then, or of the file now. `id` is empty if no version has it; `cut` as in `lines`."""

    id: str
    text: str
    cut: bool
    pinned: bool
    fate: Fate
    born_at: datetime | None


@dataclass(frozen=True, slots=True)
class DatedSection:
    """A heading with its lines, as in `lines`; a later line stands below the line that it follows today."""

    name: str
    heading: str
    lines: tuple[DatedLine, ...]


@dataclass(frozen=True, slots=True)
class MemoryThen:
    """MEMORY.md as it was: the file of `version`, which was made at `at`.

    Version 0 is the file before the first dream. `more` counts the headings and lines after these.
    """

    version: int
    at: datetime | None
    sections: tuple[DatedSection, ...]
    more: int


class Place(NamedTuple):
    """A part with one of its lines, or None for its heading."""

    part: Part
    block: Block | None
    fate: Fate = Fate.STANDS


def memory_then(store: Store, moment: datetime, start: int = 0, limit: int = 1_000) -> MemoryThen:
    """Return at most `limit` headings and lines of the file as it was just before a moment, from `start` on."""
    version = store.lineage.version_before(moment)
    number = version.number if version else 0
    then, now = (
        parse(store.memory.text(number)).parts,
        parse(read_document(store.workspace, store.connection)[0]).parts,
    )
    places = list(places_of(then, now))
    chosen = places[start : start + limit]
    known = {line.key: line for line in store.lineage.current_lines()} | store.lineage.stood_in(number)

    def line_of(block: Block, fate: Fate) -> DatedLine:
        line = known.get(block.key)
        said, cut = shown(store, block.text)
        return DatedLine(line.id if line else "", said, cut, block.pinned, fate, line.born_at if line else None)

    sections = list[DatedSection]()
    for _, group in groupby(chosen, key=lambda place: id(place.part)):
        found = list(group)
        part = found[0].part
        name, heading = part.name.value if part.name else "", shown(store, part.heading.strip())[0]
        lines = tuple(line_of(block, fate) for _, block, fate in found if block is not None)
        sections.append(DatedSection(name, heading, lines))
    return MemoryThen(number, version.at if version else None, tuple(sections), len(places[start + limit :]))


def places_of(then: Sequence[Part], now: Sequence[Part]) -> Iterator[Place]:
    """Yield headings and lines of both files: each part of the file then, with later lines where they stand now."""
    stood = {block.key for part in then for block in part.lines}
    stands = {block.key for part in now for block in part.lines}
    today = dict[str, Part]()
    for part in now:  # a file may have a heading twice
        first = today.setdefault(_name(part), part)
        today[_name(part)] = first if first is part else replace(first, blocks=first.blocks + part.blocks)
    for part in then:
        later = _later(part, today.pop(_name(part), None), stood)
        yield from [Place(part, None)] if part.heading else []
        yield from (Place(part, block, Fate.LATER) for block in later.pop(None, ()))
        for block in part.lines:
            yield Place(part, block, Fate.STANDS if block.key in stands else Fate.GONE)
            yield from (Place(part, below, Fate.LATER) for below in later.pop(block.key, ()))
    for part in today.values():
        yield from [Place(part, None)] if part.heading else []
        yield from (Place(part, block, Fate.LATER) for block in part.lines if block.key not in stood)


def _later(then: Part, now: Part | None, stood: set[str]) -> dict[str | None, list[Block]]:
    """Return the lines of a part that came later, by the older line of it that they stand below; None: at its top."""
    here = {block.key for block in then.lines}
    anchor, found = None, dict[str | None, list[Block]]()
    for block in now.lines if now else ():
        if block.key in here:
            anchor = block.key
        elif block.key not in stood:
            found.setdefault(anchor, []).append(block)
    return found


def _name(part: Part) -> str:
    return part.name.value if part.name else part.heading.strip().casefold()
