"""Show the configuration as it is in force, and where each value comes from."""

import argparse
import os

from daemon.api.operations.setup import LONGEST_KEY, configuration, in_force
from daemon.cli import perform
from daemon.cli.parsing import caller_of, config_of, workspace_if_any
from daemon.config.layers import configured_here


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument: which keys."""
    perform.add(parser, configuration)


def run(arguments: argparse.Namespace) -> int:
    """Print it: the daemon's, if it keeps the workspace, unless this call was given one of its own.

    Outside a workspace: what the next command would have. What may be a secret is not printed.
    """
    key = (arguments.key or "")[:LONGEST_KEY]  # what is longer is no key, and neither is this then
    if arguments.config is not None or configured_here(os.environ) or workspace_if_any(arguments) is None:
        reply = in_force(config_of(arguments), key)
    else:
        reply = caller_of(arguments, "config").ask(configuration, key=key)
    perform.show(configuration.text, reply, as_json=arguments.json)
    return 0
