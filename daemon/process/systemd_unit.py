"""systemd unit: writes and installs the unit of the daemon, for one user or for the system.

A user's unit must allow workspaces to be added later without a new unit: the user's home is writable, all else is
read-only, and keys, logins and files that run at login are out of reach. The system's unit reaches only the named
workspaces, and no home.

A user's manager needs user namespaces for capabilities and mounts. On machines that forbid those (Ubuntu since 23.10,
hardened kernels) the service would fail with 217/USER or 218/CAPABILITIES. There the unit is written without that
section (`Sandbox.REDUCED`), and only seccomp's protection remains.
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
WRITTEN_BY = b"# Written by 'dreamd install-service'"
TARGET = "default.target"
SYSTEM_PATH = Path("/etc/systemd/system") / NAME
_HOMES = tuple(map(Path, ("/home", "/root", "/run/user")))  # what ProtectHome= covers
_PRIVATE = tuple(map(Path, ("/tmp", "/var/tmp")))  # noqa: S108 - PrivateTmp= gives the service its own
# Variables of the installing shell that the unit repeats, as daemon and clients must agree on them.
PASSED_ON = ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "DREAMD_CONFIG", "DREAMD_SOCKET")
# Keys, other agents' logins, and ways out of the sandbox: through the user's manager a program can run anything.
_OUT_OF_REACH = (
    "%h/.ssh %h/.gnupg %h/.pki %h/.password-store %h/.aws %h/.azure %h/.kube %h/.docker %h/.netrc"
    " %h/.git-credentials %h/.npmrc %h/.pypirc %h/.config/gcloud %h/.config/gh %h/.config/op %h/.config/systemd"
    " %h/.config/google-chrome %h/.config/chromium %h/.mozilla %h/.local/share/keyrings"
    " %h/.claude/.credentials.json %h/.codex/auth.json"
    " %t/bus %t/systemd/private %t/keyring %t/gnupg %t/docker.sock %t/podman"
).split()
# Files that a shell, a session or the daemon itself runs.
_READ_ONLY = (
    "%h/.profile %h/.bash_profile %h/.bash_login %h/.bashrc %h/.bash_logout %h/.zshenv %h/.zprofile %h/.zshrc"
    " %h/.zlogin %h/.config/fish %h/.config/autostart %h/.config/dreamd/environment %h/.local/bin"
).split()
_NAMESPACED = re.compile(r"(?ms)^#<\n(.*?)^#>\n")
_WITHOUT = "# Without what needs a user namespace: this machine forbids them to users.\n"


class Sandbox(StrEnum):
    """Whether systemd can give the service namespaces of its own."""

    FULL = "full"
    REDUCED = "reduced"


class Placed(StrEnum):
    """What `place` did to the file."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Installation:
    """The command of this dreamd, the folders of its Python, and the folder of its source."""

    command: tuple[str, ...]
    runtime: tuple[Path, ...]
    source: Path


def installation() -> Installation:
    """Return the installation that runs now."""
    # The interpreter lies in the virtual environment's base; links on the way there must be visible, too.
    folders = {Path(sys.prefix), Path(sys.base_prefix)}
    real = {Path(os.path.realpath(folder)) for folder in folders}
    return Installation(program(), tuple(sorted(folders | real)), Path(__file__).parents[2])


def user_path(environment: Mapping[str, str], home: Path) -> Path:
    """Return the path of a user's unit."""
    named = environment.get("XDG_CONFIG_HOME", "")
    return (Path(named) if named.startswith("/") else home / ".config") / "systemd" / "user" / NAME


def user_unit(
    installed: Installation,
    workspaces: Iterable[Path] = (),
    environment: Mapping[str, str] | None = None,
    home: Path | None = None,
    sandbox: Sandbox = Sandbox.FULL,
) -> str:
    """Return the text of a user's unit. `workspaces`: folders to serve, writable even outside the home.

    Raise UsageError for a folder that the service cannot see.
    """
    passed_on = {name: path for name in PASSED_ON if (path := (environment or {}).get(name, "")).startswith("/")}
    folders = [_visible(folder) for folder in workspaces]
    kept = [Path(passed_on[name]) for name in ("XDG_STATE_HOME", "XDG_DATA_HOME") if name in passed_on]
    kept += [Path(passed_on["DREAMD_SOCKET"]).parent] if "DREAMD_SOCKET" in passed_on else []
    elsewhere = [one for one in (*folders, *kept) if home is None or not one.is_relative_to(home)]
    own = [one for one in installed.runtime if home and one.is_relative_to(home)]
    paths = (
        "ProtectHome=read-only",
        "ReadWritePaths=%h",
        *(f"ReadWritePaths={_optional(one)}" for one in elsewhere),
        "# Keys, logins, and sockets through which anything could be run outside of this sandbox.",
        *(f"InaccessiblePaths=-{path}" for path in _OUT_OF_REACH),
        "# What a shell or a session runs, and dreamd itself.",
        *(f"ReadOnlyPaths=-{path}" for path in _READ_ONLY),
        *(f"ReadOnlyPaths={_optional(one)}" for one in own),
    )
    return _filled(
        sandbox,
        scope="--user ",
        command=_command([*installed.command, "serve", *map(str, folders)]),
        environment="\n".join(f"Environment={_word(f'{name}={value}')}" for name, value in passed_on.items()),
        paths="\n".join(paths),
        target=TARGET,
    )


