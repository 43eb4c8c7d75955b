"""Dream now: fold what is new into MEMORY.md. Shows each step as it runs."""

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from daemon.cli.parsing import caller_of, takes_folder, workspace_for_dream
from daemon.cli.perform import show
from daemon.cli.terminal import show_notices, working

if TYPE_CHECKING:
    from daemon.dream.progress import Step


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
    arguments.workspace, arguments.folder = workspace_for_dream(arguments).root, None
    arguments.everywhere = False  # it is named now
    from daemon.api.operations.dreams import dream_now
    from daemon.dream.run import Mode

    mode = Mode.DRY if arguments.dry_run else None
    with working("dreaming…") as tell:
        caller = caller_of(arguments, "dream", _steps(tell))
        reply = caller.ask(dream_now, reason=arguments.reason, mode=mode, wait=not arguments.no_wait)
    if reply.outcome is not None:
        show_notices(reply.outcome.dream.problems)
    show(dream_now, reply, as_json=arguments.json)
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
