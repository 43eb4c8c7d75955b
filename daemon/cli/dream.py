"""Dream now: fold what is new into MEMORY.md. Shows each step as it runs."""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from daemon.cli.parsing import caller_of, config_of, takes_folder, workspace_for_dream
from daemon.cli.terminal import counted, out, say, show_json, show_notices, show_unified, working

if TYPE_CHECKING:
    from daemon.config.settings import Config
    from daemon.dream.progress import Step
    from daemon.dream.run import Outcome
    from state.changes.change import Change, CurrentLine
    from state.dream import Dream


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: why, whether for real, and who waits."""
    parser.add_argument("--dry-run", action="store_true", help="show what would change and write nothing")
    parser.add_argument(
        "--reason", choices=("manual", "session-end"), default="manual", help="for the ledger; default %(default)s"
    )
    parser.add_argument(
        "--no-wait", action="store_true", help="leave it to the daemon and return at once (without one: dream here)"
    )
    parser.add_argument("--lock", type=int, metavar="N", help=argparse.SUPPRESS)  # for a process that holds the lock
    takes_folder(parser)


def run(arguments: argparse.Namespace) -> int:
    """Dream once, or show what the dream would change."""
    if arguments.lock is not None:
        from daemon.dream.process import dream_handed

        return dream_handed(arguments.lock)
    config = config_of(arguments)
    arguments.workspace, arguments.folder = workspace_for_dream(arguments).root, None
    arguments.everywhere = False  # it is named now
    from daemon.api.operations.dreams import dream_now
    from daemon.dream.run import Mode

    mode = Mode.DRY if arguments.dry_run else None
    with working("dreaming…") as tell:
        caller = caller_of(arguments, "dream", _steps(tell))
        outcome = caller.ask(dream_now, reason=arguments.reason, mode=mode, wait=not arguments.no_wait).outcome
    if outcome is None:
        show_json({"queued": True}) if arguments.json else out("the daemon dreams when it comes to it")
        return 0
    show_notices(outcome.dream.problems)
    if arguments.json:
        show_json(outcome)
    elif outcome.mode is Mode.DRY:
        dream = outcome.dream
        from daemon.api.operations.versions import unified_diff

        show_unified(unified_diff(dream.before, dream.after, "as it is", "after this dream"))
        say(_how(dream, config))
    else:
        _show(outcome, config)
    return 0


def _steps(tell: Callable[[str], None]) -> "Callable[[Step], None]":
    """Return a function that shows each step with the time since the one before."""
    began = time.monotonic()

    def on_step(step: "Step") -> None:
        nonlocal began
        now = time.monotonic()
        tell(f"  {step.node:<10} {now - began:5.1f} s  {step.figures}")
        began = now

    return on_step


def _show(outcome: "Outcome", config: "Config") -> None:
    dream = outcome.dream
    if outcome.mode == "propose":
        out(f"proposal {dream.id} waits; 'dreamd review {dream.id} --approve' commits it", "bold")
    else:
        out(f"version {dream.number}, {len(dream.after):,} characters", "bold")
    if dream.joined:
        out("MEMORY.md was edited meanwhile: the edit is kept, and what the dream changed stands beside it")
    for row, style in changes(dream):
        out(f"  {row}", style)
    for refusal in outcome.refused:
        out(f"  refused by {refusal.guard} ({refusal.scope}): {refusal.figures}", "yellow")
    if outcome.changes and outcome.mode == "auto":
        waits = "waits" if outcome.changes == 1 else "wait"
        out(f"  {counted(outcome.changes, 'change')} {waits} for you: 'dreamd review'", "yellow")
    out(_how(dream, config))
    if outcome.pending and outcome.mode == "auto":
        number = f"{outcome.pending:,}+ notes" if outcome.more else counted(outcome.pending, "note")
        why = "the next dreams take them in" if dream.waiting else "what came meanwhile"
        out(f"{number} pending: {why}")


def changes(dream: "Dream") -> Iterator[tuple[str, str]]:
    """Yield a row for each line that was added, revised or evicted, with its style on a terminal.

    A line that came and left in the same dream, since there was no room for it, is only counted.
    """
    born = {line.id for line in dream.came}
    passing = {line.id for line, _ in dream.left if line.id in born}
    unshown = 0
    for change in dream.changes:
        come = [line for line in change.come if line.id not in passing and line.section != "Crystal Pointers"]
        gone = [line for line in change.gone if line.id not in passing]
        unshown += sum(line.id in passing and line.section != "Crystal Pointers" for line in change.gone)
        yield from _rows(change, come, gone)
    if unshown:
        yield f"{counted(unshown, 'line')} had no room and went straight to crystals", "dim"


def _rows(
    change: "Change", come: Sequence["CurrentLine"], gone: Sequence["CurrentLine"]
) -> Iterator[tuple[str, str]]:
    """Yield a row for each line that came or left in one change."""
    from state.document.operations import Why
    from state.document.pointer import parse_pointer

    for line in come:
        if gone:
            yield f"~ {line.section}: {line.text} (was: {'; '.join(old.text for old in gone)})", "cyan"
        else:
            yours = " (yours)" if line.trust == "owner" and not change.evidence else ""
            yield f"+ {line.section}: {line.text}{yours}", "green"
    if come:
        return
    pointer = next((parsed for line in change.come if (parsed := parse_pointer(line.text))), None)
    where = f"search: {pointer[1]}" if pointer else "its crystal"
    ends = {Why.EVICTED: f"(to {where})", Why.DELETED: "(you deleted it)", Why.ANSWERED: "(answered)"}
    style = "green" if change.why is Why.ANSWERED else "red"
    for line in gone:
        if change.why in ends:
            yield f"- {line.section}: {line.text} {ends[change.why]}", style


def _how(dream: "Dream", config: "Config") -> str:
    usage = dream.usage
    if not usage.calls:
        why = "no model configured" if config.model.name is None else "the model gave no answer"
        return f"{dream.author} ({why}), {counted(dream.notes, 'note')}, {dream.seconds:.1f} s"
    price = f"${usage.usd:.4f}" if usage.usd else "price not known"
    author = dream.author if dream.author == usage.model else f"{dream.author} after {usage.model}"
    paid = f"{counted(usage.calls, 'call')}, {usage.tokens:,} tokens, {price}"
    return f"{author}: {paid}, {counted(dream.notes, 'note')}, {dream.seconds:.1f} s"
