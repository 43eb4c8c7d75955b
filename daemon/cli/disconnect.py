"""Disconnect agents: take out of their files exactly what 'dreamd connect' has put in."""

import argparse
import os

from daemon.cli.connect import carry_out_plans, place_of, project_of, takes_agents
from daemon.cli.parsing import takes_workspace
from daemon.connect.agents import agent_of
from daemon.connect.plan import read_record, to_disconnect
from state.errors import NothingToDoError


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: which agents, and where."""
    scope = takes_agents(parser, "all that are connected there")
    scope.add_argument("--all", action="store_true", help="in every project and for all projects, as to uninstall")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show each change, ask at a terminal, write it with a backup of the file. What was changed since stays."""
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
    # One plan after the other, for two of them may change the same file of the user's.
    carry_out_plans((to_disconnect(one) for one in reversed(meant)), arguments, "disconnected")
    return 0
