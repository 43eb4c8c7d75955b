"""Agreements: what several workspaces of a person say alike is proposed to the person's global one.

The global workspace's dream, and its pass, look at the MEMORY.md of the other workspaces in the registry, those that
this user has made or adopted, for reading only. Nothing is applied: what they agree on waits for the owner, who is
asked once.
"""

import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TypeVar

from daemon.config.paths import is_global, registry_path
from daemon.config.registry import known
from daemon.workspace.adoption import open_workspace, workspace_at
from daemon.workspace.document import read_document
from daemon.workspace.redaction import redacted
from daemon.workspace.stores import Store
from graphs.input_budget import numbered
from state.changes.owner import IMPORTANCE, match
from state.document.agreement import SECTIONS, Agreement, Statement, agreements
from state.document.document import parse
from state.document.merge import working
from state.document.operations import Action, Operation
from state.dream import Decision, Evidence, Kind, StagedChange
from state.errors import DreamdError
from state.forgetting.known import Known
from state.stores.database.connection import open_unmigrated, transaction
from state.stores.database.meta import Meta
from state.stores.database.tombstones import tombstones_in
from state.stores.disk.stamp import Stamp, is_settled
from state.stores.disk.workspace import Workspace
from state.stores.history.lineage import Lineage
from state.text.line import LINE_CHARACTERS, as_line
from state.text.words import normalise
from state.trust import Trust

_READ = "agreements_read"
_MOST_WORKSPACES = 100
_LONGEST_MEMORY = 256 * 1024
_MOST_OF_ONE = 100
_MOST_WAITING = 20
_MOST_CITED = 10
# One workspace on a disk that hangs does not hold up the dream.
_PATIENCE_SECONDS = 5.0


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Others:
    """What the other workspaces say, what they have forgotten, and how many of them could not be read."""

    statements: tuple[Statement, ...]
    forgotten: tuple[Known, ...]
    unread: int


def propose_agreements(store: Store, now: datetime, environment: Mapping[str, str] = os.environ) -> int:
    """Stage what the other workspaces agree on and the global one does not say; returns how many are new.

    Only in the global workspace, and only when one of the others has changed. What is agreed on no longer waits no
    longer. What cannot be read of the others is left out: nothing of them raises here.
    """
    if not is_global(store.workspace.root, environment):
        return 0
    meta, began = Meta(store.crystals.connection), time.time_ns()
    stamps = _in_time(lambda: _stamps(store.workspace.root, environment)) or {}
    waiting = [one for one in store.changes.open() if one.is_agreement]
    # What found no room is looked at again when something was decided.
    state = hashlib.sha256(repr((stamps, len(waiting) >= _MOST_WAITING)).encode()).hexdigest()
    if not stamps or meta.get(_READ) == state:
        return 0
    others = _in_time(lambda: _read(stamps, environment))
    if others is None:
        store.notice("a workspace does not answer: what several of them agree on is looked at by the next dream")
        return 0
    found = agreements(others.statements)
    agreed = {normalise(as_line(one.text)) for one in found}
    gone = [] if others.unread else [one for one in waiting if normalise(one.change.operation.text) not in agreed]
    room = max(0, _MOST_WAITING - len(waiting) + len(gone))
    staged = list(islice(_to_stage(store, found, others.forgotten), room))
    with transaction(store.crystals.connection):
        store.check()
        for one in gone:
            store.changes.decide(one.number, Decision.OUTDATED, now)
        store.changes.propose(f"{now:%Y%m%dT%H%M%S%f}Z", staged, now)
        # Else it is looked at again: what is written within a tick of the clock may not show.
        if all(is_settled(each, began) for each in stamps.values()):
            meta.put(_READ, state)
    if staged:
        said = "1 line" if len(staged) == 1 else f"{len(staged)} lines"
        store.notice(f"several of your workspaces agree on {said}: 'dreamd review --global' shows them")
    return len(staged)


