"""Serve and keep a fleet: its processes, how it stands, its tenants with their tokens and workspaces, recovery."""

# Every act has words and options of its own, read by a parser of its own. What is heavy (psycopg, obstore) is
# imported when an act runs.

import argparse
from collections.abc import Sequence
from pathlib import Path

from state.errors import UsageError

ACTS = {
    "serve": "one process of the fleet, in the foreground: serves tenants' agents, and dreams",
    "status": "how the fleet stands, and what is wrong with it",
    "tenant add": "a new tenant, with its quotas",
    "tenant list": "the tenants, and what today has cost them",
    "tenant quota": "show a tenant's quotas, or set them",
    "tenant remove": "delete a tenant with all that it has, with a receipt",
    "token add": "a new token of a tenant, shown once",
    "token list": "the tokens of a tenant, without their secrets",
    "token revoke": "end a token",
    "workspace add": "a new, empty workspace of a tenant",
    "workspace list": "the workspaces of a tenant",
    "workspace remove": "delete a workspace, with a receipt",
    "export": "write a workspace into one file, as 'dreamd export' does",
    "import": "make a workspace of such a file",
    "recover": "bring the database up to the object store, after it was lost or restored",
}
_LISTED = "'dreamd fleet --help' lists the acts; one comes first, its options behind it"


def plain(words: Sequence[str]) -> argparse.Namespace | None:
    """Return the arguments of the act that these words begin with; None if they begin with none."""
    act = next((act for act in ACTS if list(words[: len(act.split())]) == act.split()), None)
    if act is None:
        return None
    from daemon.cli.fleet.acts import ACTIONS
    from daemon.cli.parsing import parser_of, takes_json

    parser, action = parser_of(f"dreamd fleet {act}", f"{ACTS[act][:1].upper()}{ACTS[act][1:]}."), ACTIONS[act]
    for name, options in action.arguments:
        parser.add_argument(name, **options)
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration")
    takes_json(parser)
    arguments = parser.parse_intermixed_args(words[len(act.split()) :])
    arguments.act = action
    return arguments


def add(parser: argparse.ArgumentParser) -> None:
    """Add the act with its words, and list all acts in the help."""
    width = max(map(len, ACTS))
    rows = "\n".join(f"  {act:<{width}}  {what}" for act, what in ACTS.items())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"acts:\n{rows}\n\n'dreamd fleet ACT --help' says more of each."
    parser.add_argument("act", nargs="*", metavar="ACT", help="what to do, with its own words and options behind it")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Do it. Raise UsageError for what is no act."""
    words = arguments.act
    if not isinstance(words, list):
        return int(words(arguments))
    if not words:
        raise UsageError("'dreamd fleet' needs to know what to do, as in 'dreamd fleet status'", _LISTED)
    if acts := [act for act in ACTS if act.split()[0] == words[0]]:
        lacks = f"has no {words[1]!r}" if words[1:] else "lacks a word"
        known = ", ".join(f"dreamd fleet {act}" for act in acts)
        raise UsageError(f"'dreamd fleet {words[0]}' {lacks}", f"it is one of: {known}")
    raise UsageError(f"there is no 'dreamd fleet {' '.join(words)}'", _LISTED)
