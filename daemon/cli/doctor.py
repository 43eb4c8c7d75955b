"""Check everything and say what to do; with --repair, make a broken workspace work again.

Nothing that can still be read is lost by a repair, and what is replaced is kept in broken/ of the state folder. Exit
status of a repair: 0 mended, 1 something is wrong that it cannot mend, 3 there was nothing to mend.
"""

import argparse
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.cli.parsing import named_folder, takes_folder, workspace_of
from daemon.cli.perform import show
from daemon.cli.terminal import say, working
from daemon.config.paths import data_folder, home
from state.errors import ConfigError, DreamdError, NothingToDoError, UsageError
from state.stores.disk.places import id_in
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.api.dispatch import Caller
    from daemon.upkeep.doctor import Look
    from daemon.upkeep.examine import Finding


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: which workspace, and whether to mend it."""
    takes_folder(parser)
    parser.add_argument("--repair", action="store_true", help="mend what is broken; the originals are kept aside")
    parser.add_argument("--dry-run", action="store_true", help="with --repair: say what it would do, and do nothing")


def run(arguments: argparse.Namespace) -> int:
    """Print each finding; 1 when there is a problem. Nothing is asked of the network."""
    if arguments.dry_run and not arguments.repair:
        raise UsageError("--dry-run goes with --repair", "without it nothing is changed anyway")
    if arguments.repair:
        return _repair(arguments)
    workspace = workspace_of(arguments)
    from daemon.api.operations.upkeep import Findings, doctor, examine

    def stores() -> "tuple[Finding, ...]":
        return _caller(arguments).ask(examine).findings

    with working("examining…"):
        found = Findings(tuple(every_finding(workspace, arguments.config, os.environ, stores)))
    show(doctor.text, found, as_json=arguments.json)
    return int(any(one.level == "problem" for one in found.findings))


def every_finding(
    workspace: Workspace, config_file: Path | None, environment: Mapping[str, str], look: "Look | None" = None
) -> "Iterator[Finding]":
    """Yield every finding as it is made, with the configuration of this call."""
    from daemon.config.settings import load
    from daemon.upkeep.doctor import examine

    return examine(workspace, lambda: load(config_file, environment), lambda: _service(workspace, environment), look)


def _repair(arguments: argparse.Namespace) -> int:
    """Mend, or say what would be done; print what was wrong, what came of it, what is left and what was kept."""
    from daemon.api.client import daemon
    from daemon.api.operations.dreams import dream_status
    from daemon.api.operations.upkeep import repair_workspace

    if not arguments.dry_run:
        _reopen_state_folder(arguments)
    caller = _caller(arguments)
    done = caller.ask(repair_workspace, dry=arguments.dry_run)
    with suppress(DreamdError):  # asked once, the daemon opens a workspace that it could not open before
        if (client := daemon()) is not None:
            client.call(caller.workspace.root, dream_status, dream_status.bind())
    show(repair_workspace.text, done, as_json=arguments.json)
    if any(finding.level == "problem" for finding in done.left):
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


def _caller(arguments: argparse.Namespace) -> "Caller":
    """Return a caller with the configuration, or with the default where it is wrong: that is a finding of its own."""
    from daemon.api.dispatch import Caller
    from daemon.config.settings import Config, load

    config = Config()
    with suppress(ConfigError):
        config = load(arguments.config)
    return Caller(workspace_of(arguments), config, "dreamd doctor")


def _service(workspace: Workspace, environment: Mapping[str, str]) -> "Iterator[Finding]":
    """Yield whether a daemon runs, and keeps the workspace; also without one."""
    from daemon.api.client import Client, NoDaemonError
    from daemon.process.systemd_unit import SYSTEM_PATH, user_path
    from daemon.upkeep.examine import Finding, Level

    try:
        info = Client.at(environment).get("/v1/workspaces")
    except NoDaemonError:
        units = [path for path in (user_path(environment, home(environment)), SYSTEM_PATH) if path.exists()]
        if units:
            what, advice = f"{units[0]} is installed, and no daemon runs", "see 'systemctl --user status dreamd'"
            yield Finding("service", Level.PROBLEM, what, advice)
        else:
            what, advice = "no daemon runs: dreams by hand", "'dreamd install-service' has systemd run one"
            yield Finding("service", Level.OK, what, advice)
        return
    kept = next((one for one in info["workspaces"] if one["root"] == str(workspace.root)), None)
    runs = f"the daemon runs (process {info['pid']}, version {info['version']})"
    if kept is None:
        advice = f"'dreamd init {workspace.root}' makes it known"
        yield Finding("service", Level.WARNING, f"{runs} and does not know this workspace", advice)
    elif kept["problem"] is not None:
        what, advice = f"{runs} and refuses: {kept['problem']['what']}", kept["problem"]["advice"]
        yield Finding("service", Level.PROBLEM, what, advice)
    else:
        yield Finding("service", Level.OK, f"{runs} and keeps this workspace")
