"""Review: shows what waits for its owner, and answers it by number."""

import argparse
from collections.abc import Sequence

from daemon.api.operations.journal import ProposedChange, ProposedChanges, answer_proposals, proposals
from daemon.cli.parsing import WORKSPACE, arg, caller_of, command
from daemon.cli.perform import show
from daemon.cli.terminal import page, show_json
from state.errors import NotFoundError, NothingToDoError, RejectedError, UsageError

_ANSWERS = {"accept": "they apply", "decline": "they are dropped, and not proposed again"}


@command(
    arg("numbers", nargs="*", type=int, metavar="N", help="numbers of proposals"),
    tuple(
        arg(f"--{answer}", dest="answer", action="store_const", const=answer, default="", help=about)
        for answer, about in _ANSWERS.items()
    ),
    arg("--section", default="", help="all of this section"),
    arg("--all", action="store_true", help="all that wait"),
    *WORKSPACE,
)
def review(arguments: argparse.Namespace) -> int:
    """Show the changes that need your yes, and accept or decline them.

    Exit status 3: nothing waits.
    """
    caller = caller_of(arguments, "review")
    chosen = _chosen(caller.ask(proposals).proposals, arguments)
    if not arguments.answer:
        found = ProposedChanges(tuple(chosen))
        show_json(found) if arguments.json else page(proposals.text_of(found, caller.config.zone))
        return 0
    if len(chosen) > 1 and not (arguments.numbers or arguments.all or arguments.section):
        listed = ", ".join(str(one.number) for one in chosen[:10])
        raise UsageError(f"{len(chosen)} wait ({listed})", "name some, or a --section, or --all")
    done = caller.ask(answer_proposals, **{arguments.answer: tuple(one.number for one in chosen)})
    show(answer_proposals.text, done, caller.config.zone, as_json=arguments.json)
    if not (done.accepted or done.declined):
        raise RejectedError("none of it could be done", "MEMORY.md stands as it was")
    return 0


def _chosen(waiting: Sequence[ProposedChange], arguments: argparse.Namespace) -> Sequence[ProposedChange]:
    """Return the proposals that are meant. Raise NotFoundError or NothingToDoError."""
    if arguments.section:
        wanted = arguments.section.casefold()
        waiting = [one for one in waiting if one.section.value.casefold() == wanted]
        if not waiting:
            raise NothingToDoError(f"nothing waits in {arguments.section!r:.60}", "'dreamd review' shows what does")
    numbered = {one.number: one for one in waiting}
    if unknown := [number for number in arguments.numbers if number not in numbered]:
        raise NotFoundError(f"no proposal {unknown[0]} waits", "'dreamd review' lists them")
    if not waiting:
        raise NothingToDoError("nothing waits for you", "'dreamd changes' lists what dreams changed")
    return [numbered[number] for number in dict.fromkeys(arguments.numbers)] or waiting
