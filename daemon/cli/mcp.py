"""MCP: the command that an agent runs for its whole life, so it uses as little memory as possible."""

import os
from typing import TYPE_CHECKING, Any, BinaryIO

from daemon.cli.parsing import NAMED, command, config_of, is_configured, workspace_of

if TYPE_CHECKING:
    import argparse


@command(*NAMED)
def mcp(arguments: "argparse.Namespace") -> int:
    """Serve an agent over stdio with MCP, for one workspace; this is what an agent's MCP configuration runs."""
    # Until stdin ends. Stdout carries only the protocol.
    wire = _moved(1, "wb", 2, os.O_WRONLY)  # before any import that might print
    incoming = _moved(0, "rb", None, os.O_RDONLY)
    import signal

    from daemon.mcp.pump import Pump, Server

    def serve_alone() -> Server:
        from daemon.mcp.alone import Alone

        return Alone(lambda: workspace_of(arguments), lambda: config_of(arguments))

    for number in (signal.SIGTERM, signal.SIGINT):
        # At once, as any work may be interrupted anywhere.
        signal.signal(number, lambda *_: os._exit(0))
    # A user who configures this server wants that configuration, not the daemon's.
    with_daemon = not is_configured(arguments)
    Pump(lambda: workspace_of(arguments), serve_alone, wire, with_daemon=with_daemon).run(incoming)
    return 0


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
