"""Agent block: the lines of MEMORY.md as a block of an agent's own file, and what a person changed in such a block.

The most important lines that fit stand in the order of MEMORY.md. A row of comment above them ends in the block's
code: it tells one that a person edited from one that dreamd wrote, now or in a version that git brought back, and
says which lines were its own.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, zip_longest

from state.document.document import PIN, Edit, SectionName, parse, render
from state.document.editing import edited, item
from state.document.fence import BEGIN, END
from state.document.merge import working
from state.trust import Trust

_COMMENT = "<!-- Made by dreamd from MEMORY.md. Edit lines here or there: the next dream takes them over. {} -->"
_CODE = re.compile(r"<!-- Made by dreamd [^\n]*? ([0-9a-f]{8}) -->")
# Agents leave comments out, also one that a line would begin and never end; and read the file that follows an @. They
# look for it in each piece of Markdown, which begins behind any mark: after a letter or a digit alone it is none.
_HIDES, _SHOWN = "<!--", "&lt;!--"
_IMPORTS, _IMPORTED = re.compile(r"(?<!\\)((?:\\\\)+|(?<![^\W_]))@(?=\S)"), re.compile(r"(?<![^\W_])\\@(?=\S)")
# These go first when there is too little room: they lead to a memory, or are no memory.
_LESS = frozenset((SectionName.NICHE, SectionName.POINTERS, SectionName.GAPS, SectionName.SKILLS))


@dataclass(frozen=True, slots=True)
class Cap:
    """How much of a file its agent takes."""

    lines: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StandingLine:
    """A line of MEMORY.md: its `text`, how it is `shown` (without secrets), and what is known of it."""

    section: SectionName
    text: str
    shown: str
    importance: float
    trust: Trust
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class AgentBlock:
    """A block with its markers. `ids` are those of its lines, `left_out` counts the lines that did not fit."""

    text: str
    code: str
    ids: tuple[str, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class ReadLine:
    """A line of a block as it stands in a file; of no section when it stands above the first heading."""

    section: SectionName | None
    text: str
    pinned: bool


@dataclass(frozen=True, slots=True)
class ReadBlock:
    """What stands between the markers: the code of the block that it was, empty without one, and its lines."""

    code: str
    lines: tuple[ReadLine, ...]


def render_block(lines: Sequence[StandingLine], room: Cap, key: str, newline: str = "\n") -> AgentBlock:
    """The most important lines that fit into the room, in their order; `key` tells one workspace from another.

    The markers and the comment stand there whatever the room is.
    """
    rows = [_row_of(line) for line in lines]
    chosen = _chosen(lines, rows, room, newline)
    parts = [
        f"\n## {section.value}\n" + "".join(rows[at] for at in places)
        for section, places in groupby(chosen, key=lambda at: lines[at].section)
    ]
    inside = "".join(parts)
    ids = ids_of(read_block(inside), key)
    code = code_of(ids, key)
    text = "\n".join((BEGIN, _COMMENT.format(code), "")) + inside + END
    return AgentBlock(text.replace("\n", newline), code, ids, len(lines) - len(chosen))


def read_block(inside: str) -> ReadBlock:
    """Read what stands between the markers."""
    found = _CODE.search(inside)
    lines = tuple(
        ReadLine(part.name, block.text, block.pinned) for part in parse(inside).parts for block in part.lines
    )
    return ReadBlock(found[1] if found else "", lines)


def ids_of(block: ReadBlock, key: str) -> tuple[str, ...]:
    """What tells the lines of a block apart, without their words."""
    return tuple(_id(key, line.section, line.text) for line in block.lines)


def code_of(ids: Iterable[str], key: str) -> str:
    """The code of a block of these lines."""
    return hashlib.sha256("\n".join((key, *ids)).encode()).hexdigest()[:8]


def edits_of(base: Sequence[str], block: ReadBlock, lines: Sequence[StandingLine], key: str) -> tuple[Edit, ...]:
    """What a person did to a block whose lines were these ids, as edits of MEMORY.md whose lines are these.

    A block that lost all its lines, with nothing instead, is an accident rather than a wish.
    """
    ids = ids_of(block, key)
    known = {_id(key, line.section, _as_read(line)): line for line in lines}
    here, before = set(ids), set(base)
    if base and not ids:
        return ()
    edits = list[Edit]()
    for _, first, last, start, end in SequenceMatcher(a=base, b=ids, autojunk=False).get_opcodes():
        gone = [known[one] for one in base[first:last] if one not in here and one in known]
        come = [line for one, line in zip(ids[start:end], block.lines[start:end], strict=True) if one not in before]
        edits += _changes(gone, come)
    pins = ((known[one], line) for one, line in zip(ids, block.lines, strict=True) if one in known)
    edits += [Edit(old.section, (old.text,), pinned=True) for old, line in pins if line.pinned and not old.pinned]
    return tuple(edits)


def absorbed(text: str, edits: Iterable[Edit]) -> str:
    """MEMORY.md with these edits; what is said in place of a line that is gone is added."""
    document = working(text)
    for edit in edits:
        document, left_out = edited(document, [edit])
        if left_out and edit.old and edit.new is not None:
            document, _ = edited(document, [Edit(edit.section, (), edit.new)])
    return render(document)


def _chosen(lines: Sequence[StandingLine], rows: Sequence[str], room: Cap, newline: str) -> list[int]:
    """The places of the lines that fit, the weightiest first chosen; in their order."""
    wide = len(newline) - 1
    frame = "\n".join((BEGIN, _COMMENT.format("0" * 8), END))
    left = [room.lines - frame.count("\n"), room.bytes - len(frame.encode()) - wide * frame.count("\n")]
    chosen, open_sections = list[int](), set[SectionName]()

    def weight(at: int) -> tuple[bool, bool, float, int, int]:
        line = lines[at]
        return not line.pinned, line.section in _LESS, -line.importance, -line.trust.rank, at

    for at in sorted(range(len(lines)), key=weight):
        section = lines[at].section
        row = rows[at] if section in open_sections else f"\n## {section.value}\n{rows[at]}"
        taken = row.count("\n"), len(row.encode()) + wide * row.count("\n")
        if all(has >= needs for has, needs in zip(left, taken, strict=True)):
            left = [has - needs for has, needs in zip(left, taken, strict=True)]
            open_sections.add(section)
            chosen.append(at)
    return sorted(chosen)


def _changes(gone: Sequence[StandingLine], come: Sequence[ReadLine]) -> list[Edit]:
    """Lines that came where others went: each in the place of one of its section, as far as there are."""
    edits = list[Edit]()
    places = [line.section or SectionName.CONTEXT for line in come]
    for section in dict.fromkeys((*(line.section for line in gone), *places)):
        old = [line for line in gone if line.section is section]
        new = [line for line, place in zip(come, places, strict=True) if place is section]
        for was, now in zip_longest(old, new):
            pinned = (was is not None and was.pinned) or (now is not None and now.pinned)
            said = None if now is None else _typed(now.text) + (f" {PIN}" if pinned else "")
            edits.append(Edit(section, (was.text,) if was is not None else (), said))
    return edits


def _row_of(line: StandingLine) -> str:
    return item(_IMPORTS.sub(r"\1\\@", line.shown.replace(_HIDES, _SHOWN)))


def _typed(text: str) -> str:
    return _IMPORTED.sub("@", text.replace(_SHOWN, _HIDES))


def _as_read(line: StandingLine) -> str:
    """The text of a line as it is read again in a block."""
    read = read_block(f"## {line.section.value}\n{_row_of(line)}").lines
    return read[0].text if len(read) == 1 else ""


def _id(key: str, section: SectionName | None, text: str) -> str:
    said = "\n".join((key, section.value if section else "", text))
    return hashlib.sha256(said.encode()).hexdigest()[:16]
