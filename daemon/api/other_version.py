"""Other version: notices that the running daemon is of another version than this program, as after an upgrade."""

import os
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from daemon.api.client import daemon
from daemon.config.paths import home, service_command
from state.errors import DreamdError

# A daemon that does not answer in this time is reported elsewhere.
_SECONDS = 2.0


def other_version() -> tuple[str, str] | None:
    """Return what is wrong and how to restart the daemon; None if it is of this version, or none answers."""
    if (client := daemon()) is None:
        return None
    with suppress(DreamdError, KeyError, TypeError, ValueError):
        info = client.get("/v1/workspaces", _SECONDS)
        theirs, ours, pid = str(info["version"]), version("dreamd"), int(info["pid"])
        if theirs != ours:
            return f"the running daemon is dreamd {theirs:.40}, and this is {ours}", f"restart it: {_restart(pid)}"
    return None


def _restart(pid: int) -> str:
    """Return the command that restarts the daemon with this process id."""
    with suppress(OSError):
        group = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
        if "/dreamd.service" in group:
            return service_command("restart") if "/user@" in group else "sudo systemctl restart dreamd"
    if sys.platform == "darwin" and (home(os.environ) / "Library" / "LaunchAgents" / "dreamd.plist").exists():
        return service_command("restart")
    return f"'kill {pid}', then 'dreamd serve'"
