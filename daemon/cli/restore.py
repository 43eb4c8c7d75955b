"""Bring back an earlier version of MEMORY.md as a new version; what was consumed since is pending again."""

import argparse

from daemon.cli.parsing import caller_of, takes_workspace
from daemon.cli.terminal import counted, out, say, show_json, show_unified


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument: which version."""
    parser.add_argument("version", type=int, metavar="N", help="the version; 'dreamd history' lists them")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Restore it, and print what that changed."""
    caller = caller_of(arguments, "restore")
    from daemon.api.operations.versions import restore_version, unified_diff

    done = caller.ask(restore_version, version=arguments.version)
    dream = done.dream
    if arguments.json:
        show_json(dream)
        return 0
    out(f"version {arguments.version} is back, as version {dream.number}", "bold")
    show_unified(unified_diff(dream.before, dream.after, "as it was", f"version {dream.number}"))
    say(f"{counted(done.pending, 'note')} pending")
    return 0
