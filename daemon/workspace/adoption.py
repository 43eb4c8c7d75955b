"""Adoption: which folders are this user's workspaces, and where their state is.

Nothing that dreamd obeys is in a project. State is in the user's data folder, where a registry row names the project
folder (`state.stores.disk.places`); that folder has the id in its file `.dreamd`. So a moved or renamed folder is
recognised, files that `git clean` deleted are written again, and a file that came with a repository claims nothing.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config.paths import data_folder, global_root, is_everybodys, make_private_folder, registry_path
from state.errors import DreamdError, ForeignError, StorageError, UsageError
from state.stores.disk import workspace as workspaces
from state.stores.disk.disk import Disk
from state.stores.disk.places import Place, all_places, id_in, new_id, read_place, write_id, write_place
from state.stores.disk.syscalls import access_to
from state.stores.disk.workspace import STATE_FOLDER, Workspace, is_read_only

if TYPE_CHECKING:
    from state.stores.disk.worktree import Worktree

# Files in the state folder: the transcripts outside the workspace that its owner named, one per line, and the output
# of the last dream that a hook started.
_TRANSCRIPTS, _DREAM_LOG = "transcripts", "dream.log"
_ANOTHERS = f"{STATE_FOLDER}-of-another"
_LOCK, _MOVING = ".lock", ".moving"


def open_workspace(folder: Path, environment: Mapping[str, str] = os.environ) -> Workspace:
    """Return this user's workspace whose root is this folder.

    Raise UsageError if there is none, ForeignError if the folder may be somebody else's workspace or a copy, and
    StorageError if this user may not write in it. A workspace on a read-only file system is opened; writing fails.
    """
    if not folder.exists():
        raise UsageError(f"{folder} does not exist", f"check the path or run 'dreamd init {folder}'")
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file", "name the folder of the workspace")
    workspace = _Lookup(environment).at(Path(os.path.realpath(folder)))
    if workspace is None:
        raise UsageError(f"{folder} is no workspace yet", f"run 'dreamd init {folder}'")
    for path in (workspace.state, workspace.root):
        if not os.access(path, os.W_OK | os.X_OK) and not is_read_only(path):
            raise StorageError(f"{path} is not writable by this user", access_to(path))
    return workspace


def workspace_at(folder: Path, environment: Mapping[str, str] = os.environ) -> Workspace | None:
    """Return this user's workspace whose root is this folder; None if there is none, or it is damaged."""
    with suppress(DreamdError):
        return _Lookup(environment).at(Path(os.path.realpath(folder)))
    return None


def find_workspace(start: Path, environment: Mapping[str, str] = os.environ) -> Workspace:
    """Return the workspace of this folder or of its nearest parent that has one. Raise UsageError if there is none.

    A linked git worktree shares the workspace of its main checkout unless it has its own. A workspace in the home
    folder or in a system folder is not inherited by the folders below it.
    """
    here, lookup = Path(os.path.realpath(start)), _Lookup(environment)
    for folder in (here, *here.parents):
        if (folder == here or not is_everybodys(folder, environment)) and lookup.at(folder) is not None:
            return open_workspace(folder, environment)
        from state.stores.disk.worktree import worktree_at  # not where the folder has a workspace

        tree = worktree_at(folder)
        if tree is not None and (shared := _of_main(tree, here, environment)) is not None:
            return shared
    advice = "run 'dreamd init' in the folder of MEMORY.md"
    if is_everybodys(here, environment):
        advice = "run 'dreamd init' in the folder of a project, or use --global for what is true everywhere"
    raise UsageError(f"no workspace in {here} or above it", advice)


# ------------------------------------------------------------ worktrees


def linked_worktree(folder: Path, environment: Mapping[str, str] = os.environ) -> "Worktree | None":
    """Return the linked worktree that a folder is in; None without one, or if a workspace inside it is nearer."""
    from state.stores.disk.worktree import worktree_at

    here, lookup = Path(os.path.realpath(folder)), _Lookup(environment)
    for above in (here, *here.parents):
        with suppress(ForeignError, StorageError):
            if lookup.at(above) is not None:
                return None
        if (tree := worktree_at(above)) is not None:
            return tree
    return None


