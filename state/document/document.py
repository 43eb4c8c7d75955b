"""Document: MEMORY.md as a value: seven sections of lines, and whatever a human wrote around them.

Parsing loses nothing: `render(parse(text)) == text` for every text. A document is a sequence of parts, a part a
sequence of blocks, a block the exact characters it was read from. An edit replaces only the blocks that it names;
all others stay byte for byte.

A *line* (a list item or a paragraph, with its continuation) is the unit of memory. Blank lines, comments,
subheadings, rules and the placeholders of a template are *filler*: kept, but never content.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from itertools import pairwise

from state.document.markdown import (
    heading_of,
    is_filler,
    is_stamp,
    marker_of,
    opens_fence,
    part_starts,
    rows_of,
    units,
    without_marker,
)
from state.document.sections import GUIDES, PLACEHOLDER, TITLE, SectionName, is_placeholder, placeholder_of
from state.text.words import normalise

_BY_NAME = {name.value.casefold(): name for name in SectionName}

PIN = "📌"
_PIN = re.compile(rf"{PIN}|<!--\s*pin(?:ned)?\s*-->", re.IGNORECASE)
_PIN_AND_BLANK = re.compile(rf"^(?:{_PIN.pattern})[ \t]*|[ \t]?(?:{_PIN.pattern})", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """The characters of one unit, including the newline. `content` is true for a line, false for filler."""

    raw: str
    content: bool

    @property
    def text(self) -> str:
        """Return the text without bullet, indent and pin; rows are joined by a space, or kept in a fence."""
        return _text(self.raw)

    @property
    def key(self) -> str:
        """Return the normalised text, which is equal for equal lines."""
        return _key(self.raw)

    @property
    def pinned(self) -> bool:
        """Return whether the human pinned this line (📌 or `<!-- pinned -->`); dreams do not touch it then."""
        return self.content and bool(_PIN.search(self.raw))

    def with_pin(self) -> "Block":
        """Return the line with a pin at the end of its first row, otherwise byte for byte the same."""
        first, newline, rest = self.raw.partition("\n")
        said = first.rstrip()
        return replace(self, raw=f"{said} {PIN}{first[len(said) :]}{newline}{rest}")

    def without_pin(self) -> "Block":
        """Return the line without pins and the blank before each, otherwise byte for byte the same."""
        return replace(self, raw=_PIN_AND_BLANK.sub("", self.raw))


# Every edit compares the keys of a whole section, and a dream makes many edits.
@lru_cache(maxsize=16_384)
def _key(raw: str) -> str:
    return normalise(_text(raw))


def _text(raw: str) -> str:
    rows = [row.rstrip() for row in _PIN.sub("", raw).rstrip().split("\n")]
    first = without_marker(rows[0].strip())
    if opens_fence(rows[0]) and len(rows) > 1:
        inside = "  " if marker_of(rows[0]) else ""
        return "\n".join([first, *(row.removeprefix(inside) for row in rows[1:])])
    return " ".join(row for row in (first, *map(str.strip, rows[1:])) if row)


@dataclass(frozen=True, slots=True)
class Part:
    """A heading with its blocks. `name` is None for a human's own text, which stays where it is."""

    name: SectionName | None
    heading: str
    blocks: tuple[Block, ...]

    @property
    def raw(self) -> str:
        """Return the part exactly as it is in the file."""
        return self.heading + "".join(block.raw for block in self.blocks)

    @property
    def lines(self) -> tuple[Block, ...]:
        """Return the blocks with content."""
        return tuple(block for block in self.blocks if block.content)


@dataclass(frozen=True, slots=True)
class Edit:
    """One change to one section: the `old` lines (by text) leave, and `new` takes the place of the first of them.

    Without `old` it is an addition: above the line with the text `above` if that is an item of a list there, else at
    the end of the section or, with `first`, above its other lines. Without `new`
    it is a removal; with more than one `old`, a merge. Without `section` it concerns a line above the title, from
    before the first dream; if nothing else is set, it clears what remains there once no line does. With `pinned`, the
    one old line only gains or loses its pin.
    """

    section: SectionName | None
    old: tuple[str, ...] = ()
    new: str | None = None
    first: bool = False
    pinned: bool | None = None
    above: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed MEMORY.md."""

    parts: tuple[Part, ...]
    newline: str = field(default="\n", compare=False)

    def section(self, name: SectionName) -> Part | None:
        """Return the section with this name, if there is one."""
        return next((part for part in self.parts if part.name is name), None)

    def lines(self) -> Iterator[tuple[SectionName, Block]]:
        """Yield every line of the seven sections with its section, from top to bottom."""
        for part in self.parts:
            if part.name is not None:
                for block in part.lines:
                    yield part.name, block

    @property
    def missing(self) -> tuple[SectionName, ...]:
        """Return the missing sections."""
        present = {part.name for part in self.parts}
        return tuple(name for name in SectionName if name not in present)

    @property
    def doubled(self) -> tuple[SectionName, ...]:
        """Return the sections whose heading occurs more than once."""
        named = [_section_name(part.heading) for part in self.parts if part.heading]
        return tuple(name for name in SectionName if named.count(name) > 1)

    @property
    def has_schema(self) -> bool:
        """Return whether a dream has written this file: it has the title, or most of the sections."""
        return any(is_title(part.heading) for part in self.parts) or len(self.missing) <= 3


# A commit reads the same few texts again and again.
@lru_cache(maxsize=8)
def parse(text: str) -> Document:
    """Parse MEMORY.md. Never fails: anything outside the seven sections is a human's text and is kept."""
    rows = rows_of(text)
    starts = part_starts(rows)
    above_title = any(is_title(rows[at]) for at in starts)
    parts: list[Part] = []
    seen: set[SectionName] = set()
    headed = starts[:1] == [0]
    if rows and not headed:
        starts = [0, *starts]
    for start, end in pairwise([*starts, len(rows)]):
        heading = rows[start] if start or headed else ""
        if is_title(heading):
            above_title = False
        # Above the title is text from before the first dream; a repeated heading does not start the section again.
        name = None if above_title else _section_name(heading)
        name = None if name in seen else name
        if name is not None:
            seen.add(name)
        parts.append(Part(name, heading, _blocks(name, rows[start + bool(heading) : end])))
    return Document(tuple(parts), "\r\n" if "\r\n" in text else "\n")


