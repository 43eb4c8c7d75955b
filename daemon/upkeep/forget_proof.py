"""Forget proof: searches every byte of dreamd's files for a forgotten text, and names the owner's files with it.

The search is independent of the erasing: it reads every value of every record and column, and skips only values that
are wholly one of dreamd's own words.
"""

import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

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
from state.stores.database.table import Kind, layouts_of
from state.stores.database.tables import content_of
from state.stores.disk.disk import LONGEST_LOG, TEMPORARY, below
from state.stores.disk.workspace import Workspace
from state.stores.erasing import files
from state.stores.erasing.byte_search import Patterns, Residue
from state.stores.erasing.plan import Erasure, erased_document
from state.stores.erasing.tables import texts

_MOST = 100  # how many places in one file are counted
# Columns without text: digests, character pairs for the index (erased with their text), and the configured model.
_NO_TEXT = frozenset({"digest", "pairs", "model"})
_FIELD = re.compile(r"[a-z][a-z0-9_]*")
# Values that dreamd itself writes: guards, outcomes, causes, and reasons why an item left a session. A forgotten text
# may be the same word, but a value that is exactly one of these is not that text.
_OWN_WORDS = frozenset(
    "bounds|budget|citation|empty synthesis|eviction runaway|evidence|human veto|pinned|nothing taken in|pointer"
    "|schema|shape|approval|operation|section|dream"
    "|extractive|restore|import|hand|approved|rejected|outdated|waiting|committed|failed|skipped|calm|stop"
    "|length|auto|manual|ttl|hybrid|hierarchical|none|full|expired|forgotten|closed".split("|")
)
_OWN_ID = re.compile(
    r"[NCGSETW]\d{1,3}|L\d{1,9}|[0-9a-f]{16,64}|\d{8}T\d{6,12}Z|\d{4}-\d\d-\d\dT[\d:.+Z-]+|purged-\d+|"
)
_OWNERS = "it is yours: dreamd does not touch it"


@dataclass(frozen=True, slots=True)
class Searched:
    """How much was searched, and which occurrences are left."""

    files: int
    bytes: int
    left: tuple[Residue, ...]


def searched(store: Store, erasure: Erasure, surfaces: Iterable[str]) -> Searched:
    """Search each of dreamd's files byte by byte, and name the owner's files that contain a target."""
    connection, databases = store.connection, files.database_files(store.workspace)
    patterns = Patterns(erasure.traceless, surfaces)
    left = [*_left_in_tables(connection, erasure)]
    count = size = 0
    stored = Counter[str]()
    for path in files.all_files(store.workspace, store.notes.inbox):
        is_copy = path.is_relative_to(store.workspace.copies)
        is_stored = is_copy or path in databases
        found, length = patterns.count_file(path, loose=is_stored)
        count, size = count + 1, size + length
        if is_stored:
            stored[name_of(store.workspace, path) if is_copy else store.workspace.database.name] += found
        elif found and (more := left_in_file(store, path, erasure, patterns)):
            left.append(Residue(name_of(store.workspace, path), more, "it could not be taken out; look at the file"))
    live = _live_count(store.workspace, patterns) if any(stored.values()) else 0
    for name, found in stored.items():
        if found > live:
            left.append(Residue(name, found, "in a page that no table holds; run 'dreamd forget' again"))
    return Searched(count, size, (*left, *of_the_owner(store, patterns)))


def _live_count(workspace: Workspace, patterns: Patterns) -> int:
    """Return how often the targets occur in rows of state.db, by searching a compacted copy without free pages."""
    path = workspace.state / f".proof-{os.urandom(4).hex()}.db{TEMPORARY}"
    try:
        write_copy(workspace.database, path)
        return patterns.count_file(path, loose=True)[0]
    finally:
        path.unlink(missing_ok=True)


