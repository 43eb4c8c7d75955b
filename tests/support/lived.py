"""What is looked at when a workspace has been through something."""

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


def contradictions(workspace: Workspace, *, has_ledger: bool = True) -> Iterator[str]:
    """What is not as it must be of MEMORY.md, its versions, what each consumed, and state.db.

    `has_ledger`: unless it was lost, and the versions were read again from the rest.
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
