"""Workspace: gives a folder or repository a memory, has the daemon keep it, and says where it is."""

import argparse
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from daemon.api.keeping import keep
from daemon.cli.ingest_found import offer
from daemon.cli.parsing import FOLDER, JSON, arg, command, config_of, named_folder, workspace_of
from daemon.cli.terminal import agreed, can_ask, out, say, show_json, show_notices
from daemon.config.ignored import ignore as keep_ignored
from daemon.config.ignored import ignored, is_ignored, lift
from daemon.config.paths import data_folder, is_global, program
from daemon.config.settings import Config
from daemon.ingest.existing_memory import Kind
from daemon.ingest.seed import Found, brought, came_with, migrate, set_aside, take_in, take_over
from daemon.workspace.adoption import (
    init_global_workspace,
    init_workspace,
    repository_of,
    require_project,
    told,
    workspace_at,
)
from daemon.workspace.stores import open_exclusive, utc_now
from state.errors import NothingToDoError
from state.stores.disk.lock import present_holder
from state.stores.disk.places import kept_roots, project_of
from state.stores.disk.strangers import strangers_files
from state.stores.disk.workspace import STATE_FOLDER, Workspace
from state.stores.vectors.embedder import is_there, missing
from state.text.words import counted

_MOST_SHOWN, _LONGEST_SHOWN = 5, 200
_OPTIONS = {
    "--here": "MEMORY.md and memory/ in this very folder: also in a repository, in your home, or in one of the"
    " system's folders such as /tmp",
    "--mine": "what is there (MEMORY.md, notes, transcripts, GENOME.md, economics.json) is your own, whoever brought"
    " it; later, too",
    "--resume": "go on with your memory of this folder or repository: it was moved between disks, copied while the"
    " old one is gone, or made again",
    "--no-daemon": "no daemon shall look after it; one that does lets it go",
}


@command(*(arg(option, action="store_true", help=about) for option, about in _OPTIONS.items()), *FOLDER)
def init(arguments: argparse.Namespace) -> int:
    """Give a repository or folder a memory, and take in an existing MEMORY.md.

    Of a git repository nothing is in its tree: the memory, one for all worktrees, is in your data folder ('dreamd
    path' says where). Any other folder has MEMORY.md and memory/ in it. The folder is the working directory unless
    one is named. Doing it again is harmless.
    """
    config, folder = config_of(arguments), named_folder(arguments) or Path.cwd()
    here = arguments.here or arguments.everywhere
    repository = None if here else repository_of(folder)
    project = folder if repository is None else repository.top
    is_known = (_in_folder(folder) if here else workspace_at(folder)) is not None
    if not is_known and not here:
        require_project(project)
    is_lifted = lift(Path(os.path.realpath(project if repository is None else repository.main)), os.environ)
    came = () if is_known or arguments.resume else _strangers(project, config, arguments)
    moved = dict[Path, Path]()
    workspace = init_global_workspace() if arguments.everywhere else _made(folder, project, came, moved, arguments)
    told(workspace)
    own = _taken_over(workspace, config) if arguments.mine else ()
    if is_known and workspace.is_apart:
        _take_in_late(project / workspace.document.name, workspace, config, own=arguments.mine)
    seeded = _seeded(workspace, config)
    kept = keep(workspace, wanted=not arguments.no_daemon)
    if arguments.json:
        made = {"workspace": workspace.root, "project": project_of(workspace), "created": not is_known}
        made |= {"seed_crystals": seeded or 0, "backup": workspace.backup if workspace.backup.exists() else None}
        show_json(made | {"daemon": kept, "strangers": strangers_files(workspace)})
        return 0
    _show_place(workspace, folder, is_known=is_known)
    if is_lifted:
        out("it was ignored, and is not any more")
    _show_seeded(workspace, seeded, moved)
    if own:
        out(f"yours from now on: {_named(workspace, own)}")
    offer(workspace)
    if arguments.everywhere:
        out("it holds what is true in all your projects: dreamd note --global TEXT, dreamd dream --global")
    else:
        show_next_steps(workspace, kept=kept, wanted=not arguments.no_daemon, is_new=not is_known)
    if not is_there(config.embeddings.model):
        show_notices([missing(config.embeddings.model)])
    return 0


