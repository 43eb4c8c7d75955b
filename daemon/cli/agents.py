"""Agents: connects them by adding dreamd to their own files, checks the connections, and removes them."""

import argparse
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from daemon.cli import terminal
from daemon.cli.parsing import WORKSPACE, Argument, Arguments, arg, command, workspace_of
from daemon.cli.terminal import agreed, can_ask, out, say, show_json
from daemon.config.layers import redaction, zone
from daemon.config.paths import home, program
from daemon.connect.agent import Agent, Place, Scope, State
from daemon.connect.agents import AGENTS, agent_of, installed
from daemon.connect.check import check
from daemon.connect.plan import Backup, Plan, Record, carry_out, read_record, to_connect, to_disconnect
from daemon.workspace.adoption import find_workspace, init_global_workspace
from daemon.workspace.agent_files import ShownMemory
from daemon.workspace.stores import utc_now
from state.codec import plain
from state.errors import NothingToDoError, UsageError

_NAMES = ", ".join(one.name for one in AGENTS)


_SCOPES = (
    arg(
        "--project", dest="scope", action="store_const", const=Scope.PROJECT,
        help="in this project alone: the default",
    ),
    arg(
        "--user", dest="scope", action="store_const", const=Scope.USER,
        help="in all projects: each with its own workspace, and the global one where there is none",
    ),
)  # fmt: skip


def _which(usual: str, *scopes: Argument) -> Arguments:
    """Return the arguments of both commands: agents, scope, and confirmation."""
    return (
        arg("agents", nargs="*", metavar="AGENT", help=f"{_NAMES}; without one, {usual}"),
        (*_SCOPES, *scopes),
        arg("--dry-run", action="store_true", help="show what would change, and change nothing"),
        arg("--yes", action="store_true", help="ask nothing, and write"),
        *WORKSPACE,
    )


@command(
    *_which("those that are installed"),
    arg("--check", action="store_true", help="change nothing; see in each agent's own way that it works"),
    arg("--trust", action="store_true", help="tell the agent that you trust this project and these hooks (Codex)"),
    arg(
        "--no-auto-memory", action="store_true",
        help="turn off the memory that the agent keeps beside (Claude Code)",
    ),
    arg(
        "--file", action="store_true",
        help="show the memory in a file that the agent reads, not by its hook (Claude Code, Cursor, Gemini CLI)",
    ),
)  # fmt: skip
def connect(arguments: argparse.Namespace) -> int:
    """Connect agents: their own files name dreamd, which is shown first and can be taken out again."""
    place, known = place_of(arguments), read_record(os.environ)
    named = tuple(map(agent_of, arguments.agents))
    if arguments.check:
        return _check(named, place, known, arguments)
    agents = named or installed(os.environ)
    if not agents:
        raise NothingToDoError("no agent that dreamd knows is installed here", f"name one all the same: {_NAMES}")
    if connected(agents, place, known, arguments) and not arguments.json and place.workspace is not None:
        from daemon.cli.ingest_found import offer

        offer(workspace_of(arguments))
    return 0


@command(
    *_which(
        "all that are connected there",
        arg("--all", action="store_true", help="in every project and for all projects, as to uninstall"),
    )
)
def disconnect(arguments: argparse.Namespace) -> int:
    """Disconnect agents: take out of their files exactly what 'dreamd connect' has put in.

    What somebody changed since stays.
    """
    project = None if arguments.all else project_of(place_of(arguments))
    names = {agent_of(name).name for name in arguments.agents}
    meant = [
        one
        for one in read_record(os.environ).connections
        if project in (None, one.project) and (not names or one.agent in names)
    ]
    if not meant:
        where = f"in {project}" if project else "anywhere" if project is None else "for all projects"
        raise NothingToDoError(f"no such agent is connected {where}", "'dreamd connect --check' lists what is")
    # Each plan is made after the one before was carried out, as two may change the same file.
    carry_out_plans((to_disconnect(one) for one in reversed(meant)), arguments, "disconnected")
    return 0


def connected(agents: Sequence[Agent], place: Place, known: Record, arguments: argparse.Namespace) -> bool:
    """Connect the agents, and print what is left to do by hand; return whether anything was written."""
    shown, now = _shown(place, arguments), utc_now()
    plans = [to_connect(one, place, known.find(one.name, project_of(place)), now, shown) for one in agents]
    changed = carry_out_plans(plans, arguments, "connected")
    if changed and place.scope is Scope.USER:
        init_global_workspace()
    for one in (one for one in agents if one.name in changed and not arguments.json):
        for line in () if place.trust and one.tries else one.advice:
            say(f"{one.title}: {line}")
        if place.scope is Scope.PROJECT and known.find(one.name, "") is not None:
            say(
                f"{one.title}: it is connected in all projects as well, and reads the memory twice;"
                f" 'dreamd disconnect {one.name} --user' or without --user takes one of them out"
            )
    return bool(changed)


