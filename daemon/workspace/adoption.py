"""Adoption: which memory a folder has, and where it is.

Nothing that dreamd obeys is in a project. State is in the user's data folder, where a registry row names the folder
or repository that it belongs to (`state.stores.disk.places`). A git repository has one memory for all its worktrees,
with every file beside the state; any other folder, or one for which its owner says so, has MEMORY.md in it. Either
has the id in a small file, so that what was moved is recognised. A file that came with a folder claims nothing.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from daemon.config.ignored import is_ignored
from daemon.config.paths import data_folder, global_root, is_everybodys, make_private_folder
from state.errors import (
    DreamdError,
    ForeignError,
    IgnoredError,
    NoMemoryError,
    NoWorkspaceError,
    StorageError,
    UsageError,
)
from state.stores.disk import workspace as workspaces
from state.stores.disk.disk import Disk
from state.stores.disk.places import (
    Kind,
    Place,
    all_places,
    id_in,
    ids_of_repository,
    is_id,
    new_id,
    read_place,
    write_mark,
    write_place,
)
from state.stores.disk.syscalls import access_to
from state.stores.disk.workspace import STATE_FOLDER, Workspace, is_read_only
from state.stores.disk.worktree import Checkout, checkout_at, checkout_of

# Files in the state folder: the transcripts outside the workspace that its owner named, one per line; the output of
# the last dream that a hook started; and that nobody was told yet that there is a memory.
_VOUCHED, _DREAM_LOG, _UNTOLD = "vouched", "dream.log", "untold"
_ANOTHERS = f"{STATE_FOLDER}-of-another"
LOCK = ".lock"
"""The file in the data folder that is locked while a memory is made."""


def open_workspace(folder: Path, environment: Mapping[str, str] = os.environ) -> Workspace:
    """Return this user's workspace of this folder: its root, the folder of its state, or a place in its repository.

    Raise UsageError if there is none, ForeignError if the folder may be somebody else's workspace or a copy, and
    StorageError if this user may not write in it. A workspace on a read-only file system is opened; writing fails.
    """
    if not folder.exists():
        raise UsageError(f"{folder} does not exist", f"check the path or run 'dreamd init {folder}'")
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file", "name the folder of the workspace")
    workspace = _Lookup(environment).named(Path(os.path.realpath(folder)))
    if workspace is None:
        raise UsageError(f"{folder} is no workspace yet", f"run 'dreamd init {folder}'")
    return _writable(workspace)


def workspace_at(folder: Path, environment: Mapping[str, str] = os.environ) -> Workspace | None:
    """Return what `open_workspace` returns; None if there is none, or it is damaged."""
    with suppress(DreamdError):
        return _Lookup(environment).named(Path(os.path.realpath(folder)))
    return None


def look_from(start: Path, environment: Mapping[str, str] = os.environ) -> Workspace | Checkout | None:
    """Return the workspace that a folder belongs to, else the repository around it, which has none yet, else None.

    It is the nearest one from the folder up: a workspace in a folder, or the memory of the repository around it, of
    all worktrees together. The home folder and those of the system are nobody's project: a workspace there is not
    inherited by the folders below it. Raise IgnoredError where the owner wants no memory.
    """
    here, lookup = Path(os.path.realpath(start)), _Lookup(environment)
    repository: Checkout | None = None
    for folder in (here, *here.parents):
        if folder != here and is_everybodys(folder, environment):
            continue
        if repository is None and (found := _project_at(folder, environment)) is not None:
            require_wanted((here, found.main), environment)
            if (workspace := lookup.named(folder)) is not None:
                return workspace
            repository = found
        elif (workspace := lookup.at_or_around(folder)) is not None:
            require_wanted((here,), environment)
            return workspace
    require_wanted((here,), environment)
    return repository


def find_workspace(start: Path, environment: Mapping[str, str] = os.environ) -> Workspace:
    """Return the workspace that `look_from` finds. Raise NoWorkspaceError if there is none."""
    found = look_from(start, environment)
    if isinstance(found, Workspace):
        return _writable(found)
    if found is not None:
        raise NoMemoryError(
            str(found.main), "has no memory yet", "the first note makes one, and so does 'dreamd init'"
        )
    here = os.path.realpath(start)
    advice = f"run 'dreamd init {here}' to make one"
    if is_everybodys(start, environment):
        advice = "go to the folder of a project, or use --global for what is true everywhere"
    raise NoWorkspaceError(f"{here} is in no repository and no workspace, so nothing is kept of it", advice)


def find_or_make(
    start: Path, environment: Mapping[str, str] = os.environ, *, may_make: Callable[[], str] = lambda: "auto"
) -> Workspace:
    """Return the workspace that `look_from` finds; a repository that has none gets one if `may_make` says "auto".

    Raise NoWorkspaceError as `find_workspace`.
    """
    found = look_from(start, environment)
    if not isinstance(found, Checkout):
        return find_workspace(start, environment)
    if (said := may_make()) != "auto":
        advice = f"connect.new is {said!r}: its owner may run 'dreamd init {found.main}'"
        raise NoMemoryError(str(found.main), "has no memory yet, so nothing was kept", advice)
    workspace = init_workspace(found.top, environment)
    workspace.disk().write_atomic(workspace.state / _UNTOLD, b"")
    return workspace


def is_untold(workspace: Workspace) -> bool:
    """Return whether the workspace was made by itself, and no session was told so yet."""
    return (workspace.state / _UNTOLD).exists()


def told(workspace: Workspace) -> None:
    """Record that a session was told that there is a memory."""
    workspace.disk().remove(workspace.state / _UNTOLD)


def _project_at(top: Path, environment: Mapping[str, str]) -> Checkout | None:
    """Return the checkout whose top is this folder, if it is a project of its own."""
    if is_everybodys(top, environment) or not os.path.lexists(top / ".git"):
        return None
    found = checkout_at(top)
    return found if found is not None and not is_everybodys(found.main, environment) else None


def require_wanted(folders: Iterable[Path], environment: Mapping[str, str] = os.environ) -> None:
    """Raise IgnoredError if the owner keeps one of the folders out."""
    for folder in folders:
        if is_ignored(folder, environment):
            raise IgnoredError(f"{folder} is ignored, so nothing is kept of it", f"'dreamd init {folder}' lifts that")


def _writable(workspace: Workspace) -> Workspace:
    for path in (workspace.state, workspace.root):
        if not os.access(path, os.W_OK | os.X_OK) and not is_read_only(path):
            raise StorageError(f"{path} is not writable by this user", access_to(path))
    return workspace


# ------------------------------------------------------------ making one


def require_project(folder: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Raise UsageError unless the folder may become a workspace without being named explicitly."""
    if is_everybodys(folder, environment):
        raise UsageError(
            f"{os.path.realpath(folder)} is no project: it is the home folder, or one that many share",
            "'dreamd init --global' makes a memory of what is true everywhere, 'dreamd init DIR' that of a project, "
            "and 'dreamd init --here DIR' insists on this folder",
        )