def _in_time(read: Callable[[], T]) -> T | None:
    """Read by a thread that may be left behind, for a disk may hang. Return None when it takes too long."""
    found = list[T]()
    reader = threading.Thread(target=lambda: found.append(read()), name="agreements", daemon=True)
    reader.start()
    reader.join(_PATIENCE_SECONDS)
    return found[0] if found else None


def _stamps(own: Path, environment: Mapping[str, str]) -> dict[Path, tuple[Stamp | None, ...]]:
    """Of the other workspaces what tells whether they have changed: of a hundred at most, the latest first."""
    try:
        roots = [root for root in known(registry_path(environment)) if root != own]
    except DreamdError:
        return {}
    found_there = ((root, workspace_at(root, environment)) for root in roots)
    files = {root: (there.document, there.database) for root, there in found_there if there is not None}
    found = {
        root: tuple(Stamp.of(str(file)) for file in (document, database, f"{database}-wal"))
        for root, (document, database) in files.items()
    }
    written = {root: max((one.written_ns for one in each if one), default=0) for root, each in found.items()}
    return {root: found[root] for root in sorted(found, key=lambda root: -written[root])[:_MOST_WORKSPACES]}


def _read(roots: Iterable[Path], environment: Mapping[str, str]) -> _Others:
    statements, forgotten, unread = list[Statement](), list[Known](), 0
    for root in roots:
        try:
            workspace = open_workspace(root, environment)
            if not workspace.database.exists():
                continue
            statements += _by_owner(workspace)
            forgotten.append(tombstones_in(workspace.database))
        except (DreamdError, OSError, sqlite3.Error, ValueError):
            unread += 1  # its own status says what is wrong with it
    return _Others(tuple(statements), tuple(one for one in forgotten if one), unread)


def _by_owner(workspace: Workspace) -> Iterator[Statement]:
    """Return the lines that stand in a workspace's MEMORY.md by its owner's word, as its ledger knows them.

    What was written by hand since its last dream is not known yet: somebody else may have put it there.
    """
    content = workspace.disk().read_optional(workspace.document, _LONGEST_MEMORY) or b""
    with open_unmigrated(workspace.database) as connection:
        current = Lineage(connection).current_lines()
    lines = [(name, block.text) for name, block in parse(content.decode(errors="replace")).lines()]
    known_lines = zip(lines, match(current, lines), strict=True)
    said = [(name, text, line) for (name, text), line in known_lines if line is not None and name in SECTIONS]
    for name, text, line in said[:_MOST_OF_ONE]:
        if line.trust is Trust.OWNER and len(text) <= LINE_CHARACTERS:
            yield Statement(str(workspace.root), name, text, line.born_at)


def _to_stage(store: Store, found: Sequence[Agreement], forgotten: Sequence[Known]) -> Iterator[StagedChange]:
    """Return the agreements that are news, each as a new line."""
    text, _ = read_document(store)
    known = [*(one.change.operation.text for one in store.changes.agreements()), *store.lineage.tombstones()]
    known += [one.operation.text for one in store.changes.earlier()]
    graves = (store.crystals.forgotten.tombstones(), *forgotten)
    known += [block.text for _, block in working(text).lines()]
    said_before = set(map(normalise, known))
    for one in found:
        if normalise(one.text) in said_before:
            continue
        said = [each.text for each in one.statements]
        if any(redacted(store, each) != each or any(grave.found(each) for grave in graves) for each in said):
            continue
        yield _change(one)


def _change(agreement: Agreement) -> StagedChange:
    pieces = [
        Evidence("", Kind.NOTE, one.text, IMPORTANCE, Trust.OWNER, one.said_at, about=one.workspace)
        for one in agreement.statements[:_MOST_CITED]
    ]
    evidence = numbered(Kind.NOTE, pieces)
    cited = tuple(piece.id for piece in evidence)
    operation = Operation(Action.ADD, agreement.section, as_line(agreement.text), cites=cited)
    return StagedChange(operation, (), evidence, (), f"{len(agreement.statements)} of your workspaces say so")
