"""Review: shows what waits for its owner, and answers it by number; also says that a line is wrong."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from daemon.api.operations.journal import ProposedChange, ProposedChanges, answer_proposals, proposals
from daemon.api.operations.memory import ChangeOfLine, change_lines, lines
from daemon.cli.parsing import WORKSPACE, arg, caller_of, command
from daemon.cli.perform import show
from daemon.cli.terminal import page, show_json
from daemon.dream.standing import Line
from graphs.review import LineAction
from state.document.sections import SectionName
from state.errors import NotFoundError, NothingToDoError, RejectedError, UsageError
from state.text.pieces import with_other_sentence

if TYPE_CHECKING:
    from daemon.api.dispatch import Caller

_PAGE = 1_000  # headings and lines, as the operation lists them
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


# ------------------------------------------------------------------- a line that was never true


@command(
    arg("line", nargs="+", metavar="LINE", help="its id, as 'dreamd why' shows it, or a text that it alone has"),
    arg("--right", metavar="TEXT", default="", help="what is true, in its place"),
    *WORKSPACE,
)
def wrong(arguments: argparse.Namespace) -> int:
    """Say that a line of MEMORY.md was never true. It goes, or says what --right says, and no dream brings it back.

    Of a line that is named by a whole sentence of it, the others stay. What it rests on is not given as current any
    more. 'dreamd restore' undoes it.
    """
    caller, said = caller_of(arguments, "wrong"), " ".join(" ".join(arguments.line).split())
    name, line = _line_meant(_standing(caller), said)
    section = SectionName(name) if name else None
    right = with_other_sentence(line.text, said, arguments.right) or arguments.right
    meant = ChangeOfLine(action=LineAction.WRONG, line=line.id, section=section, expected=line.text, text=right)
    done = caller.ask(change_lines, (meant,))
    rows = [
        f"wrong: {line.text if right == arguments.right else said}",
        f"right: {done.lines[0].text}" if done.lines[0].text else "it is gone",
    ]
    show(lambda _: "\n".join((*rows, f"version {done.version}")), done, as_json=arguments.json)
    return 0


def _standing(caller: "Caller") -> list[tuple[str, Line]]:
    """Return every line of MEMORY.md with the name of its section."""
    every, start, more = list[tuple[str, Line]](), 0, 1
    while more:
        page = caller.ask(lines, start=start)
        every += [(section.name, line) for section in page.sections for line in section.lines]
        start, more = start + _PAGE, page.more
    return every


def _line_meant(every: Sequence[tuple[str, Line]], said: str) -> tuple[str, Line]:
    """Return the line with this id, this text, or this text in it. Raise NotFoundError or UsageError."""
    wanted = said.casefold()
    texts = [(one, _one_row(one[1].text).casefold()) for one in every if one[0] or one[1].id]
    found = (
        [one for one in every if one[1].id and one[1].id.casefold() == wanted]
        or [one for one, text in texts if text == wanted]
        or [one for one, text in texts if wanted in text]
    )
    if not found or not wanted:
        raise NotFoundError(f"no line of MEMORY.md has {said!r:.80}", "'dreamd why TEXT' shows lines with their ids")
    if len(found) > 1:
        ids = ", ".join(one.id or f"{one.text:.40}…" for _, one in found[:10])
        raise UsageError(f"{len(found)} lines have {said!r:.80}: {ids}", "give an id, or more of the text")
    return found[0]


def _one_row(text: str) -> str:
    return " ".join(text.split())
