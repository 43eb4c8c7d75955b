"""Workspace: the folder with the files that people read, the folder of its state, and the paths in both."""

import os
from dataclasses import dataclass
from pathlib import Path

from state.errors import UsageError
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import System, storage_errors

STATE_FOLDER = ".dreamd"
SCRATCH = "memory/scratch.md"
DISPLACED = ".scratch.md.*.displaced"
"""Beside it, what it was before it was written anew."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """The paths of a workspace; both folders are absolute and free of symbolic links.

    `state`: the folder of all that is obeyed. It is the user's own; from `root` only text is read.
    """

    root: Path
    state: Path

    def disk(self, system: System | None = None) -> Disk:
        """Return the disk on which both folders are changed."""
        return Disk(self.root, system, self.state)

    @property
    def document(self) -> Path:
        """MEMORY.md."""
        return self.root / "MEMORY.md"

    @property
    def backup(self) -> Path:
        """MEMORY.md as it was before its first dream."""
        return self.root / "MEMORY.md.seed-backup"

    @property
    def genome(self) -> Path:
        """GENOME.md: constraints of the owner's."""
        return self.root / "GENOME.md"

    @property
    def scratch(self) -> Path:
        """The pending notes, as agents see them; what is appended here is one."""
        return self.root / SCRATCH

    @property
    def economics(self) -> Path:
        """The feed of The Niche."""
        return self.root / "memory" / "economics.json"

    @property
    def database(self) -> Path:
        """state.db (SQLite)."""
        return self.state / "state.db"

    @property
    def index(self) -> Path:
        """The folder of what is made again from state.db: vectors.db and ChromaDB."""
        return self.state / "index"

    @property
    def history(self) -> Path:
        """The records of an older dreamd's versions."""
        return self.state / "history"

    @property
    def inbox(self) -> Path:
        """Where a note is acknowledged."""
        return self.state / "inbox.md"

    @property
    def segments(self) -> Path:
        """Where an older dreamd kept what dreams took of the log."""
        return self.state / "segments"

    @property
    def checkpoints(self) -> Path:
        """The folder of the dreams that are under way."""
        return self.state / "checkpoints"

    @property
    def copies(self) -> Path:
        """The folder of the verified copies of state.db."""
        return self.state / "copies"

    @property
    def lock(self) -> Path:
        """The file whose lock makes a process the owner of the workspace."""
        return self.state / "lock"

    @property
    def fence(self) -> Path:
        """The number of the last owner."""
        return self.state / "fence"

    def inside(self, name: str) -> Path:
        """Return the path of that name below the root. Raises UsageError when it, or a link in it, leads out."""
        if "\0" in name:
            raise UsageError(f"{name!r} is no file name", "leave out the NUL")
        real = Path(os.path.realpath(self.root / name))
        if not real.is_relative_to(self.root):
            raise UsageError(f"{name!r} leads out of the workspace {self.root}", "name a file inside it")
        return real


def contained(folder: Path) -> Workspace:
    """Return the workspace with its state inside its own folder, as a fleet's workers and imports keep theirs.

    For folders in which nobody else can put anything.
    """
    root = Path(os.path.realpath(folder))
    return Workspace(root, root / STATE_FOLDER)


def init_workspace(workspace: Workspace) -> Workspace:
    """Make the folders of the workspace that are missing, and return it; doing it again is harmless.

    The state is open to its owner alone. Raises UsageError when a file has the folder's name, StorageError when the
    folder cannot be written.
    """
    root = workspace.root
    if root.exists() and not root.is_dir():
        raise UsageError(f"{root} is a file", "name the folder of the workspace")
    with storage_errors(root):
        root.mkdir(parents=True, exist_ok=True)
    disk = workspace.disk()
    for path in (
        workspace.scratch.parent,
        workspace.state,
        workspace.index,
        workspace.checkpoints,
    ):
        disk.make_folder(path, 0o700)
    with storage_errors(workspace.state):
        workspace.state.chmod(0o700)
    return workspace


def is_read_only(folder: Path) -> bool:
    """Return whether the folder's file system is read-only, for this process at least."""
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False
