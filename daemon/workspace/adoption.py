"""Adoption: which workspaces this user made or took over.

A workspace that came with a repository or on a shared disk is somebody else's. What makes one this user's lies in the
user's own state folder, where no workspace can put it:

    $XDG_STATE_HOME/dreamd/adopted/<digest of the root>/mark         the workspace's number, and its root
                                                        transcripts  files outside it that its owner named, one a line
                                                        dream.log    what the last dream said that a hook began
"""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from daemon.config.paths import global_root, is_everybodys, make_private_folder, registry_path, state_folder
from state.errors import DreamdError, StorageError, UsageError
from state.stores.disk import workspace as workspaces
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import STATE_FOLDER, Workspace
from state.stores.disk.worktree import Worktree, worktree_at

try:
    from _sha256 import sha256  # type: ignore[import-not-found]  # hashlib loads OpenSSL, for every `dreamd note`
except ImportError:
    from hashlib import sha256

_NUMBER = re.compile(rb"[0-9a-f]{32}")
_MARK, _TRANSCRIPTS, _DREAM_LOG = "mark", "transcripts", "dream.log"
# git leaves out a folder that says so itself, whatever repository the workspace is in.
_IGNORE = ".gitignore", b"*\n"


def open_workspace(folder: Path, environment: Mapping[str, str] = os.environ) -> Workspace:
    """The workspace whose root is this folder, `foreign` when this user neither made nor adopted it.

    Raises UsageError when there is none (yet), StorageError when this user cannot write in it.
    """
    return _known(workspaces.open_workspace(folder), environment)


def find_workspace(start: Path, environment: Mapping[str, str] = os.environ) -> Workspace:
    """The workspace of this folder, or of the nearest one above it that has one, `foreign` or not. Raises UsageError.

    A linked git worktree without one has that of its main checkout, if it is this user's. One in the home folder, or
    in a folder of the system, is that of this folder alone: nothing below it has it by accident.
    """
    here = Path(os.path.realpath(start))
    for folder in (here, *here.parents):
        if _has_workspace(folder) and (folder == here or not is_everybodys(folder, environment)):
            return open_workspace(folder, environment)
        tree = worktree_at(folder)
        if tree is not None and (shared := _of_main(tree, here, environment)) is not None:
            return shared
    raise UsageError(f"no workspace in {here} or above it", _advice(here, environment))


def shared_workspace(folder: Path, environment: Mapping[str, str] = os.environ) -> Workspace | None:
    """The workspace that a folder of a linked worktree shares with the main checkout; None where it shares none.

    It shares none when it, or a folder above it in the worktree, has one of its own.
    """
    tree = linked_worktree(folder)
    return _of_main(tree, Path(os.path.realpath(folder)), environment) if tree is not None else None


