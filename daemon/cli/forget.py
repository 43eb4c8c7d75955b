"""Erase a text everywhere: MEMORY.md, notes, crystals, working memory, history. Prints a receipt.

What goes is the sentence that holds it, of MEMORY.md the line, and what says the same: what was made of it alone, and
of a line the notes from which nothing else was made. All of that is listed first. It is not learnt again. GENOME.md
and transcripts are yours: where it stands in them is said, and they are left as they are. Archives and copies that
were handed over are out of reach, and importing one brings the text back: forget it again then.

- as TEXT reads it from stdin; --except may be given again.
"""

import argparse
import re
import sys
from typing import TYPE_CHECKING

from daemon.api.operations.upkeep import forget_text
from daemon.cli import perform
from daemon.cli.parsing import caller_of
from daemon.cli.terminal import asked, can_ask, say
from state.errors import UsageError

if TYPE_CHECKING:
    from daemon.dream.progress import Step
    from daemon.upkeep.forget import Receipt


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: what, and how much goes with it."""
    perform.add(parser, forget_text, without=("confirm",))
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(arguments: argparse.Namespace) -> int:
    """Forget it; return 1 if something of it is left that is dreamd's."""
    if arguments.lift and (arguments.words or arguments.kept or arguments.dry_run):
        raise UsageError("--lift takes no --words, --except or --dry-run", "it changes only what may be learnt")
    wish = perform.given(forget_text, arguments) | {"text": _text(arguments), "confirm": True}
    caller = caller_of(arguments, "forget", _show_step)
    if not (arguments.yes or arguments.dry_run or arguments.lift):
        if not can_ask():
            raise UsageError(
                "what is forgotten cannot be brought back", "say --yes, or --dry-run to see what would go"
            )
        tried = caller.ask(forget_text, **(wish | {"dry_run": True}))
        say(forget_text.text(tried) if forget_text.text else "")  # stdout is for the result
        stays = _asked_what_stays(tried)
        if stays is None:
            say("nothing was changed")
            return UsageError.exit_status
        wish["kept"] = [*(arguments.kept or ()), *stays]
    receipt = caller.ask(forget_text, **wish)
    perform.show(forget_text.text, receipt, as_json=arguments.json)
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
