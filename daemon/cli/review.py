"""Show the proposals that wait, approve one, or reject it (dream.mode: propose)."""

import argparse
from typing import TYPE_CHECKING, Literal

from daemon.cli.dream import changes
from daemon.cli.parsing import caller_of, takes_workspace
from daemon.cli.terminal import out, show_json, show_unified
from state.errors import NothingToDoError

if TYPE_CHECKING:
    from state.dream import Dream


def add(parser: argparse.ArgumentParser) -> None:
    """Which proposal, and what to do with it."""
    parser.add_argument("proposal", nargs="?", default="", metavar="ID", help="the beginning of its id is enough")
    decision = parser.add_mutually_exclusive_group()
    decision.add_argument("--approve", action="store_true", help="commit it")
    decision.add_argument("--reject", action="store_true", help="discard it; its notes stay pending")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show or decide; 3 when nothing waits."""
    caller = caller_of(arguments, "review")
    from daemon.api.operations.versions import Decide, Proposals, decide, proposals

    if not (arguments.approve or arguments.reject):
        waiting = caller.ask(proposals, Proposals(dream=arguments.proposal)).dreams
        if not waiting:
            raise NothingToDoError("no proposal waits", "dreams make them with dream.mode: propose")
        _show(waiting, as_json=arguments.json)
        return 0
    verdict: Literal["approve", "reject"] = "approve" if arguments.approve else "reject"
    done = caller.ask(decide, Decide(dream=arguments.proposal, verdict=verdict))
    if arguments.json:
        show_json({"dream": done.dream, "verdict": done.verdict, "version": done.version})
    elif done.version is None:
        out(f"proposal {done.dream} is rejected; its notes are pending")
    else:
        out(f"proposal {done.dream} is committed as version {done.version}")
    return 0


def _show(dreams: "tuple[Dream, ...]", *, as_json: bool) -> None:
    if as_json:
        show_json(dreams)
        return
    from daemon.api.operations.versions import unified_diff

    for dream in dreams:
        out(f"proposal {dream.id}, {dream.at:%Y-%m-%d %H:%M}, {dream.reason}, by {dream.author}", "bold")
        for row, style in changes(dream):
            out(f"  {row}", style)
        show_unified(unified_diff(dream.before, dream.after, "as it was", "proposed"))
        out(f"approve it with 'dreamd review {dream.id} --approve', or --reject it")