def shared_folder(folder: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the root of the workspace that a folder of a linked worktree shares with its main checkout.

    The workspace need not exist yet. Return None if the folder shares none, for example because it has its own.
    """
    if (tree := linked_worktree(folder, environment)) is None:
        return None
    here = Path(os.path.realpath(folder))
    if (found := _of_main(tree, here, environment)) is not None:
        return found.root
    inside = _folder_in_main(tree, here)
    return inside if inside is not None and not is_everybodys(inside, environment) else None


def _of_main(tree: "Worktree", folder: Path, environment: Mapping[str, str]) -> Workspace | None:
    """Return the main checkout's workspace at the corresponding folder or above it."""
    start = _folder_in_main(tree, folder)
    for above in (start, *start.parents) if start is not None else ():
        if not is_everybodys(above, environment) and workspace_at(above, environment) is not None:
            return open_workspace(above, environment)
    return None


def _folder_in_main(tree: "Worktree", folder: Path) -> Path | None:
    """Return the main checkout's folder that corresponds to one of the worktree, or its nearest existing parent.

    Return None without a main checkout. The result is inside the main checkout, whatever symbolic links there are.
    """
    if tree.main is None:
        return None
    inside = Path(os.path.realpath(tree.main / folder.relative_to(tree.top)))
    while not inside.is_dir() and inside != tree.main and inside.is_relative_to(tree.main):
        inside = inside.parent
    return inside if inside.is_relative_to(tree.main) else tree.main


# ------------------------------------------------------------ making one


def require_project(folder: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Raise UsageError unless the folder may become a workspace without being named explicitly."""
    if is_everybodys(folder, environment):
        raise UsageError(
            f"{os.path.realpath(folder)} is no project: it is the home folder, or one that many share",
            "'dreamd init --global' makes a memory of what is true everywhere, 'dreamd init DIR' that of a project, "
            "and 'dreamd init --here DIR' insists on this folder",
        )


def open_global_workspace(environment: Mapping[str, str] = os.environ) -> Workspace:
    """Return the person's global workspace. Raise UsageError when there is none yet."""
    if not has_global_workspace(environment):
        raise UsageError("there is no global workspace yet", "run 'dreamd init --global'")
    return open_workspace(global_root(environment), environment)


def has_global_workspace(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the person has a global workspace, even a damaged one."""
    root = global_root(environment)
    return os.path.lexists(root / STATE_FOLDER) or workspace_at(root, environment) is not None


def init_global_workspace(environment: Mapping[str, str] = os.environ) -> Workspace:
    """Create the person's global workspace or return it; concurrent calls create only one."""
    make_private_folder(global_root(environment))
    return init_workspace(global_root(environment), environment)


def init_workspace(
    folder: Path, environment: Mapping[str, str] = os.environ, *, resume: bool = False, strangers: Iterable[Path] = ()
) -> Workspace:
    """Make the folder this user's workspace or return the existing one; concurrent calls create only one.

    `resume`: continue with the state that the folder had before it was copied or created again. `strangers`: files
    that came with the folder; no kill leaves them where they would count as the owner's.
    Raise UsageError, StorageError.
    """
    root = Path(os.path.realpath(folder))
    if root.exists() and not root.is_dir():
        raise UsageError(f"{root} is a file", "name the folder of the workspace")
    data = data_folder(environment)
    make_private_folder(data)
    with Disk(data).locked(data / _LOCK, b""):
        with suppress(ForeignError):
            known = None if resume else _Lookup(environment).at(root)
            if known is not None:
                return workspaces.init_workspace(known)
        number = _resumed(root, data) if resume else new_id()
        workspace = workspaces.init_workspace(Workspace(root, data / number))
        if not resume:
            from state.stores.disk.strangers import list_strangers  # once in the life of a workspace

            list_strangers(workspace, strangers)
        if os.path.isdir(root / STATE_FOLDER):  # noqa: PTH112 - as below: that of somebody else, which is not looked at
            free = (f"{_ANOTHERS}{end}" for end in ("", *(f"-{count}" for count in range(2, 100))))
            aside = next(root / name for name in free if not os.path.lexists(root / name))
            Disk(root).rename(root / STATE_FOLDER, aside)
        write_place(data, Place.of(number, root))
        write_id(workspace)
        return workspace


def _resumed(root: Path, data: Path) -> str:
    """Return the id of the state that this folder is to continue with. Raise UsageError if there is none."""
    number = id_in(root)
    places = [one for one in all_places(data) if one.id == number or (number is None and one.path == root)]
    for place in places:
        if place.path != root and id_in(place.path) == place.id:
            raise UsageError(f"{root} is a copy, and {place.path} goes on with that memory", "move it back, or away")
    if number is not None and (data / number / "state.db").exists():
        return number
    if len(places) != 1:
        raise UsageError(f"no memory of yours was in {root}", f"'dreamd init {root}' makes a new one")
    return places[0].id


# ------------------------------------------------------------ transcripts that are outside of it


def dream_log(workspace: Workspace) -> Path:
    """Return the log of the last dream that a hook started without a daemon; each such dream rewrites it."""
    return workspace.state / _DREAM_LOG


def vouched(workspace: Workspace) -> frozenset[str]:
    """Return the files outside the workspace, links resolved, that its owner named as transcripts to learn from."""
    content = workspace.disk().read_optional(workspace.state / _TRANSCRIPTS) or b""
    return frozenset(os.fsdecode(line) for line in content.split(b"\n") if line)


def vouch(workspace: Workspace, transcript: Path) -> None:
    """Record this file (links resolved) as one that the owner or an agent's hook has named."""
    real = os.path.realpath(transcript)
    if not Path(real).is_relative_to(workspace.root) and "\n" not in real and real not in vouched(workspace):
        workspace.disk().append_locked(workspace.state / _TRANSCRIPTS, os.fsencode(real) + b"\n", b"")


def unvouch(workspace: Workspace, holds: Callable[[str], bool]) -> None:
    """Remove files from the list if `holds` accepts their names."""
    known = vouched(workspace)
    kept = sorted(name for name in known if not holds(name))
    if len(kept) < len(known):
        rows = b"".join(os.fsencode(name) + b"\n" for name in kept)
        workspace.disk().write_atomic(workspace.state / _TRANSCRIPTS, rows)


# ------------------------------------------------------------ whose a folder is


class _Lookup:
    """Looks up folders with at most one reading of the registry, which only folders without `.dreamd` need."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._data = data_folder(environment)

    def at(self, root: Path) -> Workspace | None:
        """Return the workspace with this root; None if there is none. Raise ForeignError, StorageError."""
        place = self._place(root)
        if place is not None and not place.incoming:
            return self._in_place(place, root)
        if place is not None and place.is_folder(root):
            return self._moved_out(root)
        if id_in(root) is None and not os.path.isdir(root / STATE_FOLDER):  # noqa: PTH112 - Path.is_dir may raise here
            return None
        from state.stores.repair.moving_out import own_number  # once in the life of a workspace

        if own_number(root, self._environment) is not None:
            return self._moved_out(root)
        raise ForeignError(
            f"{root / STATE_FOLDER} is of a memory that is not yours, so nothing of it is used",
            f"'dreamd init {root}' makes the folder a workspace of your own, and shows what is in MEMORY.md",
        )

    @cached_property
    def _places(self) -> tuple[Place, ...]:
        return tuple(all_places(self._data))

    def _place(self, root: Path) -> Place | None:
        """Return the registry row of the id in the folder's `.dreamd`, else the row of the folder's path."""
        number = id_in(root)
        place = read_place(self._data, number) if number is not None else None
        if place is None and os.path.isdir(root):  # noqa: PTH112 - Path.is_dir may raise here
            return next((one for one in self._places if one.path == root and one.is_folder(root)), None)
        return place

    def _moved_out(self, root: Path) -> Workspace:
        """Move the state of an older workspace out of its folder, in one process only, and return the workspace."""
        from state.stores.repair.moving_out import expect, move_out, own_number

        make_private_folder(self._data)
        with Disk(self._data).locked(self._data / _MOVING, b""):
            place = _Lookup(self._environment)._place(root)  # noqa: SLF001 - another process may just have done it
            if place is None and (number := own_number(root, self._environment)) is not None:
                place = expect(root, number, root, self._environment)
            if place is None or not place.incoming:
                return open_workspace(root, self._environment)
            return move_out(place, self._environment)

    def _in_place(self, place: Place, root: Path) -> Workspace:
        workspace = Workspace(root, self._data / place.id)
        if place.is_folder(root):
            if place.path != root and not place.is_folder(place.path):
                self._follow(place, root)
            _write_again(workspace)
            return workspace
        if place.path == root:  # the disk got a new number, or the folder was restored from a backup
            with suppress(StorageError):
                write_place(self._data, Place.of(place.id, root))
            return workspace
        if id_in(place.path) == place.id:
            raise ForeignError(
                f"{root} is a copy of {place.path}, whose memory it would share",
                f"work on in {place.path}, or 'dreamd init {root}' gives the copy a memory of its own",
            )
        raise ForeignError(
            f"{root} holds the id of a memory of yours that was in {place.path}",
            f"'dreamd init --resume {root}' if you moved it here, 'dreamd init {root}' for a memory of its own",
        )

    def _follow(self, place: Place, root: Path) -> None:
        """Record the folder's new path; if the registry cannot be written, a later call does it."""
        from daemon.config.registry import rename
        from state.stores.git.exclude import keep_out_again

        with suppress(StorageError):
            write_place(self._data, place._replace(path=root))
            rename(registry_path(self._environment), place.path, root)
            keep_out_again(Workspace(root, self._data / place.id), place.path)


def _write_again(workspace: Workspace) -> None:
    """Write `.dreamd` and MEMORY.md again if `git clean` deleted them; never overwrite another file."""
    if os.path.lexists(workspace.root / STATE_FOLDER):
        return
    with suppress(StorageError):  # a read-only folder is known by its registry row alone
        disk = workspace.disk()
        disk.make_folder(workspace.scratch.parent)
        if not os.path.lexists(workspace.document):
            from state.stores.history.lineage import last_text

            if text := last_text(workspace.database):
                disk.write_atomic(workspace.document, text.encode(), 0o644)
        write_id(workspace)
