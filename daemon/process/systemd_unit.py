"""systemd unit: writes and installs the unit of the daemon, for one user or for the system.

A user's unit must allow a workspace to be added later without a new unit: the user's home is writable, all else is
read-only, and keys, logins and what runs at a login are out of reach. The system's unit reaches the workspaces that
were named, and no home.

What a user's manager can do depends on the machine: capabilities and mounts need a user namespace, and where those
are forbidden (Ubuntu since 23.10, hardened kernels) the service would fail with 217/USER or 218/CAPABILITIES. There
the unit is written without these lines (`Sandbox.REDUCED`); what seccomp can do remains.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from string import Template

from daemon.config.paths import program
from state.errors import UsageError
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import storage_errors

NAME = "dreamd.service"
SYSTEM_PATH = Path("/etc/systemd/system") / NAME
_TEMPLATE = Path(__file__).with_name(NAME)
_HOMES = tuple(map(Path, ("/home", "/root", "/run/user")))  # what ProtectHome= covers
_PRIVATE = tuple(map(Path, ("/tmp", "/var/tmp")))  # noqa: S108 - PrivateTmp= gives the service its own
# Variables of the installing shell that the unit repeats: daemon and clients must agree on them.
_PASSED_ON = ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "DREAMD_CONFIG", "DREAMD_SOCKET")

# Keys, other agents' logins, and ways out of the sandbox: who reaches the user's manager can run anything.
_OUT_OF_REACH = (
    *(
        f"%h/{name}"
        for name in (
            ".ssh .gnupg .pki .password-store .aws .azure .kube .docker .netrc .git-credentials .npmrc .pypirc"
            " .config/gcloud .config/gh .config/op .config/systemd .config/google-chrome .config/chromium .mozilla"
            " .local/share/keyrings .claude/.credentials.json .codex/auth.json"
        ).split()
    ),
    *(f"%t/{name}" for name in "bus systemd/private keyring gnupg docker.sock podman".split()),
)
# What a shell, a session or the daemon itself runs.
_READ_ONLY = tuple(
    f"%h/{name}"
    for name in (
        ".profile .bash_profile .bash_login .bashrc .bash_logout .zshenv .zprofile .zshrc .zlogin .config/fish"
        " .config/autostart .config/dreamd .local/bin"
    ).split()
)
# Directives that a user's manager carries out in a user namespace alone.
_NAMESPACED = frozenset(
    "ProtectSystem ProtectHome ReadWritePaths ReadOnlyPaths InaccessiblePaths PrivateTmp PrivateDevices PrivateUsers"
    " ProtectProc ProtectClock ProtectControlGroups ProtectHostname ProtectKernelLogs ProtectKernelModules"
    " ProtectKernelTunables CapabilityBoundingSet AmbientCapabilities".split()
)


class Sandbox(StrEnum):
    """Whether the manager can give the service namespaces of its own."""

    FULL = "full"
    REDUCED = "reduced"


class Placed(StrEnum):
    """What `place` did to the file."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Installation:
    """The command that is this dreamd, the folders of its Python, and the one of its source."""

    command: tuple[str, ...]
    runtime: tuple[Path, ...]
    source: Path


def installation() -> Installation:
    """Return the installation that runs now."""
    # The interpreter is in a virtual environment's base; a link on the way to it has to be there as well.
    folders = {Path(sys.prefix), Path(sys.base_prefix)}
    real = {Path(os.path.realpath(folder)) for folder in folders}
    return Installation(program(), tuple(sorted(folders | real)), Path(__file__).parents[2])


def user_path(environment: Mapping[str, str], home: Path) -> Path:
    """Return the path of a user's unit."""
    named = environment.get("XDG_CONFIG_HOME", "")
    config = Path(named) if named.startswith("/") else home / ".config"
    return config / "systemd" / "user" / NAME


