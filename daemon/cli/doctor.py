"""Check everything and say what to do; with --repair, make a broken workspace work again.

Nothing that can still be read is lost by a repair, and what is replaced is kept in broken/ of the state folder. Exit
status of a repair: 0 mended, 1 something is wrong that it cannot mend, 3 there was nothing to mend.
"""

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.cli.parsing import named_folder, takes_folder, workspace_of
from daemon.cli.terminal import out, say, show_json
from daemon.config.paths import data_folder
from state.errors import NothingToDoError, UsageError
from state.stores.disk.places import id_in
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.api.dispatch import Caller
    from daemon.config.settings import Config
    from daemon.upkeep.doctor import Look
    from daemon.upkeep.examine import Finding
    from daemon.upkeep.repair.run import Repair

_STYLES = {"ok": "green", "warning": "yellow", "problem": "red"}


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
    from daemon.upkeep.examine import Level

    findings = []
    for finding in every_finding(workspace, arguments.config, os.environ, lambda: _stores(arguments)):
        findings.append(finding)
        if not arguments.json:
            _show(finding)
    if arguments.json:
        show_json(findings)
    return 1 if any(finding.level is Level.PROBLEM for finding in findings) else 0


def every_finding(
    workspace: Workspace, config_file: Path | None, environment: Mapping[str, str], look: "Look | None" = None
) -> "Iterator[Finding]":
    """Yield every finding as it is made, with the configuration of this call."""
    from daemon.config.settings import load
    from daemon.upkeep.doctor import examine

    def configured() -> "Config":
        return load(config_file, environment)

    return examine(workspace, configured, lambda: _service(workspace, environment), look)


def _show(finding: "Finding") -> None:
    advice = f"; {finding.advice}" if finding.advice else ""
    out(f"{finding.level:<8} {finding.about:<13} {finding.what}{advice}", _STYLES[finding.level])


def _repair(arguments: argparse.Namespace) -> int:
    """Mend, or say what would be done; print what was wrong, what came of it, what is left and what was kept."""
    from daemon.api.operations.upkeep import repair_workspace
    from daemon.upkeep.examine import Level

    if not arguments.dry_run:
        _reopen_state_folder(arguments)
    caller = _caller(arguments)
    done = caller.ask(repair_workspace, dry=arguments.dry_run)
    _notify_daemon(caller)
    if arguments.json:
        show_json(done)
    else:
        _show_repair(done)
    if any(finding.level is Level.PROBLEM for finding in done.left):
        return 1
    return 0 if done.mends else NothingToDoError.exit_status


def _show_repair(done: "Repair") -> None:
    verb = "would be done" if done.dry else "done"
    for mend in done.mends:
        out(f"{'broken' if done.dry else 'mended':<8} {mend.about:<13} {mend.wrong}; {verb}: {mend.deed}", "green")
        for result in mend.results:
            out(f"{'':<22} {result}")
    for finding in done.left:
        _show(finding)
    if done.kept:
        out(f"{'kept':<8} {'originals':<13} in {done.aside}; when everything is well: rm -r '{done.aside}'")
        for path in done.kept:
            out(f"{'':<22} {path}")
    if not done.mends:
        say("nothing that can be mended is broken; nothing was changed")


def _reopen_state_folder(arguments: argparse.Namespace) -> None:
    """Restore the owner's permissions on the state folder, without which nothing else can be examined."""
    number = id_in(named_folder(arguments) or Path.cwd())
    state = data_folder(os.environ) / number if number is not None else None
    if state is None or not state.is_dir() or state.is_symlink() or os.access(state, os.R_OK | os.W_OK | os.X_OK):
        return
    if state.stat().st_uid == os.geteuid():
        state.chmod(0o700)
        say(f"{state} was closed to its owner; its permissions are 700 again")


def _notify_daemon(caller: "Caller") -> None:
    """Call the daemon, so that it opens a workspace that it could not open before the repair."""
    from contextlib import suppress

    from daemon.api.client import daemon
    from daemon.api.operations.dreams import dream_status
    from state.errors import DreamdError

    with suppress(DreamdError):
        if (client := daemon()) is not None:
            client.call(caller.workspace.root, dream_status, dream_status.bind())


def _stores(arguments: argparse.Namespace) -> "tuple[Finding, ...]":
    """Yield findings about the open stores, by the daemon or by this process."""
    from daemon.api.operations.upkeep import examine

    return _caller(arguments).ask(examine).findings


def _caller(arguments: argparse.Namespace) -> "Caller":
    from daemon.api.dispatch import Caller

    return Caller(workspace_of(arguments), _config(arguments), "dreamd doctor")


def _config(arguments: argparse.Namespace) -> "Config":
    from daemon.config.settings import Config, load
    from state.errors import ConfigError

    try:
        return load(arguments.config)
    except ConfigError:  # a finding of its own
        return Config()


def _service(workspace: Workspace, environment: Mapping[str, str]) -> "Iterator[Finding]":
    """Yield whether a daemon runs, and keeps the workspace; also without one."""
    from daemon.api.client import Client, NoDaemonError
    from daemon.config.paths import home
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
        yield Finding(
            "service", Level.PROBLEM, f"{runs} and refuses: {kept['problem']['what']}", kept["problem"]["advice"]
        )
    else:
        yield Finding("service", Level.OK, f"{runs} and keeps this workspace")
