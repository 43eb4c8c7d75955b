"""Show the proposals that wait, approve one, or reject it (dream.mode: propose)."""

import argparse
from typing import TYPE_CHECKING

from daemon.cli.dream import changes
from daemon.cli.parsing import config_of, takes_json, takes_workspace, workspace_of
from daemon.cli.terminal import out, show_json, tell_notices
from daemon.cli.unified import show_unified, unified
from state.errors import NothingToDoError, UsageError

if TYPE_CHECKING:
    from daemon.compose import Store
    from state.dream import Dream


def add(parser: argparse.ArgumentParser) -> None:
    """Which proposal, and what to do with it."""
    parser.add_argument("proposal", nargs="?", default="", metavar="ID", help="the beginning of its id is enough")
    decision = parser.add_mutually_exclusive_group()
    decision.add_argument("--approve", action="store_true", help="commit it")
    decision.add_argument("--reject", action="store_true", help="discard it; its notes stay pending")
    takes_workspace(parser)
    takes_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show or decide; 3 when nothing waits."""
    workspace, config = workspace_of(arguments), config_of(arguments)
    from daemon.compose import owned, visited

    if not (arguments.approve or arguments.reject):
        with visited(workspace, config) as store:
            _show([_record(store, dream) for dream in _waiting(store, arguments.proposal)], as_json=arguments.json)
        return 0
    from daemon.dreaming import approve, decline

    with owned(workspace, config, "dreamd review") as store:
        waiting = _waiting(store, arguments.proposal)
        if len(waiting) > 1:
            raise UsageError(f"{len(waiting)} proposals wait ({', '.join(waiting)}); name one")
        version = approve(store, waiting[0]).number if arguments.approve else None
        dream = decline(store, waiting[0]) if version is None else waiting[0]
    tell_notices(store.notices)
    if arguments.json:
        show_json({"dream": dream, "verdict": "rejected" if version is None else "approved", "version": version})
    elif version is None:
        out(f"proposal {dream} is rejected; its notes are pending")
    else:
        out(f"proposal {dream} is committed as version {version}")
    return 0


def _waiting(store: "Store", wanted: str) -> list[str]:
    """The ids of the proposals that are meant."""
    if wanted:
        return [store.ledger.proposal(wanted).dream]
    waiting = [proposal.dream for proposal in store.ledger.proposals()]
    if not waiting:
        raise NothingToDoError("no proposal waits; dreams make them with dream.mode: propose")
    return waiting


def _record(store: "Store", dream: str) -> "Dream":
    from state.codec import decode
    from state.dream import Dream

    return decode(Dream, store.ledger.proposal(dream).record, f"proposal {dream}")


def _show(dreams: "list[Dream]", *, as_json: bool) -> None:
    if as_json:
        show_json(dreams)
        return
    for dream in dreams:
        out(f"proposal {dream.id}, {dream.at:%Y-%m-%d %H:%M}, {dream.reason}, by {dream.author}", "bold")
        for row, style in changes(dream):
            out(f"  {row}", style)
        show_unified(unified(dream.before, dream.after, "as it was", "proposed"))
        out(f"approve it with 'dreamd review {dream.id} --approve', or --reject it")
