"""Disconnect agents: take out of their files exactly what 'dreamd connect' has put in."""

import argparse
import os

from daemon.cli.connect import carry_out_plans, place_of, project_of, takes_agents
from daemon.cli.parsing import takes_workspace
from daemon.connect import record
from daemon.connect.agent import Scope
from daemon.connect.agents.table import agent_of
from daemon.connect.plan import to_disconnect
from state.errors import NothingToDoError


def add(parser: argparse.ArgumentParser) -> None:
    """Which agents, and where."""
    takes_agents(parser, "all that are connected there")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show each change, ask at a terminal, write it with a backup of the file. What was changed since stays."""
    place = place_of(arguments)
    project = project_of(place)
    names = {agent_of(name).name for name in arguments.agents}
    meant = [
        one
        for one in record.read(os.environ).connections
        if one.project == project and (not names or one.agent in names)
    ]
    if not meant:
        where = "for all projects" if place.scope is Scope.USER else f"in {project}"
        raise NothingToDoError(f"no such agent is connected {where}", "'dreamd connect --check' lists what is")
    carry_out_plans([to_disconnect(one) for one in meant], arguments, "disconnected")
    return 0
