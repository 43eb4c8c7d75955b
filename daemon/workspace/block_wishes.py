"""Block wishes: in which files the owner wants a block of MEMORY.md, and how these files are now.

What is wished lies in blocks.json of the state folder, out of reach of the project. Of the lines that were written it
has digests alone.
"""

import os
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from state.codec import decode, encode
from state.document.agent_block import ReadBlock, code_of, ids_of, read_block
from state.document.agent_caps import CAPS
from state.document.fence import Fenced, fenced
from state.errors import ConflictError, DreamdError, NotFoundError, StorageError
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace

# So many of the last blocks are known by their lines; of an older one it is seen whether anybody changed it.
KEPT = 24
# An agent's file is no longer than this.
LONGEST = 4 * 1024**2
NEAR_CAP = 0.9


@dataclass(frozen=True, slots=True)
class Written:
    """A block that was written: its code, and the ids of its lines."""

    code: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wish:
    """A file with a block. `path` is relative to the workspace's folder where it is below it.

    `lead` is what was put above the block when it was new, `created`: with the file. `code` and `left_out` are of the
    block that was written last; `writing` the digests of the file before and after the last write that was begun.
    """

    path: str
    agent: str
    lead: str = ""
    created: bool = False
    code: str = ""
    left_out: int = 0
    writing: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Wishes:
    """All wishes of one workspace. `key`: its number; `version`: the last one that was written into them."""

    key: str = ""
    files: tuple[Wish, ...] = ()
    written: tuple[Written, ...] = ()
    version: int = 0

    def with_file(self, wish: Wish) -> "Wishes":
        """With this wish in the place of that of the same file, or as a new one."""
        if any(one.path == wish.path for one in self.files):
            return replace(self, files=tuple(wish if one.path == wish.path else one for one in self.files))
        return replace(self, files=(*self.files, wish))

    def without_file(self, path: str) -> "Wishes":
        """Without the wish of this file."""
        return replace(self, files=tuple(one for one in self.files if one.path != path))

    def with_written(self, code: str, ids: tuple[str, ...]) -> "Wishes":
        """With one more block that was written, the last one first."""
        older = (one for one in self.written if one.code != code)
        return replace(self, written=(Written(code, ids), *older)[:KEPT])


@dataclass(frozen=True, slots=True)
class BlockFile:
    """A wished file as it stands: its bytes, in its parts, and the block in it.

    `base` are the ids of the lines that dreamd wrote there; empty for a block that nobody has changed since.
    """

    content: bytes
    parts: Fenced
    block: ReadBlock
    base: tuple[str, ...]
    changed: bool


@dataclass(frozen=True, slots=True)
class BlockStatus:
    """A file with a block: its lines and bytes with all that stands around it, and their larger share of the cap.

    `left_out` counts the lines of MEMORY.md that have no room there. `problem`: why it is not written any more.
    """

    path: str
    agent: str
    lines: int
    bytes: int
    share: float
    left_out: int
    problem: str = ""
    advice: str = ""


def wishes_path(workspace: Workspace) -> Path:
    """The file of the wishes."""
    return workspace.state / "blocks.json"


def wishes_of(workspace: Workspace) -> Wishes:
    """What is wished. Raises StorageError when it cannot be read."""
    path = wishes_path(workspace)
    if not path.exists():
        return Wishes()
    return decode(Wishes, workspace.disk().read_bytes(path), str(path))


def keep_wishes(workspace: Workspace, wishes: Wishes, disk: Disk | None = None) -> None:
    """Write down what is wished. `disk`: whose calls to use."""
    path = wishes_path(workspace)
    workspace.disk(disk.system if disk else None).write_atomic(path, encode(wishes).encode())


def key_of(workspace: Workspace) -> str:
    """The number that tells this workspace from any other."""
    return workspace.state.name


def file_of(workspace: Workspace, wish: Wish) -> Path:
    """The absolute path of a wished file."""
    return workspace.root / wish.path