@command(*FOLDER)
def path(arguments: argparse.Namespace) -> int:
    """Print where MEMORY.md of a folder or repository is, for a program that reads the file itself."""
    workspace = workspace_of(arguments)
    if arguments.json:
        show_json({"memory": workspace.document, "workspace": workspace.root, "project": project_of(workspace)})
    else:
        out(str(workspace.document))
    return 0


@command(
    arg("projects", nargs="*", metavar="DIR|GLOB", help="what to keep out; without one, list what is"),
    JSON,
)
def ignore(arguments: argparse.Namespace) -> int:
    """Keep projects out of every memory, with all that is below them: hooks are silent, and tools say so.

    A memory that is there stays as it is, and is neither read nor dreamt in. 'dreamd init DIR' lifts it.
    """
    for one in arguments.projects:
        keep_ignored(one, os.environ)
    for root in kept_roots(data_folder(os.environ)) if arguments.projects else ():
        workspace = workspace_at(root) if not is_global(root, os.environ) else None
        if workspace is not None and is_ignored(project_of(workspace), os.environ):
            keep(workspace, wanted=False)
    rows = ignored(os.environ)
    if arguments.json:
        show_json({"ignored": rows})
    elif not rows:
        raise NothingToDoError("no project is ignored", "'dreamd ignore DIR' keeps one out")
    for row in () if arguments.json else rows:
        out(f"{row[1:]} (remembered all the same)" if row.startswith("!") else row)
    return 0


def _made(
    folder: Path, project: Path, came: Sequence[Path], moved: dict[Path, Path], arguments: argparse.Namespace
) -> Workspace:
    """Make the workspace, with what was in the project before; `moved` gets the files that were renamed."""

    def strangers(root: Path) -> Iterable[Path]:
        if root != Path(os.path.realpath(project)):
            brought(project, root, config_of(arguments))
        if came:
            moved.update(set_aside(root))
        names = (root / path.relative_to(os.path.realpath(project)) for path in came)
        return [moved.get(one, one) for one in names]

    return init_workspace(folder, resume=arguments.resume, here=arguments.here, strangers=strangers)


def _in_folder(folder: Path) -> Workspace | None:
    """Return the workspace whose files are in this very folder."""
    found = workspace_at(folder)
    return found if found is not None and found.root == Path(os.path.realpath(folder)) else None


def _show_place(workspace: Workspace, folder: Path, *, is_known: bool) -> None:
    project, now = project_of(workspace), "" if is_known else " now"
    if workspace.is_apart:
        out(f"{project} has a memory{now}, in {workspace.root}")
        if not Path(os.path.realpath(folder)).is_relative_to(project):
            out("it is one for all worktrees of the repository")
        return
    out(f"{workspace.root} is a workspace{now}")
    above = next((one for one in workspace.root.parents if _in_folder(one) is not None), None)
    if above is not None:
        out(f"it has a memory of its own, apart from that of {above} around it")
    if repository_of(workspace.root) is not None:
        names = ("MEMORY.md*", "memory/", "transcripts/", STATE_FOLDER)
        out(f"git sees what is in it; to keep it out, add to .gitignore: {' '.join(names)}")


def _strangers(folder: Path, config: Config, arguments: argparse.Namespace) -> Sequence[Path]:
    """Return the files that came with the folder, unless the person says that they are theirs.

    Show them, and ask at a terminal; set `arguments.mine` accordingly.
    """
    found = () if arguments.mine else came_with(folder, config)
    if found:
        _show_found(folder, found)
        arguments.mine = not arguments.json and can_ask() and agreed("Are these your own words?")
    return () if arguments.mine else [path for one in found for path in one.paths]


def _show_found(folder: Path, found: Sequence[Found]) -> None:
    say(f"{folder} holds what may be somebody else's:")
    for one in found:
        say(f"  {one.about}")
        for line in one.lines[:_MOST_SHOWN]:
            say(f"    > {line[:_LONGEST_SHOWN]}")
        if len(one.lines) > _MOST_SHOWN:
            say(f"    … and {len(one.lines) - _MOST_SHOWN:,} more")