def user_unit(
    installed: Installation,
    workspaces: Iterable[Path] = (),
    environment: Mapping[str, str] | None = None,
    home: Path | None = None,
    sandbox: Sandbox = Sandbox.FULL,
) -> str:
    """Return the unit of a user. `workspaces`: folders outside of the home that it may write in and looks after.

    Raise UsageError for a folder that the service cannot see.
    """
    passed_on = {name: path for name in _PASSED_ON if (path := (environment or {}).get(name, "")).startswith("/")}
    folders = [_visible(folder) for folder in workspaces]
    elsewhere = [*folders]
    elsewhere += [Path(passed_on[name]) for name in ("XDG_STATE_HOME", "XDG_DATA_HOME") if name in passed_on]
    elsewhere += [Path(passed_on[name]).parent for name in ("DREAMD_SOCKET",) if name in passed_on]
    paths = [
        "ProtectHome=read-only",
        "ReadWritePaths=%h",
        *(f"ReadWritePaths={_optional(one)}" for one in elsewhere if home is None or not one.is_relative_to(home)),
        "# Keys, logins, and sockets through which anything could be run outside of this sandbox.",
        *_list("InaccessiblePaths", _OUT_OF_REACH),
        "# What a shell or a session runs, and dreamd itself.",
        *_list("ReadOnlyPaths", _READ_ONLY),
        *(f"ReadOnlyPaths={_optional(one)}" for one in installed.runtime if home and one.is_relative_to(home)),
    ]
    text = _filled(
        scope="--user ",
        command=_command(installed.command),
        folders=_folders(folders),
        environment="\n".join(f"Environment={_word(f'{name}={value}')}" for name, value in passed_on.items()),
        paths="\n".join(paths),
        target="default.target",
    )
    return text if sandbox is Sandbox.FULL else _reduced(text)


def system_unit(installed: Installation, account: str, workspaces: Iterable[Path]) -> str:
    """Return the unit of the system, which runs as this account on these workspaces.

    Raise UsageError for root, for a name that is no account's, and for a folder that the service cannot see.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}", account):
        raise UsageError(f"{account!r} is no account's name", "give one with --user")
    if account == "root":
        raise UsageError("as root the service could change every file", "give the account of the agents with --user")
    folders = [_visible(folder) for folder in workspaces]
    paths = [
        "ProtectHome=tmpfs",
        # A bind mount: the rest of the home is not there. A folder that has gone must not stop the others.
        *(f"BindPaths={_optional(one, ':')}" for one in folders if _in_home(one)),
        *(f"BindReadOnlyPaths={_optional(one, ':')}" for one in _run_from(installed) if _in_home(one)),
        *(f"ReadWritePaths={_optional(one)}" for one in folders if not _in_home(one)),
    ]
    return _filled(
        scope="",
        unit="After=network.target",
        command=_command(installed.command),
        folders=_folders(folders),
        account=f"User={account}\nRemoveIPC=yes\nStateDirectory=dreamd\nStateDirectoryMode=0700",
        environment="Environment=HOME=%S/dreamd XDG_STATE_HOME=%S XDG_DATA_HOME=%S XDG_CONFIG_HOME=%E"
        " DREAMD_SOCKET=%t/dreamd/dreamd.sock",
        paths="\n".join(paths),
        target="multi-user.target",
    )


def place(path: Path, text: str) -> Placed:
    """Write the unit atomically and durably; the text that it replaces is kept at `previous(path)`."""
    current = _installed_text(path)
    if current == text:
        return Placed.UNCHANGED
    if current is not None:
        _write(previous(path), current)
    _write(path, text)
    return Placed.WRITTEN if current is None else Placed.REPLACED


def previous(path: Path) -> Path:
    """Return where `place` keeps the unit that it replaced; systemd does not read it."""
    return path.with_name(f"{path.name}.previous")


def named_in(path: Path) -> tuple[Path, ...]:
    """Return the workspaces that the installed unit names, if there is one. Raise UsageError if it is unreadable."""
    lines = (_installed_text(path) or "").splitlines()
    command = next((line.removeprefix("ExecStart=") for line in lines if line.startswith("ExecStart=")), "")
    _, _, folders = command.partition(" serve ")
    try:
        words = shlex.split(folders)
    except ValueError:
        words = [folders]
    if not all(word.startswith("/") for word in words):
        raise UsageError(
            f"{path}: ExecStart= has more than workspaces: {folders}", "name them, or move the unit aside"
        )
    return tuple(Path(word.replace("$$", "$").replace("%%", "%")) for word in words)


def sandbox_here() -> Sandbox:
    """Find out what a user's manager can do on this machine, by trying it in a short process."""
    import subprocess

    trial = subprocess.run(  # noqa: S603 - our own Python
        [sys.executable, "-I", "-c", _TRIAL], capture_output=True, check=False, timeout=30
    )
    return Sandbox.FULL if trial.returncode == 0 else Sandbox.REDUCED


