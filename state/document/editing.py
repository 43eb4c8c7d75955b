"""Editing: applies edits to MEMORY.md line by line; lines that no edit names stay byte for byte."""

from collections.abc import Sequence
from dataclasses import replace

from state.document.document import Block, Document, Edit, Part, closed, is_title, parse
from state.document.markdown import heading_of, is_stamp, marker_of
from state.document.sections import POINTER_GUIDE, SKILL_GUIDE, is_placeholder, placeholder_of
from state.text.words import normalise

_CLEAR_ABOVE_TITLE = Edit(None)


def edited(document: Document, edits: Sequence[Edit]) -> tuple[Document, tuple[Edit, ...]]:
    """Apply edits one after the other. Return the new document and the edits that did not apply.

    An edit does not apply if one of its old lines is missing (a human changed or removed it: the human wins), nor
    does an addition of a line that its section already has. So it is safe to apply the same edits twice, or to a
    version that a human has edited meanwhile.
    """
    left_out = []
    for edit in edits:
        if edit == _CLEAR_ABOVE_TITLE:
            document = _cleared_above_title(document)
            continue
        part = document.section(edit.section) if edit.section else _part_above_title(document, edit)
        changed = _edited_part(part, edit, document.newline) if part is not None else None
        if part is None or changed is None:
            left_out.append(edit)
            continue
        before = document
        document = replace(document, parts=tuple(changed if other is part else other for other in document.parts))
        if edit.section is None:
            document = _without_emptied_headings(before, document)
    return document, tuple(left_out)


def item(text: str, newline: str = "\n", marker: str = "-") -> str:
    """Return one list item; further rows of the text are indented below it."""
    return f"{marker} " + text.replace("\n", f"{newline}  ") + newline


def _edited_part(part: Part, edit: Edit, newline: str) -> Part | None:
    keys = [normalise(text) for text in edit.old]
    places = []
    for key in keys:
        place = next(
            (i for i, block in enumerate(part.blocks) if block.content and block.key == key and i not in places), None
        )
        if place is None:
            return None
        places.append(place)
    if edit.pinned is not None:
        return _pinned(part, places, pinned=edit.pinned)
    if edit.new is not None:
        new_key = normalise(edit.new)
        standing = (block for i, block in enumerate(part.blocks) if block.content and i not in places)
        if any(block.key == new_key for block in standing):
            # The new text is there already: only the old lines have to leave, if there are any.
            return without_blocks(part, places, newline) if places else None
    if not places:
        return None if edit.new is None else _with_addition(part, edit, newline)
    if edit.new is None:
        return without_blocks(part, places, newline)
    first, blocks = min(places), list(part.blocks)
    old = blocks[first]
    blocks[first] = _in_place_of(old, edit.new, newline)
    part = without_blocks(replace(part, blocks=tuple(blocks)), [i for i in places if i != first], newline)
    return _apart(part, first, newline) if is_stamp(old.raw) else part


def _pinned(part: Part, places: Sequence[int], *, pinned: bool) -> Part | None:
    """Pin or unpin the one line; None if it is so already, or if that would change its key."""
    (place,) = places
    blocks = list(part.blocks)
    old = blocks[place]
    new = blocks[place] = old.with_pin() if pinned else old.without_pin()
    changes = old.pinned is not pinned and new.pinned is pinned and new.key == old.key
    return replace(part, blocks=tuple(blocks)) if changes else None


def _apart(part: Part, place: int, newline: str) -> Part:
    """Insert a blank row after a line that replaced a stamp, so that it does not join the paragraph below."""
    below = part.blocks[place + 1 : place + 2]
    if not any(block.content and marker_of(block.raw.lstrip()) is None for block in below):
        return part
    blank = Block(newline, content=False)
    return replace(part, blocks=(*part.blocks[: place + 1], blank, *part.blocks[place + 1 :]))


def _in_place_of(old: Block, text: str, newline: str) -> Block:
    """Return the new text in the form of the old line: its bullet and indentation, or a paragraph."""
    indent = old.raw[: len(old.raw) - len(old.raw.lstrip(" \t"))]
    marker = marker_of(old.raw.lstrip().partition("\n")[0])
    paragraph = Block(text + newline, content=True)
    if marker is None and paragraph.text == text and not is_stamp(old.raw):
        return paragraph
    return Block((indent if marker else "") + item(text, newline, marker or "-"), content=True)


def without_blocks(part: Part, places: Sequence[int], newline: str) -> Part:
    """Return the part without the blocks at these places; a section that has no line left says so."""
    blocks = list(part.blocks)
    for place in sorted(places, reverse=True):
        before = blocks[place - 1].raw if place else part.heading
        del blocks[place]
        # A removed paragraph takes one of the two blank rows around it along.
        lonely = place < len(blocks) and not blocks[place].raw.strip() and not before.strip()
        if lonely:
            del blocks[place]
    part = replace(part, blocks=tuple(blocks))
    if part.name is None or any(block.content or is_placeholder(block.raw.strip() or "x") for block in blocks):
        return part
    return _with_row(part, Block(placeholder_of(part.name) + newline, content=False), newline)


