"""Check everything and say what to do; with --repair, make a broken workspace work again.

Nothing that can still be read is lost by a repair, and what is replaced is kept in broken/ of the state folder. Exit
status of a repair: 0 mended, 1 something is wrong that it cannot mend, 3 there was nothing to mend.
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from daemon.api.client import daemon
from daemon.api.dispatch import Caller
from daemon.api.operations.dreams import dream_status
from daemon.api.operations.upkeep import Findings, doctor, repair_workspace
from daemon.cli.parsing import config_of, named_folder, takes_folder, workspace_of
from daemon.cli.perform import show
from daemon.cli.terminal import say, working
from daemon.config.paths import data_folder, home
from daemon.config.settings import Config
from daemon.process.systemd_unit import SYSTEM_PATH, user_path
from daemon.upkeep.examine import Finding, Level
from state.errors import ConfigError, DreamdError, NothingToDoError, UsageError
from state.stores.disk.places import id_in


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: which workspace, and whether to mend it."""
    takes_folder(parser)
    parser.add_argument("--repair", action="store_true", help="mend what is broken; the originals are kept aside")
    parser.add_argument("--dry-run", action="store_true", help="with --repair: say what it would do, and do nothing")


def run(arguments: argparse.Namespace) -> int:
    """Print each finding; 1 when there is a problem. Nothing is asked of the network."""
    if arguments.dry_run and not arguments.repair:
        raise UsageError("--dry-run goes with --repair", "without it nothing is changed anyway")
    if arguments.repair and not arguments.dry_run:
        _reopen_state_folder(arguments)
    wrong, config = list[Finding](), Config()
    try:
        config = config_of(arguments)
    except ConfigError as error:  # a finding, beside which the rest is examined
        wrong = [Finding("config", Level.PROBLEM, error.what, error.advice)]
    caller = Caller(workspace_of(arguments), config, "dreamd doctor")
    if arguments.repair:
        return _repair(caller, arguments)
    with working("examining…"):
        found = caller.ask(doctor).findings
    wrong += _stopped_service() if any(one.what.startswith("no daemon runs") for one in found) else ()
    replaced = {one.about for one in wrong}
    found = (*wrong, *(one for one in found if one.about not in replaced))
    show(doctor.text, Findings(found), as_json=arguments.json)
    return int(any(one.level is Level.PROBLEM for one in found))


def _stopped_service() -> Iterator[Finding]:
    for path in (user_path(os.environ, home(os.environ)), SYSTEM_PATH):
        if path.exists():
            what, advice = f"{path} is installed, and no daemon runs", "see 'systemctl --user status dreamd'"
            yield Finding("service", Level.PROBLEM, what, advice)
            return


def _repair(caller: Caller, arguments: argparse.Namespace) -> int:
    """Mend, or say what would be done; print what was wrong, what came of it, what is left and what was kept."""
    done = caller.ask(repair_workspace, dry=arguments.dry_run)
    with suppress(DreamdError):  # asked once, the daemon opens a workspace that it could not open before
        if (client := daemon()) is not None:
            client.call(caller.workspace.root, dream_status, dream_status.bind())
    show(repair_workspace.text, done, as_json=arguments.json)
    if any(finding.level is Level.PROBLEM for finding in done.left):
        return 1
    return 0 if done.mends else NothingToDoError.exit_status


def _reopen_state_folder(arguments: argparse.Namespace) -> None:
    """Restore the owner's permissions on the state folder, without which nothing else can be examined."""
    number = id_in(named_folder(arguments) or Path.cwd())
    state = data_folder(os.environ) / number if number is not None else None
    if state is None or not state.is_dir() or state.is_symlink() or os.access(state, os.R_OK | os.W_OK | os.X_OK):
        return
    if state.stat().st_uid == os.geteuid():
        state.chmod(0o700)
        say(f"{state} was closed to its owner; its permissions are 700 again")
