"""Workspace: makes a folder a workspace, has the daemon keep it, and shows the next steps."""

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from daemon.api.client import NoDaemonError, daemon
from daemon.cli.agents import connected, told_git
from daemon.cli.ingest_found import offer
from daemon.cli.parsing import FOLDER, arg, command, config_of, named_folder
from daemon.cli.terminal import agreed, can_ask, out, say, show_json, show_notices
from daemon.config import registry
from daemon.config.paths import program, registry_path
from daemon.config.settings import Config
from daemon.connect.agent import Place, Scope
from daemon.connect.agents import AGENTS, installed
from daemon.connect.plan import read_record
from daemon.ingest.existing_memory import Kind
from daemon.ingest.seed import Found, came_with, migrate, set_aside, take_in, take_over
from daemon.workspace.adoption import (
    init_global_workspace,
    init_workspace,
    linked_worktree,
    require_project,
    shared_folder,
    workspace_at,
)
from daemon.workspace.stores import open_exclusive, utc_now
from state.errors import UnknownWorkspaceError
from state.stores.disk.lock import present_holder
from state.stores.disk.strangers import strangers_files
from state.stores.disk.workspace import Workspace
from state.stores.git.exclude import Excluded, keep_out, take_back, written_by_init
from state.stores.vectors.embedder import is_there, missing
from state.text.words import counted

_MOST_SHOWN, _LONGEST_SHOWN = 5, 200
_OPTIONS = {
    "--mine": "what is there (MEMORY.md, notes, transcripts, GENOME.md, economics.json) is your own, whoever brought"
    " it; later, too",
    "--resume": "go on with your memory of this folder: it was moved between disks, copied while the old one is gone,"
    " or made again",
    "--no-daemon": "no daemon shall look after it; one that does lets it go",
    "--separate": "in a git worktree: a workspace of its own, not that of its repository",
    "--in-git": "MEMORY.md is to be tracked by git: it alone is not kept out of it",
    "--here": "also in your home folder, or in one of the system's such as /tmp",
}


@command(*(arg(option, action="store_true", help=about) for option, about in _OPTIONS.items()), *FOLDER)
def init(arguments: argparse.Namespace) -> int:
    """Create a workspace, take in an existing MEMORY.md, and show how to connect an agent.

    The folder is the working directory unless one is named. Doing it again is harmless.
    """
    config, named = config_of(arguments), named_folder(arguments) or Path.cwd()
    tree = None if arguments.separate or arguments.everywhere else linked_worktree(named)
    shared = shared_folder(named) if tree is not None else None
    folder = shared or named
    is_known = workspace_at(folder) is not None
    if not is_known and not arguments.here and not arguments.everywhere:
        require_project(folder)
    came = () if is_known or arguments.resume else _strangers(folder, config, arguments)
    moved = set_aside(folder) if came else {}
    if arguments.everywhere:
        workspace = init_global_workspace()
    else:
        workspace = init_workspace(folder, resume=arguments.resume, strangers=[moved.get(one, one) for one in came])
    own = _taken_over(workspace, config) if arguments.mine else ()
    seeded = _seeded(workspace, config)
    kept = keep(workspace, wanted=not arguments.no_daemon)
    git = told_git(lambda: _exclude_from_git(workspace, in_git=arguments.in_git))
    if arguments.json:
        made = {"workspace": workspace.root, "created": not is_known, "seed_crystals": seeded or 0}
        made |= {"backup": workspace.backup if workspace.backup.exists() else None, "daemon": kept}
        made |= {"worktree_of": tree.repository if tree is not None and shared is not None else None, "git": git}
        made |= {"strangers": strangers_files(workspace)}
        show_json(made)
        return 0
    out(f"{workspace.root} is a workspace{'' if is_known else ' now'}")
    if git.names:
        out(f"kept out of git by {git.file}: {', '.join(git.names)}")
    if tree is not None and shared is not None:
        out(f"{tree.top} is a worktree of {tree.repository}, and all of them have this one workspace")
        out("'dreamd init --separate' in a worktree gives it one of its own")
    elif tree is not None:
        out(f"this worktree has it for itself: its repository {tree.repository} has no main checkout to keep it in")
        out("'dreamd init DIR' of a folder above all its worktrees gives them one together")
    _show_seeded(workspace, seeded, moved)
    if own:
        out(f"yours from now on: {_named(workspace, own)}")
    offer(workspace)
    if arguments.everywhere:
        out("it holds what is true in all your projects: dreamd note --global TEXT, dreamd dream --global")
    else:
        show_next_steps(workspace, kept=kept, wanted=not arguments.no_daemon)
    if not is_there(config.embeddings.model):
        show_notices([missing(config.embeddings.model)])
    return 0


