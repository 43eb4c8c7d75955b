"""`dreamd ingest --found`: shows what agents and people wrote down of a project before, asks, and has it taken in."""

import argparse
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.api.text import counted
from daemon.cli.ingest import ask_patiently
from daemon.cli.parsing import caller_of, workspace_of
from daemon.cli.terminal import agreed, can_ask, out, say, show_json, show_table, working
from daemon.config.paths import home
from daemon.connect.agents.table import agent_of
from daemon.ingest.existing_memory import ExistingMemory, Kind, existing_memory
from state.errors import NothingToDoError, UsageError
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.api.operations.notes import TakenIn

_KILO = 1_000


def run_found(arguments: argparse.Namespace) -> int:
    """Show it; take it in where a person agrees, or with `--yes`. 1 when nothing of it could be read."""
    workspace = workspace_of(arguments)
    agents = {agent_of(str(name)).name for name in arguments.paths}
    found = [one for one in existing_memory(workspace, os.environ) if not agents or not agents.isdisjoint(one.agents)]
    found = _said_to_be_own(found, arguments.mine, workspace)
    if not found:
        raise NothingToDoError(
            f"nothing of before was found for {workspace.root}", "'dreamd ingest PATH' reads what lies elsewhere"
        )
    if not arguments.json:
        _show(found, workspace)
    ask = can_ask() and not (arguments.yes or arguments.json)
    if ask and (strange := _strange(found)) and agreed(f"{_names(strange)}: are these your own words?"):
        found = [replace(one, own=one.own or one in strange) for one in found]
    wanted = agreed("Take this in?") if ask else arguments.yes
    taken = _taken(found, arguments) if wanted else None
    if arguments.json:
        show_json({"found": [_described(one) for one in found], "taken": taken})
    elif taken is not None:
        read = counted(taken.files - taken.unread, "file")
        out(f"{counted(taken.crystals, 'new crystal')} of {read}; the files are as they were")
    else:
        out("nothing was taken in" + ("" if ask else "; --yes takes it in"))
    return int(taken is not None and taken.unread == taken.files)


def offer(workspace: Workspace) -> None:
    """Say in one line what could be taken in, if there is anything."""
    found = existing_memory(workspace, os.environ)
    if found:
        sessions = sum(len(one.files) for one in found if one.kind is Kind.SESSIONS)
        memories = sum(len(one.files) for one in found if one.kind is Kind.MEMORY)
        named = [one.path.name for one in found if one.kind is Kind.INSTRUCTIONS]
        named += [counted(memories, "file") + " of agents' memory"] * bool(memories)
        named += [counted(sessions, "past session")] * bool(sessions)
        where = shlex.quote(str(workspace.root))
        out(f"Written down before: {', '.join(named)}. To take it in: dreamd ingest --found -w {where}")


def _said_to_be_own(
    found: Sequence[ExistingMemory], mine: Sequence[Path], workspace: Workspace
) -> list[ExistingMemory]:
    """Return those found, with `own` for the instructions that the person named. Raise UsageError for others."""
    named = {folder / path for path in mine for folder in (workspace.root, Path.cwd())}
    own = {one.path for one in found if one.kind is Kind.INSTRUCTIONS and one.path in named}
    for path in mine:
        if own.isdisjoint((workspace.root / path, Path.cwd() / path)):
            raise UsageError(f"--mine {path}: no instructions of that name were found", "leave it out")
    return [replace(one, own=one.own or one.path in own) for one in found]


def _taken(found: Sequence[ExistingMemory], arguments: argparse.Namespace) -> "TakenIn":
    from daemon.api.operations.notes import ExistingFile, take_in

    files = tuple(
        ExistingFile(path=os.path.abspath(path), kind=one.kind, own=one.own)  # noqa: PTH100 - links stay
        for one in found
        for path in one.files
        if _is_text(path)
    )
    if not files:
        raise UsageError("no file of these has a name in UTF-8", "rename them")
    with working("reading…") as tell:
        caller = caller_of(arguments, "ingest", lambda step: tell(step.figures))
        taken = ask_patiently(caller, take_in, files=files)
    for problem in taken.problems:
        say(f"problem: {problem}")
    if taken.more_problems:
        say(f"problem: {taken.more_problems:,} more")
    if taken.imports:
        say(f"{counted(taken.imports, 'import')} (@file) not followed: 'dreamd ingest PATH' reads such a file")
    return taken


def _show(found: Sequence[ExistingMemory], workspace: Workspace) -> None:
    rows = [
        (
            one.kind.value,
            ", ".join(one.agents),
            _short(one.path, workspace),
            f"{len(one.files):,}{'+' if one.more else ''}",
            _size(one.size_bytes),
        )
        for one in found
    ]
    show_table(("what", "agent", "where", "files", "size"), rows)
    if any(one.more for one in found):
        say("of the oldest sessions some are left out: 'dreamd ingest PATH' reads them")
    if strange := _strange(found):
        say(f"{_names(strange)}: may have come with the project, and is learnt as a stranger's word;")
        say("  what you or people whom you trust wrote is yours with --mine FILE")


def _strange(found: Sequence[ExistingMemory]) -> list[ExistingMemory]:
    return [one for one in found if one.kind is Kind.INSTRUCTIONS and not one.own]


def _names(found: Sequence[ExistingMemory]) -> str:
    return ", ".join(one.path.name for one in found)


def _described(one: ExistingMemory) -> dict[str, object]:
    return {
        "kind": one.kind.value,
        "agents": list(one.agents),
        "path": str(one.path),
        "files": len(one.files),
        "bytes": one.size_bytes,
        "own": one.own,
        "more": one.more,
    }


def _short(path: Path, workspace: Workspace) -> str:
    if path.is_relative_to(workspace.root):
        return str(path.relative_to(workspace.root))
    own = home(os.environ)
    return f"~/{path.relative_to(own)}" if path.is_relative_to(own) else str(path)


def _size(count: int) -> str:
    if count < _KILO:
        return f"{count} B"
    return f"{count / _KILO:,.1f} kB" if count < _KILO * _KILO else f"{count / _KILO / _KILO:,.1f} MB"


def _is_text(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        say(f"problem: {str(path)!a}: its name is not UTF-8")
        return False
    return True
