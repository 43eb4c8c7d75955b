"""Serve an agent over stdio with MCP, for one workspace; this is what an agent's MCP configuration runs."""

import os
from io import BufferedWriter
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from daemon.cli.parsing import config_of, names_workspace, plain_arguments, workspace_of
from state.errors import DreamdError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from daemon.mcp.bridge import Bridge


def add(parser: "argparse.ArgumentParser") -> None:
    """Add the argument: which workspace."""
    names_workspace(parser)


def plain(words: "Sequence[str]") -> Any:  # noqa: ANN401 - what argparse would return, too
    """Return the arguments of an ordinary call without argparse; None if argparse has to read them."""
    arguments = plain_arguments(words, {})
    return arguments if arguments is not None and not arguments.text else None


def run(arguments: "argparse.Namespace") -> int:
    """Serve until stdin ends. Stdout carries the protocol and nothing else."""
    wire = _wire()  # before anything is imported that might print
    bridge = _bridge(arguments, wire)
    if bridge is not None:
        bridge.run(_source())
        return 0
    from daemon.mcp.stdio import serve

    return serve(lambda: workspace_of(arguments), lambda: config_of(arguments), wire)


def _bridge(arguments: "argparse.Namespace", wire: BufferedWriter) -> "Bridge | None":
    """Return the way to the daemon that keeps the workspace; None without one, and for who configures this server."""
    import signal

    from daemon.api.client import daemon
    from daemon.config.layers import configured_here
    from daemon.mcp.bridge import Bridge, Wire, kept_name

    if arguments.config is not None or configured_here(os.environ):
        return None
    try:
        client, workspace = daemon(), workspace_of(arguments)
        name = kept_name(client, workspace) if client is not None else None
    except DreamdError:  # each call says so: the workspace may be there by then
        return None
    if client is None or name is None:
        return None

    def serve_alone(lines: BinaryIO, messages: TextIO) -> None:
        from daemon.mcp.stdio import serve_lines

        serve_lines(lambda: workspace_of(arguments), lambda: config_of(arguments), lines, messages)

    for number in (signal.SIGTERM, signal.SIGINT):
        # At once: whatever is under way may be cut off anywhere.
        signal.signal(number, lambda *_: os._exit(0))
    return Bridge(client, workspace, name, Wire(wire), serve_alone)


def _source() -> BinaryIO:
    """Return what was stdin: no child reads from it."""
    source = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return source


def _wire() -> BufferedWriter:
    """Return what was stdout. Whatever is printed goes to stderr, even what Python has buffered when it ends."""
    wire = os.fdopen(os.dup(1), "wb")
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
    return wire
