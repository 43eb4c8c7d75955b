"""Show what changed between two versions of MEMORY.md: the last two, N-1 and N, or A and B."""

import argparse

from daemon.cli.parsing import caller_of, takes_workspace
from daemon.cli.perform import show
from daemon.cli.terminal import say
from state.errors import UsageError


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: between which versions."""
    parser.add_argument(
        "versions", nargs="*", type=int, metavar="N", help="one version (with the one before), or two"
    )
    parser.add_argument("--file", action="store_true", help="between the last version and the file as it is")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the difference."""
    if len(arguments.versions) > 2 or (arguments.file and arguments.versions):
        raise UsageError("name one version, or two, or --file", "see 'dreamd diff --help'")
    from daemon.api.operations.versions import diff

    *old, new = arguments.versions or [None]
    reply = caller_of(arguments, "diff").ask(diff, old=old[0] if old else None, new=new, file=arguments.file)
    if reply.diff or arguments.json:
        show(diff.text, reply, as_json=arguments.json)
    else:
        say(f"no difference between {reply.old} and {reply.new}")
    return 0
