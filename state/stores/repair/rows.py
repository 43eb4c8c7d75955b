"""Salvaged rows: copied out of a damaged state.db into a new one, wherever their pages are found.

    pages of file and log ─> trees of the catalogue ─> pages that no tree leads to ─> rows anywhere in a page

What is reached first is believed: a page that is as it was last written before one of which only an older image is
left, one that its tree leads to before one that was found lying about. Free pages hold what was deleted, and are left
alone as long as it is known which they are. SQLite itself opens nothing of the damaged file.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from state.stores.database.columns import Table, tables_of
from state.stores.repair.btree import INNER_INDEX, INNER_TABLE, LEAF_INDEX, LEAF_TABLE, Cell, Node, carve, read_node
from state.stores.repair.pages import Pages
from state.stores.repair.row_rules import Row, fits, fragment, is_altered, may_hold, mended, row_of

_MOST_CARVED = 4_000  # pages that are searched byte by byte
_IDS = {"crystals": "sqlite_autoindex_crystals_1", "sessions": "sqlite_autoindex_sessions_1"}


@dataclass(slots=True)
class Salvage:
    """The result of a salvage. `kept` counts rows by table; `torn` are the tables that may lack rows.

    `altered` are crystals whose text is not the one that their id was made of, `fragments` (key, id, beginning of
    the text) those of which the rest is gone. `ids` are the keys of crystals and sessions by their ids, as their
    indexes have them.
    """

    kept: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    torn: set[str] = field(default_factory=set)
    altered: list[Row] = field(default_factory=list)
    fragments: list[tuple[int, str, str]] = field(default_factory=list)
    ids: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Thing:
    """A table, an index or the like: where its tree begins, and how it was made."""

    name: str
    root: int
    statement: str


def catalogue(pages: Pages) -> tuple[dict[str, Thing], set[int]]:
    """The entries of the catalogue (sqlite_schema), by name, and its pages, as far as they can be found."""
    seen, nodes, whole = set[int](), list[Node](), True
    waiting = [1]
    while waiting:
        number = waiting.pop()
        node = read_node(pages, number) if number not in seen else None
        if node is None or (node.cells and not any(map(_is_thing, node.cells))):
            whole = False
            continue
        seen.add(number)
        nodes.append(node)
        waiting += node.children
        whole = whole and not node.faults
    for number in range(2, pages.count + 1) if not whole else ():
        found = read_node(pages, number) if number not in seen else None
        if found is not None and found.kind == LEAF_TABLE and any(map(_is_thing, found.cells)):
            seen.add(number)
            nodes.append(found)
    things: dict[str, Thing] = {}
    for cell in (cell for node in nodes for cell in node.cells if _is_thing(cell)):
        _, name, _, root, statement = cell.values
        if isinstance(root, int) and root <= pages.count:
            things.setdefault(str(name), Thing(str(name), root, str(statement or "")))
    return things, seen.union(*(node.chains for node in nodes))


def pour(pages: Pages, connection: sqlite3.Connection) -> Salvage:
    """Write every readable row into the empty tables of `connection`, which has the schema of the file.

    In the caller's transaction, with foreign keys off: rows that they refer to may be lost.
    """
    return _Pouring(pages, connection).done()


class _Pouring:
    def __init__(self, pages: Pages, connection: sqlite3.Connection) -> None:
        self._pages = pages
        self._connection = connection
        self._tables = tables_of(connection)
        self._seen: set[int] = set()
        self._faulty: dict[int, Table | None] = {}
        self._chains: set[int] = set()
        self._salvage = Salvage()

    def done(self) -> Salvage:
        free, in_order = self._pages.free()
        things, self._seen = catalogue(self._pages)
        roots = {name: thing.root for name, thing in things.items() if thing.root > 1}
        found = self._salvage
        found.torn |= self._tables.keys() - roots.keys()
        older: list[tuple[Table, Node]] = []
        for name, table in self._tables.items():
            for node in self._walk(roots[name], table) if name in roots else ():
                if node.number in self._pages.stale:
                    older.append((table, node))
                    found.torn.add(name)
                else:
                    self._insert(table, node.cells)
        for named, index in _IDS.items():
            cells = [cell for node in self._walk(roots.get(index, 0), None) for cell in node.cells]
            found.ids[named] = dict(entry for cell in cells if (entry := _entry(cell)) is not None)
        for name, root in roots.items():
            if name not in self._tables and name not in _IDS.values():
                for _ in self._walk(root, None):
                    pass
        for table, node in older:
            self._insert(table, node.cells)
        # What is free was deleted. When nobody knows what is free, only a torn tree is a reason to look.
        lost = set(range(2, self._pages.count + 1)) - self._seen - free - self._chains
        if in_order or found.torn or self._faulty:
            self._look_about(sorted(lost))
        return found

    # ------------------------------------------------------------ trees

    def _walk(self, root: int, table: Table | None) -> Iterator[Node]:
        """Every page of the tree that can be read and is this table's; None: of anything."""
        waiting = [root] if root else []
        while waiting:
            number = waiting.pop()
            node = read_node(self._pages, number) if number not in self._seen else None
            if node is None or not self._belongs(node, table):
                self._fault(number, table)
                continue
            self._seen.add(number)
            self._chains.update(node.chains)
            if node.faults:
                self._fault(number, table)
            waiting += reversed(node.children)
            yield node

    def _fault(self, number: int, table: Table | None) -> None:
        if table is not None:
            self._salvage.torn.add(table.name)
            self._faulty.setdefault(number, table)

    def _belongs(self, node: Node, table: Table | None) -> bool:
        """Whether this can be a page of the table: it is of the right kind, and a row of it fits, if it has any."""
        if table is None:
            return True
        if node.kind not in ((LEAF_TABLE, INNER_TABLE) if table.has_rowids else (LEAF_INDEX, INNER_INDEX)):
            return False
        cells = node.cells
        return not cells or any(row_of(table, cell) is not None or fragment(cell) for cell in cells)

    # ------------------------------------------------------------ pages that no tree leads to

    def _look_about(self, lost: list[int]) -> None:
        broken = [number for number in self._faulty if number in self._seen]
        for number in lost:
            node = read_node(self._pages, number)
            table = self._owner(node) if node is not None else None
            if node is None or table is None:
                broken.append(number)
                continue
            self._salvage.torn.add(table.name)
            self._chains.update(node.chains)
            self._insert(table, node.cells)
            if node.faults:
                broken.append(number)
        for number in [number for number in broken if number not in self._chains][:_MOST_CARVED]:
            self._search(number)

    def _owner(self, node: Node) -> Table | None:
        """The one table whose rows are like all of these."""
        if not node.cells:
            return None
        fitting = [
            table
            for table in self._tables.values()
            if may_hold(table, node.kind)
            and all(
                fits(table, cell, LEAF_TABLE if table.has_rowids else LEAF_INDEX) or fragment(cell)
                for cell in node.cells
            )
        ]
        torn = [table for table in fitting if table.name in self._salvage.torn]
        return next(iter(torn or fitting), None)

    def _search(self, number: int) -> None:
        """Rows anywhere in a page."""
        of = self._faulty.get(number)
        tables = [of] if of is not None and number in self._seen else list(self._tables.values())

        def owner(cell: Cell, kind: int) -> Table | None:
            return next((table for table in tables if fits(table, cell, kind)), None)

        for table, cell in carve(self._pages, number, owner):
            self._salvage.torn.add(table.name)
            self._insert(table, [cell])

    # ------------------------------------------------------------ rows

    def _insert(self, table: Table, cells: Iterable[Cell]) -> None:
        found = self._salvage
        for cell in cells:
            read = row_of(table, cell)
            row = mended(table.name, read) if read is not None else None
            if row is None:
                if table.name == "crystals" and (part := fragment(cell)) is not None:
                    found.fragments.append((int(cell.rowid or 0), *part))
                found.unread[table.name] += 1
                found.torn.add(table.name)
            elif table.name == "crystals" and is_altered(row):
                found.altered.append(row)
                found.torn.add(table.name)
            else:
                if row != read:
                    found.torn.add(table.name)
                found.kept[table.name] += put(self._connection, table.name, row)


def put(connection: sqlite3.Connection, table: str, row: Mapping[str, object]) -> int:
    """Insert the row unless one of its keys is there; 1 if it was inserted."""
    names = ", ".join(f'"{name}"' for name in row)
    marks = ", ".join("?" for _ in row)
    statement = f'INSERT OR IGNORE INTO "{table}" ({names}) VALUES ({marks})'
    return connection.execute(statement, tuple(row.values())).rowcount


def _is_thing(cell: Cell) -> bool:
    """Whether it is a row of the catalogue (sqlite_schema)."""
    values = cell.values
    return (
        len(values) == 5
        and values[0] in ("table", "index", "view", "trigger")
        and isinstance(values[1], str)
        and isinstance(values[3], int)
    )


def _entry(cell: Cell) -> tuple[str, int] | None:
    """An entry of an index of ids."""
    if len(cell.values) != 2:
        return None
    id_, key = cell.values
    return (id_, key) if isinstance(id_, str) and isinstance(key, int) else None