def _with_addition(part: Part, edit: Edit, newline: str) -> Part:
    blocks = tuple(block for place, block in enumerate(part.blocks) if not _is_spent(part.blocks, place))
    markers = [marker_of(block.raw) for block in blocks if block.content]
    marker = next((marker for marker in reversed(markers) if marker and marker in "-*+"), "-")
    part, row = replace(part, blocks=blocks), Block(item(edit.new or "", newline, marker), content=True)
    above = normalise(edit.above)
    places = (at for at, one in enumerate(blocks) if above and one.content and one.key == above)
    if (at := next(places, None)) is not None and marker_of(blocks[at].raw):
        return replace(part, blocks=(*blocks[:at], row, *blocks[at:]))
    top = next((at for at, block in enumerate(blocks) if block.raw.strip()), len(blocks))
    # Only above a list item can a new item go first; a paragraph or heading of the owner's stays with what follows.
    if edit.first and top < len(blocks) and blocks[top].content and marker_of(blocks[top].raw):
        return replace(part, blocks=(*blocks[:top], row, *blocks[top:]))
    return _with_row(part, row, newline)


def _is_spent(blocks: Sequence[Block], place: int) -> bool:
    """Return whether a new line replaces this placeholder; not if it separates two paragraphs of the owner's."""
    block = blocks[place]
    if block.content or not block.raw.strip() or block.raw.strip() in (POINTER_GUIDE, SKILL_GUIDE):
        return False
    around = blocks[max(0, place - 1) : place + 2]
    parts = len(around) == 3 and around[0].content and around[2].content and marker_of(around[2].raw) is None
    return is_placeholder(block.raw) and not parts


def _with_row(part: Part, row: Block, newline: str) -> Part:
    """Add the row after the last row that is not blank, a list always apart from a heading or paragraph above."""
    part = closed(part, newline)
    blocks = list(part.blocks)
    at = len(blocks)
    while at and not blocks[at - 1].raw.strip():
        at -= 1
    tail = blocks[at:]
    above = blocks[at - 1].raw if at else ""
    blocks[at:] = [row]
    if not (row.content and marker_of(above)):
        blocks.insert(at, Block(newline, content=False))
        tail = tail[1:] if not at and len(tail) > 1 else tail
    blocks += tail or [Block(newline, content=False)]
    return replace(part, blocks=tuple(blocks))


def _part_above_title(document: Document, edit: Edit) -> Part | None:
    keys = {normalise(text) for text in edit.old}
    for part in document.parts:
        if is_title(part.heading):
            return None
        if keys and keys <= {block.key for block in part.lines}:
            return part
    return None


def _without_emptied_headings(before: Document, after: Document) -> Document:
    """Drop headings above the title whose last text has just left; keep headings that the owner left empty."""
    emptied = [now and not was for was, now in zip(_bare_headings(before), _bare_headings(after), strict=True)]
    if not any(emptied):
        return after
    kept, drops, skipping = list[Block](), iter(emptied), False
    for block in _blocks_above(after):
        if _level(block):
            skipping = next(drops)
            if skipping:
                continue
        elif block.raw.strip():
            skipping = False
        # The blank rows below a dropped heading go too; those above still separate the text around it.
        if not (skipping and (not kept or not kept[-1].raw.strip())):
            kept.append(block)
    below = "".join(part.raw for part in after.parts[_title_place(after) :])
    return replace(after, parts=parse("".join(block.raw for block in kept) + below).parts)


def _bare_headings(document: Document) -> list[bool]:
    """Return for each heading above the title whether it has no text below it."""
    bare, path = list[bool](), list[tuple[int, int]]()
    for block in _blocks_above(document):
        if level := _level(block):
            path = [one for one in path if one[0] < level]
            path.append((level, len(bare)))
            bare.append(True)
        elif block.content:
            for _, at in path:
                bare[at] = False
    return bare


def _blocks_above(document: Document) -> list[Block]:
    """Return everything above the title as blocks, including headings."""
    return [
        block
        for part in document.parts[: _title_place(document)]
        for block in ((Block(part.heading, content=False),) if part.heading else ()) + part.blocks
    ]


def _level(block: Block) -> int:
    found = None if block.content else heading_of(block.raw)
    return found[0] if found else 0


def _title_place(document: Document) -> int:
    return next((i for i, part in enumerate(document.parts) if is_title(part.heading)), 0)


def _cleared_above_title(document: Document) -> Document:
    title = _title_place(document)
    if any(part.lines for part in document.parts[:title]):
        return document
    return replace(document, parts=document.parts[title:])