def disk_of(workspace: Workspace, path: Path, disk: Disk | None = None) -> Disk:
    """The disk on which this file may be written: links in the workspace lead into it, others into their folder."""
    root = workspace.root if path.is_relative_to(workspace.root) else path.parent
    return Disk(root, disk.system if disk else None)


def digest(content: bytes | None) -> str:
    """What tells a file's content from any other; empty for no file."""
    return "" if content is None else sha256(content).hexdigest()


def block_in(content: bytes | None, wishes: Wishes, code: str = "") -> BlockFile:
    """The block in a file, with what it was when dreamd wrote it; `code` is of that if it says none itself.

    Raises NotFoundError for a file without a block, DocumentError for one whose block is not clear, ConflictError for
    a block that this memory does not know.
    """
    parts = fenced(content or b"")
    if content is None or parts is None:
        raise NotFoundError("the block was taken out of it")
    block = read_block(parts.inside)
    ids = ids_of(block, wishes.key)
    named = block.code or code
    if code_of(ids, wishes.key) == named:
        return BlockFile(content, parts, block, ids, changed=False)
    base = next((one.ids for one in wishes.written if one.code == named), None)
    if base is None:
        raise ConflictError(
            "its block is of another memory, or older than what is known of it, and was changed",
            "take its rows out of the file, from the first marker to the last one",
        )
    return BlockFile(content, parts, block, base, changed=True)


def block_statuses(workspace: Workspace) -> tuple[BlockStatus, ...]:
    """How each wished file is now. Raises StorageError when the wishes cannot be read."""
    wishes = wishes_of(workspace)
    return tuple(_status(workspace, wishes, wish) for wish in wishes.files)


def _status(workspace: Workspace, wishes: Wishes, wish: Wish) -> BlockStatus:
    path, cap, content = file_of(workspace, wish), CAPS[wish.agent], b""
    problem = advice = ""
    try:
        disk = disk_of(workspace, path)
        content = disk.read_optional(path, LONGEST) or b""
        block_in(content, wishes, wish.code)
        if (aside := disk.displaced(path)) is not None:
            is_newer(path, wish, content, aside)
    except NotFoundError as error:
        problem = error.what
        advice = f"'dreamd block add {wish.path}' writes it again, 'dreamd block remove {wish.path}' ends it"
    except DreamdError as error:
        problem, advice = error.what, error.advice
    lines = rows_in(content)
    share = max(lines / cap.lines, len(content) / cap.bytes)
    return BlockStatus(wish.path, wish.agent, lines, len(content), round(share, 3), wish.left_out, problem, advice)


def is_newer(file: Path, wish: Wish, content: bytes | None, aside: bytes) -> bool:
    """Whether what a write left beside the file is a save of its owner's, and the file what was written over it.

    Raises StorageError when both were saved.
    """
    before, after = wish.writing
    if digest(aside) in (before, after, digest(content)):
        return False
    if digest(content) != after:
        raise saved_beside(file)
    return True


def saved_beside(file: Path) -> StorageError:
    """The error of a file that was saved just before it was written, and just after."""
    return StorageError(
        f"{file.with_name(f'.{file.name}.displaced')} was saved while the block of {file.name} was written",
        f"take what you miss from it into {file.name}, and remove it",
    )


def rows_in(content: bytes) -> int:
    """How many lines a file has."""
    return content.count(b"\n") + (not content.endswith(b"\n") and bool(content))


def resolved(workspace: Workspace, path: Path) -> str:
    """The name under which a file is wished: its folder without links, relative to the workspace's if below it.

    Raises StorageError for a path whose folder is not there.
    """
    folder = Path(os.path.realpath(path.parent))
    if not os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir may raise here
        raise StorageError(f"{folder} is no folder", "make it first")
    real = folder / path.name
    return str(real.relative_to(workspace.root)) if real.is_relative_to(workspace.root) else str(real)
