"""Inspections and checks of a workspace after crashes, kills and other faults."""

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from daemon.workspace.adoption import open_workspace
from state.document.document import parse
from state.document.sections import SectionName
from state.stores.database.table import unpacked
from state.stores.disk.workspace import Workspace
from tests.support.copies import all_files
from tests.support.notes import pending_notes


def rows(workspace: Workspace, query: str, *values: object) -> list[sqlite3.Row]:
    """Query state.db without opening the workspace."""
    with closing(sqlite3.connect(workspace.database)) as connection:
        connection.row_factory = sqlite3.Row
        connection.create_function("unpacked", 1, unpacked, deterministic=True)
        return connection.execute(query, values).fetchall()


def places(workspace: Workspace) -> Counter[str]:
    """Count each note's occurrences among pending notes and crystals that dreams absorbed."""
    consumed = rows(workspace, "SELECT text FROM crystals WHERE origin = 'scratch' AND dreamt_in IS NOT NULL")
    return Counter([row["text"] for row in consumed] + pending(workspace))


def remembered(workspace: Workspace) -> set[str]:
    """Return the texts of pending notes and of all crystals, absorbed by a dream or not, as after a cut-off commit.

    MEMORY.md is written after the commit; until then only the crystals show the notes.
    """
    waiting = set(pending(workspace))  # read first: a note absorbed meanwhile is then among the crystals
    return waiting | {row["text"] for row in rows(workspace, "SELECT text FROM crystals")}


def pending(workspace: Workspace) -> list[str]:
    """Return the texts of notes that no dream has consumed."""
    return [note.text for note in pending_notes(workspace)]


def lines(workspace: Workspace) -> list[str]:
    return [block.text for _, block in parse(document(workspace)).lines()]


def document(workspace: Workspace) -> str:
    return workspace.document.read_text(encoding="utf-8") if workspace.document.exists() else ""


def outcomes(workspace: Workspace) -> list[str]:
    """Return the outcomes of all runs, oldest first."""
    return [row["outcome"] for row in rows(workspace, "SELECT outcome FROM dreams ORDER BY started_at")]


def calls(workspace: Workspace) -> int:
    """Return the number of model calls in the ledger."""
    return int(rows(workspace, "SELECT count(*) AS n FROM calls")[0]["n"])


def versions(workspace: Workspace) -> list[sqlite3.Row]:
    """Return all versions, oldest first; 0 is the file before dreamd."""
    unpacking = "unpacked(text) AS text, unpacked(record) AS record"
    return rows(workspace, f"SELECT number, cause, dream, {unpacking} FROM versions ORDER BY number")  # noqa: S608


def contradictions(workspace: Workspace, *, has_ledger: bool = True) -> Iterator[str]:
    """Yield violated invariants of MEMORY.md, its versions, the notes each consumed, and state.db.

    `has_ledger`: False if the ledger was lost, and the versions were restored from elsewhere.
    """
    text, found = document(workspace), [row for row in versions(workspace) if row["number"]]
    parsed, numbers = parse(text), [row["number"] for row in found]
    sections = [part.name for part in parsed.parts if part.name is not None]
    if text and (sections != list(SectionName) or parsed.doubled):
        yield f"MEMORY.md has the sections {sections}"
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"the versions are {numbers}"
    if bare := [row["number"] for row in found if not row["text"] or (row["dream"] and not row["record"])]:
        yield f"versions {bare} lack their text or their record"
    with closing(sqlite3.connect(workspace.database)) as connection:
        for query in ("PRAGMA integrity_check", "PRAGMA foreign_key_check"):
            if (said := connection.execute(query).fetchall()) not in ([], [("ok",)]):
                yield f"{query}: {said[:3]}"
    if not has_ledger:
        return
    known = {row["id"] for row in rows(workspace, "SELECT id FROM dreams WHERE outcome = 'committed'")}
    if unknown := [row["number"] for row in found if row["dream"] and row["dream"] not in known]:
        yield f"versions {unknown} are of dreams that the ledger has not as committed"
    made = Counter(row["dream"] for row in found if row["dream"])
    if twice := [one for one, times in made.items() if times > 1]:
        yield f"made two versions: {twice}"
    yield from _consumed_twice(json.loads(row["record"]) for row in found if row["record"])


def _consumed_twice(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    taken: Counter[str] = Counter()
    for record in records:
        if record["cause"] == "restore":
            taken.subtract(one for one in record["dreamt"] if taken[one])
        else:
            taken.update(record["dreamt"])
        if doubled := [one for one, times in taken.items() if times > 1]:
            yield f"consumed by two dreams, the second is version {record['number']}: {doubled}"


def assert_valid(workspace: Workspace) -> None:
    """Assert that MEMORY.md has its seven sections once, and exactly the text of the last version."""
    text = document(workspace)
    parsed = parse(text)
    assert [part.name for part in parsed.parts if part.name is not None] == list(SectionName)
    assert parsed.doubled == ()
    last = rows(workspace, "SELECT * FROM versions ORDER BY number DESC LIMIT 1")[0]
    assert hashlib.sha256(text.encode()).hexdigest() == last["digest"]
    assert text == unpacked(last["text"])
    assert list(workspace.root.glob(".*.displaced")) == []


def assert_once(workspace: Workspace, notes: Iterable[str], *, consumed: bool = True) -> None:
    """Assert that each of these notes occurs once and no others exist, and if `consumed` that none is pending."""
    assert places(workspace) == Counter(dict.fromkeys(notes, 1))
    if consumed:
        assert pending(workspace) == []


def everything(folder: Path) -> dict[str, bytes]:
    """Return every byte of a workspace, except its lock, fence and place files.

    Empty WAL files of SQLite and their -shm index are left out: readers may leave them behind, and writers remove
    them.
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
