"""B-trees of a damaged SQLite file: every cell that can still be read, whatever became of the pages around it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from struct import unpack_from
from typing import TypeVar

from state.stores.database.columns import Value
from state.stores.repair.pages import Pages

INNER_INDEX, INNER_TABLE, LEAF_INDEX, LEAF_TABLE = 2, 5, 10, 13
_INNER = (INNER_INDEX, INNER_TABLE)
_SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
_LEAST_CARVED = 12  # bytes of a record that is looked for anywhere in a page

_Owner = TypeVar("_Owner")


@dataclass(frozen=True, slots=True)
class Cell:
    """One record. `rowid` is None in an index (and in a table without rowids); `whole`: none of it is missing."""

    rowid: int | None
    values: tuple[Value, ...]
    whole: bool
    length: int  # bytes in the page itself


@dataclass(slots=True)
class Node:
    """One page of a tree. `faults` counts the cells (and the pointers to cells) that make no sense."""

    number: int
    kind: int
    cells: list[Cell] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    chains: list[int] = field(default_factory=list)
    faults: int = 0


def read_node(pages: Pages, number: int) -> Node | None:
    """The page as a node; None when it is none, or not there."""
    page = pages.get(number)
    if page is None:
        return None
    at = 100 if number == 1 else 0
    kind = page[at]
    if kind not in (INNER_INDEX, INNER_TABLE, LEAF_INDEX, LEAF_TABLE):
        return None
    node = Node(number, kind)
    inner = kind in _INNER
    start, declared = at + (12 if inner else 8), unpack_from(">H", page, at + 3)[0]
    count = min(declared, (pages.size - start) // 2)
    node.faults += declared != count
    for place in unpack_from(f">{count}H", page, start):
        if not start + 2 * count <= place < pages.size - 3:
            node.faults += 1
            continue
        if inner:
            node.children.append(unpack_from(">I", page, place)[0])
        if kind != INNER_TABLE:
            cell = read_cell(pages, page, place + 4 * inner, kind, node.chains)
            if cell is None:
                node.faults += 1
            else:
                node.cells.append(cell)
    if inner:
        node.children.append(unpack_from(">I", page, at + 8)[0])
    return node


def carve(pages: Pages, number: int, owner: Callable[[Cell, int], _Owner | None]) -> Iterator[tuple[_Owner, Cell]]:
    """Records anywhere in a page whose directory cannot be trusted: each that an `owner` knows."""
    page = pages.get(number) or b""
    for kind in (LEAF_TABLE, LEAF_INDEX):
        at = 8
        while at < len(page) - _LEAST_CARVED:
            cell = read_cell(pages, page, at, kind, [])
            found = owner(cell, kind) if cell is not None and cell.whole and cell.length >= _LEAST_CARVED else None
            if cell is not None and found is not None:
                yield found, cell
                at += cell.length
            else:
                at += 1


def read_cell(pages: Pages, page: bytes, at: int, kind: int, chains: list[int]) -> Cell | None:
    """The record at this place of a page; None when there is none. The pages that it flows into join `chains`."""
    begin, rowid = at, None
    size, at = _varint(page, at)
    if kind == LEAF_TABLE:
        rowid, at = _varint(page, at)
        rowid = rowid - (1 << 64) if rowid >= 1 << 63 else rowid
    if not 1 <= size <= pages.size * max(pages.count, 1):
        return None
    local = _local(size, pages.size, table=kind == LEAF_TABLE)
    payload = page[at : at + local]
    if len(payload) < local or (local < size and at + local + 4 > len(page)):
        return None
    length = at + local - begin
    if local < size:
        payload += _overflow(pages, unpack_from(">I", page, at + local)[0], size - local, chains)
        length += 4
    return _record(rowid, payload, size, length)


def _local(size: int, page: int, *, table: bool) -> int:
    """How many bytes of a record of this size are in its page; the rest overflows."""
    most = page - 35 if table else (page - 12) * 64 // 255 - 23
    if size <= most:
        return size
    least = (page - 12) * 32 // 255 - 23
    fitting = least + (size - least) % (page - 4)
    return fitting if fitting <= most else least


def _overflow(pages: Pages, number: int, size: int, chains: list[int]) -> bytes:
    """The first `size` bytes of this chain of pages, or as many as it has."""
    found, seen = bytearray(), set[int]()
    while len(found) < size and number not in seen and (page := pages.get(number)) is not None:
        seen.add(number)
        found += page[4 : 4 + size - len(found)]
        number = unpack_from(">I", page)[0]
    chains.extend(seen)
    return bytes(found)


def _record(rowid: int | None, payload: bytes, size: int, length: int) -> Cell | None:
    """The values of a record, as many as its bytes hold; None when its header and its size do not agree."""
    end, at = _varint(payload, 0)
    if not at <= end <= len(payload):
        return None
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        if kind in (10, 11):
            return None
        kinds.append(kind)
    if at != end or end + sum(map(_width, kinds)) != size:
        return None
    values: list[Value] = []
    for kind in kinds:
        width = _width(kind)
        block = payload[at : at + width]
        if len(block) < width:
            # The beginning of a long text is something; of a number it is nothing.
            values.append(_text(block) if kind >= 13 and kind % 2 and block else None)
            return Cell(rowid, tuple(values), whole=False, length=length)
        values.append(_value(kind, block))
        at += width
    return Cell(rowid, tuple(values), whole=True, length=length)


def _width(kind: int) -> int:
    return (kind - 12) // 2 if kind >= 12 else _SIZES[kind] if kind < 10 else 0


def _value(kind: int, block: bytes) -> Value:
    if kind >= 12:
        return _text(block) if kind % 2 else block
    if kind == 7:
        number: float = unpack_from(">d", block)[0]
        return number
    if kind in (8, 9):
        return kind - 8
    return int.from_bytes(block, "big", signed=True) if kind else None


def _text(block: bytes) -> str:
    """The bytes as text; bytes that are no UTF-8 are escaped, as in a log of notes."""
    return block.decode("utf-8", "backslashreplace")


def _varint(block: bytes, at: int) -> tuple[int, int]:
    """The number that begins at this place, and the place behind it; past the end, bytes are zeros."""
    value = 0
    for place in range(at, at + 8):
        byte = block[place] if place < len(block) else 0
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + 1
    return value << 8 | (block[at + 8] if at + 8 < len(block) else 0), at + 9
