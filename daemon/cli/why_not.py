"""Say why a thing was not in what an agent was last given at session start, and what to do about it."""

import argparse
from typing import TYPE_CHECKING

from daemon.cli.parsing import caller_of, takes_workspace
from daemon.cli.terminal import out, show_json

if TYPE_CHECKING:
    from daemon.api.why_not import Answer

_GIVEN = "given"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: what was missed, and by which session."""
    parser.add_argument("text", nargs="+", metavar="TEXT", help="words of it, or the id of its line (L12)")
    parser.add_argument("--session", default="", metavar="ID", help="the session that missed it; else the last one")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the reasons."""
    caller = caller_of(arguments, "why-not")
    from daemon.api.operations.search import memory_why_not

    answer = caller.ask(memory_why_not, text=" ".join(arguments.text), session=arguments.session)
    if arguments.json:
        show_json(answer)
    else:
        _show(answer)
    return 0


def _show(answer: "Answer") -> None:
    if (given := answer.receipt) is not None:
        how = f"{given.how} ({given.agent})" if given.agent else given.how
        out(f"last read {given.at:%Y-%m-%d %H:%M} UTC by {how}: version {given.version}", "dim")
    for reason in answer.reasons:
        said = " ".join(reason.text.split())
        out(f"{said}" if said else "(not shown)", "bold") if said else None
        out(f"  {reason.what}", "green" if reason.code == _GIVEN else "yellow")
        out(f"  {reason.advice}") if reason.advice else None
    if answer.more:
        out(f"and {answer.more} more; ask with more words")