def repository_of(folder: Path, environment: Mapping[str, str] = os.environ) -> Checkout | None:
    """Return the checkout that a folder is in, if a memory of its repository may be made."""
    found = checkout_of(Path(os.path.realpath(folder)))
    return _project_at(found.top, environment) if found is not None else None


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
    return init_workspace(global_root(environment), environment, here=True)


def init_workspace(
    folder: Path,
    environment: Mapping[str, str] = os.environ,
    *,
    resume: bool = False,
    here: bool = False,
    strangers: Callable[[Path], Iterable[Path]] = lambda _: (),
) -> Workspace:
    """Make this user's memory of a folder, or of the repository that it is in, or return the existing one.

    Concurrent calls create only one. `resume`: continue with the state that it had before it was copied or created
    again. `here`: of this very folder, with MEMORY.md in it, also in a repository. `strangers` brings what was there
    before into the new root, and returns the files that came with the folder; no kill leaves them where they would
    count as the owner's. Raise UsageError, StorageError.
    """
    root = Path(os.path.realpath(folder))
    if root.exists() and not root.is_dir():
        raise UsageError(f"{root} is a file", "name the folder of the workspace")
    data, checkout = data_folder(environment), None if here else repository_of(root, environment)
    make_private_folder(data)
    with Disk(data).locked(data / LOCK, b""):
        if not resume and (known := _known_workspace(root, checkout, environment)) is not None:
            return workspaces.init_workspace(known)
        if checkout is None:
            root.mkdir(parents=True, exist_ok=True)
        path, kind = (root, Kind.FOLDER) if checkout is None else (checkout.common, Kind.REPOSITORY)
        number = _resumed(path, kind, data) if resume else _unused_id(data, checkout.main if checkout else root)
        place = Place.of(number, path, kind, checkout.main if checkout is not None else None)
        workspace = workspaces.init_workspace(place.workspace(data))
        if not resume:
            from state.stores.disk.strangers import list_strangers  # once in the life of a workspace

            list_strangers(workspace, strangers(workspace.root))
        if kind is Kind.FOLDER and os.path.isdir(root / STATE_FOLDER):  # noqa: PTH112 - Path.is_dir may raise here
            free = (f"{_ANOTHERS}{end}" for end in ("", *(f"-{count}" for count in range(2, 100))))
            aside = next(root / name for name in free if not os.path.lexists(root / name))
            Disk(root).rename(root / STATE_FOLDER, aside)  # that of somebody else, which is not looked at
        write_place(data, place)  # first, since an id without its place is a memory that was lost
        try:
            write_mark(place, data)
        except StorageError:  # nothing would ever find it, and the next note would make another one
            if not resume and kind is Kind.REPOSITORY:
                from shutil import rmtree  # it loads much

                rmtree(workspace.state, ignore_errors=True)
            raise
        return workspace


