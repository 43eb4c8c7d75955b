"""Install service: writes the systemd unit of the daemon, and runs or prints the remaining commands."""

import argparse
import os
import pwd
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from daemon.cli.parsing import JSON, arg, command
from daemon.cli.terminal import out, say, show_json
from daemon.config.paths import home
from daemon.process import systemd_unit as unit
from daemon.process.systemd_unit import Placed, Sandbox
from state.errors import DreamdError, UsageError

# Folders and socket of the system's service, as in its unit.
_PLACES = {"XDG_STATE_HOME": "/var/lib", "XDG_DATA_HOME": "/var/lib", "DREAMD_SOCKET": "/run/dreamd/dreamd.sock"}
_REDUCED = (
    "this machine forbids user namespaces to users: the service runs without its file system sandbox; "
    "'dreamd install-service --system' has it"
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit's text and path. `workspaces`: the folders that it names."""

    unit: Path
    sandbox: Sandbox
    text: str
    workspaces: tuple[Path, ...]


@command(
    arg(
        "workspaces", nargs="*", type=Path, metavar="DIR",
        help="workspaces outside of the home; without one, those of before",
    ),
    arg("--system", action="store_true", help="a unit of the system, in /etc/systemd/system"),
    arg("--user", dest="account", metavar="NAME", help="with --system: the account that it runs as"),
    arg(
        "--sandbox", choices=("auto", *Sandbox), default="auto",
        help="reduced: without what needs user namespaces; auto: as this machine allows",
    ),
    arg("--now", action="store_true", help="enable and start it as well"),
    arg("--print", dest="only_print", action="store_true", help="print the unit and write nothing"),
    JSON,
)  # fmt: skip
def install_service(arguments: argparse.Namespace) -> int:
    """Write the systemd unit that runs 'dreamd serve': for this user, or with --system for the machine.

    A user's service reaches every workspace in the home, those of tomorrow as well; DIR names folders elsewhere. The
    system's service runs as the account that --user names and reaches the DIRs alone. Doing it again changes nothing,
    and keeps the DIRs that were named before, unless others are named.
    """
    plan = _plan(arguments)
    if arguments.only_print:
        show_json(plan) if arguments.json else sys.stdout.write(plan.text)
        return 0
    if arguments.system:
        _may_install_for_the_system(arguments.account)
    systemctl = shutil.which("systemctl") if arguments.now else None
    if arguments.now and systemctl is None:
        what = "there is no systemctl on this machine"
        raise UsageError(what, "leave out --now, or run 'dreamd serve' another way")
    outcome = unit.place(plan.unit, plan.text)
    if systemctl:
        _start([systemctl, *([] if arguments.system else ["--user"])], outcome)
    refused = dict[Path, str]()
    if systemctl and arguments.system:  # root has named these folders for the account
        refused = {one: why for one in plan.workspaces if (why := _refusal(arguments.account, one))}
    commands = list(_commands(arguments, outcome, tuple(refused) if systemctl else plan.workspaces))
    notices = [f"{folder} is not looked after yet: {why}" for folder, why in refused.items()]
    lingers = "loginctl enable-linger" not in commands
    notices += _notices(plan, outcome, is_system=arguments.system, lingers=lingers)
    if arguments.json:
        done = {"unit": plan.unit, "outcome": outcome, "sandbox": plan.sandbox, "started": bool(systemctl)}
        show_json({**done, "next": commands, "notices": notices})
        return 0
    out(f"{outcome}: {plan.unit}{'; the service runs' if systemctl else ''}")
    for one in commands:
        out(f"next: {one}")
    for notice in notices:
        say(f"notice: {notice}")
    return 0


def _plan(arguments: argparse.Namespace) -> Unit:
    installed, own = unit.installation(), home(os.environ)
    for folder in arguments.workspaces:
        if not folder.is_dir():
            raise UsageError(f"{folder} is no folder", f"run 'dreamd init {folder}' first")
    if arguments.system and not arguments.account:
        raise UsageError("--system needs an account: --user NAME, the one whose agents write in the workspaces")
    if arguments.account and not arguments.system:
        raise UsageError("--user NAME goes with --system", "without it the unit is yours")
    path = unit.SYSTEM_PATH if arguments.system else unit.user_path(os.environ, own)
    folders = tuple(arguments.workspaces) or unit.named_in(path)
    if arguments.system:
        return Unit(path, Sandbox.FULL, unit.system_unit(installed, arguments.account, folders), folders)
    sandbox = unit.sandbox_here() if arguments.sandbox == "auto" else Sandbox(arguments.sandbox)
    return Unit(path, sandbox, unit.user_unit(installed, folders, os.environ, own, sandbox), folders)


def _may_install_for_the_system(account: str) -> None:
    if os.geteuid() != 0:
        raise UsageError(f"{unit.SYSTEM_PATH} is root's", "run this with sudo, or --print and pass it on")
    try:
        pwd.getpwnam(account)
    except KeyError:
        make = f"useradd --system --home-dir /var/lib/dreamd --shell /usr/sbin/nologin {account}"
        raise UsageError(f"there is no account {account!r}", f"'{make}' makes one") from None


def _start(systemctl: list[str], outcome: Placed) -> None:
    steps = [["daemon-reload"], ["enable", "--now", unit.NAME]]
    # A running service keeps its old unit until a restart.
    steps += [["restart", unit.NAME]] if outcome is Placed.REPLACED else []
    for step in steps:
        done = subprocess.run(  # noqa: S603 - fixed words
            [*systemctl, *step], capture_output=True, check=False, text=True, errors="replace"
        )
        if done.returncode:
            why = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
            journal = " ".join(["journalctl", *systemctl[1:], "-u", unit.NAME, "-e"])
            words = " ".join([Path(systemctl[0]).name, *systemctl[1:], *step])
            raise DreamdError(f"'{words}': {why}", f"see '{journal}'")


def _refusal(account: str, folder: Path) -> str:
    """Run 'dreamd init' on the folder as the account; return why that failed, or "" if the service keeps it now."""
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            [*unit.installation().command, "init", str(folder)],
            user=account, group=(group := pwd.getpwnam(account).pw_gid),
            extra_groups=os.getgrouplist(account, group), umask=0o077,
            env={**_PLACES, "HOME": "/var/lib/dreamd", "PATH": os.defpath}, cwd="/", stdin=subprocess.DEVNULL,
            capture_output=True, check=False, text=True, errors="replace",
        )  # fmt: skip
    except OSError as error:  # the account cannot reach the program
        return f"{error.filename}: {error.strerror}"
    said = done.stderr.strip().rpartition("\n")[2].removeprefix("dreamd: ")
    return (said or f"exit status {done.returncode}") if done.returncode else ""


