"""MCP: the command that an agent runs for its whole life, so it uses as little memory as possible."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from daemon.cli.parsing import NAMED, command, config_of, current_folder, is_configured, workspace_of
from daemon.config.paths import is_everybodys

if TYPE_CHECKING:
    import argparse

    from state.stores.disk.workspace import Workspace


@command(*NAMED)
def mcp(arguments: "argparse.Namespace") -> int:
    """Serve an agent over stdio with MCP, for one workspace; this is what an agent's MCP configuration runs."""
    # Until stdin ends. Stdout carries only the protocol.
    wire = _moved(1, "wb", 2, os.O_WRONLY)  # before any import that might print
    incoming = _moved(0, "rb", None, os.O_RDONLY)
    import signal

    from daemon.mcp.pump import Pump, Server

    # Some agents start their servers in the home folder or in /, and may say in which folders they work.
    start, told = start_of(), list[Path]()
    is_nowhere = is_everybodys(start, os.environ)

    def find(*, makes: bool = False) -> "Workspace":
        return workspace_of(arguments, told[0] if told else start, makes=makes, is_agents=True)

    def serve_alone() -> Server:
        from daemon.mcp.alone import Alone

        return Alone(find, lambda: config_of(arguments))

    for number in (signal.SIGTERM, signal.SIGINT):
        # At once, as any work may be interrupted anywhere.
        signal.signal(number, lambda *_: os._exit(0))
    # A user who configures this server wants that configuration, not the daemon's.
    with_daemon = not is_configured(arguments)
    Pump(find, serve_alone, wire, with_daemon=with_daemon, told=told if is_nowhere else None).run(incoming)
    return 0


def start_of() -> Path:
    """Return the folder in which the agent began its session."""
    named = os.environ.get("CLAUDE_PROJECT_DIR", "")
    return Path(named) if named.startswith("/") else current_folder()


def _moved(number: int, mode: str, instead: int | None, how: int) -> BinaryIO:
    """Return a copy of this descriptor for the protocol, and point the original to `instead`, or to nothing."""
    own: Any = os.fdopen(os.dup(number), mode)
    try:
        os.dup2(instead if instead is not None else -1, number)
    except OSError:
        null = os.open(os.devnull, how)
        os.dup2(null, number)
        os.close(null)
    return own  # type: ignore[no-any-return]