def _known_workspace(root: Path, checkout: Checkout | None, environment: Mapping[str, str]) -> Workspace | None:
    lookup = _Lookup(environment)
    with suppress(ForeignError):
        return lookup.at(root) if checkout is None else lookup.named(root)
    return None


def _unused_id(data: Path, folder: Path) -> str:
    while (data / (number := new_id(folder.name))).exists():
        pass
    return number


def _resumed(path: Path, kind: Kind, data: Path) -> str:
    """Return the id of the state that this folder or repository is to continue with. Raise UsageError without one."""
    ids = (id_in(path),) if kind is Kind.FOLDER else ids_of_repository(path)
    number = next((one for one in ids if one is not None and (data / one).exists()), None)
    places = [one for one in all_places(data) if one.id == number or (number is None and one.path == path)]
    for place in places:
        if place.path != path and place.is_named_there():
            what = f"{path} is a copy, and {place.path} goes on with that memory"
            raise UsageError(what, "move it back, or away")
    if number is not None and (data / number / "state.db").exists():
        return number
    if len(places) != 1:
        raise UsageError(f"no memory of yours was in {path}", f"'dreamd init {path}' makes a new one")
    return places[0].id


# ------------------------------------------------------------ transcripts that are outside of it


def dream_log(workspace: Workspace) -> Path:
    """Return the log of the last dream that a hook started without a daemon; each such dream rewrites it."""
    return workspace.state / _DREAM_LOG


def vouched(workspace: Workspace) -> frozenset[str]:
    """Return the files outside the workspace, links resolved, that its owner named as transcripts to learn from."""
    content = workspace.disk().read_optional(workspace.state / _VOUCHED) or b""
    return frozenset(os.fsdecode(line) for line in content.split(b"\n") if line)


def vouch(workspace: Workspace, transcript: Path) -> None:
    """Record this file (links resolved) as one that the owner or an agent's hook has named."""
    real = os.path.realpath(transcript)
    if not Path(real).is_relative_to(workspace.root) and "\n" not in real and real not in vouched(workspace):
        workspace.disk().append_locked(workspace.state / _VOUCHED, os.fsencode(real) + b"\n", b"")


def unvouch(workspace: Workspace, holds: Callable[[str], bool]) -> None:
    """Remove files from the list if `holds` accepts their names."""
    known = vouched(workspace)
    kept = sorted(name for name in known if not holds(name))
    if len(kept) < len(known):
        rows = b"".join(os.fsencode(name) + b"\n" for name in kept)
        workspace.disk().write_atomic(workspace.state / _VOUCHED, rows)


