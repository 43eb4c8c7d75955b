"""Upkeep: examines and repairs a workspace, and erases a text from all of it."""

import argparse
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.api.client import daemon
from daemon.api.dispatch import Caller
from daemon.api.operations.dreams import dream_status
from daemon.api.operations.upkeep import Findings, forget_text, repair_workspace
from daemon.api.operations.upkeep import doctor as examine
from daemon.api.other_version import other_version
from daemon.cli.parsing import FOLDER, WORKSPACE, arg, caller_of, command, config_of, named_folder, workspace_of
from daemon.cli.perform import arguments_of, fields_of, show
from daemon.cli.terminal import asked, can_ask, say, spinner
from daemon.config.paths import data_folder, service_command
from daemon.config.settings import Config
from daemon.process.service import service_path
from daemon.process.systemd_unit import SYSTEM_PATH
from daemon.workspace.checks import Finding, Level
from state.errors import ConfigError, DreamdError, NothingToDoError, UsageError
from state.stores.disk.places import id_in, ids_of_repository
from state.stores.disk.worktree import checkout_of

if TYPE_CHECKING:
    from daemon.dream.progress import Step
    from daemon.upkeep.forget import Receipt


@command(
    arg("--repair", action="store_true", help="mend what is broken; the originals are kept aside"),
    arg("--dry-run", action="store_true", help="with --repair: say what it would do, and do nothing"),
    *FOLDER,
)
def doctor(arguments: argparse.Namespace) -> int:
    """Check everything and say what to do; with --repair, make a broken workspace work again.

    Nothing that can still be read is lost by a repair, and what is replaced is kept in broken/ of the state folder.
    Exit status of a repair: 0 mended, 1 something is wrong that it cannot mend, 3 there was nothing to mend.
    """
    if arguments.dry_run and not arguments.repair:
        raise UsageError("--dry-run goes with --repair", "without it nothing is changed anyway")
    if arguments.repair and not arguments.dry_run:
        _reopen_state_folder(arguments)
    wrong, config = list[Finding](), Config()
    try:
        config = config_of(arguments)
    except ConfigError as error:  # report it as a finding, and go on
        wrong = [Finding("config", Level.PROBLEM, error.what, error.advice)]
    caller = Caller(workspace_of(arguments), config, "dreamd doctor")
    if arguments.repair:
        return _repair(caller, arguments)
    with spinner("examining…"):  # without the network
        found = caller.ask(examine).findings
    if said := other_version():
        wrong.append(Finding("service", Level.WARNING, *said))
    wrong += _stopped_service() if any(one.what.startswith("no daemon runs") for one in found) else ()
    replaced = {one.about for one in wrong}
    found = (*wrong, *(one for one in found if one.about not in replaced))
    show(examine.text, Findings(found), as_json=arguments.json)
    return int(any(one.level is Level.PROBLEM for one in found))


def _stopped_service() -> Iterator[Finding]:
    for path in (service_path(), SYSTEM_PATH):
        if path.exists():
            what, advice = f"{path} is installed, and no daemon runs", f"see '{service_command('status')}'"
            yield Finding("service", Level.PROBLEM, what, advice)
            return


def _repair(caller: Caller, arguments: argparse.Namespace) -> int:
    """Repair, or with --dry-run only say how; print the result, and return the exit status."""
    done = caller.ask(repair_workspace, dry=arguments.dry_run)
    with suppress(DreamdError):  # a call makes the daemon open a workspace that it could not open before
        if (client := daemon()) is not None:
            client.call(caller.workspace.name, dream_status, dream_status.bind())
    show(repair_workspace.text, done, as_json=arguments.json)
    if any(finding.level is Level.PROBLEM for finding in done.left):
        return 1
    return 0 if done.mends else NothingToDoError.exit_status


def _reopen_state_folder(arguments: argparse.Namespace) -> None:
    """Restore the owner's permissions on the state folder, without which nothing can be examined."""
    folder = Path(os.path.realpath(named_folder(arguments) or Path.cwd()))
    number, data = id_in(folder), data_folder(os.environ)
    if number is None and (checkout := checkout_of(folder)) is not None:
        number = next((one for one in ids_of_repository(checkout.common) if (data / one).is_dir()), None)
    state = data / number if number is not None else None
    if state is None or not state.is_dir() or state.is_symlink() or os.access(state, os.R_OK | os.W_OK | os.X_OK):
        return
    if state.stat().st_uid == os.geteuid():
        state.chmod(0o700)
        say(f"{state} was closed to its owner; its permissions are 700 again")


_TO_FORGET = arguments_of(forget_text, without=("confirm",))


@command(*_TO_FORGET, arg("--yes", action="store_true", help="do not ask"), *WORKSPACE)
def forget(arguments: argparse.Namespace) -> int:
    """Erase a text everywhere: MEMORY.md, notes, crystals, working memory, history. Prints a receipt.

    What goes is the sentence that holds it, of MEMORY.md the line, and what says the same: what was made of it alone,
    and of a line the notes from which nothing else was made. All of that is listed first. It is not learnt again.
    GENOME.md and transcripts are yours: where it stands in them is said, and they are left as they are. Archives and
    copies that were handed over are out of reach, and importing one brings the text back: forget it again then.

    - as TEXT reads it from stdin; --except may be given again. Exit status 1: something of it is left.
    """
    if arguments.lift and (arguments.words or arguments.kept or arguments.dry_run):
        raise UsageError("--lift takes no --words, --except or --dry-run", "it changes only what may be learnt")
    wish = fields_of(_TO_FORGET, arguments) | {"text": _text(arguments), "confirm": True}
    caller = caller_of(arguments, "forget", _show_step)
    if not (arguments.yes or arguments.dry_run or arguments.lift):
        if not can_ask():
            raise UsageError(
                "what is forgotten cannot be brought back", "say --yes, or --dry-run to see what would go"
            )
        tried = caller.ask(forget_text, **(wish | {"dry_run": True}))
        say(forget_text.text_of(tried, caller.config.zone))  # stdout is for the result
        stays = _asked_what_stays(tried)
        if stays is None:
            say("nothing was changed")
            return UsageError.exit_status
        wish["kept"] = [*(arguments.kept or ()), *stays]
    receipt = caller.ask(forget_text, **wish)
    show(forget_text.text, receipt, as_json=arguments.json)
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
    """Ask the person; return the ids of the texts to keep, or None if nothing is to be erased."""
    answer = asked("Erase all of this? It cannot be brought back. [y/N, or the numbers of those that stay]")
    if answer in ("y", "yes"):
        return []
    numbers = [int(word) for word in re.split(r"[\s,]+", answer) if word.isdecimal()]
    if not numbers or not all(0 < number <= len(tried.texts) for number in numbers):
        return None
    return [tried.texts[number - 1].places[0].id for number in numbers]


def _show_step(step: "Step") -> None:
    """Print progress, only on a terminal."""
    if sys.stderr.isatty():
        say(f"{step.node}: {step.figures}")
