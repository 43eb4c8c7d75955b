"""Document: MEMORY.md of a workspace as it is on the disk, the last version of one that was emptied, or as it was."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from sqlite3 import Connection

from daemon.workspace.redaction import learnable
from daemon.workspace.stores import Store, utc_now
from state.bootstrap import digest_of
from state.crystals.crystal import Crystal, Lifecycle, Origin
from state.document.document import Block, parse
from state.document.merge import with_lines_of
from state.document.pointer import parse_pointer
from state.errors import DocumentError
from state.stores.database.meta import Meta
from state.stores.disk.disk import Disk, change_text
from state.stores.disk.workspace import Workspace
from state.stores.git.reading import Found, Reading, note_git, reading
from state.stores.history.bootstraps import BootstrapReceipt
from state.stores.history.lineage import Lineage
from state.stores.history.memory import HELD
from state.text.words import counted
from state.trust import Trust

# What MEMORY.md was is looked for in so many versions that came after.
_LATER = 5
# Of a text that git brought so many new lines are searched; the others are in its version.
_MOST_BROUGHT = 1_000


def read_document(workspace: Workspace, connection: Connection) -> tuple[str, tuple[str, ...]]:
    """Return the text of MEMORY.md, and the problems with it.

    The last version is read in place of a file that is missing, was emptied, was checked out by git or is torn by a
    conflict. Raise DocumentError for a file that is no text.
    """
    read = reading(workspace, connection)
    return read.text, (read.problem,) if read.problem else ()


def settle_document(store: Store) -> None:
    """Make MEMORY.md what the memory goes by, before anything is changed in it; and note what git says of it.

    What git brought is kept as a version of its own: the lines that the memory never had can be searched, as a
    stranger's, and nobody is taken to have said or deleted anything. While a conflict stands in the file it is left
    alone; what a person makes of it is merged with what dreams changed meanwhile.
    """
    store.memory.check()
    connection = store.connection
    try:
        read, meta = reading(store.workspace, connection), Meta(connection)
    except DocumentError:  # whoever needs its text says what is wrong with it
        return
    if read.found is Found.CHECKOUT and not read.is_known:
        _keep(store, read)
    if read.found in (Found.CHECKOUT, Found.CONFLICT):
        store.notices.add(read.problem)
    if read.found is Found.CHECKOUT and read.text != read.file:
        _put(store.workspace, store.memory.disk, read.file, read.text)
        store.memory.put_back()
        note_git(store.workspace, connection)  # what stands there now is not what git brought
    if read.found is Found.EDITED:
        store.memory.recover()  # what dreams changed while a conflict was being resolved
    if read.found is not Found.CONFLICT:
        meta.remove(HELD)
    elif meta.get(HELD) is None:
        meta.put(HELD, str(read.version))
    taken = store.memory.take_in()
    for problem in taken.problems:
        store.notices.add(problem)
    if taken.unforgotten:
        lines = counted(taken.unforgotten, "new line")
        store.notices.add(f"{lines} of MEMORY.md hold what was forgotten: it is learnt again")
    note_git(store.workspace, connection)


def _keep(store: Store, read: Reading) -> None:
    """Keep what git brought as a version that nothing is made of, and its new lines as what a stranger said."""
    now, forgotten, redaction = utc_now(), store.crystals.forgotten.tombstones(), store.config.redaction
    known = {block.key for text in (read.text, store.lineage.text(read.version)) for block in _lines(text)}
    known |= store.lineage.texts()
    brought = (
        Crystal(redaction.of(block.text), Origin.SESSION, now, trust=Trust.WEB, lifecycle=Lifecycle.CONSOLIDATED)
        for block in _lines(read.file)
        if block.key not in known and parse_pointer(block.text) is None
    )
    store.memory.keep_found(forgotten.without(read.file), learnable(store.crystals, islice(brought, _MOST_BROUGHT)))


def _put(workspace: Workspace, disk: Disk, found: str, text: str) -> None:
    """Write this text in the place of the one that was found; another one, saved meanwhile, stays."""
    old, new = found.encode(), text.encode()

    def join(current: bytes, other: bytes) -> bytes:
        return current if other == new else with_lines_of(current.decode(), other.decode()).encode()

    change_text(disk, workspace.document, lambda content: new if content == old else content, join, "dream again")


def _lines(text: str) -> Iterator[Block]:
    return (block for part in parse(text).parts for block in part.lines)


def document_of(workspace: Workspace, lineage: Lineage, receipt: BootstrapReceipt, *others: str) -> str | None:
    """Return MEMORY.md as it was when this was given; None when that cannot be known.

    Its owner may have written the file after the last version of then. Such a text is known while it stands (`others`
    are looked at like it), and once a dream has read it.
    """
    later = (receipt.version, *lineage.versions_after(receipt.version)[:_LATER])
    if not receipt.digest:  # of an earlier dreamd
        with suppress(OSError):
            if workspace.document.stat().st_mtime <= (receipt.at + timedelta(seconds=1)).timestamp():
                return others[0] if others else None
        return lineage.text(receipt.version) if later[1:] else None
    texts = (*others, "", *map(lineage.text, later))
    return next((text for text in texts if digest_of(text) == receipt.digest), None)


def without_lines(text: str, lines: Iterable[str]) -> str:
    """Return MEMORY.md without these lines: what it was if nothing else was written since."""
    for line in lines:
        text = text.replace(line, "", 1)
    return text


def lines_with(text: str, wanted: str) -> Iterator[tuple[str, int]]:
    """Yield the lines that hold this, each with the number of its first row."""
    at = 1
    for part in parse(text).parts:
        at += part.heading.count("\n")
        for block in part.blocks:
            if block.content and wanted in block.key:
                yield block.raw, at
            at += block.raw.count("\n")
