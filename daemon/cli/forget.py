"""Erase a text everywhere: MEMORY.md, notes, crystals, working memory, history. Prints a receipt.

What goes is the sentence that holds it, of MEMORY.md the line, and what says the same: what was made of it alone, and
of a line the notes from which nothing else was made. All of that is listed first. It is not learnt again. GENOME.md
and transcripts are yours: where it stands in them is said, and they are left as they are. Archives and copies that
were handed over are out of reach, and importing one brings the text back: forget it again then.
"""

import argparse
import re
import sys
from typing import TYPE_CHECKING

from daemon.api.text import counted
from daemon.cli.parsing import caller_of, takes_workspace
from daemon.cli.terminal import asked, can_ask, out, say, show_json
from state.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.dream.progress import Step
    from daemon.upkeep.forget import Receipt

_SHOWN_CHARACTERS = 160


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: what, and how much goes with it."""
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
    parser.add_argument(
        "--except",
        dest="kept",
        action="append",
        default=[],
        metavar="ID",
        help="a line, note, crystal or memory whose text stays, by an id that --dry-run lists; may be given again",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would go, and change nothing")
    parser.add_argument("--lift", action="store_true", help="let it be learnt again; nothing comes back")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Forget it; return 1 if something of it is left that is dreamd's."""
    if arguments.lift and (arguments.words or arguments.kept or arguments.dry_run):
        raise UsageError("--lift takes no --words, --except or --dry-run", "it changes only what may be learnt")
    text = _text(arguments)
    caller = caller_of(arguments, "forget", _show_step)
    from daemon.api.operations.upkeep import forget_text

    wish = {"text": text, "words": arguments.words, "dry_run": arguments.dry_run, "lift": arguments.lift}
    kept = list[str](arguments.kept)
    if not (arguments.yes or arguments.dry_run or arguments.lift):
        if not can_ask():
            raise UsageError(
                "what is forgotten cannot be brought back", "say --yes, or --dry-run to see what would go"
            )
        tried = caller.ask(forget_text, text, arguments.words, tuple(kept), dry_run=True)
        for row, _ in _gone(tried):
            say(row)  # stdout is for the result
        stays = _asked_what_stays(tried)
        if stays is None:
            say("nothing was changed")
            return UsageError.exit_status
        kept += stays
    receipt = caller.ask(forget_text, **wish, kept=tuple(kept), confirm=True)
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


def _asked_what_stays(tried: "Receipt") -> list[str] | None:
    """Ask a person; return the ids of the texts that stay, None where nothing is to be erased."""
    answer = asked("Erase all of this? It cannot be brought back. [y/N, or the numbers of those that stay]")
    if answer in ("y", "yes"):
        return []
    numbers = [int(word) for word in re.split(r"[\s,]+", answer) if word.isdecimal()]
    if not numbers or not all(0 < number <= len(tried.texts) for number in numbers):
        return None
    return [tried.texts[number - 1].places[0].id for number in numbers]


def _show_step(step: "Step") -> None:
    """Show progress, on a terminal only."""
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
        kept = f", but for what {counted(receipt.kept, 'kept text')} may say" if receipt.kept else ""
        out(f"it will not be learnt again{kept}; 'dreamd forget --lift' changes that", "dim")
        out(f"known again: {receipt.recognised}", "dim")
    for left in receipt.left:
        (out if left.owners else say)(f"  {left.place}: {left.count:,}, {left.why}")


def _gone(receipt: "Receipt") -> "Iterator[tuple[str, str]]":
    """Yield a row for each place that went or would go, with its style on a terminal."""
    would = receipt.dry_run
    yield (
        "would go:" if would else "forgotten:" if receipt.traces else "it was nowhere; it will not be learnt",
        "bold",
    )
    for number, said in enumerate(receipt.texts, 1):
        places = ", ".join(f"{place.kind} {place.id}" for place in said.places)
        yield f"  {number}. {_short(said.text)}", ""
        yield f"     {places}{', in other words' if said.derived else ''}", "dim"
    for trace in receipt.traces:
        yield f"  {trace.place}: {trace.count:,}", ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"
