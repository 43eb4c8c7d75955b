"""launchd agent: writes the property list by which macOS runs the daemon for one user.

launchd has no sandbox to ask for, tells nobody whether the daemon is ready, and reads no file of variables: a shell
reads the keys of model providers before it becomes the daemon.
"""

import os
import plistlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from daemon.config.paths import state_folder
from daemon.process.systemd_unit import PASSED_ON, Installation
from state.errors import UsageError
from state.stores.disk.disk import Disk

LABEL = "dreamd"
# Exports each NAME=value of the file $0 and runs nothing of it.
_WITH_KEYS = """
if [ -r "$0" ]; then
    while IFS= read -r line || [ -n "$line" ]; do
        case "${line%%=*}" in '' | [0-9]* | *[!A-Za-z0-9_]*) continue ;; esac
        case "$line" in *=*) export "$line" ;; esac
    done < "$0"
fi
exec "$@"
""".strip()


def agent_path(home: Path) -> Path:
    """Return the path of the user's agent."""
    return home / "Library" / "LaunchAgents" / f"{LABEL}.plist"


def log_path(environment: Mapping[str, str]) -> Path:
    """Return the file for what the daemon says."""
    return state_folder(environment) / "service.log"


def agent(
    installed: Installation, workspaces: Iterable[Path], environment: Mapping[str, str], environment_file: Path
) -> str:
    """Return the text of the agent. `workspaces`: folders to serve as well."""
    # launchd's own PATH has neither Homebrew nor ~/.local/bin, where agents' programs are.
    passed_on = {
        name: value
        for name in (*PASSED_ON, "XDG_RUNTIME_DIR", "PATH", "LANG")
        if (value := environment.get(name, ""))
    }
    quiet = {"ORT_DISABLE_TELEMETRY": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "HF_HUB_OFFLINE": "1"}
    folders = [os.path.realpath(folder) for folder in workspaces]
    values = {
        "Label": LABEL,
        "ProgramArguments": [
            "/bin/sh",
            "-c",
            _WITH_KEYS,
            str(environment_file),
            *installed.command,
            "serve",
            *folders,
        ],
        "EnvironmentVariables": passed_on | quiet,
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 60,  # between starts: a bad configuration does not become a good one by trying again
        "ExitTimeOut": 15,  # a running dream is checkpointed at SIGTERM
        "Umask": 0o077,
        "SoftResourceLimits": {"NumberOfFiles": 16384, "Core": 0},  # the default is 256 files
        "StandardOutPath": str(log_path(environment)),
        "StandardErrorPath": str(log_path(environment)),
    }
    return plistlib.dumps(values, sort_keys=False).decode()


def named_in(path: Path) -> tuple[Path, ...]:
    """Return the workspaces that the installed agent names, if any. Raise UsageError if it is not one of dreamd."""
    content = Disk(path.parent).read_optional(path)
    if content is None:
        return ()
    try:
        values = plistlib.loads(content)
        words = [str(word) for word in values["ProgramArguments"]]
        return tuple(map(Path, words[words.index("serve") + 1 :]))
    except (plistlib.InvalidFileException, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no agent of dreamd", "move it aside") from error