# unshare(CLONE_NEWUSER), its map, unshare(CLONE_NEWNS), mount(/, MS_REC | MS_SLAVE), prctl(PR_CAPBSET_DROP,
# CAP_SYS_MODULE): what systemd does first. As another user than root, whom nothing of it is forbidden.
_TRIAL = """
import ctypes, os
if os.geteuid() == 0:
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: else /proc/self is root's
uid, gid = os.geteuid(), os.getegid()
libc = ctypes.CDLL(None, use_errno=True)
def done(result):
    if result:
        os._exit(1)
done(libc.unshare(0x10000000))
for name, line in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(line)
done(libc.unshare(0x00020000))
done(libc.mount(None, b"/", None, 0x4000 | 0x80000, None))
done(libc.prctl(24, 16, 0, 0, 0))
"""


def _installed_text(path: Path) -> str | None:
    content = Disk(path.parent).read_optional(path)
    return None if content is None else content.decode("utf-8", "surrogateescape")


def _write(path: Path, text: str) -> None:
    with storage_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    Disk(path.parent).write_atomic(path, text.encode("utf-8", "surrogateescape"), 0o644)


def _filled(**values: str) -> str:
    blocks = {"unit": "", "account": "", "environment": "", **values}
    # A block that is empty leaves no empty line.
    template = "".join(
        line
        for line in _TEMPLATE.read_text(encoding="utf-8").splitlines(keepends=True)
        if not (line.startswith("${") and blocks[line.strip()[2:-1]] == "")
    )
    return Template(template).substitute(blocks)


def _reduced(text: str) -> str:
    kept, comment = ["# Without what needs a user namespace: this machine forbids them to users.\n"], ""
    for line in text.splitlines(keepends=True):
        if line.startswith("#"):
            comment += line
        elif line.partition("=")[0] in _NAMESPACED:
            comment = ""  # it was about this line
        else:
            kept += [comment, line]
            comment = ""
    return "".join(kept)


def _visible(folder: Path) -> Path:
    real = Path(os.path.realpath(folder))
    if any(real.is_relative_to(place) for place in _PRIVATE):
        raise UsageError(
            f"{folder}: the service has a {real.parts[1]} folder of its own", "move the workspace elsewhere"
        )
    if real == Path("/") or real in _HOMES:
        raise UsageError(f"{folder}: that opens more than a workspace to the service", "name the workspace itself")
    return real


def _run_from(installed: Installation) -> tuple[Path, ...]:
    # The source is elsewhere than the rest in an editable installation alone.
    inside = any(installed.source.is_relative_to(folder) for folder in installed.runtime)
    return installed.runtime if inside else (*installed.runtime, installed.source)


def _in_home(path: Path) -> bool:
    return any(path.is_relative_to(home) for home in _HOMES)


def _list(directive: str, paths: Iterable[str]) -> list[str]:
    return [f"{directive}=-{path}" for path in paths]


def _optional(path: Path, more: str = "") -> str:
    """Return the path as a word that may be missing on the disk; `more` are characters that mean something there."""
    text = str(path)
    for character in more:
        text = text.replace(character, "\\" + character)
    return _word(f"-{text}", bare=more)


def _command(words: Iterable[str]) -> str:
    # In a command line a dollar begins a variable.
    return " ".join(_word(word.replace("$", "$$")) for word in words)


def _folders(folders: Iterable[Path]) -> str:
    return "".join(f" {_command([str(folder)])}" for folder in folders)


def _word(text: str, bare: str = "") -> str:
    """Return the text as one word of a unit, quoted if needed. Raise UsageError for a control character."""
    if any(ord(character) < 0x20 for character in text):
        raise UsageError(f"{text!r} has a control character, which a unit cannot say", "rename it")
    escaped = text.replace("%", "%%")
    if re.fullmatch(r"[\w@%+=:,./$-]+", escaped):
        return escaped
    slashed = escaped.replace("\\", "\\\\").replace('"', '\\"') if not bare else escaped.replace('"', '\\"')
    return f'"{slashed}"'
