"""File repair: links, what stands in the place of a folder or of scratch.md, permissions and owners."""

import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from daemon.upkeep.examine import Finding, Level
from daemon.upkeep.repair.jobs import Job, RepairContext
from daemon.workspace.stores import folders
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace


def links(workspace: Workspace) -> Iterator[Finding]:
    """Find symbolic links in place of dreamd's files: they are reported, and neither followed nor removed."""
    found = [path for path in _ours(workspace) if path.is_symlink()]
    others = (workspace.document, workspace.scratch, workspace.scratch.parent)
    found += [path for path in others if path.is_symlink() and not _is_inside(path, workspace)]
    for path in found:
        what = f"{path} is a symbolic link to {os.readlink(path)}; it is not followed"  # noqa: PTH115
        yield Finding(
            "links", Level.PROBLEM, what, f"put the file itself in its place, or remove the link: rm '{path}'"
        )


def _is_inside(path: Path, workspace: Workspace) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(workspace.root)


def files(context: RepairContext) -> Iterator[Job]:
    """Find what is no folder or no file where one should be, and wrong permissions.

    A folder that is missing is made as the stores are opened, and leftovers of killed writers go with the next dream.
    """
    workspace, aside = context.workspace, context.aside
    for folder in folders(workspace):
        if os.path.lexists(folder) and not folder.is_symlink() and not folder.is_dir():
            action = "it is kept aside, and the folder is made"
            yield Job("folders", f"{folder} is no folder", action, partial(aside.move, folder))
    scratch = workspace.scratch
    if os.path.lexists(scratch) and not scratch.is_symlink() and not scratch.is_file():
        action = "it is kept aside; the next note makes the file"
        yield Job("notes", f"{scratch} is no file", action, partial(aside.move, scratch))
    yield from permissions(workspace)


def permissions(workspace: Workspace) -> Iterator[Job]:
    """Find files that their owner cannot read or write, and a state folder that others can enter."""
    state = workspace.state
    is_open = bool(stat.S_IMODE(state.stat().st_mode) & 0o077)
    if is_open or _lacks(state, 0o700):
        what = f"{state} is {'open to other users' if is_open else 'closed to its owner'}"
        yield Job("permissions", what, "its permissions are 700 again", partial(_set_mode, state, 0o700))
    for path in _ours(workspace):
        if path.is_symlink():
            continue
        wanted = 0o700 if path.is_dir() else 0o600
        too_open = is_open and not path.is_dir() and stat.S_IMODE(path.lstat().st_mode) & 0o077
        if _lacks(path, wanted) or too_open:
            what = f"{path} has the permissions {stat.S_IMODE(path.lstat().st_mode):o}"
            yield Job("permissions", what, f"they are {wanted:o} again", partial(_set_mode, path, wanted))
    for path in (workspace.document, workspace.scratch):
        if path.is_file() and not path.is_symlink() and _lacks(path, 0o600):
            mode = stat.S_IMODE(path.stat().st_mode) | 0o600
            yield Job("permissions", f"{path} is closed to its owner", f"{mode:o}", partial(_set_mode, path, mode))


def owners(workspace: Workspace) -> Iterator[Finding]:
    """Find files of dreamd's that belong to another user: only that user, or root, can give them back."""
    owner = workspace.root.stat().st_uid
    strange = [path for path in (workspace.state, *_ours(workspace)) if path.lstat().st_uid != owner]
    if strange:
        what = f"{strange[0]} belongs to another user than the workspace ({len(strange)} such files and folders)"
        advice = f"run 'sudo chown -hR {owner} {workspace.state}'"
        yield Finding("permissions", Level.PROBLEM, what, advice)


def _ours(workspace: Workspace) -> Iterator[Path]:
    """Yield the files of dreamd's in the state folder, without ChromaDB's files and what was kept aside."""
    folders_of_ours = (
        workspace.state,
        workspace.history,
        workspace.checkpoints,
        workspace.copies,
    )
    for folder in folders_of_ours:
        if folder.is_symlink() or not folder.is_dir():
            continue
        try:
            yield from sorted(folder.iterdir())
        except OSError:
            continue  # it is closed to us: that is said of the folder itself


def _lacks(path: Path, wanted: int) -> bool:
    return stat.S_IMODE(path.lstat().st_mode) & wanted != wanted


def _set_mode(path: Path, mode: int) -> None:
    with storage_errors(path):
        path.chmod(mode)
