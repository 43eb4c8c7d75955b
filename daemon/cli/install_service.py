"""Write the systemd unit that runs 'dreamd serve': for this user, or with --system for the machine.

A user's service reaches every workspace in the home, those of tomorrow as well; DIR names folders elsewhere. The
system's service runs as the account that --user names and reaches the DIRs alone. Doing it again changes nothing, and
keeps the DIRs that were named before, unless others are named.
"""

import argparse
import os
import pwd
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from daemon.cli.parsing import takes_json
from daemon.cli.terminal import out, say, show_json
from daemon.config.paths import home
from daemon.process import systemd_unit as unit
from daemon.process.systemd_unit import Placed, Sandbox
from state.errors import DreamdError, UsageError

# Where the system's service keeps its things, and where it listens: its unit says the same.
_PLACES = {"XDG_STATE_HOME": "/var/lib", "XDG_DATA_HOME": "/var/lib", "DREAMD_SOCKET": "/run/dreamd/dreamd.sock"}


@dataclass(frozen=True, slots=True)
class Installed:
    """What was done. `next` are commands that are left to run, `notices` what one should know."""

    unit: Path
    outcome: Placed
    sandbox: Sandbox
    started: bool
    next: tuple[str, ...]
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    """The unit and where it goes."""

    path: Path
    text: str
    sandbox: Sandbox
    scope: tuple[str, ...]
    workspaces: tuple[Path, ...]


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: for whom, and how far to go."""
    parser.add_argument(
        "workspaces",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="workspaces outside of the home; without one, those of before",
    )
    parser.add_argument("--system", action="store_true", help="a unit of the system, in /etc/systemd/system")
    parser.add_argument("--user", dest="account", metavar="NAME", help="with --system: the account that it runs as")
    parser.add_argument(
        "--sandbox",
        choices=("auto", *Sandbox),
        default="auto",
        help="reduced: without what needs user namespaces; auto: as this machine allows",
    )
    parser.add_argument("--now", action="store_true", help="enable and start it as well")
    parser.add_argument("--print", dest="only_print", action="store_true", help="print the unit and write nothing")
    takes_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write it, or print it, and say what is left to do."""
    plan = _plan(arguments)
    if arguments.only_print:
        if arguments.json:
            show_json({"unit": plan.path, "sandbox": plan.sandbox, "text": plan.text})
        else:
            sys.stdout.write(plan.text)
        return 0
    if arguments.system:
        _may_install_for_the_system(arguments.account)
    systemctl = _systemctl() if arguments.now else ""
    outcome = unit.place(plan.path, plan.text)
    left, refused = plan.workspaces, dict[Path, str]()
    if systemctl:
        _start([systemctl, *plan.scope], outcome)
        if arguments.system:  # what root names here it gives to the account
            refused = {folder: why for folder in left if (why := _refusal(arguments.account, folder))}
            left = tuple(refused)
    installed = Installed(
        plan.path,
        outcome,
        plan.sandbox,
        bool(systemctl),
        _next(arguments, outcome, left),
        (
            *(f"{folder} is not looked after yet: {why}" for folder, why in refused.items()),
            *_notices(arguments, plan, outcome),
        ),
    )
    if arguments.json:
        show_json(installed)
    else:
        _show(installed)
    return 0


def _plan(arguments: argparse.Namespace) -> _Plan:
    installed = unit.installation()
    for folder in arguments.workspaces:
        if not folder.is_dir():
            raise UsageError(f"{folder} is no folder", f"run 'dreamd init {folder}' first")
    if arguments.system:
        if not arguments.account:
            raise UsageError("--system needs an account: --user NAME, the one whose agents write in the workspaces")
        folders = tuple(arguments.workspaces) or unit.named_in(unit.SYSTEM_PATH)
        text = unit.system_unit(installed, arguments.account, folders)
        return _Plan(unit.SYSTEM_PATH, text, Sandbox.FULL, (), folders)
    if arguments.account:
        raise UsageError("--user NAME goes with --system", "without it the unit is yours")
    sandbox = unit.sandbox_here() if arguments.sandbox == "auto" else Sandbox(arguments.sandbox)
    own = home(os.environ)
    path = unit.user_path(os.environ, own)
    folders = tuple(arguments.workspaces) or unit.named_in(path)
    return _Plan(path, unit.user_unit(installed, folders, os.environ, own, sandbox), sandbox, ("--user",), folders)


def _may_install_for_the_system(account: str) -> None:
    if os.geteuid() != 0:
        raise UsageError(f"{unit.SYSTEM_PATH} is root's", "run this with sudo, or --print and pass it on")
    try:
        pwd.getpwnam(account)
    except KeyError:
        make = f"useradd --system --home-dir /var/lib/dreamd --shell /usr/sbin/nologin {account}"
        raise UsageError(f"there is no account {account!r}", f"'{make}' makes one") from None


