"""Strangers: files of a workspace that came with its folder, or that git brings: a stranger's, and not the owner's.

The state folder lists files that were there before the workspace, and files of git that the owner took over, these
with the digest of what they held: whoever can push to the repository may change them later.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from pathlib import Path

from state.errors import DreamdError
from state.stores.disk.disk import opened
from state.stores.disk.tracking import Tracking, tracking
from state.stores.disk.workspace import Workspace

# In the state folder: rows of "digest name", each ended by NUL; without a digest the file is a stranger's.
STRANGERS = "strangers"


class Author(Enum):
    """Whose word a file is. UNKNOWN: git is changing files, and in a moment it is known."""

    OWNER = auto()
    STRANGER = auto()
    UNKNOWN = auto()


def author_of(workspace: Workspace, path: Path) -> Author:
    """Return whose word this file of the workspace is; a file outside is its owner's, who named it."""
    if (name := _name(workspace, path)) is None:
        return Author.OWNER
    accepted = _listed(workspace).get(name)
    if accepted == "":
        return Author.STRANGER
    tracked = tracking(path)
    if tracked is Tracking.NO or (accepted is not None and accepted == _digest(path)):
        return Author.OWNER
    return Author.UNKNOWN if tracked is Tracking.UNKNOWN else Author.STRANGER


def strangers_files(workspace: Workspace) -> list[Path]:
    """Return the files that came with the folder, that are still there, and that the owner has not taken over."""
    came = (workspace.root / name for name, digest in _listed(workspace).items() if not digest)
    return [path for path in came if path.is_file()]


def list_strangers(workspace: Workspace, paths: Iterable[Path]) -> None:
    """Record that these files came with the folder."""
    names = (_name(workspace, path) for path in paths)
    _write(workspace, dict.fromkeys(filter(None, names), ""))


def accept(workspace: Workspace, paths: Iterable[Path]) -> None:
    """Record that these files, and all that came with the folder, are the owner's; those of git as they are now."""
    rows = {name: digest for name, digest in _listed(workspace).items() if digest}
    for path in paths:
        name = _name(workspace, path)
        if name is not None and tracking(path) is not Tracking.NO:
            rows[name] = _digest(path)
    _write(workspace, rows)


def _name(workspace: Workspace, path: Path) -> str | None:
    """Return the name of the file that the path leads to, below the root; None if it is not there."""
    real = Path(os.path.realpath(path))
    return os.fspath(real.relative_to(workspace.root)) if real.is_relative_to(workspace.root) else None


def _digest(path: Path) -> str:
    """Return the digest of a file's content; a word that no digest equals if it cannot be read."""
    try:
        with opened(Path(os.path.realpath(path))) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (DreamdError, OSError):
        return "unreadable"


def _listed(workspace: Workspace) -> dict[str, str]:
    content = workspace.disk().read_optional(workspace.state / STRANGERS) or b""
    rows = (row.partition(b" ") for row in content.split(b"\0")[:-1])
    return {os.fsdecode(name): digest.decode("ascii", "replace") for digest, _, name in rows}


def _write(workspace: Workspace, rows: Mapping[str, str]) -> None:
    path = workspace.state / STRANGERS
    if rows or path.exists():
        content = b"".join(b"%b %b\0" % (digest.encode(), os.fsencode(name)) for name, digest in rows.items())
        workspace.disk().write_atomic(path, content)
