"""Dream: dreams now, in the daemon or in this process."""

import argparse
import time
from typing import TYPE_CHECKING

from daemon.cli.parsing import FOLDER, arg, caller_of, command
from daemon.cli.perform import retry_while_busy, show
from daemon.cli.terminal import say, show_notices, spinner

if TYPE_CHECKING:
    from daemon.dream.progress import Step

_PATIENCE_SECONDS = 120.0


@command(
    arg("--dry-run", action="store_true", help="show what would change and write nothing"),
    arg("--reason", choices=("manual", "session-end"), default="manual", help="for the ledger; default %(default)s"),
    arg("--no-wait", action="store_true", help="leave it to the daemon and return at once (without one: dream here)"),
    arg("--given", type=int, metavar="N", help=argparse.SUPPRESS),  # for a process that a daemon has dream
    *FOLDER,
)
def dream(arguments: argparse.Namespace) -> int:
    """Dream now: fold what is new into MEMORY.md. Shows each step as it runs."""
    if arguments.given is not None:
        from daemon.dream.process import dream_given

        return dream_given(arguments.given)
    from daemon.api.operations.dreams import dream_now
    from daemon.api.other_version import other_version
    from daemon.api.words import step_words
    from daemon.dream.run import Mode

    show_notices("; ".join(said) for said in (other_version(),) if said)
    began = time.monotonic()
    with spinner("dreaming…"):

        def on_step(step: "Step") -> None:
            nonlocal began
            before, began = began, time.monotonic()
            say(f"  {step_words(step.node):<9} {began - before:5.1f} s  {step.figures}")

        mode = Mode.DRY if arguments.dry_run else None
        caller = caller_of(arguments, "dream", on_step)
        # Nobody is there to try the dream of an ended session again, which a search may keep out for a moment.
        patience = _PATIENCE_SECONDS if arguments.reason == "session-end" else 0.0
        reply = retry_while_busy(
            lambda: caller.ask(dream_now, reason=arguments.reason, mode=mode, wait=not arguments.no_wait), patience
        )
    if reply.outcome is not None:
        show_notices(reply.outcome.dream.problems)
    show(dream_now.text, reply, caller.config.zone, as_json=arguments.json)
    return 0
