"""What is looked at when a workspace has been through something."""

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from daemon.workspace.adoption import open_workspace
from state.document.document import parse
from state.document.sections import SectionName
from state.stores.database.table import unpacked
from state.stores.disk.workspace import Workspace
from tests.support.copies import all_files
from tests.support.notes import pending_notes


def rows(workspace: Workspace, query: str, *values: object) -> list[sqlite3.Row]:
    """What state.db says, without opening the workspace."""
    with closing(sqlite3.connect(workspace.database)) as connection:
        connection.row_factory = sqlite3.Row
        connection.create_function("unpacked", 1, unpacked, deterministic=True)
        return connection.execute(query, values).fetchall()


def places(workspace: Workspace) -> Counter[str]:
    """For each note, how often it stands among what is pending and the crystals that dreams took in."""
    consumed = rows(workspace, "SELECT text FROM crystals WHERE origin = 'scratch' AND dreamt_in IS NOT NULL")
    return Counter([row["text"] for row in consumed] + pending(workspace))


def remembered(workspace: Workspace) -> set[str]:
    """The notes that are pending or crystals, taken in by a dream or not: what a commit that was cut off leaves.

    MEMORY.md follows the commit: until it has, the notes are told by their crystals.
    """
    waiting = set(pending(workspace))  # first: a note that is taken in meanwhile is a crystal then
    return waiting | {row["text"] for row in rows(workspace, "SELECT text FROM crystals")}


def pending(workspace: Workspace) -> list[str]:
    """The notes that no dream has consumed."""
    return [note.text for note in pending_notes(workspace)]


def lines(workspace: Workspace) -> list[str]:
    return [block.text for _, block in parse(document(workspace)).lines()]


def document(workspace: Workspace) -> str:
    return workspace.document.read_text(encoding="utf-8") if workspace.document.exists() else ""


def outcomes(workspace: Workspace) -> list[str]:
    """How the runs ended, the first one first."""
    return [row["outcome"] for row in rows(workspace, "SELECT outcome FROM dreams ORDER BY started_at")]


def calls(workspace: Workspace) -> int:
    """Calls of a model that are in the ledger."""
    return int(rows(workspace, "SELECT count(*) AS n FROM calls")[0]["n"])


def versions(workspace: Workspace) -> list[sqlite3.Row]:
    """Every version, the first one first; 0 is what stood before dreamd."""
    unpacking = "unpacked(text) AS text, unpacked(record) AS record"
    return rows(workspace, f"SELECT number, cause, dream, {unpacking} FROM versions ORDER BY number")  # noqa: S608


def assert_valid(workspace: Workspace) -> None:
    """MEMORY.md is whole: seven sections once, and the very text of the last version."""
    text = document(workspace)
    parsed = parse(text)
    assert [part.name for part in parsed.parts if part.name is not None] == list(SectionName)
    assert parsed.doubled == ()
    last = rows(workspace, "SELECT * FROM versions ORDER BY number DESC LIMIT 1")[0]
    assert hashlib.sha256(text.encode()).hexdigest() == last["digest"]
    assert text == unpacked(last["text"])
    assert list(workspace.root.glob(".*.displaced")) == []


def assert_once(workspace: Workspace, notes: Iterable[str], *, consumed: bool = True) -> None:
    """Each of these notes is in one place and there are no others; all are consumed, or all are accounted for."""
    assert places(workspace) == Counter(dict.fromkeys(notes, 1))
    if consumed:
        assert pending(workspace) == []


def everything(folder: Path) -> dict[str, bytes]:
    """Every byte of a workspace, but for who holds its lock, and where it is.

    An empty log of SQLite's (-wal) and its index (-shm) hold nothing: whoever only reads may leave them beside a
    database, and whoever writes removes them.
    """
    found = {
        name: path.read_bytes()
        for name, path in all_files(open_workspace(folder)).items()
        if name != ".dreamd" and path.name not in {"lock", "fence", "place"}
    }
    logs = {name.removesuffix("-wal") for name, content in found.items() if name.endswith("-wal") and content}
    return {
        name: content
        for name, content in found.items()
        if not name.endswith(("-wal", "-shm")) or name[: -len("-wal")] in logs
    }
