"""`dreamd ingest --found`: shows what agents and people wrote about a project before dreamd, and takes it in."""

import argparse
import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.api.shapes import table
from daemon.cli.parsing import workspace_of
from daemon.cli.perform import read_in
from daemon.cli.terminal import agreed, can_ask, out, say, show, show_json
from daemon.config.paths import home
from daemon.connect.agents import agent_of
from daemon.ingest.existing_memory import ExistingMemory, Kind, existing_memory, sessions_of_removed
from state.errors import NothingToDoError, UsageError
from state.stores.disk.places import project_of
from state.stores.disk.workspace import Workspace
from state.text.words import counted

if TYPE_CHECKING:
    from daemon.api.operations.notes import Ingested


def run_found(arguments: argparse.Namespace) -> int:
    """Show what was found; take it in if the person agrees, or with `--yes`. Return 1 if nothing could be read."""
    workspace = workspace_of(arguments)
    project = project_of(workspace)
    agents = {agent_of(str(name)).name for name in arguments.paths}
    found = [one for one in existing_memory(workspace, os.environ) if not agents or not agents.isdisjoint(one.agents)]
    found = _said_to_be_own(found, arguments.mine, workspace)
    for one in sessions_of_removed(workspace, os.environ):
        # Codex has the sessions of all projects in one folder.
        named = shlex.join(map(str, one.files if "codex" in one.agents else [one.path]))
        say(f"{counted(len(one.files), 'session')} of a folder that is gone; if it was a worktree of this project:")
        say(f"  dreamd ingest {named}")
    if not found:
        raise NothingToDoError(
            f"nothing of before was found for {project}", "'dreamd ingest PATH' reads what lies elsewhere"
        )
    strange = [one for one in found if one.kind is Kind.INSTRUCTIONS and not one.own]
    names = ", ".join(one.path.name for one in strange)
    if not arguments.json:
        show(_found_text(found, workspace))
        if any(one.more for one in found):
            say("of the oldest sessions some are left out: 'dreamd ingest PATH' reads them")
        if strange:
            say(f"{names}: may have come with the project, and is learnt as a stranger's word;")
            say("  what you or people whom you trust wrote is yours with --mine FILE")
    ask = can_ask() and not (arguments.yes or arguments.json)
    if ask and strange and agreed(f"{names}: are these your own words?"):
        found = [replace(one, own=one.own or one in strange) for one in found]
    wanted = agreed("Take this in?") if ask else arguments.yes
    taken = _taken(found, arguments) if wanted else None
    if arguments.json:
        show_json({"found": found, "taken": taken})
    elif taken is not None:
        read = counted(taken.files - taken.unread, "file")
        out(f"{counted(taken.crystals, 'new crystal')} of {read}; the files are as they were")
    else:
        out("nothing was taken in" + ("" if ask else "; --yes takes it in"))
    return int(taken is not None and taken.unread == taken.files)


def offer(workspace: Workspace) -> None:
    """Print in one line what could be taken in, if anything."""
    found = existing_memory(workspace, os.environ)
    named = [one.path.name for one in found if one.kind is Kind.INSTRUCTIONS]
    for kind, noun, more in ((Kind.MEMORY, "file", " of agents' memory"), (Kind.SESSIONS, "past session", "")):
        if count := sum(len(one.files) for one in found if one.kind is kind):
            named.append(counted(count, noun) + more)
    if named:
        where = shlex.quote(str(project_of(workspace)))
        out(f"Written down before: {', '.join(named)}. To take it in: dreamd ingest --found -w {where}")


def _said_to_be_own(
    found: Sequence[ExistingMemory], mine: Sequence[Path], workspace: Workspace
) -> list[ExistingMemory]:
    """Return the finds, with `own` set for instructions named by --mine. Raise UsageError if one was not found."""
    instructions, own = {one.path for one in found if one.kind is Kind.INSTRUCTIONS}, set[Path]()
    for path in mine:
        meant = instructions & {project_of(workspace) / path, Path.cwd() / path}
        if not meant:
            raise UsageError(f"--mine {path}: no instructions of that name were found", "leave it out")
        own |= meant
    return [replace(one, own=one.own or one.path in own) for one in found]


def _taken(found: Sequence[ExistingMemory], arguments: argparse.Namespace) -> "Ingested":
    from daemon.api.operations.notes import ExistingFile, ingest

    files = list[ExistingFile]()
    for one in found:
        for path in map(os.path.abspath, one.files):  # without resolving links
            if not any("\ud800" <= sign <= "\udfff" for sign in path):
                files.append(ExistingFile(path=path, kind=one.kind, own=one.own))
            else:
                say(f"problem: {path!a}: its name is not UTF-8")
    if not files:
        raise UsageError("no file of these has a name in UTF-8", "rename them")
    taken = read_in(arguments, ingest, files=tuple(files))
    for problem in (*taken.problems, *([f"{taken.more_problems:,} more"] if taken.more_problems else [])):
        say(f"problem: {problem}")
    if taken.imports:
        say(f"{counted(taken.imports, 'import')} (@file) not followed: 'dreamd ingest PATH' reads such a file")
    return taken


def _found_text(found: Sequence[ExistingMemory], workspace: Workspace) -> str:
    rows, own, root = list[tuple[str, ...]](), home(os.environ), project_of(workspace)
    for one in found:
        inside, at_home = one.path.is_relative_to(root), one.path.is_relative_to(own)
        path = one.path.relative_to(root if inside else own) if inside or at_home else one.path
        where = str(path) if inside or not at_home else f"~/{path}"
        files = f"{len(one.files):,}{'+' if one.more else ''}"
        size = f"{math.ceil(one.size_bytes / 1_000):,} kB"
        rows.append((one.kind.value, ", ".join(one.agents), where, files, size))
    return table("what,agent,where,files,size", rows)
