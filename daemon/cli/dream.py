"""Dream: dreams now, in the daemon or in this process."""

import argparse
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.cli.parsing import FOLDER, arg, caller_of, command, named_folder
from daemon.cli.perform import show
from daemon.cli.terminal import show_notices, working
from daemon.workspace.adoption import init_workspace, require_project, shared_folder, workspace_at
from state.document.document import parse
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import SCRATCH, STATE_FOLDER
from state.stores.git.exclude import tracks

if TYPE_CHECKING:
    from daemon.dream.progress import Step


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
    if not arguments.everywhere:
        _adopt(named_folder(arguments) or Path.cwd())
    from daemon.api.operations.dreams import dream_now
    from daemon.dream.run import Mode

    began = time.monotonic()
    with working("dreaming…") as tell:

        def on_step(step: "Step") -> None:
            nonlocal began
            before, began = began, time.monotonic()
            tell(f"  {step.node:<10} {began - before:5.1f} s  {step.figures}")

        mode = Mode.DRY if arguments.dry_run else None
        caller = caller_of(arguments, "dream", on_step)
        reply = caller.ask(dream_now, reason=arguments.reason, mode=mode, wait=not arguments.no_wait)
    if reply.outcome is not None:
        show_notices(reply.outcome.dream.problems)
    show(dream_now.text, reply, caller.config.zone, as_json=arguments.json)
    return 0


def _adopt(named: Path) -> None:
    """Make a folder with a memory a workspace. Raise UsageError for the home folder and the system's folders.

    A memory that may have come with the folder is left to 'dreamd init', which shows it first.
    """
    root = shared_folder(named) or named
    has_memory = any((root / name).is_file() for name in ("MEMORY.md", SCRATCH))
    if has_memory and workspace_at(root) is None and not found_in(root):
        require_project(root)
        init_workspace(root)


def found_in(root: Path) -> tuple[str, ...]:
    """Return the lines of a MEMORY.md that may have come with its folder, so perhaps is not the owner's; else none.

    The signs: a dreamd has written it, a workspace id lies beside it, or git tracks it.
    """
    path = root / "MEMORY.md"
    text = (Disk(root).read_optional(path) or b"").decode(errors="replace")
    strange = os.path.lexists(root / STATE_FOLDER) or parse(text).has_schema or tracks(path)
    return tuple(line for line in text.splitlines() if line.strip()) if strange else ()