def _exclude_from_git(workspace: Workspace, *, in_git: bool) -> Excluded:
    """Exclude dreamd's files in the workspace from the repository around it; with `in_git` all but MEMORY.md."""
    written = written_by_init(workspace)
    if in_git:
        written.remove(workspace.document)
        take_back(workspace.root, [workspace.document])
    return keep_out(workspace.root, written)


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
    for path, aside in moved.items():
        out(f"{path.relative_to(workspace.root)} is {aside.relative_to(workspace.root)} now")
    strangers = strangers_files(workspace)
    if seeded is not None and not strangers:
        copy = f"; the file is as it was, and {workspace.backup.name} is a copy of it"
        out(f"MEMORY.md: {counted(seeded, 'crystal')} made of it{copy}")
    elif seeded:
        out(f"{counted(seeded, 'crystal')} made of it, as a stranger's word: search has it, and no dream")
    if strangers:
        out(f"a stranger's, so no rule and no word of yours: {_named(workspace, strangers)}")
        out(f"if they are yours: dreamd init --mine {shlex.quote(str(workspace.root))}")


def _named(workspace: Workspace, paths: Sequence[Path]) -> str:
    names = [str(path.relative_to(workspace.root)) for path in paths[:_MOST_SHOWN]]
    more = len(paths) - len(names)
    return ", ".join(names) + (f" and {counted(more, 'other')}" if more else "")


def _taken_over(workspace: Workspace, config: Config) -> Sequence[Path]:
    """Make what came with the folder the owner's; return these files."""
    files, again = take_over(workspace, config)
    if again:
        from daemon.api.dispatch import Caller
        from daemon.api.operations.notes import ExistingFile, ingest

        caller = Caller(workspace, config, "dreamd init", on_notice=lambda one: show_notices([one]))
        read = tuple(ExistingFile(path=str(path), kind=Kind.INSTRUCTIONS, own=True) for path in again)
        caller.ask(ingest, files=read)
    return files


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


def keep(workspace: Workspace, *, wanted: bool) -> bool:
    """Register the workspace with the running daemon, or for the next one; return whether one keeps it now.

    Not `wanted`: no daemon keeps it, whoever asks, until 'dreamd init' runs without `--no-daemon`.
    """
    client = daemon()
    if not wanted:
        registry.exclude(registry_path(os.environ), workspace.root)
        if client is not None:
            with suppress(NoDaemonError, UnknownWorkspaceError):
                client.post("/v1/release", {"name": registry.name_of(workspace.root)})
        return False
    if client is not None:
        with suppress(NoDaemonError):
            client.post("/v1/register", {"path": str(workspace.root)})
            return True
    registry.add(registry_path(os.environ), workspace.root)
    return False


def show_next_steps(workspace: Workspace, *, kept: bool, wanted: bool) -> None:
    """Print who dreams in the workspace and how to connect agents; at a terminal, offer to connect them."""
    if kept:
        out("the daemon dreams in it from now on")
    elif wanted:
        out("'dreamd install-service' makes a daemon that dreams in it by itself; until then: dreamd dream")
    out("")
    found, root, dreamd = installed(os.environ), str(workspace.root), program()
    place = Place(Scope.PROJECT, workspace.root, workspace.root, dreamd, os.environ)
    titles = ", ".join(one.title for one in found)
    if found and can_ask() and agreed(f"{titles}: shall dreamd show how it would connect them here?"):
        said = argparse.Namespace(json=False, yes=False, dry_run=False, config=None)
        connected(found, place, read_record(os.environ), said)
        return
    here = f"here: {titles}" if found else f"dreamd knows {', '.join(one.title for one in AGENTS)}"
    out(f"Connect your agents ({here}):\n\n  dreamd connect -w {shlex.quote(root)}\n")
    out(f"Any other agent with MCP: the same server, over stdio:\n  {shlex.join(place.command())}\n")
    out("Without MCP: put what the first command prints into the system prompt, and tell the agent of the second:")
    out(f"  {shlex.join([*dreamd, 'bootstrap', root])}")
    out(f"  {shlex.join([*dreamd, 'note', '-w', root, 'what is worth remembering'])}\n")
    out("docs/agents.md of dreamd has LangGraph, other frameworks and loops of your own.")
