"""Show the changes of lines that wait for you, and decide on them."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.api.operations import changes as lines
from daemon.api.operations.changes import ChangesDecided, ChangesToReview, ChangeToReview, SaidBy
from daemon.cli.parsing import caller_of, takes_workspace, workspace_of
from daemon.cli.perform import show
from state.errors import NotFoundError, NothingToDoError, RejectedError, UsageError

if TYPE_CHECKING:
    from daemon.api.dispatch import Caller

_DECISIONS = {
    "approve": "let them apply",
    "decline": "refuse them: they are not asked for again",
    "accept": "changes that applied are right",
    "undo": "changes that applied are wrong: the old text comes back",
    "reopen": "what was declined waits again, what was accepted can be undone again",
}
_LONGEST_NUMBER = 7
_FROM = "dream.approve and dream.mode say what does"


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
    if arguments.verdict == "reopen":
        if not arguments.names or not all(is_number(name) and int(name) for name in arguments.names):
            raise UsageError("name the changes to reopen by their numbers", "'dreamd review --reopen 3'")
        return _decide(caller, {"reopen": tuple(map(int, arguments.names))}, arguments)
    waiting = _chosen(caller.ask(lines.changes).changes, arguments)
    if arguments.edit or arguments.file:
        from daemon.cli.review_todo import edited

        def decide(decisions: Mapping[str, Any]) -> int:
            return _decide(caller, decisions, arguments)

        return edited(waiting, workspace_of(arguments), arguments.file, decide)
    if arguments.verdict:
        return _decide(caller, {arguments.verdict: _meant(waiting, arguments)}, arguments)
    show(_waiting_text, ChangesToReview(tuple(waiting)), as_json=arguments.json)
    return 0


def _chosen(waiting: Sequence[ChangeToReview], arguments: argparse.Namespace) -> Sequence[ChangeToReview]:
    if arguments.section:
        wanted = arguments.section.casefold()
        waiting = [one for one in waiting if one.section.value.casefold() == wanted]
        if not waiting:
            raise NothingToDoError(f"no change waits in {arguments.section!r:.60}", "'dreamd review' shows what does")
    if not arguments.names:
        if not waiting:
            raise NothingToDoError("nothing waits for you", _FROM)
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


def _decide(caller: "Caller", decisions: Mapping[str, Any], arguments: argparse.Namespace) -> int:
    """Have it decided and tell what became of it. Raise RejectedError when nothing could be done."""
    done = caller.ask(lines.decide, **decisions)
    show(_reviewed_text, done, as_json=arguments.json)
    if not (done.approved or done.undone or done.declined or done.accepted or done.reopened):
        raise RejectedError("none of it could be done", "MEMORY.md stands as it was")
    return 0


def _reviewed_text(of: ChangesDecided) -> str:
    words = {
        f"approved: version {of.version}": of.approved,
        f"undone: version {of.version}": of.undone,
        "declined": of.declined,
        "accepted": of.accepted,
        "open again": of.reopened,
        "no longer what its lines are, so dropped": of.outdated,
    }
    rows = [f"{_named(numbers)} {word}" for word, numbers in words.items() if numbers]
    rows += [f"refused: change {one.number} by {one.refusal.guard}: {one.refusal.figures}" for one in of.refused]
    return "\n".join(rows)


def _named(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"change {numbers[0]} is"
    return f"changes {', '.join(map(str, numbers[:-1]))} and {numbers[-1]} are"


def _waiting_text(waiting: ChangesToReview) -> str:
    rows = [row for change in waiting.changes for row in _change_rows(change)]
    states = {one.decision.value for one in waiting.changes}
    if "waiting" in states:
        rows.append(
            "'dreamd review --approve 1 2' or --decline decides; --section NAME, --all, or --edit in an editor"
        )
    if "applied" in states:
        rows.append("'dreamd review --undo 1 2' brings the old text back, --accept takes what applied off this list")
    return "\n".join(rows)


def _change_rows(change: ChangeToReview) -> Iterator[str]:
    yield f"{change.number}  {heading(change)}"
    yield from (f"   - {row}" for text in change.old for row in text.split("\n"))
    yield from (f"   + {row}" for row in (change.new or "(leaves MEMORY.md: a pointer leads to it)").split("\n"))
    yield from (f"   {row}" for row in grounds(change))


def heading(change: ChangeToReview) -> str:
    """Say what the change does, where, and until when it waits."""
    state = "applied" if change.decision == "applied" else f"waits until {change.until:%Y-%m-%d}"
    return f"{change.action} · {change.section} · {state}"


def grounds(change: ChangeToReview) -> Iterator[str]:
    """Yield a row for each thing that it rests on, and why it waits."""
    yield from map(_cited, change.evidence)
    if change.why:
        yield change.why
    if change.outdated:
        yield "its lines are no longer what they were, so it cannot apply"


def _cited(piece: SaidBy) -> str:
    who = f"{piece.trust} ({piece.speaker})" if piece.speaker else piece.trust.value
    heard = f", heard: {piece.heard}" if piece.heard else ""
    return " ".join(f"{who}{heard}, {piece.at:%Y-%m-%d}: {piece.text}".split())
