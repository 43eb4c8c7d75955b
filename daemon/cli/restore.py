"""Bring back an earlier version of MEMORY.md as a new version; what was consumed since is pending again."""

import argparse

from daemon.cli.parsing import config_of, takes_json, takes_workspace, workspace_of
from daemon.cli.terminal import counted, out, say, show_json, tell_notices
from daemon.cli.unified import show_unified, unified


def add(parser: argparse.ArgumentParser) -> None:
    """Which version."""
    parser.add_argument("version", type=int, metavar="N", help="the version; 'dreamd history' lists them")
    takes_workspace(parser)
    takes_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Restore it, and print what that changed."""
    workspace, config = workspace_of(arguments), config_of(arguments)
    from daemon.compose import owned
    from daemon.restoring import restore

    with owned(workspace, config, "dreamd restore") as store:
        dream = restore(store, arguments.version)
        pending = len(store.segments.pending_notes())
    tell_notices((*store.notices, *dream.problems))
    if arguments.json:
        show_json(dream)
        return 0
    after = dream.after if dream.merged is None else dream.merged
    out(f"version {arguments.version} is back, as version {dream.number}", "bold")
    show_unified(unified(dream.before, after, "as it was", f"version {dream.number}"))
    say(f"{counted(pending, 'note')} pending")
    return 0