def system_unit(installed: Installation, account: str, workspaces: Iterable[Path]) -> str:
    """Return the text of the system's unit, which runs as this account on these workspaces.

    Raise UsageError for root, for an invalid account name, and for a folder that the service cannot see.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}", account):
        raise UsageError(f"{account!r} is no account's name", "give one with --user")
    if account == "root":
        raise UsageError("as root the service could change every file", "give the account of the agents with --user")
    folders = [_visible(folder) for folder in workspaces]
    # Only an editable installation has its source elsewhere.
    inside = any(installed.source.is_relative_to(folder) for folder in installed.runtime)
    run_from = installed.runtime if inside else (*installed.runtime, installed.source)
    paths = (
        "ProtectHome=tmpfs",
        # Bind mounts hide the rest of the home. They are optional: a missing folder must not stop the others.
        *(f"BindPaths={_optional(one, ':')}" for one in folders if _in_home(one)),
        *(f"BindReadOnlyPaths={_optional(one, ':')}" for one in run_from if _in_home(one)),
        *(f"ReadWritePaths={_optional(one)}" for one in folders if not _in_home(one)),
    )
    return _filled(
        scope="",
        unit="After=network.target",
        command=_command([*installed.command, "serve", *map(str, folders)]),
        account=f"User={account}\nRemoveIPC=yes\nStateDirectory=dreamd\nStateDirectoryMode=0700",
        environment="Environment=HOME=%S/dreamd XDG_STATE_HOME=%S XDG_DATA_HOME=%S XDG_CONFIG_HOME=%E"
        " DREAMD_SOCKET=%t/dreamd/dreamd.sock",
        paths="\n".join(paths),
        target="multi-user.target",
    )


def place(path: Path, text: str) -> Placed:
    """Write the unit atomically and durably; keep the text that it replaces at `previous(path)`."""
    current = _installed_text(path)
    if current == text:
        return Placed.UNCHANGED
    for target, content in ((previous(path), current), (path, text)):
        if content is not None:
            with storage_errors(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
            Disk(path.parent).write_atomic(target, content.encode("utf-8", "surrogateescape"), 0o644)
    return Placed.WRITTEN if current is None else Placed.REPLACED


def previous(path: Path) -> Path:
    """Return the path at which `place` keeps a replaced unit; systemd does not read it."""
    return path.with_name(f"{path.name}.previous")


def named_in(path: Path) -> tuple[Path, ...]:
    """Return the workspaces that the installed unit names, if any. Raise UsageError if it has other arguments."""
    command = re.search(r"(?m)^ExecStart=.*? serve(?: (.*))?$", _installed_text(path) or "")
    folders = (command[1] or "") if command else ""
    try:
        words = shlex.split(folders)
    except ValueError:
        words = [folders]
    if not all(word.startswith("/") for word in words):
        what = f"{path}: ExecStart= has more than workspaces: {folders}"
        raise UsageError(what, "name them, or move the unit aside")
    return tuple(Path(word.replace("$$", "$").replace("%%", "%")) for word in words)


def _installed_text(path: Path) -> str | None:
    content = Disk(path.parent).read_optional(path)
    return None if content is None else content.decode("utf-8", "surrogateescape")


def sandbox_here() -> Sandbox:
    """Find out whether a user's manager can sandbox here: try to make a user and a mount namespace."""
    import subprocess

    trial = ["unshare", "--user", "--map-current-user", "--mount", "true"]
    user: dict[str, object] = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        tried = subprocess.run(trial, capture_output=True, check=False, timeout=30, **user)  # type: ignore[call-overload] # noqa: S603
    except OSError:  # without util-linux
        return Sandbox.REDUCED
    return Sandbox.FULL if tried.returncode == 0 else Sandbox.REDUCED


def _filled(sandbox: Sandbox = Sandbox.FULL, **values: str) -> str:
    template = Path(__file__).with_name(NAME).read_text(encoding="utf-8")
    template = _NAMESPACED.sub(r"\1" if sandbox is Sandbox.FULL else _WITHOUT, template)
    for name in ("unit", "account", "environment"):
        if not values.setdefault(name, ""):
            template = template.replace(f"${{{name}}}\n", "")
    return Template(template).substitute(values)


def _visible(folder: Path) -> Path:
    real = Path(os.path.realpath(folder))
    if any(real.is_relative_to(place) for place in _PRIVATE):
        what = f"{folder}: the service has a {real.parts[1]} folder of its own"
        raise UsageError(what, "move the workspace elsewhere")
    if real == Path("/") or real in _HOMES:
        raise UsageError(f"{folder}: that opens more than a workspace to the service", "name the workspace itself")
    return real


def _in_home(path: Path) -> bool:
    return any(path.is_relative_to(home) for home in _HOMES)


def _optional(path: Path, more: str = "") -> str:
    """Return the path as an optional (`-`) word of a unit; `more` is a separator to escape in it."""
    text = str(path).replace(more, f"\\{more}") if more else str(path)
    return _word(f"-{text}", bare=more)


def _command(words: Iterable[str]) -> str:
    # A dollar begins a variable in a command line.
    return " ".join(_word(word.replace("$", "$$")) for word in words)


def _word(text: str, bare: str = "") -> str:
    """Return the text as one word of a unit, quoted if needed. Raise UsageError if it has a control character."""
    if any(ord(character) < 0x20 for character in text):
        raise UsageError(f"{text!r} has a control character, which a unit cannot say", "rename it")
    escaped = text.replace("%", "%%")
    if re.fullmatch(r"[\w@%+=:,./$-]+", escaped):
        return escaped
    slashed = escaped.replace('"', '\\"') if bare else escaped.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{slashed}"'
