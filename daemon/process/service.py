"""Service: has the machine run the daemon for this user: by systemd, on macOS by launchd.

`install` and `remove` are for `dreamd setup` and `dreamd uninstall`; `install-service` has further choices.
"""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from daemon.config.paths import home
from daemon.process import launchd, systemd_unit
from daemon.process.systemd_unit import Placed, Sandbox
from state.errors import DreamdError, UsageError
from state.stores.disk.syscalls import is_linux, storage_errors

# launchd still tears down what was there before.
_BOOTSTRAP_TRIES, _BOOTSTRAP_SECONDS = 10, 0.5
_BY_HAND = "run 'dreamd serve' yourself, or under any supervisor"


@dataclass(frozen=True, slots=True)
class Plan:
    """The file by which a service manager runs the daemon. `workspaces`: the folders that it names."""

    unit: Path
    sandbox: Sandbox | None
    text: str
    workspaces: tuple[Path, ...]


def service_path() -> Path:
    """Return where the service of this user is installed."""
    own = home(os.environ)
    return systemd_unit.user_path(os.environ, own) if is_linux() else launchd.agent_path(own)


def keys_path() -> Path:
    """Return the file with the keys of model providers, which the service reads."""
    config = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(config) if config.startswith("/") else home(os.environ) / ".config") / "dreamd" / "environment"


def is_there() -> bool:
    """Return whether this user has a service of dreamd."""
    return service_path().exists()


def plan(folders: Iterable[Path] = (), sandbox: Sandbox | None = None) -> Plan:
    """Return what to install for this user: with the folders that the installed one names, unless others are named.

    `sandbox`: None means as this machine allows. Raise UsageError for a folder that the service cannot see.
    """
    path, installed, named = service_path(), systemd_unit.installation(), tuple(folders)
    if not is_linux():
        named = named or launchd.named_in(path)
        return Plan(path, None, launchd.agent(installed, named, os.environ, keys_path()), named)
    named, own = named or systemd_unit.named_in(path), home(os.environ)
    sandbox = systemd_unit.sandbox_here() if sandbox is None else sandbox
    return Plan(path, sandbox, systemd_unit.user_unit(installed, named, os.environ, own, sandbox), named)


def install(folders: Iterable[Path] = ()) -> Plan:
    """Install and start the service of this user. Raise UsageError, writing nothing, if none can run here."""
    planned = plan(folders)
    require_manager()
    start(systemd_unit.place(planned.unit, planned.text))
    return planned


def require_manager(*, is_system: bool = False) -> None:
    """Raise UsageError unless systemd or launchd answers, so that nothing is written that nobody would run."""
    name, asks = (
        ("systemctl", [*_systemctl(is_system=is_system), "show", "--property=Version"])
        if is_linux()
        else ("launchctl", ["launchctl", "print", _domain()])
    )
    if shutil.which(name) is None:
        raise UsageError(f"there is no {name} on this machine", _BY_HAND)
    if why := _failure(asks):
        manager = "systemd" if is_linux() else "launchd"
        raise UsageError(f"{manager} does not run here for {'the system' if is_system else 'you'} ({why})", _BY_HAND)


def start(outcome: Placed, *, is_system: bool = False) -> None:
    """Start the service now and at every login; restart it if its file has changed. Raise DreamdError."""
    if is_linux():
        _start_by_systemd(_systemctl(is_system=is_system), outcome)
    else:
        _start_by_launchd(outcome)