def _show_seeded(workspace: Workspace, seeded: int | None, moved: Mapping[Path, Path]) -> None:
    """Say what became of what was there, what of it is a stranger's, and how to take that over."""
    for before, aside in moved.items() if not workspace.is_apart else ():
        out(f"{before.relative_to(workspace.root)} is {aside.relative_to(workspace.root)} now")
    strangers = strangers_files(workspace)
    if seeded is not None and not strangers:
        copy = f"; the file is as it was, and {workspace.backup.name} is a copy of it"
        out(f"MEMORY.md: {counted(seeded, 'crystal')} made of it{copy}")
    elif seeded:
        out(f"{counted(seeded, 'crystal')} made of it, as a stranger's word: search has it, and no dream")
    if strangers:
        out(f"a stranger's, so no rule and no word of yours: {_named(workspace, strangers)}")
        out(f"if they are yours: dreamd init --mine {shlex.quote(str(project_of(workspace)))}")


def _named(workspace: Workspace, paths: Sequence[Path]) -> str:
    names = [str(path.relative_to(workspace.root)) for path in paths[:_MOST_SHOWN]]
    more = len(paths) - len(names)
    return ", ".join(names) + (f" and {counted(more, 'other')}" if more else "")


def _taken_over(workspace: Workspace, config: Config) -> Sequence[Path]:
    """Make what came with the folder the owner's; return these files."""
    files, again = take_over(workspace, config)
    if again:
        _ingested(again, workspace, config, own=True)
    return files


def _take_in_late(path: Path, workspace: Workspace, config: Config, *, own: bool) -> None:
    """Have the MEMORY.md of a repository searched whose memory was made before anybody said what it is."""
    if path.is_file() and next(workspace.root.glob(f"{workspace.backup.name}*"), None) is None:
        taken = _ingested([path], workspace, config, own=own)
        whose = (
            "yours" if own else f"a stranger's; if it is yours: dreamd init --mine {shlex.quote(str(path.parent))}"
        )
        say(f"{path}: {counted(taken, 'new crystal')} made of it, {whose}")


def _ingested(paths: Sequence[Path], workspace: Workspace, config: Config, *, own: bool) -> int:
    """Have these files read as instructions, the owner's or a stranger's; return how many crystals are new."""
    from daemon.api.dispatch import Caller
    from daemon.api.operations.notes import ExistingFile, ingest

    caller = Caller(workspace, config, "dreamd init", on_notice=lambda one: show_notices([one]))
    read = tuple(ExistingFile(path=str(path), kind=Kind.INSTRUCTIONS, own=own) for path in paths)
    return caller.ask(ingest, files=read).crystals


def _seeded(workspace: Workspace, config: Config) -> int | None:
    """Take in a stranger's files, or an existing MEMORY.md of the owner's.

    Return how many crystals were made, or None if there was nothing to do.
    """
    if present_holder(workspace) is not None:  # the owner process does this before the first dream
        return None
    with open_exclusive(workspace, config, "dreamd init") as store:
        seeded = take_in(store) if strangers_files(workspace) else migrate(store, utc_now())
    show_notices(store.notices)
    return seeded


def show_next_steps(workspace: Workspace, *, kept: bool, wanted: bool, is_new: bool) -> None:
    """Print who dreams in the workspace and, of a new one, how agents come to it."""
    if kept:
        out("the daemon dreams in it from now on")
    elif wanted:
        out("'dreamd setup' has a daemon dream in it by itself; until then: dreamd dream")
    if not is_new:
        return
    out("\nAgents with plugins, once for all your projects: dreamd setup")
    dreamd, root = program(), str(project_of(workspace))
    out(f"Any other agent with MCP, in this folder:\n  {shlex.join([*dreamd, 'mcp', '-w', root])}")
    out("Without MCP: print the first into the system prompt, tell the agent the second:")
    out(f"  {shlex.join([*dreamd, 'bootstrap', root])}")
    out(f"  {shlex.join([*dreamd, 'note', '-w', root, 'what is worth remembering'])}")
