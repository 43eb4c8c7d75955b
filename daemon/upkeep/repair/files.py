"""File repair: links, permissions, owners, what is no folder or no file, checkpoints and indexes."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from daemon.upkeep.examine import Finding, Level
from daemon.upkeep.repair.jobs import Job, RepairContext
from daemon.workspace.stores import Store, folders
from state.stores.crystals import full_text
from state.stores.crystals.vectors import NAME
from state.stores.database.connection import open_unmigrated
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.erasing.files import empty_folder

_CHECKPOINTS = ("dreams.db", "dreams.db-wal", "dreams.db-shm", "dreams.db-journal")


def unmendable(workspace: Workspace) -> Iterator[Finding]:
    """Find symbolic links in place of dreamd's files, which are not followed, and files of another user."""
    ours = list(_ours(workspace))
    others = (workspace.document, workspace.scratch, workspace.scratch.parent)
    links = [path for path in ours if path.is_symlink()]
    links += [path for path in others if path.is_symlink() and not _is_inside(path, workspace)]
    for path in links:
        what = f"{path} is a symbolic link to {os.readlink(path)}; it is not followed"  # noqa: PTH115
        advice = f"put the file itself in its place, or remove the link: rm '{path}'"
        yield Finding("links", Level.PROBLEM, what, advice)
    owner = workspace.root.stat().st_uid
    strange = [path for path in (workspace.state, *ours) if path.lstat().st_uid != owner]
    if strange:
        what = f"{strange[0]} belongs to another user than the workspace ({len(strange)} such files and folders)"
        advice = f"run 'sudo chown -hR {owner} {workspace.state}'"
        yield Finding("permissions", Level.PROBLEM, what, advice)


def _is_inside(path: Path, workspace: Workspace) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(workspace.root)


def files(context: RepairContext) -> Iterator[Job]:
    """Find what is no folder or no file where one should be, and wrong permissions.

    A folder that is missing is made as the stores are opened, and leftovers of killed writers go with the next dream.
    """
    workspace, scratch = context.workspace, context.workspace.scratch
    for folder in folders(workspace):
        if os.path.lexists(folder) and not folder.is_symlink() and not folder.is_dir():
            action = "it is kept aside, and the folder is made"
            yield Job("folders", f"{folder} is no folder", action, partial(context.put_aside, folder))
    if os.path.lexists(scratch) and not scratch.is_symlink() and not scratch.is_file():
        action = "it is kept aside; the next note makes the file"
        yield Job("notes", f"{scratch} is no file", action, partial(context.put_aside, scratch))
    yield from _permissions(workspace)


def _permissions(workspace: Workspace) -> Iterator[Job]:
    """Find files that their owner cannot read or write, and a state folder that others can enter."""
    state = workspace.state
    is_open = bool(_mode(state) & 0o077)
    if is_open or _mode(state) & 0o700 != 0o700:
        what = f"{state} is {'open to other users' if is_open else 'closed to its owner'}"
        yield Job("permissions", what, "its permissions are 700 again", partial(_set_mode, state, 0o700))
    for path in (one for one in _ours(workspace) if not one.is_symlink()):
        wanted, mode = 0o700 if path.is_dir() else 0o600, _mode(path)
        if mode & wanted != wanted or (is_open and wanted == 0o600 and mode & 0o077):
            what = f"{path} has the permissions {mode:o}"
            yield Job("permissions", what, f"they are {wanted:o} again", partial(_set_mode, path, wanted))
    for path in (workspace.document, workspace.scratch):
        if path.is_file() and not path.is_symlink() and _mode(path) & 0o600 != 0o600:
            mode = _mode(path) | 0o600
            yield Job("permissions", f"{path} is closed to its owner", f"{mode:o}", partial(_set_mode, path, mode))


def _ours(workspace: Workspace) -> Iterator[Path]:
    """Yield the files of dreamd's in the state folder, without ChromaDB's files and what was kept aside."""
    for folder in (workspace.state, workspace.history, workspace.checkpoints, workspace.copies):
        if folder.is_symlink() or not folder.is_dir():
            continue
        try:
            yield from sorted(folder.iterdir())
        except OSError:
            continue  # it is closed to us: that is said of the folder itself


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def _set_mode(path: Path, mode: int) -> None:
    with storage_errors(path):
        path.chmod(mode)


def derived(context: RepairContext) -> Iterator[Job]:
    """Find damaged checkpoints, which cost at most an answer that is paid for again, and a torn vectors.db."""
    checkpoints, vectors = context.workspace.checkpoints / _CHECKPOINTS[0], context.workspace.index / NAME
    if not checkpoints.is_symlink() and (wrong := _wrong(checkpoints)):
        action = "they are thrown away; a dream that was interrupted begins anew"
        yield Job("checkpoints", f"{checkpoints}: {wrong}", action, partial(_drop_checkpoints, context))
    if not vectors.parent.is_symlink() and (wrong := _wrong(vectors)):
        action = "the folder is emptied, and built anew from state.db"
        yield Job("vector index", f"{vectors}: {wrong}", action, partial(_empty_index, context))


def _wrong(path: Path) -> str:
    """Return what is wrong with a database; empty for a sound one, and where there is none."""
    try:
        if os.path.lexists(path):
            with open_unmigrated(path) as connection:
                (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            return "" if result == "ok" else str(result)
    except sqlite3.DatabaseError as error:
        return str(error)
    return ""


def _drop_checkpoints(context: RepairContext) -> None:
    for path in (context.workspace.checkpoints / name for name in _CHECKPOINTS):
        if path.is_dir():
            context.put_aside(path)
        elif os.path.lexists(path):
            context.disk.remove(path)


def _empty_index(context: RepairContext) -> None:
    context.emptied = True
    empty_folder(context.disk, context.workspace.index)


def indexes(context: RepairContext, store: Store) -> Iterator[Job]:
    """Find torn full-text indexes and missing vectors, in open stores."""
    connection, vectors = store.crystals.connection, store.crystals.vectors
    for index, what in (("words", "the word index"), ("cold_words", "the word index of the cold archive")):
        if full_text.is_torn(connection, index):
            again = partial(full_text.rebuild, connection, index)
            yield Job("word index", f"{what} is torn", "it is built anew", again)
    if context.emptied and store.embedder() is not None:
        vectors.settle()
        if waiting := vectors.waiting()[0]:
            what = f"{waiting:,} crystals have no vector"
            yield Job("embeddings", what, "they are embedded anew", lambda: (f"{store.embed():,} vectors",))