def _left_in_tables(connection: sqlite3.Connection, erasure: Erasure) -> Iterator[Residue]:
    for table in layouts_of(connection):
        found, named = 0, 0
        for column, value in texts(connection, table):
            kind = content_of(table, column).kind
            if kind is Kind.FILE:
                named += erasure.holds(value)
            elif column not in _NO_TEXT and (table, column) != ("meta", "name"):
                found += occurrences_in(value, erasure, owners=kind is Kind.TABLE) > 0
        if found:
            yield Residue(f"state.db: {table}", found, "it could not be taken out; run 'dreamd forget' again")
        if named:
            yield Residue(f"state.db: {table}", named, "a file of yours has it in its name", owners=True)


def left_in_file(store: Store, path: Path, erasure: Erasure, patterns: Patterns) -> int:
    """Return how often the targets occur in a file that is not a database, ignoring dreamd's own words.

    Count lines in a MEMORY.md and notes in a log.
    """
    if files.has_receipts_alone(store.memory.disk, path):
        return 0
    content = store.memory.disk.read_bytes(path, LONGEST_LOG)
    text = content.decode("utf-8", "replace")
    if path in (store.workspace.document, store.workspace.backup):
        return max(lines_with(content, erasure), 1) if erased_document(text, erasure) != text else 0
    if path in store.notes.inbox.files():
        return notes_with(content, erasure)
    return occurrences_in(text, erasure) if _parsed(text) is not None else patterns.count(content, most=_MOST)


def notes_with(content: bytes, erasure: Erasure) -> int:
    """Return how many notes of a log contain a target."""
    notes = parse_notes(scratch_text(content), datetime.fromtimestamp(0, UTC))
    return sum(any(map(erasure.holds, note.texts)) for note in notes)


def occurrences_in(text: str, erasure: Erasure, *, owners: bool = False) -> int:
    """Return how many values of a JSON text, nested JSON included, contain a target; for other texts, 0 or 1.

    Keys count too, unless they look like dreamd's field names; with `owners` no key is taken for dreamd's.
    """
    value = _parsed(text)
    if value is None:
        return int(not _is_own(text) and _holds(text, erasure))
    return sum(_holds(one, erasure) for one in _texts_in(value, owners=owners))


def _holds(text: str, erasure: Erasure) -> bool:
    if "\n" in text and any(part.name for part in parse(text).parts):  # a MEMORY.md, whose headings are dreamd's
        return erased_document(text, erasure) != text
    return erasure.holds(text)


def _parsed(text: str) -> dict[str, Any] | list[Any] | None:
    try:
        value = json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _texts_in(value: object, *, owners: bool) -> Iterator[str]:
    """Yield each string in a JSON value that is not dreamd's own; nested JSON comes from a model or program."""
    if isinstance(value, dict):
        yield from (name for name in value if owners or not _FIELD.fullmatch(name))
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(one, owners=owners)
    elif isinstance(value, str) and not _is_own(value):
        inner = _parsed(value)
        yield from [value] if inner is None else _texts_in(inner, owners=True)


def _is_own(value: str) -> bool:
    """Return whether a value is a kind, an id or a timestamp such as dreamd writes."""
    return value in _OWN_WORDS or value in _members() or _OWN_ID.fullmatch(value) is not None


@cache
def _members() -> frozenset[str]:
    """Return the values of all enumerations in state/."""
    kinds = (kind for kind in StrEnum.__subclasses__() if kind.__module__.startswith("state."))
    return frozenset(str(member) for kind in kinds for member in kind)


def lines_with(content: bytes, erasure: Erasure) -> int:
    """Return how many lines of a MEMORY.md contain a target."""
    text = content.decode(errors="replace")
    return sum(
        erasure.line(block.text) != block.text for part in parse(text).parts for block in part.blocks if block.content
    )


def of_the_owner(store: Store, patterns: Patterns) -> Iterator[Residue]:
    """Yield the owner's files that contain a target: constraints, transcripts, feeds, instructions."""
    workspace = store.workspace
    own = {workspace.genome, *below(workspace.scratch.parent)} - {workspace.scratch}
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
                found, _ = patterns.count_file(path, most=_MOST)
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