def _shown(place: Place, arguments: argparse.Namespace) -> ShownMemory | None:
    """Return the memory to show in agents' files; None for all projects, where no file can show it."""
    if place.workspace is None:
        return None
    policy, here = redaction(arguments.config, os.environ), zone(arguments.config, os.environ)
    return ShownMemory(find_workspace(place.workspace), policy, os.environ, here)


def place_of(arguments: argparse.Namespace) -> Place:
    """Return the place to connect agents in. Raise UsageError without a workspace, or if the project is the home."""
    no_memory, trust, in_file = (getattr(arguments, name, False) for name in ("no_auto_memory", "trust", "file"))
    if arguments.scope is Scope.USER:
        if in_file:
            raise UsageError("a file shows the memory of one project", "--file without --user")
        return Place(Scope.USER, Path.cwd(), None, program(), os.environ, not no_memory, trust)
    start, root = Path.cwd(), workspace_of(arguments).root
    # Agents start in the workspace around this folder, else at the root of its repository, else in the folder itself.
    repositories = (one for one in (start, *start.parents) if os.path.lexists(one / ".git"))
    project = root if start.is_relative_to(root) else next(repositories, start)
    if project == home(os.environ):
        raise UsageError(f"{project} is your home and no project", "--user connects an agent in all projects")
    return Place(Scope.PROJECT, project, root, program(), os.environ, not no_memory, trust, in_file)


def project_of(place: Place) -> str:
    """Return the project as connections record it: its path, or empty for all projects."""
    return "" if place.scope is Scope.USER else str(place.project)


def carry_out_plans(plans: Iterable[Plan], arguments: argparse.Namespace, done: str) -> list[str]:
    """Show each plan, ask, and carry it out; return the names of the agents that changed.

    Without a person at a terminal to ask, only --yes writes. `done`: the verb for messages, such as "connected".
    """
    seen, changed, backups = list[Plan](), list[Plan](), list[Backup]()
    for plan in plans:
        seen.append(plan)
        if not arguments.json:
            _show(plan, done)
        if arguments.dry_run:
            continue
        if plan.connection != plan.last or plan.changes:
            if plan.changes and not _agreed(plan, arguments):
                continue
            backups += carry_out(plan, os.environ, utc_now())
            changed.append(plan)
    agents = [plan.agent for plan in changed]
    if arguments.json:
        described = [
            {
                "agent": plan.agent,
                "files": [{"path": str(file.path), "diff": file.diff} for file in plan.changes],
                "left": [".".join(left.path) for file in plan.files for left in file.left],
            }
            for plan in seen
        ]
        show_json({"agents": described, "changed": agents, "backups": backups})
        return agents
    for backup in backups:
        what = "written" if backup.remains else "removed, for nothing else was in it"
        out(f"{backup.path}: {what}" + (f"; what it held is in {backup.copy}" if backup.copy else ""))
    for plan in changed:
        left = any(file.left for file in plan.files)
        out(f"{plan.agent} is {done}" + (", but for what somebody changed since" if left else ""))
    return agents


def _agreed(plan: Plan, arguments: argparse.Namespace) -> bool:
    ask = can_ask() and not arguments.json
    if arguments.yes or (ask and agreed(f"{plan.agent}: write this?")):
        return True
    if not arguments.json:
        say(f"{plan.agent}: nothing was written" + ("" if ask else "; --yes writes it"))
    return False


def _show(plan: Plan, done: str) -> None:
    if not plan.changes:
        out(f"{plan.agent}: nothing to change, it is {done}")
    for file in plan.changes:
        terminal.show(file.diff)
    for file in plan.files:
        for left in file.left:
            say(f"{file.path}: {'.'.join(left.path)} was changed by somebody since, and stays")


def _check(agents: Sequence[Agent], place: Place, known: Record, arguments: argparse.Namespace) -> int:
    """Check these agents, by default the connected ones; return 1 if one is wrong or none was found."""
    shown = _shown(place, arguments)
    connections = {one.name: known.find(one.name, project_of(place)) or known.find(one.name, "") for one in AGENTS}
    meant = agents or [one for one in AGENTS if connections[one.name] is not None] or installed(os.environ)
    found = [
        (agent.name, one)
        for agent in meant
        for one in check(agent, connections[agent.name], place.project, os.environ, shown)
    ]
    if arguments.json:
        rows = [{"agent": name, **plain(one), "sound": one.state is State.OK} for name, one in found]
        show_json({"checks": rows})
    for name, one in found if not arguments.json else ():
        terminal.show(f"{name}: {one.state}: {one.what}")
        if one.advice and one.state is not State.OK:
            terminal.show(f"  {one.advice}")
    if not found and not arguments.json:
        out("no agent is connected here, and none that dreamd knows is installed")
    return 0 if found and all(one.state is not State.WRONG for _, one in found) else 1
