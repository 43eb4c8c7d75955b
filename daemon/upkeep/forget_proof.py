"""Forget proof: searches every byte of dreamd's files for a forgotten text, and names the owner's files with it."""

import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from daemon.ingest.agent_hooks import is_trusted
from daemon.ingest.existing_memory import existing_files
from daemon.ingest.transcripts import transcript_files
from daemon.workspace.stores import Store
from state.document.document import parse
from state.errors import DreamdError
from state.scratch import decode as scratch_text
from state.scratch import parse_notes
from state.stores.backup.reading import open_archive
from state.stores.database.copies import write_copy
from state.stores.database.table import layouts_of
from state.stores.disk.disk import LONGEST_LOG, TEMPORARY, below
from state.stores.disk.places import project_of
from state.stores.disk.strangers import strangers_files
from state.stores.disk.workspace import Workspace
from state.stores.erasing import files
from state.stores.erasing.byte_search import Needles, Residue
from state.stores.erasing.plan import Erasure
from state.stores.erasing.tables import rows_with

_OWNERS = "it is yours: dreamd does not touch it"
_NAMED = "a file of yours has it in its name"


@dataclass(frozen=True, slots=True)
class Searched:
    """How much was searched, and which occurrences are left."""

    files: int
    bytes: int
    left: tuple[Residue, ...]


def searched(store: Store, erasure: Erasure, surfaces: Iterable[str]) -> Searched:
    """Search each of dreamd's files byte by byte, and name the owner's files that contain a target."""
    workspace, databases = store.workspace, files.database_files(store.workspace)
    needles = Needles(erasure.traceless, surfaces)
    left = [*_left_in_tables(store.connection, erasure)]
    count = size = 0
    stored = Counter[str]()
    for path in files.all_files(workspace, store.notes.inbox):
        found, length = needles.count_file(path)
        count, size = count + 1, size + length
        if path in databases:
            stored[workspace.database.name] += found
        elif path.is_relative_to(workspace.copies):
            stored[name_of(workspace, path)] += found
        elif found and files.has_names(workspace, path):
            left.append(Residue(name_of(workspace, path), found, _NAMED, owners=True))
        elif found and (more := left_in_file(store, path, erasure, needles)):
            left.append(Residue(name_of(workspace, path), more, "it could not be taken out; look at the file"))
    live = _live_count(workspace, needles) if any(stored.values()) else 0
    for name, found in stored.items():
        if found > live:
            left.append(Residue(name, found, "in a page that no table holds; run 'dreamd forget' again"))
    return Searched(count, size, (*left, *of_the_owner(store, needles)))


def _live_count(workspace: Workspace, needles: Needles) -> int:
    """Return how often the targets occur in rows of state.db, by searching a compacted copy without free pages."""
    path = workspace.state / f".proof-{os.urandom(4).hex()}.db{TEMPORARY}"
    try:
        write_copy(workspace.database, path)
        return needles.count_file(path)[0]
    finally:
        path.unlink(missing_ok=True)


def _left_in_tables(connection: sqlite3.Connection, erasure: Erasure) -> Iterator[Residue]:
    for name, table in layouts_of(connection).items():
        if rows := rows_with(connection, table, erasure):
            yield Residue(f"state.db: {name}", len(rows), "it could not be taken out; run 'dreamd forget' again")
    files = connection.execute("SELECT file FROM watermarks UNION SELECT file FROM occurrences").fetchall()
    if named := sum(erasure.holds(row["file"]) for row in files):
        yield Residue("state.db", named, _NAMED, owners=True)


def left_in_file(store: Store, path: Path, erasure: Erasure, needles: Needles) -> int:
    """Return how often the targets occur in a file that is not a database, ignoring dreamd's own words.

    Count lines in a MEMORY.md and notes in a log.
    """
    if path in (store.workspace.document, store.workspace.backup):
        content = store.memory.disk.read_bytes(path)
        is_left = erasure.document(text := content.decode(errors="replace")) != text
        return max(lines_with(content, erasure), 1) if is_left else 0
    if path in store.notes.inbox.files():
        return notes_with(store.memory.disk.read_bytes(path, LONGEST_LOG), erasure)
    return files.count_in_other(store.memory.disk, path, erasure, needles)


def notes_with(content: bytes, erasure: Erasure) -> int:
    """Return how many notes of a log contain a target."""
    notes = parse_notes(scratch_text(content), datetime.fromtimestamp(0, UTC))
    return sum(any(map(erasure.holds, note.texts)) for note in notes)


def lines_with(content: bytes, erasure: Erasure) -> int:
    """Return how many lines of a MEMORY.md contain a target."""
    text = content.decode(errors="replace")
    return sum(
        erasure.line(block.text) != block.text for part in parse(text).parts for block in part.blocks if block.content
    )


def of_the_owner(store: Store, needles: Needles) -> Iterator[Residue]:
    """Yield the owner's files that contain a target: constraints, transcripts, feeds, instructions."""
    workspace = store.workspace
    own = {workspace.genome, *below(workspace.scratch.parent)} - {workspace.scratch}
    own |= set() if workspace.is_apart else {*strangers_files(workspace)}
    if (project := project_of(workspace)) != workspace.root:  # what came with a repository, and was copied
        tree = Workspace(project, project)
        own |= {tree.document, tree.genome, *below(tree.scratch.parent)}
    existing = (path for one in existing_files(workspace, os.environ) for path in one.files)
    own |= {path for path in existing if is_trusted(workspace, path)}
    try:
        own |= {path for path in transcript_files(store.workspace, store.config) if is_trusted(workspace, path)}
    except DreamdError:
        store.notices.add("sources.transcripts cannot be read, so transcripts were not searched")
    read = store.connection.execute("SELECT file FROM watermarks").fetchall()
    named = {workspace.root / row["file"] for row in read} - own
    own |= {path for path in named if is_trusted(workspace, path)}
    if elsewhere := sum(path.is_file() for path in named - own):
        why = "read once; they are yours, and were not searched"
        yield Residue("files outside the workspace", elsewhere, why, owners=True)
    yield from _exports(store.workspace)
    for path in sorted(own):
        if path.is_file() and not path.name.startswith("."):
            try:
                found, _ = needles.count_file(path)
            except OSError as error:
                yield Residue(
                    name_of(store.workspace, path), 0, f"it could not be read ({error.strerror})", owners=True
                )
                continue
            if found:
                yield Residue(name_of(store.workspace, path), found, _OWNERS, owners=True)


def _exports(workspace: Workspace) -> Iterator[Residue]:
    """Yield the archives in the workspace's folder, each of which holds the memory as of its export."""
    for path in sorted(workspace.root.glob("*.db")):
        if _is_archive(path):
            why = f"an export, which holds what was remembered when it was made; remove it: rm '{path}'"
            yield Residue(name_of(workspace, path), 1, why, owners=True)


def _is_archive(path: Path) -> bool:
    with suppress(DreamdError, OSError), open_archive(path):
        return True
    return False


def name_of(workspace: Workspace, path: Path) -> str:
    """Return the path relative to the workspace; the whole path of a file outside it."""
    root = workspace.root
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