def render(document: Document) -> str:
    """Return the file's text; the inverse of `parse`."""
    return "".join(part.raw for part in document.parts)


def blank(newline: str = "\n") -> Document:
    """Return a document with seven empty sections."""
    rows = [TITLE, "", "_Last dream: never | Mood: calm_", ""]
    for name in SectionName:
        rows += [f"## {name.value}", "", placeholder_of(name), ""]
    return parse(newline.join(rows))


def complete(document: Document) -> Document:
    """Return the document with each missing section added, empty and in its place."""
    template, order, parts = blank(document.newline), list(SectionName), list(document.parts)
    if not any(is_title(part.heading) for part in parts):
        at = next((i for i, part in enumerate(parts) if part.name is not None), len(parts))
        parts[at:at] = [template.parts[0]]
        if at:
            parts[at - 1] = _spaced(parts[at - 1], document.newline)
    for name in document.missing:
        earlier = [i for i, part in enumerate(parts) if part.name and order.index(part.name) < order.index(name)]
        title = next(i for i, part in enumerate(parts) if is_title(part.heading))
        at = (max(earlier) if earlier else title) + 1
        new = template.section(name)
        if new is not None:
            parts[at - 1] = _spaced(parts[at - 1], document.newline)
            parts.insert(at, new)
    return replace(document, parts=tuple(parts))


def stamp(at: datetime, mood: str) -> str:
    """Return the line under the title: the time of the last dream, and the mood."""
    return f"_Last dream: {at.strftime('%Y-%m-%dT%H:%M:%SZ')} | Mood: {mood}_"


def stamped(document: Document, at: datetime, mood: str) -> Document:
    """Return the document with this time and mood in the line under the title."""
    row = stamp(at, mood)
    parts = list(document.parts)
    at_part = next((i for i, part in enumerate(parts) if is_title(part.heading)), None)
    if at_part is None:
        return stamped(complete(document), at, mood)
    part, newline = parts[at_part], document.newline
    blocks = list(part.blocks)
    where = next((i for i, block in enumerate(blocks) if is_stamp(block.raw)), None)
    if where is None:
        blocks[:0] = [Block(newline, content=False), Block(row + newline, content=False)]
        heading = part.heading if part.heading.endswith("\n") else part.heading + newline
        if len(blocks) == 2 or blocks[2].raw.strip():
            blocks.insert(2, Block(newline, content=False))
        parts[at_part] = replace(part, heading=heading, blocks=tuple(blocks))
    else:
        ending = blocks[where].raw[len(blocks[where].raw.rstrip("\r\n")) :]
        blocks[where] = Block(row + ending, content=False)
        parts[at_part] = replace(part, blocks=tuple(blocks))
    return replace(document, parts=tuple(parts))


def closed(part: Part, newline: str) -> Part:
    """Return the part with a newline at its end."""
    if part.raw.endswith("\n") or not part.raw:
        return part
    if not part.blocks:
        return replace(part, heading=part.heading + newline)
    last = part.blocks[-1]
    return replace(part, blocks=(*part.blocks[:-1], replace(last, raw=last.raw + newline)))


def _spaced(part: Part, newline: str) -> Part:
    """Return the part with a blank row at its end."""
    part = closed(part, newline)
    if not part.raw or part.raw.endswith(("\n\n", "\n\r\n")):
        return part
    return replace(part, blocks=(*part.blocks, Block(newline, content=False)))


def is_title(heading: str) -> bool:
    """Return whether a heading is the title."""
    found = heading_of(heading)
    return bool(found and found[0] == 1 and found[1].casefold() == TITLE[2:].casefold())


def _section_name(heading: str) -> SectionName | None:
    found = heading_of(heading)
    if not found or found[0] != 2:
        return None
    bare = found[1].strip(" *_:")
    if bare.endswith(")"):
        bare = bare.partition("(")[0]
    return _BY_NAME.get(" ".join(bare.strip(" *_:").casefold().split()))


def _blocks(name: SectionName | None, rows: Sequence[str]) -> tuple[Block, ...]:
    """Split the rows of one part into lines and filler."""
    blocks = (Block(raw, content=True) for raw in units(rows, (*GUIDES.values(), PLACEHOLDER)))
    return tuple(block if _is_line(name, block) else Block(block.raw, content=False) for block in blocks)


def _is_line(name: SectionName | None, block: Block) -> bool:
    if is_filler(block.raw.partition("\n")[0]) or is_placeholder(block.raw):
        return False
    return not (name is None and is_stamp(block.raw)) and bool(block.key)