# ------------------------------------------------------------ whose a folder is


class _Lookup:
    """Looks up folders with at most one reading of the registry, which only folders without `.dreamd` need."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._data = data_folder(environment)

    def named(self, folder: Path) -> Workspace | None:
        """Return the workspace with this root or state, or that of the repository that the folder is in.

        Return None if there is none. Raise ForeignError, StorageError.
        """
        found = self.at_or_around(folder)
        return self._around(folder) if found is None else found

    def at_or_around(self, folder: Path) -> Workspace | None:
        """Return what `at` returns; where that is a stranger's, which git may have brought, the repository's memory.

        Raise ForeignError, StorageError.
        """
        try:
            return self.at(folder)
        except ForeignError:
            if (found := self._around(folder)) is None:
                raise
            return found

    def _around(self, folder: Path) -> Workspace | None:
        checkout = repository_of(folder, self._environment)
        return self.of_repository(checkout) if checkout is not None else None

    def at(self, root: Path) -> Workspace | None:
        """Return the workspace in this folder, or with this state; None if there is none.

        Raise ForeignError, StorageError.
        """
        if is_id(root.name) and root.parent == self._real_data:
            state = read_place(self._data, root.name)
            return state.workspace(root.parent) if state is not None else None
        number = id_in(root)
        place = read_place(self._data, number) if number is not None else None
        if place is None and os.path.isdir(root):  # noqa: PTH112 - Path.is_dir may raise here
            place = next((one for one in self._folders if one.path == root and one.is_folder(root)), None)
        if place is not None and place.kind is Kind.FOLDER:
            return self._in_place(place, root)
        if number is None and not os.path.isdir(root / STATE_FOLDER):  # noqa: PTH112 - as above
            return None
        raise ForeignError(
            f"{root / STATE_FOLDER} is of a memory that is not yours, so nothing of it is used",
            f"'dreamd init {root}' makes the folder a workspace of your own, and shows what is in MEMORY.md",
        )

    def of_repository(self, checkout: Checkout) -> Workspace | None:
        """Return the memory of a repository; None if it has none, as a copy, a clone, or one that was made anew.

        A linked worktree shares a workspace that is in the folder of the main checkout.
        """
        places = (read_place(self._data, number) for number in ids_of_repository(checkout.common))
        place = next(filter(None, places), None)
        if place is None or place.kind is not Kind.REPOSITORY:
            return self.at(checkout.main) if checkout.main not in (checkout.top, checkout.common) else None
        if not place.is_folder(checkout.common) and place.path != checkout.common and place.is_named_there():
            return None
        other = checkout_at(place.project) if place.project != checkout.main else None
        is_others = other is not None and other.common == checkout.common
        if is_others and checkout.own == checkout.common:
            return None  # this folder has a `.git` file that names another one's repository
        # A linked worktree is named by the repository, which may not say where its main checkout is.
        main = place.project if is_others else checkout.main
        now = place.now_at(checkout.common, main)
        if now != place:
            with suppress(StorageError):  # a later call does it
                write_place(self._data, now)
        return now.workspace(self._real_data)

    @cached_property
    def _real_data(self) -> Path:
        return Path(os.path.realpath(self._data))

    @cached_property
    def _folders(self) -> tuple[Place, ...]:
        return tuple(place for place in all_places(self._data) if place.kind is Kind.FOLDER)

    def _in_place(self, place: Place, root: Path) -> Workspace:
        workspace = Workspace(root, self._data / place.id)
        if place.is_folder(root):
            if place.path != root and not place.is_folder(place.path):
                self._follow(place, root)
            _write_again(workspace, place)
            return workspace
        if place.path == root:  # the disk got a new number, or the folder was restored from a backup
            with suppress(StorageError):
                write_place(self._data, place.now_at(root))
            return workspace
        if place.is_named_there():
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
        with suppress(StorageError):
            write_place(self._data, place._replace(path=root, project=root))


def _write_again(workspace: Workspace, place: Place) -> None:
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
        write_mark(place._replace(path=workspace.root), workspace.state.parent)
