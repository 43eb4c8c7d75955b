"""Connect agents: their own files name dreamd, which is shown first and can be taken out again."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from daemon.cli.parsing import takes_workspace, workspace_of
from daemon.cli.terminal import agreed, can_ask, out, say, show_json, show_unified
from daemon.config.paths import home, program
from daemon.connect import record
from daemon.connect.agent import Agent, Place, Scope
from daemon.connect.agents.table import AGENTS, agent_of, installed
from daemon.connect.check import check
from daemon.connect.plan import Backup, Plan, carry_out, to_connect
from daemon.connect.record import Connection
from daemon.workspace.adoption import init_global_workspace
from daemon.workspace.stores import utc_now
from state.errors import NothingToDoError, UsageError
from state.stores.disk.workspace import Workspace


def add(parser: argparse.ArgumentParser) -> None:
    """Which agents, where, and how."""
    takes_agents(parser, "those that are installed")
    parser.add_argument(
        "--check", action="store_true", help="change nothing; see in each agent's own way that it works"
    )
    parser.add_argument(
        "--trust", action="store_true", help="tell the agent that you trust this project and these hooks (Codex)"
    )
    parser.add_argument(
        "--no-auto-memory", action="store_true", help="turn off the memory that the agent keeps beside (Claude Code)"
    )
    takes_workspace(parser)


def takes_agents(parser: argparse.ArgumentParser, usual: str) -> None:
    """The agents, the scope, and how much is asked; for `connect` and `disconnect`."""
    names = ", ".join(one.name for one in AGENTS)
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=f"{names}; without one, {usual}")
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "--project",
        dest="scope",
        action="store_const",
        const=Scope.PROJECT,
        help="in this project alone: the default",
    )
    scope.add_argument(
        "--user",
        dest="scope",
        action="store_const",
        const=Scope.USER,
        help="in all projects: each with its own workspace, and the global one where there is none",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    parser.add_argument("--yes", action="store_true", help="ask nothing")


def run(arguments: argparse.Namespace) -> int:
    """Show each change, ask at a terminal, write it with a backup of the file; or check."""
    place, known = place_of(arguments), record.read(os.environ)
    found = {one.name: known.find(one.name, place.scope, project_of(place)) for one in AGENTS}
    agents = tuple(map(agent_of, arguments.agents)) or installed(os.environ)
    if arguments.check:
        meant = [one for one in AGENTS if found[one.name] is not None] if not arguments.agents else agents
        return _check([(one, found[one.name]) for one in meant or agents], json=arguments.json)
    if not agents:
        names = ", ".join(one.name for one in AGENTS)
        raise NothingToDoError("no agent that dreamd knows is installed here", f"name one all the same: {names}")
    plans = [to_connect(one, place, found[one.name], utc_now()) for one in agents]
    carry_out_plans(plans, arguments, "connected")
    if not arguments.json:
        _advise(agents)
        if place.workspace is not None:
            from daemon.cli.ingest_found import offer

            offer(workspace_of(arguments))
    return 0


def connect_all(workspace: Workspace, agents: Sequence[Agent]) -> None:
    """What `dreamd connect` does for these agents in the workspace's folder."""
    known = record.read(os.environ)
    place = Place(Scope.PROJECT, workspace.root, workspace.root, program(), os.environ)
    plans = [
        to_connect(one, place, known.find(one.name, place.scope, project_of(place)), utc_now()) for one in agents
    ]
    carry_out_plans(plans, argparse.Namespace(json=False, yes=False, dry_run=False), "connected")
    _advise(agents)


def _advise(agents: Sequence[Agent]) -> None:
    for one in agents:
        for line in one.advice:
            say(f"{one.title}: {line}")


def place_of(arguments: argparse.Namespace) -> Place:
    """What is connected to what. Raises UsageError without a workspace, and for a home folder as a project."""
    auto_memory, trust = not getattr(arguments, "no_auto_memory", False), getattr(arguments, "trust", False)
    if arguments.scope is Scope.USER:
        init_global_workspace()
        return Place(Scope.USER, Path.cwd(), None, program(), os.environ, auto_memory, trust)
    workspace = workspace_of(arguments)
    project = project_folder(Path.cwd(), workspace.root)
    if project == home(os.environ):
        raise UsageError(f"{project} is your home and no project", "--user connects an agent in all projects")
    return Place(Scope.PROJECT, project, workspace.root, program(), os.environ, auto_memory, trust)


def project_folder(start: Path, workspace: Path) -> Path:
    """The folder in which agents are started: the workspace around this one, else the repository, else this one."""
    if start.is_relative_to(workspace):
        return workspace
    return next((folder for folder in (start, *start.parents) if os.path.lexists(folder / ".git")), start)


def project_of(place: Place) -> str:
    """The project as the record has it."""
    return "" if place.scope is Scope.USER else str(place.project)


def carry_out_plans(plans: list[Plan], arguments: argparse.Namespace, done: str) -> None:
    """Show what each changes, ask, and do it. `done` is what an agent is afterwards."""
    backups, changed = list[Backup](), list[str]()
    for plan in plans:
        if not arguments.json:
            _show(plan, done)
        if arguments.dry_run or (plan.connection == plan.last and not plan.changes):
            continue
        if not (arguments.yes or arguments.json or not can_ask() or not plan.changes or agreed("Write this?")):
            continue
        backups += carry_out(plan, os.environ, utc_now())
        changed.append(plan.agent)
    if arguments.json:
        show_json({"agents": [_described(plan) for plan in plans], "changed": changed, "backups": backups})
        return
    for backup in backups:
        out(f"{backup.path}: written" + (f"; what it held is in {backup.copy}" if backup.copy else ""))
    for plan in plans:
        if plan.agent in changed or not plan.changes:
            out(f"{plan.agent} is {done}")


def _show(plan: Plan, done: str) -> None:
    if not plan.changes:
        say(f"{plan.agent}: nothing to change, it is {done}")
    for file in plan.changes:
        show_unified(file.diff)
    for file in plan.files:
        for left in file.change.left:
            say(f"{file.path}: {'.'.join(left.path)} was changed by somebody since, and stays")


def _described(plan: Plan) -> dict[str, object]:
    return {
        "agent": plan.agent,
        "files": [{"path": str(file.path), "diff": file.diff} for file in plan.changes],
        "left": [".".join(left.path) for file in plan.files for left in file.change.left],
    }


def _check(agents: Sequence[tuple[Agent, Connection | None]], *, json: bool) -> int:
    """Try each; 1 when something of one is wrong."""
    found = list[dict[str, object]]()
    sound = True
    for agent, connection in agents:
        for one in check(agent, connection, os.environ):
            sound &= one.sound
            found.append({"agent": agent.name, "what": one.what, "sound": one.sound, "advice": one.advice})
            if not json:
                out(f"{agent.name}: {'ok' if one.sound else 'WRONG'}: {one.what}")
                if not one.sound and one.advice:
                    out(f"  {one.advice}")
    if json:
        show_json({"checks": found})
    elif not found:
        out("no agent is connected here, and none that dreamd knows is installed")
    return 0 if sound and found else 1
