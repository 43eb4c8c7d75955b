"""Install service: writes the unit or agent of the daemon, and runs or prints the remaining commands."""

import argparse
import os
import pwd
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from daemon.cli.parsing import JSON, arg, command
from daemon.cli.terminal import out, say, show_json
from daemon.process import service
from daemon.process import systemd_unit as unit
from daemon.process.service import Plan
from daemon.process.systemd_unit import Placed, Sandbox
from state.errors import UsageError
from state.stores.disk.syscalls import is_linux

# Folders and socket of the system's service, as in its unit.
_PLACES = {"XDG_STATE_HOME": "/var/lib", "XDG_DATA_HOME": "/var/lib", "DREAMD_SOCKET": "/run/dreamd/dreamd.sock"}
_ENABLE_LINGER = "loginctl enable-linger"
_REDUCED = (
    "this machine forbids user namespaces to users: the service runs without its file system sandbox; "
    "'dreamd install-service --system' has it"
)


@command(
    arg(
        "workspaces", nargs="*", type=Path, metavar="DIR",
        help="workspaces outside of the home; without one, those of before",
    ),
    arg("--system", action="store_true", help="a unit of the system, in /etc/systemd/system (Linux)"),
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
    """Have systemd, or launchd on macOS, run 'dreamd serve': for this user, or with --system for the machine.

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
    if arguments.now:
        service.require_manager(is_system=arguments.system)
    outcome = unit.place(plan.unit, plan.text)
    refused = dict[Path, str]()
    if arguments.now:
        service.start(outcome, is_system=arguments.system)
        if arguments.system:  # root has named these folders for the account
            refused = {one: why for one in plan.workspaces if (why := _refusal(arguments.account, one))}
    commands = list(_commands(arguments, outcome, tuple(refused) if arguments.now else plan.workspaces))
    notices = [f"{folder} is not looked after yet: {why}" for folder, why in refused.items()]
    lingers = _ENABLE_LINGER not in commands
    notices += _notices(plan, outcome, is_system=arguments.system, lingers=lingers)
    if arguments.json:
        done = {"unit": plan.unit, "outcome": outcome, "sandbox": plan.sandbox, "started": arguments.now}
        show_json({**done, "next": commands, "notices": notices})
        return 0
    out(f"{outcome}: {plan.unit}{'; the service runs' if arguments.now else ''}")
    for one in commands:
        out(f"next: {one}")
    for notice in notices:
        say(f"notice: {notice}")
    return 0


def _plan(arguments: argparse.Namespace) -> Plan:
    for folder in arguments.workspaces:
        if not folder.is_dir():
            raise UsageError(f"{folder} is no folder", f"run 'dreamd init {folder}' first")
    if arguments.system and not arguments.account:
        raise UsageError("--system needs an account: --user NAME, the one whose agents write in the workspaces")
    if arguments.account and not arguments.system:
        raise UsageError("--user NAME goes with --system", "without it the unit is yours")
    if not arguments.system:
        sandbox = None if arguments.sandbox == "auto" else Sandbox(arguments.sandbox)
        return service.plan(arguments.workspaces, sandbox)
    if not is_linux():
        raise UsageError("--system is for systemd", "without it, launchd runs the service for you")
    folders = tuple(arguments.workspaces) or unit.named_in(unit.SYSTEM_PATH)
    text = unit.system_unit(unit.installation(), arguments.account, folders)
    return Plan(unit.SYSTEM_PATH, Sandbox.FULL, text, folders)


def _may_install_for_the_system(account: str) -> None:
    if os.geteuid() != 0:
        raise UsageError(f"{unit.SYSTEM_PATH} is root's", "run this with sudo, or --print and pass it on")
    try:
        pwd.getpwnam(account)
    except KeyError:
        make = f"useradd --system --home-dir /var/lib/dreamd --shell /usr/sbin/nologin {account}"
        raise UsageError(f"there is no account {account!r}", f"'{make}' makes one") from None


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
    if not arguments.now:
        yield from service.next_commands(outcome, is_system=arguments.system)
    if is_linux() and not arguments.system and not _lingers():
        yield _ENABLE_LINGER
    if arguments.system:  # the account must adopt folders that another account made
        places = " ".join(f"{name}={value}" for name, value in _PLACES.items())
        asks = f"sudo -u {arguments.account} env {places} {shlex.join(unit.installation().command)} init"
        yield from (f"{asks} {shlex.quote(str(folder))}" for folder in workspaces)


def _lingers() -> bool:
    try:
        return (Path("/var/lib/systemd/linger") / pwd.getpwuid(os.geteuid()).pw_name).exists()
    except (KeyError, OSError):
        return False


def _notices(plan: Plan, outcome: Placed, *, is_system: bool, lingers: bool) -> Iterator[str]:
    if outcome is Placed.REPLACED:
        edit = "systemctl edit dreamd" if is_system else "systemctl --user edit dreamd"
        own = f"; changes of yours belong in a drop-in: '{edit}'" if is_linux() else ""
        yield f"the unit before is {unit.previous(plan.unit)}{own}"
    keys = Path("/etc/dreamd/environment") if is_system else service.keys_path()
    if not keys.exists():
        what = f"keys of model providers go into {keys}, one NAME=value a line, mode 600"
        yield f"the service does not see your shell's variables; {what}"
    if plan.sandbox is Sandbox.REDUCED:
        yield _REDUCED
    if is_system:
        yield "clients find the service by DREAMD_SOCKET=/run/dreamd/dreamd.sock, as the same account"
        if not plan.workspaces:
            yield "no workspace is named, so the service can write in none; name them: DIR…"
    elif not lingers:
        yield "without lingering the service ends when you log out"
