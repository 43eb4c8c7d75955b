"""Reading: MEMORY.md as the memory takes it, by its text alone: a person's edits count, an accident does not.

A file that is missing or was emptied is more likely an accident than a wish. One that has the text of an earlier
version was checked out. In these cases, and while the file has conflict markers, the last version is the memory.
Everything else is its owner's edit.
"""

import sqlite3
from dataclasses import dataclass
from enum import Enum, auto

from state.document.merge import is_conflicted
from state.errors import DocumentError
from state.stores.disk.workspace import Workspace
from state.stores.history.lineage import Lineage, digest_of
from state.stores.history.memory import decode_document


class Found(Enum):
    """The state of the file: the memory's own, edited by a person, gone, in conflict, or an earlier version."""

    OWN = auto()
    EDITED = auto()
    GONE = auto()
    CONFLICT = auto()
    CHECKOUT = auto()


@dataclass(frozen=True, slots=True)
class Reading:
    """MEMORY.md as read: `text` is the memory, `file` the file's content, `version` the last committed version.

    `problem` says why the memory differs from the file.
    """

    found: Found
    text: str
    file: str
    version: int
    problem: str = ""


def reading(workspace: Workspace, connection: sqlite3.Connection) -> Reading:
    """Read MEMORY.md. Raise DocumentError if it is not text, or has conflict markers before the first version."""
    path = workspace.document
    content = workspace.disk().read_optional(path)
    file, lineage = decode_document(content or b"", path), Lineage(connection)
    version, digest = lineage.standing()
    if not version:
        if is_conflicted(file):
            raise DocumentError(f"{path} has git's conflict markers", "resolve the conflict, then dream again")
        return Reading(Found.EDITED, file, file, 0)
    if digest_of(file) == digest:
        return Reading(Found.OWN, file, file, version)
    own = lineage.text(version)
    if not file.strip():
        how = "is missing" if content is None else "is empty"
        return Reading(
            Found.GONE, own, file, version, f"MEMORY.md {how}; version {version} is taken as the old state"
        )
    if own and is_conflicted(file) and not is_conflicted(own):
        problem = f"MEMORY.md has git's conflict markers; until they are gone version {version} is used"
        return Reading(Found.CONFLICT, own, file, version, problem)
    if own and any(lineage.has_text(text) for text in (file, file.replace("\r\n", "\n"))):
        problem = f"MEMORY.md has the text of an earlier version, which is no edit; version {version} is used"
        return Reading(Found.CHECKOUT, own, file, version, problem)
    return Reading(Found.EDITED, file, file, version)


def is_checkout(workspace: Workspace, connection: sqlite3.Connection) -> bool:
    """Return whether the file has the text of an earlier version. Raise DocumentError."""
    return reading(workspace, connection).found is Found.CHECKOUT
