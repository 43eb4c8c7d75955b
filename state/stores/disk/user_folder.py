"""User folder: where a user's own files are kept, out of reach of any workspace."""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from state.errors import ConfigError, NotFoundError, StorageError
from state.stores.disk.syscalls import storage_errors

DAEMONS_OWN = ("DREAMD_", "NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_")
"""Prefixes of variables that no program inherits: the daemon's token and settings, and what systemd passed to it."""

# Installers put programs here, in the home.
_OF_INSTALLERS = (".local/bin", ".claude/local", ".npm-global/bin", "bin")


def state_folder(environment: Mapping[str, str]) -> Path:
    """Return $XDG_STATE_HOME/dreamd, or ~/.local/state/dreamd. Raise ConfigError without a home folder."""
    return _base_folder(environment, "XDG_STATE_HOME", ".local/state") / "dreamd"


def data_folder(environment: Mapping[str, str]) -> Path:
    """Return $XDG_DATA_HOME/dreamd, or ~/.local/share/dreamd. Raise ConfigError without a home folder."""
    return _base_folder(environment, "XDG_DATA_HOME", ".local/share") / "dreamd"


def _base_folder(environment: Mapping[str, str], variable: str, default: str) -> Path:
    named = environment.get(variable, "")
    return Path(named) if named.startswith("/") else home(environment) / default


def home(environment: Mapping[str, str]) -> Path:
    """Return $HOME, or the home folder that the system knows. Raise ConfigError if there is none."""
    named = environment.get("HOME", "")
    if named.startswith("/"):
        return Path(named)
    try:
        return Path.home()
    except RuntimeError as error:
        raise ConfigError(
            "there is no home folder", "set HOME, or XDG_STATE_HOME and XDG_DATA_HOME, to an absolute path"
        ) from error


def make_private_folder(path: Path) -> None:
    """Create the folder and its missing parents, accessible to their owner only.

    An existing folder is left as it is. Raise StorageError if others can put files into it.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        try:
            with storage_errors(folder), suppress(FileExistsError):
                folder.mkdir(mode=0o700)
        except NotFoundError as error:  # for example below /proc
            raise StorageError(f"{folder}: no folder can be made there", "name another one") from error
    with storage_errors(path):
        if not path.is_dir():
            raise StorageError(f"{path} is no folder, and the daemon keeps its things in it", "move it away")
        mode = path.stat().st_mode
    if mode & 0o022 and not mode & stat.S_ISVTX:
        raise StorageError(f"{path}: others can write into this folder", f"run: chmod 700 '{path}'")


def program_folders(environment: Mapping[str, str]) -> str:
    """Return where agents' programs are looked for, as a PATH: its whole paths, and what a service's seldom has.

    A relative folder of the PATH may be a project's.
    """
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    more = (str(home(environment) / folder) for folder in _OF_INSTALLERS)
    return os.pathsep.join((*filter(os.path.isabs, folders), *more))
