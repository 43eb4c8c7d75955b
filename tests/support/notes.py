"""Reads a workspace's notes for tests, and commits versions that consume them."""

import os
import sqlite3
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from state.changes.change import Change, CurrentLine
from state.changes.owner import lines_in
from state.changes.page import Page
from state.document.document import parse, render
from state.document.operations import Why
from state.document.sections import SectionName
from state.dream import Dream
from state.scratch import Note, parse_notes
from state.stores.database.connection import open_unmigrated
from state.stores.disk.workspace import Workspace
from state.stores.history.notes import look
from state.trust import Trust

if TYPE_CHECKING:
    from daemon.workspace.stores import Store

_WHO = "Ada Grace Linus Barbara Edsger Alan Margaret Dennis Radia Ken".split()
_DID = "painted repaired sold borrowed measured moved noticed photographed described counted".split()
_WHAT = "kettle bicycle piano ladder carpet fence clock stove window lamp violin compass anchor saddle".split()
_WHERE = "harbour bakery library museum orchard quarry railway vineyard airport brewery castle dairy".split()
AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
EMPTY_MEMORY = "# Working Memory State\n\n" + "".join(f"## {name.value}\n" for name in SectionName)


def marked(number: int) -> str:
    """Return a unique text for this number; its last word, the marker, is in no other one."""
    words = [names[number * step % len(names)] for names, step in ((_WHO, 3), (_DID, 7), (_WHAT, 5), (_WHERE, 11))]
    return "{} {} the {} of the {}".format(*words) + f", number {number} marked x{number * 7919}q"


def marker(text: str) -> str:
    """Return the marker of such a text."""
    return text.rpartition(" ")[2]


def pending_notes(workspace: Workspace) -> tuple[Note, ...]:
    """Return every note that no dream has consumed, oldest first."""
    found = look(workspace, lambda notes: tuple(notes.each_pending()))
    if workspace.database.exists():  # readers leave -wal and -shm files beside it, which this removes
        with suppress(sqlite3.Error), open_unmigrated(workspace.database, "rw") as connection:
            connection.execute("SELECT 1 FROM sqlite_schema")
    return found


def shown_notes(workspace: Workspace) -> list[str]:
    """Return the texts of the notes in scratch.md."""
    content = workspace.scratch.read_text(encoding="utf-8") if workspace.scratch.exists() else ""
    return [note.text for note in parse_notes(content, AT)]


def consumed(store: "Store", most: int | None = None) -> int:
    """Commit a version that consumes the oldest `most` pending rows (None: all) like a dream; return its number."""
    path, number = store.workspace.document, store.lineage.last_version() + 1
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    line = CurrentLine("", SectionName.CONTEXT, f"line of version {number}", 0.5, Trust.AGENT, AT)
    page = Page(
        before or EMPTY_MEMORY, lines_in(parse(before), store.lineage.current_lines()), store.lineage.next_line()
    )
    page.change(Change(Why.ADDED, (), (line,)))
    keys = tuple(one.key for one in store.notes.pending()[:most])
    after, changes = render(page.document), tuple(page.changes)
    done = Dream(number, f"D{number}", AT, "dream", "manual", before, after, "calm", changes, taken=keys)
    return store.memory.commit(done).number


def noted(store: "Store", *texts: str) -> None:
    for text in texts:
        store.notes.inbox.append(Note(text, AT))


def pending(store: "Store") -> list[str]:
    """Return the texts of the rows that are pending."""
    return [one.note.text for one in store.notes.pending()]


def taken(store: "Store", at: datetime = AT) -> list[str]:
    """Absorb all notes in the files, as if written at `at`; return the texts of pending notes."""
    from daemon.ingest.notes import absorb_notes

    for path in store.notes.inbox.files():
        os.utime(path, (at.timestamp(), at.timestamp()))
    absorb_notes(store, datetime.now(UTC), most=None)
    return pending(store)
