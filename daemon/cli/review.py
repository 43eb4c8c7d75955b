"""Show the changes of lines that wait for you, and decide on them."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from daemon.api.operations.review import ChangesToReview, ChangeToReview, changes
from daemon.api.operations.review import decide as decide_changes
from daemon.cli.parsing import caller_of, takes_workspace, workspace_of
from daemon.cli.perform import show
from state.errors import NotFoundError, NothingToDoError, RejectedError, UsageError

_DECISIONS = {
    "approve": "let them apply",
    "decline": "refuse them: they are not asked for again",
    "accept": "changes that applied are right",
    "undo": "changes that applied are wrong: the old text comes back",
    "reopen": "what was declined waits again, what was accepted can be undone again",
}
_LONGEST_NUMBER = 7


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: which of them, and what to do with it."""
    parser.add_argument("names", nargs="*", metavar="N", help="numbers of changes")
    decision = parser.add_mutually_exclusive_group()
    for verdict, about in _DECISIONS.items():
        names = ("--decline", "--reject") if verdict == "decline" else (f"--{verdict}",)
        decision.add_argument(*names, dest="verdict", action="store_const", const=verdict, default="", help=about)
    decision.add_argument("--edit", action="store_true", help="decide in $VISUAL or $EDITOR, line by line")
    decision.add_argument("--from", type=Path, metavar="FILE", dest="file", help="decide by a text that --edit made")
    parser.add_argument("--section", default="", help="every change in this section")
    parser.add_argument("--all", action="store_true", help="everything that waits, or all that applied")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show or decide; 3 when nothing waits."""
    caller = caller_of(arguments, "review")

    def decide(decisions: Mapping[str, Any]) -> int:
        done = caller.ask(decide_changes, **decisions)
        show(decide_changes.text, done, as_json=arguments.json)
        if not (done.approved or done.undone or done.declined or done.accepted or done.reopened):
            raise RejectedError("none of it could be done", "MEMORY.md stands as it was")
        return 0

    if arguments.verdict == "reopen":
        if not arguments.names or not all(is_number(name) and int(name) for name in arguments.names):
            raise UsageError("name the changes to reopen by their numbers", "'dreamd review --reopen 3'")
        return decide({"reopen": tuple(map(int, arguments.names))})
    waiting = _chosen(caller.ask(changes).changes, arguments)
    if arguments.edit or arguments.file:
        from daemon.cli.review_todo import edited

        return edited(waiting, workspace_of(arguments), arguments.file, decide)
    if arguments.verdict:
        return decide({arguments.verdict: _meant(waiting, arguments)})
    show(changes.text, ChangesToReview(tuple(waiting)), as_json=arguments.json)
    return 0


def _chosen(waiting: Sequence[ChangeToReview], arguments: argparse.Namespace) -> Sequence[ChangeToReview]:
    if arguments.section:
        wanted = arguments.section.casefold()
        waiting = [one for one in waiting if one.section.value.casefold() == wanted]
        if not waiting:
            raise NothingToDoError(f"no change waits in {arguments.section!r:.60}", "'dreamd review' shows what does")
    if not arguments.names:
        if not waiting:
            raise NothingToDoError("nothing waits for you", "dream.approve and dream.mode say what does")
        return waiting
    numbered = {one.number: one for one in waiting}
    for name in arguments.names:
        if not is_number(name) or int(name) not in numbered:
            raise NotFoundError(f"no change {name!r:.40} waits", "'dreamd review' lists them")
    return [numbered[number] for number in dict.fromkeys(map(int, arguments.names))]


def is_number(name: str) -> bool:
    """Tell whether this can be the number of a change."""
    return name.isascii() and name.isdecimal() and len(name) <= _LONGEST_NUMBER


def _meant(waiting: Sequence[ChangeToReview], arguments: argparse.Namespace) -> tuple[int, ...]:
    """Return those that the decision is for: what was named; else all of its kind, if that is said or clear."""
    if arguments.names:
        return tuple(one.number for one in waiting)
    verdict, applied = arguments.verdict, arguments.verdict in {"accept", "undo"}
    numbers = tuple(one.number for one in waiting if (one.decision == "applied") is applied)
    if not numbers:
        raise NothingToDoError(f"there is nothing to {verdict}", "'dreamd review' shows what waits")
    if len(numbers) > 1 and not (arguments.all or arguments.section):
        listed = ", ".join(map(str, numbers[:10]))
        raise UsageError(f"{len(numbers)} wait ({listed})", "name some, or a --section, or --all")
    return numbers
