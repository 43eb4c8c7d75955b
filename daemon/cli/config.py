"""Show the configuration as it is in force, and where each value comes from."""

import argparse
import os
from typing import TYPE_CHECKING

from daemon.cli.parsing import caller_of, config_of, named_folder, takes_workspace, workspace_of
from daemon.cli.terminal import out, show_json
from state.errors import UsageError

if TYPE_CHECKING:
    from daemon.api.operations.setup import Configuration


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument: which keys."""
    parser.add_argument("key", nargs="?", default="", metavar="KEY", help="such as dream.mode, or a section")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print it: the daemon's, if it keeps the workspace, unless this call was given one of its own.

    Outside a workspace: what the next command would have. What may be a secret is not printed.
    """
    shown = _in_force(arguments)
    if arguments.json:
        show_json(shown)
        return 0
    for one in shown.entries:
        out(f"{one.key:<30} {one.value}")
        default = "" if one.value == one.default else f" (default {one.default})"
        meaning = f": {one.meaning}" if one.meaning else ""
        out(f"    {one.origin}{default}{meaning}", "dim")
    return 0


def _in_force(arguments: argparse.Namespace) -> "Configuration":
    from daemon.api.operations.setup import LONGEST_KEY, configuration, in_force
    from daemon.config.layers import configured_here

    key = arguments.key[:LONGEST_KEY]  # what is longer is no key, and neither is this then
    has_own = arguments.config is not None or configured_here(os.environ)
    if has_own or not _is_in_workspace(arguments):
        return in_force(config_of(arguments), key)
    return caller_of(arguments, "config").ask(configuration, key=key)


def _is_in_workspace(arguments: argparse.Namespace) -> bool:
    """Tell whether a workspace is meant. Raise UsageError if one is named and is none."""
    try:
        workspace_of(arguments)
    except UsageError:
        if named_folder(arguments) is not None:
            raise
        return False
    return True
