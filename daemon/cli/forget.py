"""Erase a text everywhere: MEMORY.md, notes, crystals, working memory, history. Prints a receipt.

What goes is the sentence that holds it, of MEMORY.md the line. It is not learnt again. GENOME.md and transcripts are
yours: where it stands in them is said, and they are left as they are. Archives and copies that were handed over are
out of reach, and importing one brings the text back: forget it again then.
"""

import argparse
import sys
from typing import TYPE_CHECKING

from daemon.cli.parsing import caller_of, takes_workspace
from daemon.cli.terminal import agreed, can_ask, counted, out, say, show_json
from state.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.dream.progress import Step
    from daemon.upkeep.forget import Receipt

_SHOWN_CHARACTERS = 160


def add(parser: argparse.ArgumentParser) -> None:
    """What, and how much goes with it."""
    parser.add_argument(
        "text",
        nargs="?",
        metavar="TEXT|ID",
        help="the text, or the id of a crystal, a line (L12) or a memory; - reads it from stdin; without one it goes "
        "on with a forgetting that was interrupted",
    )
    parser.add_argument(
        "--words", action="store_true", help="only the words themselves; [forgotten] stands there then"
    )
    parser.add_argument("--derived", action="store_true", help="also what was made of nothing else, in other words")
    parser.add_argument("--dry-run", action="store_true", help="say what would go, and change nothing")
    parser.add_argument("--lift", action="store_true", help="let it be learnt again; nothing comes back")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Forget it; exit status 1 when something of it is left that is dreamd's."""
    if arguments.lift and (arguments.words or arguments.derived or arguments.dry_run):
        raise UsageError("--lift takes no --words, --derived or --dry-run", "it changes only what may be learnt")
    text = _text(arguments)
    caller = caller_of(arguments, "forget", _show_step)
    from daemon.api.operations.upkeep import ForgetText, forget_text

    request = ForgetText(
        text=text,
        words=arguments.words,
        derived=arguments.derived,
        dry_run=arguments.dry_run,
        lift=arguments.lift,
        confirm=True,
    )
    if not (arguments.yes or arguments.dry_run or arguments.lift):
        if not can_ask():
            raise UsageError(
                "what is forgotten cannot be brought back", "say --yes, or --dry-run to see what would go"
            )
        for row, _ in _gone(caller.ask(forget_text, request.model_copy(update={"dry_run": True}))):
            say(row)  # stdout is for the result
        if not agreed("Erase this? It cannot be brought back."):
            say("nothing was changed")
            return UsageError.exit_status
    receipt = caller.ask(forget_text, request)
    show_json(receipt) if arguments.json else _show(receipt)
    return 0 if receipt.clean else 1


def _text(arguments: argparse.Namespace) -> str:
    if arguments.text is None and (arguments.lift or arguments.dry_run):
        raise UsageError("which text? 'dreamd forget --help' says more")
    if arguments.text == "-":
        return sys.stdin.read()
    if arguments.text is not None and not arguments.text.strip():
        raise UsageError("the text is empty", "say what is to be forgotten")
    return arguments.text or ""


def _show_step(step: "Step") -> None:
    """Progress, on a terminal only."""
    if sys.stderr.isatty():
        say(f"{step.node}: {step.figures}")


def _show(receipt: "Receipt") -> None:
    if receipt.lifted or not receipt.cut:
        out("it may be learnt again" if receipt.lifted else "it was not forgotten; nothing was changed")
        return
    if receipt.went_on:
        say("an earlier forgetting was interrupted; it is finished with this one")
    for row, style in _gone(receipt):
        out(row, style)
    if not receipt.dry_run:
        searched = f"{counted(receipt.files, 'file')}, {receipt.bytes:,} bytes"
        out(f"searched afterwards: {searched}: {'nothing of it is left' if receipt.clean else 'some of it is left'}")
        out("it will not be learnt again; 'dreamd forget --lift' changes that", "dim")
        out(f"known again: {receipt.recognised}", "dim")
    for left in receipt.left:
        (out if left.owners else say)(f"  {left.place}: {left.count:,}, {left.why}")


def _gone(receipt: "Receipt") -> "Iterator[tuple[str, str]]":
    """What went or would go, a row for each, with the style that it has on a terminal."""
    would = receipt.dry_run
    yield (
        "would go:" if would else "forgotten:" if receipt.traces else "it was nowhere; it will not be learnt",
        "bold",
    )
    for text in receipt.would_go:
        yield f"  {_short(text)}", ""
    for trace in receipt.traces:
        yield f"  {trace.place}: {trace.count:,}", ""
    if receipt.made_from:
        how = "erased as well" if receipt.derived else "left; --derived erases it"
        yield f"made of nothing else, in other words ({how}):", "bold"
        for one in receipt.made_from:
            yield f"  {one.kind} {one.id}: {_short(one.text)}", ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"
