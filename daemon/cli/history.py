"""List the committed versions of MEMORY.md, the newest first."""

import argparse

from daemon.cli.parsing import caller_of, takes_workspace
from daemon.cli.terminal import say, show_json, show_table


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument: how many."""
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="default %(default)s")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print them."""
    caller = caller_of(arguments, "history")
    from daemon.api.operations.versions import history

    versions = caller.ask(history, limit=arguments.limit).versions
    if arguments.json:
        show_json(versions)
    elif versions:
        headers = ("version", "when", "cause", "added", "revised", "evicted", "notes", "tokens", "usd", "by")
        rows = [
            (
                str(one.number),
                one.at.strftime("%Y-%m-%d %H:%M"),
                f"{one.cause}: {one.reason}" if one.reason else one.cause,
                str(one.added),
                str(one.revised),
                str(one.evicted),
                str(one.notes),
                f"{one.tokens:,}",
                f"{one.usd:.4f}",
                one.model,
            )
            for one in versions
        ]
        show_table(headers, rows)
    else:
        say("no version yet; 'dreamd dream' makes the first")
    return 0
