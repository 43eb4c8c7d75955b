"""Workspace: one folder, and the paths of everything that is kept in it."""

import os
from dataclasses import dataclass
from pathlib import Path

from state.errors import ForeignError, StorageError, UsageError
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import access_to, storage_errors

STATE_FOLDER = ".dreamd"
SCRATCH = "memory/scratch.md"


@dataclass(frozen=True, slots=True)
class Workspace:
    """The paths of a workspace; `root` is absolute and free of symbolic links.

    `foreign`: this user neither made nor adopted it, so nothing is ever written in it and nothing of it is obeyed.
    """

    root: Path
    foreign: bool = False

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
        """The write-ahead log that is appended to."""
        return self.root / SCRATCH

    @property
    def economics(self) -> Path:
        """The feed of The Niche."""
        return self.root / "memory" / "economics.json"

    @property
    def state(self) -> Path:
        """The state folder (.dreamd), for everything but the files that people read."""
        return self.root / STATE_FOLDER

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
    def segments(self) -> Path:
        """Segments of the write-ahead log that dreams took, and how far they were consumed."""
        return self.state / "segments"

    @property
    def retired(self) -> Path:
        """Segments that were consumed whole."""
        return self.segments / "retired"

    @property
    def checkpoints(self) -> Path:
        """The folder of the dreams that are under way."""
        return self.state / "checkpoints"

    @property
    def copies(self) -> Path:
        """The folder of the verified copies of state.db."""
        return self.state / "copies"

    @property
    def identity(self) -> Path:
        """The file of the number that tells this workspace from any other one."""
        return self.state / "id"

    @property
    def lock(self) -> Path:
        """The file whose lock makes a process the owner of the workspace."""
        return self.state / "lock"

    @property
    def fence(self) -> Path:
        """The number of the last owner."""
        return self.state / "fence"

    def require_own(self) -> None:
        """Return if this user may write here. Raises ForeignError for a workspace that somebody else made."""
        if self.foreign:
            raise ForeignError(
                f"{self.root} holds a memory that you neither made nor adopted, so it is only read",
                f"'dreamd init --trust {self.root}' shows what it brings and makes it yours",
            )

    def inside(self, name: str) -> Path:
        """The path of that name below the root. Raises UsageError when it, or a link in it, leads out."""
        if "\0" in name:
            raise UsageError(f"{name!r} is no file name", "leave out the NUL")
        real = Path(os.path.realpath(self.root / name))
        if not real.is_relative_to(self.root):
            raise UsageError(f"{name!r} leads out of the workspace {self.root}", "name a file inside it")
        return real


def init_workspace(folder: Path) -> Workspace:
    """Create what a workspace needs in the folder (made if missing), and return it; doing it again is harmless.

    `.dreamd` is open to its owner alone. Raises UsageError when a file has that name, StorageError when the folder
    cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", "name the folder of the workspace")
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    workspace = Workspace(Path(os.path.realpath(folder)))
    disk = Disk(workspace.root)
    for path in (
        workspace.scratch.parent,
        workspace.state,
        workspace.segments,
        workspace.retired,
        workspace.index,
        workspace.checkpoints,
    ):
        disk.make_folder(path, 0o700)
    with storage_errors(workspace.state):
        workspace.state.chmod(0o700)
    return workspace


def open_workspace(folder: Path) -> Workspace:
    """The workspace whose root is this folder.

    Raises UsageError when there is none (yet) and StorageError when this user cannot write in it. On a file system
    that is read-only it is opened, and whoever writes in it gets the error.
    """
    if not folder.exists():
        raise UsageError(f"{folder} does not exist", f"check the path or run 'dreamd init {folder}'")
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file", "name the folder of the workspace")
    workspace = Workspace(Path(os.path.realpath(folder)))
    if workspace.state.exists() and not workspace.state.is_dir():
        raise StorageError(f"{workspace.state} is a file where a folder should be", "move it away")
    if not workspace.state.is_dir():
        raise UsageError(f"{folder} is no workspace yet", f"run 'dreamd init {folder}'")
    Disk(workspace.root).target(workspace.state)  # a link that leads out is refused
    for path in (workspace.state, workspace.root):
        if not os.access(path, os.W_OK | os.X_OK) and not is_read_only(path):
            raise StorageError(f"{path} is not writable by this user", access_to(path))
    return workspace


def is_read_only(folder: Path) -> bool:
    """Whether the folder's file system is read-only, for this process at least."""
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False