def _commands(arguments: argparse.Namespace, outcome: Placed, workspaces: tuple[Path, ...]) -> Iterator[str]:
    """Yield the commands that are left to run."""
    systemctl = "systemctl" if arguments.system else "systemctl --user"
    if not arguments.now:
        start = "restart" if outcome is Placed.REPLACED else "enable --now"
        yield f"{systemctl} daemon-reload && {systemctl} {start} dreamd"
    if not arguments.system and not _lingers():
        yield "loginctl enable-linger"
    if arguments.system:  # the account must adopt folders that another account made
        places = " ".join(f"{name}={value}" for name, value in _PLACES.items())
        asks = f"sudo -u {arguments.account} env {places} {shlex.join(unit.installation().command)} init"
        yield from (f"{asks} {shlex.quote(str(folder))}" for folder in workspaces)


def _lingers() -> bool:
    try:
        return (Path("/var/lib/systemd/linger") / pwd.getpwuid(os.geteuid()).pw_name).exists()
    except (KeyError, OSError):
        return False


def _notices(plan: Unit, outcome: Placed, *, is_system: bool, lingers: bool) -> Iterator[str]:
    if outcome is Placed.REPLACED:
        edit = "systemctl edit dreamd" if is_system else "systemctl --user edit dreamd"
        yield f"the unit before is {unit.previous(plan.unit)}; changes of yours belong in a drop-in: '{edit}'"
    config = (Path("/etc") if is_system else plan.unit.parents[2]) / "dreamd"
    if not (config / "environment").exists():
        keys = f"keys of model providers go into {config}/environment, one NAME=value a line, mode 600"
        yield f"the service does not see your shell's variables; {keys}"
    if plan.sandbox is Sandbox.REDUCED:
        yield _REDUCED
    if is_system:
        yield "clients find the service by DREAMD_SOCKET=/run/dreamd/dreamd.sock, as the same account"
        if not plan.workspaces:
            yield "no workspace is named, so the service can write in none; name them: DIR…"
    elif not lingers:
        yield "without lingering the service ends when you log out"
