"""Elsewhere: what the global workspace and the other workspaces of this user say of a thing."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

from daemon.config.paths import global_root, registry_path
from daemon.config.registry import known
from daemon.workspace.adoption import open_workspace
from daemon.workspace.session_start import global_memory, is_global
from state.document.document import parse
from state.dream import Decision
from state.errors import DreamdError
from state.scratch import Note
from state.stores.database.connection import open_unmigrated
from state.stores.database.tables import Change
from state.stores.database.tombstones import tombstones_in
from state.stores.disk.workspace import Workspace
from state.stores.history.changes import Changes
from state.stores.history.notes import notes_of
from state.text.words import normalise

# So many other workspaces are looked at, and so much of each.
_MOST = 20
_LOOKED_AT = 100_000


def global_lines(workspace: Workspace, wanted: str, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the lines of the global workspace that hold this, with their sections; none in that one itself."""
    if is_global(workspace, environment):
        return
    with suppress(DreamdError, OSError):  # a bootstrap says why it cannot be read
        for part in parse(global_memory(environment)[0][:_LOOKED_AT]).parts:
            for block in part.lines:
                if wanted in block.key:
                    yield part.name.value if part.name else "", block.raw


def global_notes(workspace: Workspace, wanted: str, environment: Mapping[str, str]) -> Iterator[Note]:
    """Yield the pending notes of the global workspace that hold this, but for what was forgotten there."""
    with suppress(DreamdError, OSError, sqlite3.Error):
        if (own := _global(workspace, environment)) is not None:
            with notes_of(own) as notes:
                found = [note for note in notes.newest().notes if wanted in normalise(note.text)]
            without = tombstones_in(own.database).without if found else str
            yield from (note for note in found if without(note.text) == note.text)


def global_changes(workspace: Workspace, wanted: str, environment: Mapping[str, str]) -> Iterator[Change]:
    """Yield the changes that wait for the owner in the global workspace and hold this."""
    with suppress(DreamdError, OSError, sqlite3.Error):
        own = _global(workspace, environment)
        if own is not None and own.database.exists():
            with open_unmigrated(own.database) as connection:
                found = Changes(connection).open()
            for one in found:
                if one.decision is Decision.WAITING and wanted in normalise(one.change.operation.text):
                    yield one


def _global(workspace: Workspace, environment: Mapping[str, str]) -> Workspace | None:
    """Return the global workspace; None from within it, and without one."""
    return None if is_global(workspace, environment) else global_memory(environment)[1]


def holding(wanted: str, workspace: Workspace, environment: Mapping[str, str]) -> Path | None:
    """Return the first other workspace of this user whose MEMORY.md holds this; None if none of twenty does."""
    with suppress(DreamdError, OSError):
        others = (root for root in known(registry_path(environment)) if root != workspace.root)
        for root in islice(others, _MOST):
            if root != global_root(environment) and wanted in _memory(root, environment):
                return root
    return None


def _memory(root: Path, environment: Mapping[str, str]) -> str:
    """Return a workspace's MEMORY.md, folded; empty if it cannot be read."""
    with suppress(DreamdError, OSError):
        own = open_workspace(root, environment)
        content = own.disk().read_optional(own.document) or b""
        return normalise(content[:_LOOKED_AT].decode(errors="replace"))
    return ""