def _systemctl() -> str:
    path = shutil.which("systemctl")
    if path is None:
        raise UsageError(
            "there is no systemctl on this machine", "leave out --now, or run 'dreamd serve' another way"
        )
    return path


def _start(systemctl: list[str], outcome: Placed) -> None:
    import subprocess

    steps = [["daemon-reload"], ["enable", "--now", unit.NAME]]
    # A service that runs already goes on with its old unit.
    steps += [["restart", unit.NAME]] if outcome is Placed.REPLACED else []
    for step in steps:
        done = subprocess.run(  # noqa: S603 - fixed words
            [*systemctl, *step], capture_output=True, check=False, text=True, errors="replace"
        )
        if done.returncode:
            why = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
            journal = " ".join(["journalctl", *systemctl[1:], "-u", unit.NAME, "-e"])
            raise DreamdError(
                f"'{' '.join([Path(systemctl[0]).name, *systemctl[1:], *step])}': {why}", f"see '{journal}'"
            )


def _refusal(account: str, folder: Path) -> str:
    """Have the account make the folder its workspace, which the service then keeps; "", or why it could not."""
    import subprocess

    group = pwd.getpwnam(account).pw_gid
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            [*unit.installation().command, "init", str(folder)],
            user=account,
            group=group,
            extra_groups=os.getgrouplist(account, group),
            umask=0o077,
            env={**_PLACES, "HOME": "/var/lib/dreamd", "PATH": os.defpath},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            errors="replace",
        )
    except OSError as error:  # the program is where the account may not go
        return f"{error.filename}: {error.strerror}"
    said = done.stderr.strip().rpartition("\n")[2].removeprefix("dreamd: ")
    return (said or f"exit status {done.returncode}") if done.returncode else ""


def _next(arguments: argparse.Namespace, outcome: Placed, workspaces: Sequence[Path] = ()) -> tuple[str, ...]:
    systemctl = "systemctl" if arguments.system else "systemctl --user"
    if arguments.now:
        commands = []
    elif outcome is Placed.REPLACED:
        commands = [f"{systemctl} daemon-reload && {systemctl} restart dreamd"]
    else:
        commands = [f"{systemctl} daemon-reload && {systemctl} enable --now dreamd"]
    if not arguments.system and not _lingers():
        commands.append("loginctl enable-linger")
    if arguments.system:  # what another account made is not this account's until that is said
        dreamd = shlex.join(unit.installation().command)
        places = " ".join(f"{name}={value}" for name, value in _PLACES.items())
        asks = f"sudo -u {arguments.account} env {places} {dreamd} init"
        commands += [f"{asks} {shlex.quote(str(folder))}" for folder in workspaces]
    return tuple(commands)


def _lingers() -> bool:
    try:
        return (Path("/var/lib/systemd/linger") / pwd.getpwuid(os.geteuid()).pw_name).exists()
    except (KeyError, OSError):
        return False


def _notices(arguments: argparse.Namespace, plan: _Plan, outcome: Placed) -> tuple[str, ...]:
    notices = []
    if outcome is Placed.REPLACED:
        edit = "systemctl edit dreamd" if arguments.system else "systemctl --user edit dreamd"
        notices.append(
            f"the unit before is {unit.previous(plan.path)}; changes of yours belong in a drop-in: '{edit}'"
        )
    config = Path("/etc") if arguments.system else plan.path.parents[2]
    if not (config / "dreamd" / "environment").exists():
        notices.append(
            f"the service does not see your shell's variables; keys of model providers go into {config}/dreamd/"
            "environment, one NAME=value a line, mode 600"
        )
    if plan.sandbox is Sandbox.REDUCED:
        notices.append(
            "this machine forbids user namespaces to users: the service runs without its file system sandbox; "
            "'dreamd install-service --system' has it"
        )
    if arguments.system:
        notices.append("clients find the service by DREAMD_SOCKET=/run/dreamd/dreamd.sock, as the same account")
        if not plan.workspaces:
            notices.append("no workspace is named, so the service can write in none; name them: DIR…")
    elif "loginctl enable-linger" in _next(arguments, Placed.UNCHANGED):
        notices.append("without lingering the service ends when you log out")
    return tuple(notices)


def _show(installed: Installed) -> None:
    out(f"{installed.outcome}: {installed.unit}" + ("; the service runs" if installed.started else ""))
    for command in installed.next:
        out(f"next: {command}")
    for notice in installed.notices:
        say(f"notice: {notice}")
