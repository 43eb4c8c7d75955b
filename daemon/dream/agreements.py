"""Agreements: lines that several workspaces of a person share are proposed to the person's global workspace.

Dreams and consolidation passes of the global workspace read the MEMORY.md of the other workspaces in the registry,
which this user created or adopted. Nothing is applied: each shared line needs the owner's approval, and the owner is
asked once.
"""

import os
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path

from daemon.config.paths import data_folder, is_global
from daemon.workspace.adoption import open_workspace
from daemon.workspace.document import read_document
from daemon.workspace.stores import Store
from state.changes.owner import match
from state.document.document import parse
from state.document.merge import working
from state.document.operations import Action, Operation
from state.document.sections import SectionName
from state.dream import Proposed
from state.errors import DreamdError
from state.forgetting.known import Known
from state.stores.database.connection import open_unmigrated, transaction
from state.stores.database.tombstones import tombstones_in
from state.stores.disk.places import kept_roots
from state.stores.disk.workspace import Workspace
from state.stores.history.lineage import Lineage
from state.text.line import LINE_CHARACTERS, as_line
from state.text.words import counted, normalise
from state.trust import Trust

SECTIONS = (SectionName.PHENOTYPE, SectionName.BOND)
"""The sections whose lines may hold in every workspace: who the agent is, and who its user is."""
FEWEST = 2
"""How many workspaces must share a line, at least."""
_MOST_WORKSPACES = 100
_LONGEST_MEMORY = 256 * 1024
_MOST_OF_ONE = 100
_MOST_WAITING = 20
_MOST_NAMED = 10
# A workspace on a hanging disk must not hold up the dream.
_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Statement:
    """A line of one workspace, given by its root, and when its owner said it."""

    said_at: datetime
    workspace: str
    text: str
    section: SectionName


@dataclass(slots=True)
class _Others:
    """Lines and tombstones of the other workspaces, and whether all of them could be read."""

    statements: list[_Statement] = field(default_factory=list)
    forgotten: list[Known] = field(default_factory=list)
    all_read: bool = True


def propose_agreements(store: Store, now: datetime) -> int:
    """Propose lines that other workspaces share and the global one lacks; return how many proposals are new.

    Do nothing outside the global workspace. Withdraw proposals that are no longer shared. Workspaces that cannot be
    read are skipped; their errors are not raised.
    """
    if not is_global(store.workspace.root, os.environ):
        return 0
    read = list[_Others]()
    # The thread is abandoned if a disk hangs.
    reader = threading.Thread(target=lambda: read.append(_read(store.workspace.root)), name="agreements", daemon=True)
    reader.start()
    reader.join(_PATIENCE_SECONDS)
    if not read:
        store.notices.add("a workspace does not answer: what several of them agree on is looked at by the next dream")
        return 0
    (others,) = read
    found = _agreements(others.statements)
    proposals = store.proposals
    waiting = [one for one in proposals.all() if one.is_agreement]
    agreed = {normalise(as_line(said[0].text)) for said in found}
    gone = [one.number for one in waiting if others.all_read and normalise(one.operation.text) not in agreed]
    room = max(0, _MOST_WAITING - len(waiting) + len(gone))
    new = list(islice(_to_propose(store, found, others.forgotten), room))
    if gone or new:
        with transaction(store.connection):
            store.memory.check()
            proposals.drop(gone)
            proposals.add("", new, now)
    if new:
        said = counted(len(new), "line")
        store.notices.add(f"several of your workspaces agree on {said}: 'dreamd review --global' shows them")
    return len(new)


def _read(own: Path) -> _Others:
    """Read at most a hundred of the other workspaces."""
    others = _Others()
    try:
        roots = [root for root in kept_roots(data_folder(os.environ)) if root != own]
    except DreamdError:
        return _Others(all_read=False)
    for root in roots[:_MOST_WORKSPACES]:
        try:
            workspace = open_workspace(root, os.environ)
            if workspace.database.exists():
                others.statements += _by_owner(workspace)
                others.forgotten.append(tombstones_in(workspace.database))
        except (DreamdError, OSError, sqlite3.Error, ValueError):
            others.all_read = False  # its own status reports the problem
    return others


def _by_owner(workspace: Workspace) -> Iterator[_Statement]:
    """Yield the owner's lines in a workspace's MEMORY.md, as its ledger has them.

    Lines added by hand since its last dream are left out, because somebody else may have added them.
    """
    content = workspace.disk().read_optional(workspace.document, _LONGEST_MEMORY) or b""
    with open_unmigrated(workspace.database) as connection:
        current = Lineage(connection).current_lines()
    lines = [(name, block.text) for name, block in parse(content.decode(errors="replace")).lines()]
    known_lines = zip(lines, match(current, lines), strict=True)
    said = [(name, text, line) for (name, text), line in known_lines if line is not None and name in SECTIONS]
    for name, text, line in said[:_MOST_OF_ONE]:
        if line.trust is Trust.OWNER and len(text) <= LINE_CHARACTERS:
            yield _Statement(line.born_at, str(workspace.root), text, name)


def _agreements(statements: Sequence[_Statement]) -> list[list[_Statement]]:
    """Return the lines that at least two workspaces share: one statement of each workspace, the oldest first."""
    by_text = defaultdict[str, dict[str, _Statement]](dict)
    for one in sorted(statements, key=lambda one: (one.said_at, one.workspace, one.text, one.section)):
        by_text[normalise(one.text)].setdefault(one.workspace, one)
    return [list(said.values()) for said in by_text.values() if len(said) >= FEWEST]


def _to_propose(
    store: Store, found: Sequence[Sequence[_Statement]], forgotten: Sequence[Known]
) -> Iterator[Proposed]:
    """Yield the shared lines that do not wait, were not declined, deleted or forgotten, each as a new line."""
    text, _ = read_document(store.workspace, store.connection)
    known = [*(one.operation.text for one in store.proposals.all()), *store.lineage.tombstones()]
    known += [block.text for _, block in working(text).lines()]
    said_before = set(map(normalise, known))
    graves = [grave for grave in (store.crystals.forgotten.tombstones(), *forgotten) if grave]
    for said in found:
        texts = [one.text for one in said]
        if normalise(texts[0]) in said_before or any(store.config.redaction.of(each) != each for each in texts):
            continue
        if any(grave.found(each) for grave in graves for each in texts):
            continue
        folders = ", ".join(sorted({one.workspace for one in said})[:_MOST_NAMED])
        operation = Operation(Action.ADD, said[0].section, as_line(texts[0]))
        yield Proposed(operation, f"{len(said)} of your workspaces say so: {folders}")