def shared_folder(folder: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where the workspace is, or would be, that a folder of a linked worktree shares; None where it shares none."""
    tree = linked_worktree(folder)
    if tree is None:
        return None
    here = Path(os.path.realpath(folder))
    if (found := _of_main(tree, here, environment)) is not None:
        return found.root
    inside = _folder_in_main(tree, here)
    return inside if inside is not None and not is_everybodys(inside, environment) else None


def linked_worktree(folder: Path) -> Worktree | None:
    """The linked worktree that a folder is in; None without one, and where a workspace inside of it is nearer."""
    here = Path(os.path.realpath(folder))
    for above in (here, *here.parents):
        if _has_workspace(above):
            return None
        if (tree := worktree_at(above)) is not None:
            return tree
    return None


def require_project(folder: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Return if a folder may become a workspace without its being said twice. Raises UsageError."""
    if is_everybodys(folder, environment):
        raise UsageError(
            f"{os.path.realpath(folder)} is no project: it is the home folder, or one that many share",
            "'dreamd init --global' makes a memory of what is true everywhere, 'dreamd init DIR' that of a project, "
            "and 'dreamd init --here DIR' insists on this folder",
        )


def open_global_workspace(environment: Mapping[str, str] = os.environ) -> Workspace:
    """The person's global workspace. Raises UsageError when there is none yet."""
    root = global_root(environment)
    if not _has_workspace(root):
        raise UsageError("there is no global workspace yet", "run 'dreamd init --global'")
    return open_workspace(root, environment)


def init_global_workspace(environment: Mapping[str, str] = os.environ) -> Workspace:
    """Make the person's global workspace, or return it; of several processes at once one makes it.

    Raises as `init_workspace` does. One whose making was cut off holds nothing yet, and is this person's.
    """
    root, folder = global_root(environment), state_folder(environment)
    make_private_folder(root)
    make_private_folder(folder)
    new = Workspace(root)
    with Disk(folder).locked(folder / "global.lock", b""):
        if _has_workspace(root) and not any(map(os.path.lexists, (new.database, new.document, new.scratch))):
            return adopt(workspaces.init_workspace(root), environment)
        return init_workspace(root, environment)


def init_workspace(folder: Path, environment: Mapping[str, str] = os.environ) -> Workspace:
    """Make the folder a workspace of this user's, or return the one that it is.

    Raises ForeignError for a workspace that somebody else made, UsageError and StorageError as the store does.
    """
    real = Path(os.path.realpath(folder))
    if os.path.lexists(real / STATE_FOLDER):
        known = open_workspace(real, environment)
        known.require_own()
    return adopt(workspaces.init_workspace(folder), environment)


def adopt(workspace: Workspace, environment: Mapping[str, str] = os.environ) -> Workspace:
    """Mark the workspace as this user's, and its state folder as nothing for git; doing it again is harmless."""
    disk = Disk(workspace.root)
    name, content = _IGNORE
    if not os.path.lexists(workspace.state / name):  # what somebody put there, a link as well, stays as it is
        with suppress(FileExistsError):
            disk.write_new(workspace.state / name, content)
    with suppress(FileExistsError):
        disk.write_new(workspace.identity, os.urandom(16).hex().encode() + b"\n")
    number = _number(workspace)
    if number is None:  # somebody else's file, which tells nothing apart
        disk.remove(workspace.identity)
        return adopt(workspace, environment)
    own = own_folder(workspace, environment)
    make_private_folder(own)
    Disk(own).write_atomic(own / _MARK, _mark(number, workspace))
    return replace(workspace, foreign=False)


def own_folder(workspace: Workspace, environment: Mapping[str, str] = os.environ) -> Path:
    """The user's own folder for a workspace, for facts that no workspace may state itself."""
    digest: str = sha256(os.fsencode(workspace.root)).hexdigest()[:40]
    return _all(environment) / digest


def transcript_list(workspace: Workspace, environment: Mapping[str, str] = os.environ) -> Path:
    """The file that lists the transcripts outside the workspace which its owner named."""
    return own_folder(workspace, environment) / _TRANSCRIPTS


def dream_log(workspace: Workspace, environment: Mapping[str, str] = os.environ) -> Path:
    """The file of what the last dream said that a hook began without a daemon; it changes when one begins."""
    return own_folder(workspace, environment) / _DREAM_LOG


def vouched(workspace: Workspace, environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The files outside the workspace that its owner named, links followed: their text may be learnt."""
    listed = transcript_list(workspace, environment)
    content = Disk(listed.parent).read_optional(listed) or b""
    return frozenset(os.fsdecode(line) for line in content.split(b"\n") if line)


def vouch(workspace: Workspace, transcript: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Record that the owner, or an agent's hook, has named this file (links followed)."""
    workspace.require_own()
    real = os.path.realpath(transcript)
    if Path(real).is_relative_to(workspace.root) or "\n" in real or real in vouched(workspace, environment):
        return
    listed = transcript_list(workspace, environment)
    make_private_folder(listed.parent)
    Disk(listed.parent).append_locked(listed, os.fsencode(real) + b"\n", b"")


def unvouch(workspace: Workspace, holds: Callable[[str], bool], environment: Mapping[str, str] = os.environ) -> int:
    """Remove the files from the list whose names `holds` accepts; returns how many."""
    known = vouched(workspace, environment)
    kept = sorted(name for name in known if not holds(name))
    if len(kept) < len(known):
        listed = transcript_list(workspace, environment)
        Disk(listed.parent).write_atomic(listed, b"".join(os.fsencode(name) + b"\n" for name in kept))
    return len(known) - len(kept)


def _has_workspace(folder: Path) -> bool:
    return os.path.isdir(folder / STATE_FOLDER)  # noqa: PTH112 - Path.is_dir may raise here


def _of_main(tree: Worktree, folder: Path, environment: Mapping[str, str]) -> Workspace | None:
    """The workspace that the main checkout has in the corresponding folder or above it, if it is this user's."""
    start = _folder_in_main(tree, folder)
    for above in (start, *start.parents) if start is not None else ():
        if _has_workspace(above) and not is_everybodys(above, environment):
            is_foreign = _known(Workspace(above), environment).foreign  # asked first: of those nothing else is said
            return None if is_foreign else open_workspace(above, environment)
    return None


def _folder_in_main(tree: Worktree, folder: Path) -> Path | None:
    """The folder of the main checkout that corresponds to one of the worktree, or the nearest above that is there.

    None without a main checkout. It is never outside of it, whatever links there are.
    """
    if tree.main is None:
        return None
    inside = Path(os.path.realpath(tree.main / folder.relative_to(tree.top)))
    while not inside.is_dir() and inside != tree.main and inside.is_relative_to(tree.main):
        inside = inside.parent
    return inside if inside.is_relative_to(tree.main) else tree.main


def _advice(here: Path, environment: Mapping[str, str]) -> str:
    if is_everybodys(here, environment):
        return "run 'dreamd init' in the folder of a project, or use --global for what is true everywhere"
    return "run 'dreamd init' in the folder of MEMORY.md"


def _known(workspace: Workspace, environment: Mapping[str, str]) -> Workspace:
    _take_over_registered(environment)
    number, own, mark = _number(workspace), own_folder(workspace, environment), None
    with suppress(StorageError):  # a mark that cannot be read marks nothing; adopting says what is in the way
        mark = Disk(own).read_optional(own / _MARK)
    return replace(workspace, foreign=number is None or mark != _mark(number, workspace))


def _take_over_registered(environment: Mapping[str, str]) -> None:
    """Adopt all workspaces of the user's registry, once, where no workspace has a mark yet."""
    every, registry = _all(environment), registry_path(environment)
    if every.exists() or not registry.exists():
        return
    make_private_folder(every)
    from daemon.config.registry import known  # needed once in the life of a state folder

    for root in known(registry):
        with suppress(DreamdError):  # it is gone, or cannot be written: adopted by hand, when it is back
            adopt(workspaces.open_workspace(root), environment)


def _all(environment: Mapping[str, str]) -> Path:
    return state_folder(environment) / "adopted"


def _mark(number: bytes, workspace: Workspace) -> bytes:
    return number + b"\n" + os.fsencode(workspace.root) + b"\n"


def _number(workspace: Workspace) -> bytes | None:
    """The number in the workspace; None when the file is missing or holds something else."""
    with storage_errors(workspace.identity):
        try:
            fd = os.open(workspace.identity, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            content = os.read(fd, 64).rstrip(b"\n")
        except OSError:
            return None
        finally:
            os.close(fd)
    return content if _NUMBER.fullmatch(content) else None