def remove() -> tuple[Path, ...]:
    """Stop and disable the service of this user, and delete its files; return them: none if there is no service.

    Raise UsageError for a file that dreamd has not written, DreamdError if the service cannot be stopped.
    """
    path = service_path()
    if not os.path.lexists(path):
        return ()
    if not is_linux():
        launchd.named_in(path)  # raises for another's
    elif not path.read_bytes().startswith(systemd_unit.WRITTEN_BY):
        raise UsageError(f"{path} was not written by dreamd", "stop and remove it yourself")
    with suppress(UsageError):  # no manager: then nothing runs
        require_manager()
        _stop()
    files = [path, systemd_unit.previous(path)]
    files += [] if is_linux() else [launchd.log_path(os.environ)]
    links = path.parent / f"{systemd_unit.TARGET}.wants" / path.name
    removed = tuple(_deleted([*files, links]))
    if is_linux():
        for folder in (links.parent, path.parent, path.parent.parent):
            with suppress(OSError):  # something of others is there, or it is gone
                folder.rmdir()
        if shutil.which("systemctl"):
            _failure([*_systemctl(), "daemon-reload"])
    return removed


def next_commands(outcome: Placed, *, is_system: bool = False) -> Iterator[str]:
    """Yield the commands by which a person starts the service that was written."""
    if is_linux():
        systemctl = " ".join(_systemctl(is_system=is_system))
        verb = "restart" if outcome is Placed.REPLACED else "enable --now"
        yield f"{systemctl} daemon-reload && {systemctl} {verb} dreamd"
        return
    if outcome is Placed.REPLACED:
        yield f"launchctl bootout {_domain()}/{launchd.LABEL}"
    yield f"launchctl bootstrap {_domain()} {shlex.quote(str(service_path()))}"


def _systemctl(*, is_system: bool = False) -> list[str]:
    return ["systemctl", *([] if is_system else ["--user"])]


def _domain() -> str:
    return f"gui/{os.getuid()}"


def _start_by_systemd(systemctl: list[str], outcome: Placed) -> None:
    steps = [["daemon-reload"], ["enable", "--now", systemd_unit.NAME]]
    # A running service keeps its old unit until a restart.
    steps += [["restart", systemd_unit.NAME]] if outcome is Placed.REPLACED else []
    for step in steps:
        if why := _failure([*systemctl, *step]):
            journal = " ".join(["journalctl", *systemctl[1:], "-u", systemd_unit.NAME, "-e"])
            raise DreamdError(f"'{' '.join([*systemctl, *step])}': {why}", f"see '{journal}'")


def _start_by_launchd(outcome: Placed) -> None:
    service, path = f"{_domain()}/{launchd.LABEL}", service_path()
    launchd.log_path(os.environ).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    is_loaded = not _failure(["launchctl", "print", service])
    if is_loaded and outcome is Placed.UNCHANGED:
        load = ["launchctl", "kickstart", service]
    else:
        if is_loaded:
            _failure(["launchctl", "bootout", service])
        _failure(["launchctl", "enable", service])  # it may have been disabled by hand
        load = ["launchctl", "bootstrap", _domain(), str(path)]
    for again in reversed(range(_BOOTSTRAP_TRIES)):
        if not (why := _failure(load)):
            return
        if not again:
            raise DreamdError(f"'{' '.join(load)}': {why}", f"see {launchd.log_path(os.environ)}")
        time.sleep(_BOOTSTRAP_SECONDS)


def _stop() -> None:
    if is_linux():
        stop = [*_systemctl(), "disable", "--now", systemd_unit.NAME]
    else:
        service = f"{_domain()}/{launchd.LABEL}"
        if _failure(["launchctl", "print", service]):
            return  # it is not loaded
        stop = ["launchctl", "bootout", service]
    if why := _failure(stop):
        raise DreamdError(f"'{' '.join(stop)}': {why}", "stop the service yourself, and try again")


def _deleted(files: Iterable[Path]) -> Iterator[Path]:
    for file in files:
        with storage_errors(file), suppress(FileNotFoundError, NotADirectoryError):
            file.unlink()
            yield file


def _failure(command: list[str]) -> str:
    """Run a command of the service manager; return why it failed, or ""."""
    done = subprocess.run(  # noqa: S603 - fixed words
        command, capture_output=True, check=False, text=True, errors="replace"
    )
    return (" ".join(done.stderr.split()) or f"exit status {done.returncode}") if done.returncode else ""
