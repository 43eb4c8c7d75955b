"""Workspace: the folder with the files that people read, the folder of its state, and the paths in both."""

import os
from pathlib import Path
from typing import NamedTuple

from state.errors import UsageError
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import System, storage_errors

STATE_FOLDER = ".dreamd"
SCRATCH = "memory/scratch.md"
DISPLACED = ".scratch.md.*.displaced"
"""Former scratch.md files, beside the current one."""


# The beginnings of the names, at the top of a workspace, of what people and agents write.
_FOR_PEOPLE = ("MEMORY", "GENOME", "memory", "transcripts")


class _Within:
    """A path of a workspace: a name below one of its two folders."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._name = folder, name

    def __get__(self, workspace: "Workspace", _: type) -> Path:
        folder: Path = getattr(workspace, self._folder)
        return folder / self._name


class _Folders(NamedTuple):
    """The two folders of a workspace."""

    root: Path
    state: Path


class Workspace(_Folders):
    """The paths of a workspace; both folders are absolute and free of symbolic links.

    `state` holds all that dreamd obeys, and belongs to the user; from `root` dreamd only reads text. The memory of a
    git repository has both in one folder, outside of the repository.
    """

    __slots__ = ()

    document = _Within("root", "MEMORY.md")
    backup = _Within("root", "MEMORY.md.seed-backup")  # MEMORY.md as it was before its first dream
    genome = _Within("root", "GENOME.md")  # the owner's constraints
    scratch = _Within("root", SCRATCH)  # the pending notes, as agents see them; appended text becomes a note
    economics = _Within("root", "memory/economics.json")  # the feed of The Niche

    database = _Within("state", "state.db")
    index = _Within("state", "index")  # type: ignore[assignment]  # rebuilt from state.db: vectors.db and ChromaDB
    inbox = _Within("state", "inbox.md")  # where notes are acknowledged
    checkpoints = _Within("state", "checkpoints")  # of dreams under way
    copies = _Within("state", "copies")  # verified copies of state.db
    lock = _Within("state", "lock")  # its lock makes a process the owner
    fence = _Within("state", "fence")  # the number of the last owner

    @property
    def name(self) -> str:
        """Return its name in URLs, labels and logs: its id, which stays when its folder is moved."""
        return self.state.name

    @property
    def is_apart(self) -> bool:
        """Return whether all files are beside the state, as for a git repository and the global workspace."""
        return self.root == self.state

    def is_state(self, path: Path) -> bool:
        """Return whether this path below the state folder is none of the files that people and agents write."""
        return not self.is_apart or path.relative_to(self.state).parts[0].partition(".md")[0] not in _FOR_PEOPLE

    def disk(self, system: System | None = None) -> Disk:
        """Return a disk for changing both folders."""
        return Disk(self.root, system, self.state)

    def inside(self, name: str) -> Path:
        """Return the path of this name below the root. Raise UsageError if it, or a link in it, leads out."""
        if "\0" in name:
            raise UsageError(f"{name!r} is no file name", "leave out the NUL")
        real = Path(os.path.realpath(self.root / name))
        if not real.is_relative_to(self.root):
            raise UsageError(f"{name!r} leads out of the workspace {self.root}", "name a file inside it")
        return real


def contained(folder: Path) -> Workspace:
    """Return the workspace whose state is inside its own folder, as in a fleet's workers and imports.

    Use it only for folders in which nobody else can write.
    """
    root = Path(os.path.realpath(folder))
    return Workspace(root, root / STATE_FOLDER)


def init_workspace(workspace: Workspace) -> Workspace:
    """Create the missing folders of the workspace, and return it; doing it again is harmless.

    Only the owner can access the state. Raise UsageError if the folder's name is taken by a file, StorageError if the
    folder cannot be written.
    """
    root = workspace.root
    if root.exists() and not root.is_dir():
        raise UsageError(f"{root} is a file", "name the folder of the workspace")
    with storage_errors(root):
        root.mkdir(parents=True, exist_ok=True)
    for path in (workspace.scratch.parent, workspace.state, workspace.index, workspace.checkpoints):
        workspace.disk().make_folder(path)
    with storage_errors(workspace.state):
        workspace.state.chmod(0o700)
    return workspace


def is_read_only(folder: Path) -> bool:
    """Return whether the folder's file system is read-only, at least for this process."""
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False
