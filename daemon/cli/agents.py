"""Agents: connects them, once per user, checks the connections, and takes them out again."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from daemon.cli import terminal
from daemon.cli.parsing import JSON, Arguments, arg, command
from daemon.cli.terminal import agreed, can_ask, out, say, show_json
from daemon.config.paths import program
from daemon.connect import agents as connecting
from daemon.connect.agents import AGENTS, Agent, agent_of, changes, installed, remains
from daemon.connect.check import State, check
from daemon.connect.place import Place
from state.codec import plain
from state.errors import DreamdError, NothingToDoError

_NAMES = ", ".join(one.name for one in AGENTS)


def _which(usual: str) -> Arguments:
    """Return the arguments of both commands: agents, and confirmation."""
    return (
        arg("agents", nargs="*", metavar="AGENT", help=f"{_NAMES}; without one, {usual}"),
        arg("--dry-run", action="store_true", help="show what would run and change, and change nothing"),
        arg("--yes", action="store_true", help="ask nothing, and do it"),
        JSON,
    )


@command(
    *_which("those that are installed"),
    arg("--check", action="store_true", help="change nothing; see in each agent's own way that it works"),
    arg("--trust", action="store_true", help="tell Codex that you trust the hooks of dreamd"),
)
def connect(arguments: argparse.Namespace) -> int:
    """Connect agents to your memory, once for all projects: by a plugin, an extension, or one entry of a JSON file.

    What will run and change is shown first, and 'dreamd disconnect' undoes exactly that.
    """
    place = Place(program(), os.environ, trust=arguments.trust)
    named = tuple(map(agent_of, arguments.agents))
    agents = named or (arguments.check and connected(place)) or installed(place)
    if not agents:
        raise NothingToDoError("no agent that dreamd knows is installed here", f"name one all the same: {_NAMES}")
    if arguments.check:
        return check_agents(agents, place, arguments)
    done = carry_out(agents, place, arguments, takes_out=False)
    wrong = 0 if arguments.dry_run or arguments.json else check_agents(done, place, arguments)
    return wrong or int(len(done) < len(agents))


@command(*_which("all that are connected"))
def disconnect(arguments: argparse.Namespace) -> int:
    """Disconnect agents: take out exactly what 'dreamd connect' has put in, also if the agent has gone."""
    place = Place(program(), os.environ)
    agents = tuple(map(agent_of, arguments.agents)) or connected(place)
    if not agents:
        raise NothingToDoError("no agent is connected", "'dreamd connect' connects those that are installed")
    done = carry_out(agents, place, arguments, takes_out=True)
    return int(len(done) < len(agents))


def connected(place: Place) -> tuple[Agent, ...]:
    """Return the agents in which there is anything of ours."""

    def is_there(agent: Agent) -> bool:
        try:
            return bool(remains(agent, place))
        except DreamdError:  # which is said when it is tried
            return True

    return tuple(filter(is_there, AGENTS))


def carry_out(
    agents: Sequence[Agent], place: Place, arguments: argparse.Namespace, *, takes_out: bool
) -> list[Agent]:
    """Show what each agent's connection changes, ask, and do it; return the agents for which that went well."""
    plan, act = (remains, connecting.disconnect) if takes_out else (changes, connecting.connect)
    state = "not connected" if takes_out else "connected"
    rows, done = list[dict[str, object]](), list[Agent]()
    for agent in agents:
        try:
            said = plan(agent, place)
            rows.append({"agent": agent.name, "changes": said})
            if not arguments.json:
                out(f"{agent.title}: {'' if said else f'nothing to change, it is {state}'}".rstrip(": "), "bold")
                terminal.show("\n".join(f"  {one}" for one in said)) if said else None
            if said and not arguments.dry_run:
                if not _agreed(agent, arguments):
                    continue
                act(agent, place)
                if not arguments.json:
                    out(f"  {state} now")
            done.append(agent)
        except DreamdError as error:
            rows.append({"agent": agent.name, "problem": str(error)})
            say(f"{agent.title}: {error}")
    if arguments.json:
        show_json({"agents": rows, "done": [one.name for one in done]})
    return done


def _agreed(agent: Agent, arguments: argparse.Namespace) -> bool:
    """Return whether to go on. Without a person at a terminal to ask, only --yes does."""
    ask = can_ask() and not arguments.json
    if arguments.yes or (ask and agreed(f"{agent.title}: do this?")):
        return True
    say(f"{agent.title}: nothing was changed" + ("" if ask else "; --yes does it"))
    return False


def check_agents(agents: Sequence[Agent], place: Place, arguments: argparse.Namespace) -> int:
    """Check these agents; return 1 if one is wrong."""
    found = list[tuple[str, object]]()
    worst = 0
    for agent in agents:
        for one in check(agent, place, Path.cwd()):
            worst |= one.state is State.WRONG
            found.append((agent.name, one))
            if not arguments.json:
                terminal.show(f"{agent.name}: {one.state}: {one.what}")
                if one.advice and one.state is not State.OK:
                    terminal.show(f"  {one.advice}")
    if arguments.json:
        show_json({"checks": [{"agent": name, **plain(one)} for name, one in found]})
    return int(worst)
