"""Say which of two memories holds now, or take back what was found of them."""

import argparse

from daemon.cli.parsing import caller_of, takes_workspace
from daemon.cli.terminal import out, show_json


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: which two."""
    parser.add_argument("older", metavar="OLDER", help="what holds no longer: its id, its line (L12) or words of it")
    parser.add_argument("newer", metavar="NEWER", help="what holds now")
    parser.add_argument("--undo", action="store_true", help="take it back: both hold")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Record it, and print both."""
    caller = caller_of(arguments, "supersede")
    from daemon.api.operations.notes import supersede

    reply = caller.ask(supersede, older=arguments.older, newer=arguments.newer, undo=arguments.undo)
    if arguments.json:
        show_json(reply)
        return 0
    out(f"{'holds again' if reply.undone else 'superseded'}: {reply.older}")
    out(f"holds: {reply.newer}")
    return 0
