"""MCP: a command that an agent runs for its whole life, and that holds as little memory as can be."""

import os
from typing import TYPE_CHECKING, Any, BinaryIO

from daemon.cli.parsing import NAMED, command, config_of, workspace_of

if TYPE_CHECKING:
    import argparse


@command(*NAMED)
def mcp(arguments: "argparse.Namespace") -> int:
    """Serve an agent over stdio with MCP, for one workspace; this is what an agent's MCP configuration runs."""
    # Until stdin ends. Stdout carries the protocol and nothing else.
    wire = _moved(1, "wb", 2, os.O_WRONLY)  # before anything is imported that might print
    incoming = _moved(0, "rb", None, os.O_RDONLY)
    import signal

    from daemon.config.layers import configured_here
    from daemon.mcp.pump import Pump, Server

    def serve_alone() -> Server:
        from daemon.mcp.alone import Alone

        return Alone(lambda: workspace_of(arguments), lambda: config_of(arguments))

    for number in (signal.SIGTERM, signal.SIGINT):
        # At once: whatever is under way may be cut off anywhere.
        signal.signal(number, lambda *_: os._exit(0))
    # Who configures this server wants it, and not the daemon with its own configuration.
    is_configured = arguments.config is not None or configured_here(os.environ)
    Pump(lambda: workspace_of(arguments), serve_alone, wire, with_daemon=not is_configured).run(incoming)
    return 0


def _moved(number: int, mode: str, instead: int | None, how: int) -> BinaryIO:
    """Return what this descriptor was, for the protocol alone; all else gets the other one, or nothing."""
    own: Any = os.fdopen(os.dup(number), mode)
    try:
        os.dup2(instead if instead is not None else -1, number)
    except OSError:
        null = os.open(os.devnull, how)
        os.dup2(null, number)
        os.close(null)
    return own  # type: ignore[no-any-return]
