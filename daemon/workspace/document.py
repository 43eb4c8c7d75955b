"""Document: a workspace's MEMORY.md as it is on disk, its last version if it was emptied, or as it was."""

from collections.abc import Iterator
from sqlite3 import Connection

from daemon.workspace.stores import Store
from state.changes.owner import lines_in
from state.changes.page import Page
from state.document.document import parse
from state.document.merge import with_lines_of, working
from state.errors import DocumentError
from state.stores.disk.disk import Disk, change_text
from state.stores.disk.workspace import Workspace
from state.stores.history.reading import Found, reading
from state.text.words import counted


def read_document(workspace: Workspace, connection: Connection) -> tuple[str, tuple[str, ...]]:
    """Return the text of MEMORY.md, and the problems with it.

    Return the last version instead if the file is missing, empty, an earlier version, or has conflict markers. Raise
    DocumentError if the file is not text.
    """
    read = reading(workspace, connection)
    return read.text, (read.problem,) if read.problem else ()


def page_of(store: Store) -> Page:
    """Return the lines of MEMORY.md as its owner left it, by the ids that the last version gave them."""
    text, _ = read_document(store.workspace, store.connection)
    return Page("", lines_in(working(text), store.lineage.current_lines()), 1)


def settle_document(store: Store) -> None:
    """Bring MEMORY.md and the database together before a change.

    An earlier version in the file is replaced by the last one. A file with conflict markers is left alone; once a
    person has resolved them, the result is merged with the dreams' changes.
    """
    store.memory.check()
    try:
        read = reading(store.workspace, store.connection)
    except DocumentError:  # whoever needs the text reports the problem
        return
    if read.found in (Found.CHECKOUT, Found.CONFLICT):
        store.notices.add(read.problem)
    if read.found is Found.CHECKOUT:
        _put(store.workspace, store.memory.disk, read.file, read.text)
        store.memory.put_back()
    if read.found is Found.EDITED:
        store.memory.recover()  # apply what dreams changed while a conflict was being resolved
    taken = store.memory.take_in()
    for problem in taken.problems:
        store.notices.add(problem)
    if taken.unforgotten:
        lines = counted(taken.unforgotten, "new line")
        store.notices.add(f"{lines} of MEMORY.md hold what was forgotten: it is learnt again")


def _put(workspace: Workspace, disk: Disk, found: str, text: str) -> None:
    """Replace the text that was found by this one, unless another was saved meanwhile."""
    old, new = found.encode(), text.encode()

    def join(current: bytes, other: bytes) -> bytes:
        return current if other == new else with_lines_of(current.decode(), other.decode()).encode()

    change_text(disk, workspace.document, lambda content: new if content == old else content, join, "dream again")


def lines_with(text: str, wanted: str) -> Iterator[tuple[str, int]]:
    """Yield the lines that contain this text, each with its row number."""
    at = 1
    for part in parse(text).parts:
        at += part.heading.count("\n")
        for block in part.blocks:
            if block.content and wanted in block.key:
                yield block.raw, at
            at += block.raw.count("\n")
